//! Quantities of resources: `4`, `250m`, `16Gi`.
//!
//! A quantity is stored as text, so that it is written back unchanged and invalid values are preserved. The API server writes
//! quantities of Kubernetes kinds in canonical form. Therefore a desired quantity must be compared with that of a Node by amount
//! ([`Quantity::same_amount`]), not by text; otherwise it would be patched endlessly.

use std::cmp::Ordering;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::Text;
use crate::wire::Wire;

/// A quantity of a resource in the notation of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quantity(Text);

impl Quantity {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether both are the same amount (`1Gi` and `1024Mi`). Invalid quantities are the same if their texts are equal.
    pub fn same_amount(&self, other: &Self) -> bool {
        self == other || matches!((self.amount(), other.amount()), (Some(a), Some(b)) if a.equals(b))
    }

    /// Returns the amount in thousandths, rounded up. `None` if the quantity is invalid or too large.
    pub fn thousandths(&self) -> Option<i128> {
        let Amount { digits, exponent } = self.amount()?;
        let factor = 10_i128.checked_pow(exponent.checked_add(3)?.unsigned_abs())?;
        if exponent >= -3 { digits.checked_mul(factor) } else { Some(-(-digits).div_euclid(factor)) }
    }

    fn amount(&self) -> Option<Amount> {
        let text = &*self.0;
        let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
        let (number, suffix) = text.split_at_checked(end)?;
        let (negative, number) = match number.as_bytes().first()? {
            b'-' => (true, number.get(1..)?),
            b'+' => (false, number.get(1..)?),
            _ => (false, number),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty())
            || !(whole.bytes().chain(fraction.bytes())).all(|c| c.is_ascii_digit())
        {
            return None;
        }
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let decimals = i32::try_from(fraction.len()).ok()?;
        let (binary, decimal) = match suffix {
            "" => (0, 0),
            "n" => (0, -9),
            "u" => (0, -6),
            "m" => (0, -3),
            "k" => (0, 3),
            "M" => (0, 6),
            "G" => (0, 9),
            "T" => (0, 12),
            "P" => (0, 15),
            "E" => (0, 18),
            "Ki" => (10, 0),
            "Mi" => (20, 0),
            "Gi" => (30, 0),
            "Ti" => (40, 0),
            "Pi" => (50, 0),
            "Ei" => (60, 0),
            exponent => (0, exponent.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?),
        };
        let digits = digits.checked_mul(1 << binary)?;
        Some(Amount { digits: if negative { -digits } else { digits }, exponent: decimal.checked_sub(decimals)? })
    }
}

/// `digits * 10^exponent`
#[derive(Clone, Copy)]
struct Amount {
    digits: i128,
    exponent: i32,
}

impl Amount {
    fn equals(self, other: Self) -> bool {
        let (a, b) = (self.trimmed(), other.trimmed());
        a.digits.cmp(&b.digits) == Ordering::Equal && (a.digits == 0 || a.exponent == b.exponent)
    }

    fn trimmed(mut self) -> Self {
        while self.digits != 0 && self.digits % 10 == 0 {
            self.digits /= 10;
            self.exponent = self.exponent.saturating_add(1);
        }
        self
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(from)? {
            Value::Null => Self::default(),
            Value::String(text) => Self(text.into()),
            number => Self(number.to_string().into()), // the schema allows numbers
        })
    }
}

impl Wire for Quantity {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.serialize(to)
    }
    fn is_absent(&self) -> bool {
        self.0.is_empty()
    }
    fn schema() -> Value {
        json!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            "x-kubernetes-int-or-string": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("1Gi", "1024Mi", true)]
    #[case("1", "1000m", true)]
    #[case("0.5", "500m", true)]
    #[case("1k", "1000", true)]
    #[case("1e3", "1k", true)]
    #[case("1E", "1000P", true)]
    #[case("1.5Gi", "1536Mi", true)]
    #[case("0", "0Gi", true)]
    #[case("-1", "-1000m", true)]
    #[case("+1", "1", true)]
    #[case("1Gi", "1G", false)]
    #[case("4", "5", false)]
    #[case("1", "-1", false)]
    #[case("lots", "lots", true)]
    #[case("lots", "many", false)]
    #[case("", "0", false)]
    fn quantities_are_compared_by_amount(#[case] a: &str, #[case] b: &str, #[case] same: bool) {
        assert_eq!(Quantity::from(a).same_amount(&b.into()), same);
    }

    #[rstest]
    #[case("2", Some(2000))]
    #[case("250m", Some(250))]
    #[case("1Ki", Some(1_024_000))]
    #[case("1u", Some(1))]
    #[case("-1500u", Some(-1))]
    #[case("1e40", None)]
    #[case("much", None)]
    fn thousandths_are_rounded_up(#[case] text: &str, #[case] expected: Option<i128>) {
        assert_eq!(Quantity::from(text).thousandths(), expected);
    }

    #[test]
    fn number_is_a_quantity() {
        let quantity: Quantity = serde_json::from_str("4").unwrap();
        assert_eq!(quantity.as_str(), "4");
    }

    proptest! {
        #[test]
        fn any_text_round_trips_and_is_compared(text in any::<String>(), other in "[-+]?[0-9.]{0,40}[KMGTPEinumk]{0,2}(e[0-9]{0,11})?") {
            let json = serde_json::to_string(&text).unwrap();
            let quantity: Quantity = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(serde_json::to_string(&quantity).unwrap(), json);
            let other = Quantity::from(other.as_str());
            prop_assert!(other.same_amount(&other));
            let _ = quantity.same_amount(&other);
        }
    }
}
