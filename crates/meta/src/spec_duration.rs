//! A duration as a spec holds it: usable, or odd.
//!
//! The schema says "string", so `drainTimeout: soon` can be stored. In the reference one such object makes its whole kind
//! unreadable; here it concerns that object alone. The odd text is kept, written back as it is, and reported by validation.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::GoDuration;
use crate::wire::Wire;

/// A duration field of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecDuration {
    /// A duration in Go's notation. Written back in canonical form, as the reference does.
    Usable(GoDuration),
    /// Something else, verbatim.
    Odd(Box<str>),
}

impl SpecDuration {
    /// The duration, if it is one.
    pub fn usable(&self) -> Option<GoDuration> {
        match self {
            Self::Usable(duration) => Some(*duration),
            Self::Odd(_) => None,
        }
    }

    /// The text that is not a duration.
    pub fn odd(&self) -> Option<&str> {
        match self {
            Self::Usable(_) => None,
            Self::Odd(text) => Some(text),
        }
    }
}

impl From<&str> for SpecDuration {
    fn from(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Odd(text.into()), Self::Usable)
    }
}

impl From<GoDuration> for SpecDuration {
    fn from(duration: GoDuration) -> Self {
        Self::Usable(duration)
    }
}

impl Serialize for SpecDuration {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Usable(duration) => to.collect_str(duration),
            // It was a number, or it would be usable: as text it would become so.
            Self::Odd(text) if &**text == "0" => to.serialize_u64(0),
            Self::Odd(text) => to.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for SpecDuration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Through a value, because a server without our schema may hold a number here.
        Ok(match Value::deserialize(from)? {
            Value::String(text) => text.as_str().into(),
            other => Self::Odd(other.to_string().into()),
        })
    }
}

impl Wire for SpecDuration {
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
        json!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_usable_duration_is_written_in_canonical_form() {
        let duration: SpecDuration = serde_json::from_str(r#""72h""#).unwrap();
        assert_eq!(duration.usable(), Some(GoDuration::from_secs(72 * 3600)));
        assert_eq!(serde_json::to_string(&duration).unwrap(), r#""72h0m0s""#);
    }

    #[test]
    fn two_ways_to_say_the_same_are_equal() {
        assert_eq!(SpecDuration::from("90m"), SpecDuration::from("1h30m"));
    }

    #[test]
    fn a_number_is_no_duration_and_does_not_become_one_by_being_written() {
        let duration: SpecDuration = serde_json::from_str("0").unwrap();
        assert_eq!(duration.usable(), None);
        let written = serde_json::to_string(&duration).unwrap();
        assert_eq!(serde_json::from_str::<SpecDuration>(&written).unwrap(), duration);
    }

    proptest! {
        /// Shows API-4.
        #[test]
        fn an_odd_duration_is_written_back_verbatim(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let duration: SpecDuration = serde_json::from_str(&json).unwrap();
            if let Some(odd) = duration.odd() {
                prop_assert_eq!(odd, text);
                prop_assert_eq!(serde_json::to_string(&duration).unwrap(), json);
            }
        }
    }
}
