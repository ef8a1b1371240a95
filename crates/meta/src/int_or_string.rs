//! A number or a percentage: `3` or `25%`.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::wire::Wire;

/// Rounding of percentages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Rounds up, for maxSurge: 10 % of five is one.
    Up,
    /// Rounds down, for maxUnavailable: 10 % of five is zero.
    Down,
}

/// Value of `maxSurge` and `maxUnavailable`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrString {
    /// A number. Wider than the valid 32 bits, so that validation can report a number that is too large.
    Int(i64),
    /// A percentage, or an invalid text.
    Text(Box<str>),
}

impl IntOrString {
    /// Returns the number, or the percentage of `total`. `None` if it is invalid (also `"5"`) or does not fit into 32 bits.
    pub fn scaled(&self, total: i32, rounding: Rounding) -> Option<i32> {
        let number = match self {
            Self::Int(number) => i128::from(*number),
            Self::Text(text) => {
                let percent = i128::from(text.strip_suffix('%')?.parse::<i64>().ok()?);
                let hundredfold = percent * i128::from(total);
                match rounding {
                    Rounding::Down => hundredfold.div_euclid(100),
                    Rounding::Up => -(-hundredfold).div_euclid(100),
                }
            }
        };
        i32::try_from(number).ok()
    }
}

impl From<i32> for IntOrString {
    fn from(number: i32) -> Self {
        Self::Int(number.into())
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl std::fmt::Display for IntOrString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Serialize for IntOrString {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(number) => to.serialize_i64(*number),
            Self::Text(text) => to.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(from)? {
            Value::String(text) => Self::Text(text.into()),
            other => other.as_i64().map_or_else(|| Self::Text(other.to_string().into()), Self::Int),
        })
    }
}

impl Wire for IntOrString {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.serialize(to)
    }
    fn is_absent(&self) -> bool {
        false
    }
    fn schema() -> Value {
        json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Shows API-6.
    #[rstest]
    #[case(json!(3), 10, Some(3), Some(3))]
    #[case(json!(-3), 10, Some(-3), Some(-3))]
    #[case(json!("25%"), 10, Some(3), Some(2))]
    #[case(json!("25%"), 4, Some(1), Some(1))]
    #[case(json!("0%"), 10, Some(0), Some(0))]
    #[case(json!("10%"), 0, Some(0), Some(0))]
    #[case(json!("1%"), 1, Some(1), Some(0))]
    #[case(json!("+10%"), 10, Some(1), Some(1))]
    #[case(json!("-25%"), 10, Some(-2), Some(-3))]
    #[case(json!("200%"), 10, Some(20), Some(20))]
    #[case(json!("5"), 10, None, None)]
    #[case(json!(""), 10, None, None)]
    #[case(json!("%"), 10, None, None)]
    #[case(json!("1.5%"), 10, None, None)]
    #[case(json!(" 5%"), 10, None, None)]
    #[case(json!("many"), 10, None, None)]
    #[case(json!(3_000_000_000_i64), 10, None, None)]
    #[case(json!("3000000000%"), 1000, None, None)]
    #[case(json!(1.5), 10, None, None)]
    fn percentage_is_rounded_up_or_down(
        #[case] json: Value,
        #[case] total: i32,
        #[case] up: Option<i32>,
        #[case] down: Option<i32>,
    ) {
        let value: IntOrString = serde_json::from_value(json).unwrap();
        assert_eq!(value.scaled(total, Rounding::Up), up);
        assert_eq!(value.scaled(total, Rounding::Down), down);
    }

    /// Shows API-6.
    #[rstest]
    #[case("3")]
    #[case("-1")]
    #[case(r#""25%""#)]
    #[case(r#""5""#)]
    #[case("3000000000")]
    fn value_round_trips(#[case] json: &str) {
        let value: IntOrString = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), json);
    }
}
