//! Filling in fields: how the kinds say their defaults.

use serde_json::{Map, Value};

/// Adds the fields that are missing.
pub(super) fn fill(target: &mut Map<String, Value>, defaults: Value) {
    let Value::Object(defaults) = defaults else { return };
    for (field, value) in defaults {
        let slot = target.entry(field).or_insert(Value::Null);
        if slot.is_null() {
            *slot = value;
        }
    }
}

/// Adds the fields that are missing to the object at a pointer, which is made where its parent is there.
pub(super) fn fill_at(object: &mut Value, pointer: &str, defaults: Value) {
    let (parent, field) = pointer.rsplit_once('/').unwrap_or_default();
    let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) else { return };
    let target = parent.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if let Some(target) = target.as_object_mut() {
        fill(target, defaults);
    }
}

/// Puts a field at the top of an object.
pub(super) fn put(object: &mut Value, field: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(field.to_owned(), value);
    }
}

/// Adds the fields that are missing at the top of an object.
pub(super) fn fill_top(object: &mut Value, defaults: Value) {
    if let Some(object) = object.as_object_mut() {
        fill(object, defaults);
    }
}
