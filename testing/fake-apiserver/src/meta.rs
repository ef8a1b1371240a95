//! Reading and writing the metadata of an object that is plain JSON.
//!
//! The decoder guarantees that every object in the server is a JSON object with a `metadata` object; writing to anything else
//! does nothing.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// The fields of ObjectMeta. Whatever else a client sends under `metadata` is dropped.
const KNOWN: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "uid",
];

/// Fields that clients may send and that are not kept here, without a word.
const NOT_KEPT: &[&str] = &["managedFields", "selfLink"];

/// One field of the metadata.
pub(crate) fn get<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(field).filter(|v| !v.is_null())
}

/// One field of the metadata, empty if it is missing.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    get(object, field).and_then(Value::as_str).unwrap_or_default()
}

/// The name.
pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

/// The namespace, empty for cluster-scoped objects.
pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// The uid.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// The resourceVersion as text.
pub(crate) fn version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// The finalizers.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = get(object, "finalizers").and_then(Value::as_array);
    list.map(|l| l.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// Whether its deletion has begun.
pub(crate) fn is_deleting(object: &Value) -> bool {
    get(object, "deletionTimestamp").is_some()
}

/// The seconds it has to wind down, once its deletion has begun.
pub(crate) fn deletion_grace(object: &Value) -> Option<i64> {
    get(object, "deletionGracePeriodSeconds").and_then(Value::as_i64)
}

/// The generation, 0 if there is none.
pub(crate) fn generation(object: &Value) -> i64 {
    get(object, "generation").and_then(Value::as_i64).unwrap_or_default()
}

/// The metadata, for several changes.
pub(crate) fn edit(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata").and_then(Value::as_object_mut)
}

/// Sets one field.
pub(crate) fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(metadata) = edit(object) {
        metadata.insert(field.to_owned(), value.into());
    }
}

/// Removes one field.
pub(crate) fn unset(object: &mut Value, field: &str) {
    if let Some(metadata) = edit(object) {
        metadata.remove(field);
    }
}

/// Takes one field over from another object, also its absence.
pub(crate) fn copy(object: &mut Value, from: &Value, field: &str) {
    match get(from, field) {
        Some(value) => set(object, field, value.clone()),
        None => unset(object, field),
    }
}

/// Brings metadata into the form in which it is stored: known fields only, nothing null, no empty collections.
pub(crate) fn tidy(object: &mut Value) {
    let Some(metadata) = edit(object) else { return };
    metadata.retain(|field, value| {
        let empty = match value {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        !NOT_KEPT.contains(&field.as_str()) && !empty
    });
}

/// Drops what nobody knows, and tells where it was.
pub(crate) fn drop_unknown(object: &mut Value) -> Vec<String> {
    let Some(metadata) = edit(object) else { return Vec::new() };
    let unknown: Vec<String> = metadata.keys().filter(|field| !KNOWN.contains(&field.as_str())).cloned().collect();
    metadata.retain(|field, _| !unknown.contains(field));
    unknown.into_iter().map(|field| format!("metadata.{field}")).collect()
}

/// A point in time as it stands in objects: UTC, whole seconds.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
