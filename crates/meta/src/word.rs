//! JSON of types that are strings.

/// Implements decoding and encoding for a type with `From<&str>` and `as_str`.
#[macro_export]
macro_rules! word_on_the_wire {
    ($Name:ident) => {
        impl ::serde::Serialize for $Name {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $Name {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let word = Option::<$crate::record::Key<'de>>::deserialize(from)?;
                Ok(word.map_or_else(Self::default, |word| Self::from(&*word.0)))
            }
        }

        impl $crate::wire::Wire for $Name {
            fn read<'de, D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                ::serde::Deserialize::deserialize(from)
            }
            fn write<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                ::serde::Serialize::serialize(self, to)
            }
            fn is_absent(&self) -> bool {
                self.as_str().is_empty()
            }
            fn schema() -> ::serde_json::Value {
                ::serde_json::json!({"type": "string"})
            }
        }
    };
}
