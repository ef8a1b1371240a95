//! Defaulting: what was left out gets the value the schema names.
//!
//! A null where the schema does not allow one means that the client left the field out, so it goes first; if the field has a
//! default, the default takes its place.

use serde_json::Value;

use crate::schema::node::{Node, Null};

/// Drops nulls of fields that may not be null and have no default.
pub(super) fn drop_nulls(value: &mut Value, node: Option<&Node>) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            let schema = node.and_then(|n| n.field(name));
            let unset = field.is_null() && schema.is_some_and(|s| s.null == Null::Unset && s.default.is_none());
            if !unset {
                drop_nulls(field, schema);
            }
            !unset
        }),
        Value::Array(elements) => {
            let items = node.and_then(|n| n.items.as_deref());
            for element in elements {
                drop_nulls(element, items);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Fills in the defaults of missing fields, and of fields below them.
pub(super) fn fill_in(value: &mut Value, node: Option<&Node>) {
    let Some(node) = node else { return };
    match value {
        Value::Object(fields) => {
            for (name, schema) in &node.properties {
                if let (Some(default), None) = (&schema.default, fields.get(name)) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields.iter_mut() {
                let schema = node.field(name);
                replace_null(field, schema);
                fill_in(field, schema);
            }
        }
        Value::Array(elements) => {
            let items = node.items.as_deref();
            for element in elements {
                replace_null(element, items);
                fill_in(element, items);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn replace_null(value: &mut Value, node: Option<&Node>) {
    let Some(Node { null: Null::Unset, default: Some(default), .. }) = node else { return };
    if value.is_null() {
        *value = default.clone();
    }
}
