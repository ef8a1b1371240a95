//! Secrets and ConfigMaps.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::decode::type_name;
use crate::resource::Rules;
use crate::schema::Cause;

/// What is special about secrets: text that is given in the clear is stored encoded, and the type never changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Secrets;

impl Rules for Secrets {
    fn undecodable(&self, object: &Value) -> Option<String> {
        if let Some(other) = object.get("data").filter(|data| !data.is_object()) {
            let found = type_name(other);
            return Some(format!(
                "json: cannot unmarshal {found} into Go struct field Secret.data of type map[string][]uint8"
            ));
        }
        let mut data = object.get("data").and_then(Value::as_object).into_iter().flatten();
        data.find_map(|(_, value)| match value {
            // Neither the value nor the place of the bad byte is told: it is a secret.
            Value::String(text) => STANDARD.decode(text).is_err().then(|| "illegal base64 data".to_owned()),
            other => {
                let found = type_name(other);
                Some(format!("json: cannot unmarshal {found} into Go struct field Secret.data of type []uint8"))
            }
        })
    }

    fn complete_new(&self, object: &mut Value, _now: Timestamp) {
        encode_text(object);
        leave_out_nothing(object);
    }

    fn complete_changed(&self, object: &mut Value, _old: &Value, _now: Timestamp) {
        encode_text(object);
        leave_out_nothing(object);
    }

    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        if let Some(old) = old
            && old.get("type") != object.get("type")
        {
            let value = object.get("type").cloned().unwrap_or_default();
            causes.push(Cause::invalid("type", &value, "field is immutable"));
        }
        causes.extend(wrong_keys(object));
        causes.extend(frozen(object, old));
        causes
    }
}

fn encode_text(secret: &mut Value) {
    let Some(secret) = secret.as_object_mut() else { return };
    let kind = secret.entry("type").or_insert(Value::Null);
    if kind.as_str().unwrap_or_default().is_empty() {
        *kind = json!("Opaque");
    }
    let Some(Value::Object(text)) = secret.remove("stringData") else { return };
    let data = secret.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = json!({});
    }
    if let Some(data) = data.as_object_mut() {
        for (key, value) in text {
            data.insert(key, Value::from(STANDARD.encode(value.as_str().unwrap_or_default())));
        }
    }
}

/// What is special about config maps.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConfigMaps;

impl Rules for ConfigMaps {
    fn complete_new(&self, object: &mut Value, _now: Timestamp) {
        leave_out_nothing(object);
    }

    fn complete_changed(&self, object: &mut Value, _old: &Value, _now: Timestamp) {
        leave_out_nothing(object);
    }

    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = wrong_keys(object);
        causes.extend(frozen(object, old));
        causes
    }
}

/// Data without a key is no data, as in every optional field of a built-in kind.
fn leave_out_nothing(object: &mut Value) {
    if let Some(object) = object.as_object_mut() {
        for field in ["data", "binaryData"] {
            if object.get(field).and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
                object.remove(field);
            }
        }
    }
}

/// Keys become file names when they are mounted, so not every text will do.
fn wrong_keys(object: &Value) -> Vec<Cause> {
    let rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let complaint = |key: &str| match key {
        _ if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) => {
            Some(rule.to_owned())
        }
        _ if key.len() > 253 => Some("must be no more than 253 characters".to_owned()),
        "." | ".." => Some(format!("must not be '{key}'")),
        _ if key.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    };
    let keys = ["data", "binaryData"].into_iter().flat_map(|field| {
        let keys = object.get(field).and_then(Value::as_object).into_iter().flat_map(serde_json::Map::keys);
        keys.map(move |key| (field, key))
    });
    let wrong = keys.filter_map(|(field, key)| complaint(key).map(|why| (field, key, why)));
    wrong.map(|(field, key, why)| Cause::invalid(format!("{field}[{key}]"), &Value::from(key.as_str()), &why)).collect()
}

/// Both kinds can be frozen for good.
fn frozen(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) else { return Vec::new() };
    let rule = "field is immutable when `immutable` is set";
    let changed = ["immutable", "data", "binaryData"].into_iter().filter(|field| object.get(field) != old.get(field));
    changed.map(|field| Cause::forbidden(field, rule)).collect()
}
