//! JSON and schema of field types.
//!
//! Objects follow the JSON conventions of Go: a missing key, a `null` and a zero value are equal, and zero values are not written. The
//! conventions of serde differ: a `null` string is an error, and an empty string is written. Therefore each field type implements
//! [`Wire`], which defines decoding, encoding and the OpenAPI schema.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Value, json};

/// A type of fields of objects.
pub trait Wire: Sized {
    /// Decodes the value. `null` is the zero value.
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;

    /// Encodes the value, also if it is absent; the containing record omits absent values.
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;

    /// Returns whether the key is omitted, which is so for the zero value only.
    fn is_absent(&self) -> bool;

    /// Returns the OpenAPI schema of the value, without a description.
    fn schema() -> Value;

    /// Decodes a value that is not `null`; `None` if the value can be ignored.
    fn read_present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
        Self::read(from).map(Some)
    }
}

/// Adapter to decode a [`Wire`] value with serde.
pub struct Read<T>(PhantomData<T>);

impl<T> Default for Read<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: Wire> DeserializeSeed<'de> for Read<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        T::read(from)
    }
}

/// Adapter to encode a [`Wire`] value with serde.
pub struct Write<'a, T>(pub &'a T);

impl<T: Wire> Serialize for Write<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.write(to)
    }
}

macro_rules! plain {
    ($Type:ty, $absent:expr, $schema:tt) => {
        impl Wire for $Type {
            fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Option::<$Type>::deserialize(from).map(Option::unwrap_or_default)
            }
            fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                self.serialize(to)
            }
            fn is_absent(&self) -> bool {
                let absent: fn(&$Type) -> bool = $absent;
                absent(self)
            }
            fn schema() -> Value {
                json!($schema)
            }
        }
    };
}

plain!(String, String::is_empty, {"type": "string"});
plain!(Box<str>, |s| s.is_empty(), {"type": "string"});
plain!(bool, |b| !b, {"type": "boolean"});
plain!(i32, |n| *n == 0, {"type": "integer", "format": "int32"});
plain!(i64, |n| *n == 0, {"type": "integer", "format": "int64"});
// For providerSpec only, which is preserved as it is.
plain!(Value, Value::is_null, {"type": "object", "x-kubernetes-preserve-unknown-fields": true});

impl<T: Wire> Wire for Option<T> {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Present<T>(PhantomData<T>);
        impl<'de, T: Wire> Visitor<'de> for Present<T> {
            type Value = Option<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value or null")
            }
            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(None)
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(None)
            }
            fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
                T::read_present(from)
            }
        }
        from.deserialize_option(Present(PhantomData))
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => value.write(to),
            None => to.serialize_none(),
        }
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn schema() -> Value {
        T::schema()
    }
}

impl<T: Wire> Wire for Box<T> {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::read(from).map(Box::new)
    }
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (**self).write(to)
    }
    fn is_absent(&self) -> bool {
        (**self).is_absent()
    }
    fn schema() -> Value {
        T::schema()
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: Wire> Visitor<'de> for List<T> {
            type Value = Vec<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list or null")
            }
            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(Vec::new())
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Vec::new())
            }
            fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
                from.deserialize_seq(self)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(element) = elements.next_element_seed(Read::default())? {
                    list.push(element);
                }
                list.shrink_to_fit(); // cached objects are not extended
                Ok(list)
            }
        }
        from.deserialize_option(List(PhantomData))
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(self.len()))?;
        for element in self {
            list.serialize_element(&Write(element))?;
        }
        list.end()
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn schema() -> Value {
        json!({"type": "array", "items": T::schema()})
    }
}

impl<T: Wire> Wire for BTreeMap<String, T> {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Wire> Visitor<'de> for Entries<T> {
            type Value = BTreeMap<String, T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map or null")
            }
            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(BTreeMap::new())
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(BTreeMap::new())
            }
            fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
                from.deserialize_map(self)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut map = BTreeMap::new();
                while let Some(key) = entries.next_key::<String>()? {
                    map.insert(key, entries.next_value_seed(Read::default())?);
                }
                Ok(map)
            }
        }
        from.deserialize_option(Entries(PhantomData))
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.len()))?;
        for (key, value) in self {
            map.serialize_entry(key, &Write(value))?;
        }
        map.end()
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": T::schema()})
    }
}
