//! A duration in a spec, which may be invalid.
//!
//! The type in the schema is string, so `drainTimeout: soon` can be stored. In MCM one such object makes lists of its kind undecodable.
//! Here an invalid text is preserved, written back unchanged, and reported by validation.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::GoDuration;
use crate::wire::Wire;

/// A duration field of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecDuration {
    /// A valid duration. Written back in canonical form, as in MCM.
    Valid(GoDuration),
    /// An invalid text.
    Invalid(Box<str>),
}

impl SpecDuration {
    /// Returns the duration if it is valid.
    pub fn valid(&self) -> Option<GoDuration> {
        match self {
            Self::Valid(duration) => Some(*duration),
            Self::Invalid(_) => None,
        }
    }

    /// Returns the text if it is invalid.
    pub fn invalid(&self) -> Option<&str> {
        match self {
            Self::Valid(_) => None,
            Self::Invalid(text) => Some(text),
        }
    }
}

impl From<&str> for SpecDuration {
    fn from(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Invalid(text.into()), Self::Valid)
    }
}

impl From<GoDuration> for SpecDuration {
    fn from(duration: GoDuration) -> Self {
        Self::Valid(duration)
    }
}

impl Serialize for SpecDuration {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Valid(duration) => to.collect_str(duration),
            // It was a number. As text it would be valid.
            Self::Invalid(text) if &**text == "0" => to.serialize_u64(0),
            Self::Invalid(text) => to.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for SpecDuration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Decoded as a value, because an object that was stored without the schema may contain a number.
        Ok(match Value::deserialize(from)? {
            Value::String(text) => text.as_str().into(),
            other => Self::Invalid(other.to_string().into()),
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
    fn valid_duration_is_written_in_canonical_form() {
        let duration: SpecDuration = serde_json::from_str(r#""72h""#).unwrap();
        assert_eq!(duration.valid(), Some(GoDuration::from_secs(72 * 3600)));
        assert_eq!(serde_json::to_string(&duration).unwrap(), r#""72h0m0s""#);
    }

    #[test]
    fn equal_durations_in_different_notation_are_equal() {
        assert_eq!(SpecDuration::from("90m"), SpecDuration::from("1h30m"));
    }

    #[test]
    fn number_is_invalid_and_is_written_as_a_number() {
        let duration: SpecDuration = serde_json::from_str("0").unwrap();
        assert_eq!(duration.valid(), None);
        let written = serde_json::to_string(&duration).unwrap();
        assert_eq!(serde_json::from_str::<SpecDuration>(&written).unwrap(), duration);
    }

    proptest! {
        /// Shows API-4.
        #[test]
        fn invalid_duration_is_written_back_unchanged(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let duration: SpecDuration = serde_json::from_str(&json).unwrap();
            if let Some(invalid) = duration.invalid() {
                prop_assert_eq!(invalid, text);
                prop_assert_eq!(serde_json::to_string(&duration).unwrap(), json);
            }
        }
    }
}
