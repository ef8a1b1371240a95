//! Definition of structs together with their JSON and their schema.
//!
//! `record!` takes a struct whose fields have a JSON key. It generates decoding (unknown keys and nulls are accepted), encoding (zero
//! values are omitted) and the OpenAPI schema, in which the doc comment of a field is its description. A record may also have:
//!
//! - `with name: Type`: the keys of another record are inlined;
//! - `keeps extra`: unknown keys are preserved and written back. Required for elements of lists that are replaced as a whole;
//! - `as shape`: a schema that differs from a plain object ([`shape`]).
//!
//! A field may have marks in parentheses ([`mark`]): `(required)`, `(atomic)`, `(set_list)`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

/// Implemented by `record!`: access to single keys, so that records can be inlined into other records.
pub trait Record: Default {
    /// Reads the value of a key of this record. Returns false, without reading the value, for other keys.
    fn read_key<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error>;

    /// Writes all keys that are not absent.
    fn write_keys<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;

    /// Returns whether no key would be written.
    fn is_void(&self) -> bool;

    /// Adds the schemas of all keys.
    fn describe(schema: &mut ObjectSchema);

    /// Returns the doc comment of the record.
    fn about() -> String;
}

/// Unknown keys of an object with their values. Needs one pointer if there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::box_collection,
    reason = "almost always empty, in structs with hundreds of thousands of instances: one pointer instead of three"
)]
pub struct Extra(Option<Box<BTreeMap<String, Value>>>);

impl Extra {
    /// Returns the value of an unknown key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.as_ref()?.get(key)
    }

    /// Returns all unknown keys.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter().flat_map(|map| map.iter())
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds a key. Null equals a missing key.
    pub fn insert(&mut self, key: impl Into<String>, value: Value) {
        if !value.is_null() {
            self.0.get_or_insert_default().insert(key.into(), value);
        }
    }

    /// Reads the value of an unknown key. Always returns true.
    pub fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        let value = map.next_value::<Value>()?;
        self.insert(key, value);
        Ok(true)
    }

    /// Writes all unknown keys.
    pub fn write_keys<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))
    }
}

/// A key of an object, borrowed from the input if possible.
#[derive(serde::Deserialize)]
pub struct Key<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// Decodes a record; null is the empty record.
pub fn read<'de, R: Record, D: Deserializer<'de>>(from: D) -> Result<R, D::Error> {
    struct Keys<R>(PhantomData<R>);
    impl<'de, R: Record> Visitor<'de> for Keys<R> {
        type Value = R;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object or null")
        }
        fn visit_none<E>(self) -> Result<R, E> {
            Ok(R::default())
        }
        fn visit_unit<E>(self) -> Result<R, E> {
            Ok(R::default())
        }
        fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<R, D::Error> {
            from.deserialize_map(self)
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<R, A::Error> {
            let mut record = R::default();
            while let Some(Key(key)) = map.next_key()? {
                if !record.read_key(&key, &mut map)? {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(record)
        }
    }
    from.deserialize_option(Keys(PhantomData))
}

/// Encodes a record.
pub fn write<R: Record, S: Serializer>(record: &R, to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    record.write_keys(&mut map)?;
    map.end()
}

/// Builder of the schema of an object.
#[derive(Debug, Default)]
pub struct ObjectSchema {
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl ObjectSchema {
    /// Adds a property.
    pub fn add(
        &mut self,
        key: &str,
        description: &[&str],
        mut schema: Value,
        marks: &[fn(&mut Self, &str, &mut Value)],
    ) {
        for mark in marks {
            mark(self, key, &mut schema);
        }
        if let Value::Object(fields) = &mut schema {
            fields.insert("description".into(), prose(description).into());
        }
        self.properties.insert(key.into(), schema);
    }

    /// Returns the schema.
    pub fn finish(mut self) -> Value {
        let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        if !self.properties.is_empty() {
            schema.insert("properties".into(), self.properties.into());
        }
        if !self.required.is_empty() {
            self.required.sort_unstable();
            schema.insert("required".into(), self.required.into());
        }
        schema.into()
    }
}

/// The schema of a record.
pub fn schema<R: Record>() -> Value {
    let mut schema = ObjectSchema::default();
    R::describe(&mut schema);
    schema.finish()
}

/// Joins the lines of a doc comment into one paragraph.
pub fn prose(lines: &[&str]) -> String {
    let words = lines.iter().flat_map(|line| line.split_whitespace());
    words.collect::<Vec<_>>().join(" ").replace(['`', '[', ']'], "")
}

/// Marks of fields, which change the schema.
pub mod mark {
    use super::{ObjectSchema, Value};

    fn set(schema: &mut Value, key: &str, value: &str) {
        if let Value::Object(fields) = schema {
            fields.insert(key.into(), value.into());
        }
    }

    /// The key is required.
    pub fn required(object: &mut ObjectSchema, key: &str, _: &mut Value) {
        object.required.push(key.into());
    }

    /// A list that server-side apply replaces as a whole.
    pub fn atomic(_: &mut ObjectSchema, _: &str, schema: &mut Value) {
        set(schema, "x-kubernetes-list-type", "atomic");
    }

    /// A list without duplicates.
    pub fn set_list(_: &mut ObjectSchema, _: &str, schema: &mut Value) {
        set(schema, "x-kubernetes-list-type", "set");
    }
}

/// Shapes of records, which change the schema.
pub mod shape {
    use super::{Value, json};

    /// Any object. The API server neither validates nor prunes it.
    pub fn opaque(schema: &mut Value) {
        *schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }

    /// Known keys are validated, unknown keys are preserved.
    pub fn open(schema: &mut Value) {
        if let Value::Object(fields) = schema {
            fields.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
        }
    }

    /// A map that server-side apply replaces as a whole.
    pub fn atomic(schema: &mut Value) {
        if let Value::Object(fields) = schema {
            fields.insert("x-kubernetes-map-type".into(), "atomic".into());
        }
    }
}

/// See the module [`record`](mod@crate::record).
#[macro_export]
macro_rules! record {
    (
        $(#[doc = $about:literal])*
        pub struct $Name:ident $(with $inner:ident : $Inner:ty)? $(, keeps $extra:ident)? $(, as $shape:ident)? {
            $(
                $(#[doc = $text:literal])*
                pub $field:ident : $Type:ty = $key:literal $( ( $($mark:ident),+ ) )?,
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $Name {
            $(
                $(#[doc = $text])*
                pub $field: $Type,
            )*
            $(
                /// Its keys are inlined in JSON.
                pub $inner: $Inner,
            )?
            $(
                /// Unknown keys, which are preserved.
                pub $extra: $crate::record::Extra,
            )?
        }

        $crate::record_impl! {
            $Name, [$($about),*], [$($inner: $Inner)?], [$($extra)?],
            $( { $field, $Type, $key, [$($text),*], [$($($mark),+)?] } )*
        }

        impl<'de> ::serde::Deserialize<'de> for $Name {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::record::read(from)
            }
        }

        impl ::serde::Serialize for $Name {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::record::write(self, to)
            }
        }

        impl $crate::wire::Wire for $Name {
            fn read<'de, D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::record::read(from)
            }
            fn write<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::record::write(self, to)
            }
            fn is_absent(&self) -> bool {
                $crate::record::Record::is_void(self)
            }
            fn schema() -> ::serde_json::Value {
                #[allow(unused_mut, reason = "most records have the plain shape")]
                let mut schema = $crate::record::schema::<$Name>();
                $($crate::record::shape::$shape(&mut schema);)?
                schema
            }
        }
    };
}

/// Shared by `record!` and `kind!`.
#[doc(hidden)]
#[macro_export]
macro_rules! record_impl {
    (
        $Name:ident, [$($about:literal),*], [$($inner:ident : $Inner:ty)?], [$($extra:ident)?],
        $( { $field:ident, $Type:ty, $key:literal, [$($text:literal),*], [$($mark:ident),*] } )*
    ) => {
        impl $crate::record::Record for $Name {
            #[allow(unused_variables, reason = "a record may have no keys of its own")]
            fn read_key<'de, A: ::serde::de::MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
                let known = match key {
                    $( $key => { self.$field = map.next_value_seed($crate::wire::Read::default())?; true } )*
                    _ => false,
                };
                $( let known = known || $crate::record::Record::read_key(&mut self.$inner, key, map)?; )?
                $( let known = known || self.$extra.read(key, map)?; )?
                Ok(known)
            }

            #[allow(unused_variables, reason = "a record may have no keys of its own")]
            fn write_keys<M: ::serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $(
                    if !$crate::wire::Wire::is_absent(&self.$field) {
                        map.serialize_entry($key, &$crate::wire::Write(&self.$field))?;
                    }
                )*
                $( $crate::record::Record::write_keys(&self.$inner, map)?; )?
                $( self.$extra.write_keys(map)?; )?
                Ok(())
            }

            fn is_void(&self) -> bool {
                true
                    $( && $crate::wire::Wire::is_absent(&self.$field) )*
                    $( && $crate::record::Record::is_void(&self.$inner) )?
                    $( && self.$extra.is_empty() )?
            }

            #[allow(unused_variables, reason = "a record may have no keys of its own")]
            fn describe(schema: &mut $crate::record::ObjectSchema) {
                $(
                    schema.add(
                        $key,
                        &[$($text),*],
                        <$Type as $crate::wire::Wire>::schema(),
                        &[$($crate::record::mark::$mark),*],
                    );
                )*
                $( <$Inner as $crate::record::Record>::describe(schema); )?
            }

            fn about() -> String {
                $crate::record::prose(&[$($about),*])
            }
        }
    };
}
