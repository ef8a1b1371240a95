//! Decodes a `providerSpec` like Go's `encoding/json`.
//!
//! Existing classes were written for Go programs, and Go is lenient: keys are case-insensitive, unknown keys are
//! ignored, and `null` means unset. A value of the wrong type is rejected. This module keeps that behaviour, so that
//! existing classes are accepted unchanged. If a key occurs in two spellings, the exact one takes precedence. Go uses
//! the later one, but a decoded object has no order.
//!
//! Go stops at the first value of a wrong type. This module reports each as a [fault](crate::fault) with its path.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::fault::Faults;

/// An object of the spec and its path.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    fields: Option<&'a Map<String, Value>>,
    path: String,
    keys: Keys,
}

/// How keys are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Case-insensitive, as in `encoding/json`.
    Folded,
    /// Exact, as in the codecs of Kubernetes.
    Exact,
}

impl<'a> Object<'a> {
    /// Returns the object at this path. `null` is an empty object; any other type is a fault.
    pub fn new(value: &'a Value, path: impl Into<String>, faults: &mut Faults) -> Self {
        Self::read(value, path, Keys::Folded, faults)
    }

    /// Like [`Self::new`], with explicit key matching for this object and its nested objects.
    pub fn read(value: &'a Value, path: impl Into<String>, keys: Keys, faults: &mut Faults) -> Self {
        let path = path.into();
        let fields = match value {
            Value::Object(fields) => Some(fields),
            Value::Null => None,
            other => {
                faults.invalid(path.clone(), other, "must be an object");
                None
            }
        };
        Self { fields, path, keys }
    }

    /// Returns the path of a field of this object.
    pub fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    /// Returns the value of a key; `null` is `None`.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        let fields = self.fields?;
        let fits = |spelt: &str| self.keys == Keys::Folded && spelt.eq_ignore_ascii_case(key);
        let folded = || fields.iter().find(|(spelt, _)| fits(spelt)).map(|(_, value)| value);
        fields.get(key).or_else(folded).filter(|value| !value.is_null())
    }

    /// Returns a string.
    pub fn text(&self, key: &str, faults: &mut Faults) -> Option<String> {
        self.typed(key, "must be a string", faults, |value| value.as_str().map(str::to_owned))
    }

    /// Returns a boolean.
    pub fn boolean(&self, key: &str, faults: &mut Faults) -> Option<bool> {
        self.typed(key, "must be true or false", faults, Value::as_bool)
    }

    /// Returns a 32-bit integer.
    pub fn int32(&self, key: &str, faults: &mut Faults) -> Option<i32> {
        self.typed(key, "must be a whole number", faults, |value| i32::try_from(value.as_i64()?).ok())
    }

    /// Returns a nested object, or `None` if it is unset.
    pub fn object(&self, key: &str, faults: &mut Faults) -> Option<Object<'a>> {
        let value = self.get(key)?;
        Some(Object::read(value, self.path(key), self.keys, faults))
    }

    /// Returns a list of objects.
    pub fn objects(&self, key: &str, faults: &mut Faults) -> Vec<Object<'a>> {
        let items = self.items(key, faults).iter().enumerate();
        items.map(|(at, item)| Object::read(item, format!("{}[{at}]", self.path(key)), self.keys, faults)).collect()
    }

    /// Returns a list of strings. `null` is an empty string.
    pub fn texts(&self, key: &str, faults: &mut Faults) -> Vec<String> {
        let mut texts = Vec::new();
        for (at, item) in self.items(key, faults).iter().enumerate() {
            match item {
                Value::String(text) => texts.push(text.clone()),
                Value::Null => texts.push(String::new()),
                other => faults.invalid(format!("{}[{at}]", self.path(key)), other, "must be a string"),
            }
        }
        texts
    }

    /// Returns a map of strings. Its keys are data and keep their case.
    pub fn text_map(&self, key: &str, faults: &mut Faults) -> BTreeMap<String, String> {
        let Some(object) = self.object(key, faults) else { return BTreeMap::new() };
        let mut texts = BTreeMap::new();
        for (name, value) in object.fields.into_iter().flatten() {
            match value {
                Value::String(text) => drop(texts.insert(name.clone(), text.clone())),
                Value::Null => drop(texts.insert(name.clone(), String::new())),
                other => faults.invalid(format!("{}[{name}]", object.path), other, "must be a string"),
            }
        }
        texts
    }

    fn items(&self, key: &str, faults: &mut Faults) -> &'a [Value] {
        match self.get(key) {
            None => &[],
            Some(Value::Array(items)) => items,
            Some(other) => {
                faults.invalid(self.path(key), other, "must be a list");
                &[]
            }
        }
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &str,
        faults: &mut Faults,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(key)?;
        let read = read(value);
        if read.is_none() {
            faults.invalid(self.path(key), value, expected);
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn reading<T>(value: &Value, read: impl FnOnce(&Object<'_>, &mut Faults) -> T) -> (T, String) {
        let mut faults = Faults::default();
        let object = Object::new(value, "providerSpec", &mut faults);
        let read = read(&object, &mut faults);
        (read, if faults.is_empty() { String::new() } else { faults.to_string() })
    }

    /// Shows CLD-1.
    #[rstest]
    #[case::exact(json!({ "keyName": "a" }), Some("a"))]
    #[case::folded(json!({ "KEYNAME": "a" }), Some("a"))]
    #[case::exact_wins(json!({ "KeyName": "b", "keyName": "a" }), Some("a"))]
    #[case::null_is_absent(json!({ "keyName": null }), None)]
    #[case::unknown_is_ignored(json!({ "keyNames": 7 }), None)]
    #[case::no_spec(Value::Null, None)]
    fn keys_are_matched_case_insensitively_as_in_go(#[case] spec: Value, #[case] read: Option<&str>) {
        let (text, faults) = reading(&spec, |object, faults| object.text("keyName", faults));
        assert_eq!((text.as_deref(), faults.as_str()), (read, ""));
    }

    /// Shows OST-1.
    #[test]
    fn keys_are_matched_exactly_for_kubernetes_codecs() {
        let (spec, mut faults) = (json!({ "keyname": "a", "inner": { "Key": "b" } }), Faults::default());
        let object = Object::read(&spec, "providerSpec", Keys::Exact, &mut faults);
        assert_eq!(object.text("keyName", &mut faults), None);
        assert_eq!(object.object("inner", &mut faults).unwrap().text("key", &mut faults), None);
        assert!(faults.is_empty());
    }

    /// Shows CLD-2.
    #[test]
    fn value_of_a_wrong_type_is_reported_with_its_path() {
        let spec = json!({ "ami": 7, "on": "yes", "n": 1.5, "big": 1_i64 << 40, "o": [], "l": {}, "t": ["a", 1], "m": { "k": 1 } });
        let ((), faults) = reading(&spec, |object, faults| {
            object.text("ami", faults);
            object.boolean("on", faults);
            object.int32("n", faults);
            object.int32("big", faults);
            object.object("o", faults);
            object.objects("l", faults);
            assert_eq!(object.texts("t", faults), ["a"]);
            object.text_map("m", faults);
        });
        for told in [
            "providerSpec.ami: Invalid value: 7: must be a string",
            "providerSpec.on: Invalid value: \"yes\": must be true or false",
            "providerSpec.n: Invalid value: 1.5: must be a whole number",
            "providerSpec.big: Invalid value: 1099511627776: must be a whole number",
            "providerSpec.o: Invalid value: []: must be an object",
            "providerSpec.l: Invalid value: {}: must be a list",
            "providerSpec.t[1]: Invalid value: 1: must be a string",
            "providerSpec.m[k]: Invalid value: 1: must be a string",
        ] {
            assert!(faults.contains(told), "{told} in {faults}");
        }
    }

    /// Shows CLD-1.
    #[test]
    fn nested_values_have_their_own_path() {
        let spec = json!({ "Disks": [null, { "EBS": { "Size": 5 } }], "tags": { "Name": "n", "name": null } });
        let (size, faults) = reading(&spec, |object, faults| {
            let disks = object.objects("disks", faults);
            let disk = disks[1].object("ebs", faults).unwrap();
            assert_eq!(disk.path("size"), "providerSpec.disks[1].ebs.size");
            let tags = object.text_map("tags", faults);
            assert_eq!(tags, [("Name", "n"), ("name", "")].map(|(k, v)| (k.into(), v.into())).into());
            disk.int32("size", faults)
        });
        assert_eq!((size, faults.as_str()), (Some(5), ""));
    }

    #[test]
    fn spec_that_is_not_an_object_is_a_fault() {
        let ((), faults) = reading(&json!("spec"), |_, _| ());
        assert_eq!(faults, "providerSpec: Invalid value: \"spec\": must be an object");
    }
}
