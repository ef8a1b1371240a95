//! Pruning: what the schema does not know is dropped.
//!
//! Where a schema preserves unknown fields they stay, but below a known field inside such a place pruning goes on. The type
//! and metadata of the object, and of objects embedded in it, always stay.

use serde_json::Value;

use crate::schema::node::{Additional, Node, Resource, Unknown};

/// Prunes `object` and returns the paths of what went.
pub(super) fn prune(object: &mut Value, root: &Node) -> Vec<String> {
    let mut pruned = Vec::new();
    // The root of an object has type and metadata even though its schema does not say so.
    walk(object, Some(root), Resource::Embedded, root.unknown, "", &mut pruned);
    pruned
}

/// Prunes a value that is only part of an object.
pub(super) fn prune_part(value: &mut Value, node: &Node) -> Vec<String> {
    let mut pruned = Vec::new();
    walk(value, Some(node), node.resource, node.unknown, "", &mut pruned);
    pruned
}

fn walk(
    value: &mut Value,
    node: Option<&Node>,
    resource: Resource,
    unknown: Unknown,
    path: &str,
    pruned: &mut Vec<String>,
) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            if resource == Resource::Embedded && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let known = node.and_then(|n| match (n.properties.get(name), &n.additional) {
                (Some(schema), _) => Some(Some(schema)),
                (None, Additional::Schema(schema)) => Some(Some(schema.as_ref())),
                (None, Additional::Anything | Additional::Nothing) => Some(None),
                (None, Additional::None) => None,
            });
            match (known, unknown) {
                (Some(schema), _) => {
                    let (resource, unknown) = schema.map(|s| (s.resource, s.unknown)).unwrap_or_default();
                    walk(field, schema, resource, unknown, &path, pruned);
                    true
                }
                (None, Unknown::Preserved) => true,
                (None, Unknown::Pruned) => {
                    pruned.push(path);
                    false
                }
            }
        }),
        Value::Array(elements) => {
            let items = node.and_then(|n| n.items.as_deref());
            let resource = items.map(|i| i.resource).unwrap_or_default();
            // What a list preserves, its elements preserve.
            let unknown = match (unknown, items) {
                (Unknown::Preserved, _) => Unknown::Preserved,
                (Unknown::Pruned, Some(items)) => items.unknown,
                (Unknown::Pruned, None) => Unknown::Pruned,
            };
            for (index, element) in elements.iter_mut().enumerate() {
                walk(element, items, resource, unknown, &format!("{path}[{index}]"), pruned);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
