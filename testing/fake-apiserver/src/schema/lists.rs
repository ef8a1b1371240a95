//! Lists that are sets or maps: no element twice.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::schema::causes::Cause;
use crate::schema::node::{Additional, List, Node};

/// The elements that stand in such a list a second time.
pub(super) fn duplicates(object: &Value, root: &Node) -> Vec<Cause> {
    let mut causes = Vec::new();
    walk(object, root, "", &mut causes);
    causes
}

fn walk(value: &Value, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match (node.properties.get(name), &node.additional) {
                    (Some(schema), _) if path.is_empty() => walk(field, schema, name, causes),
                    (Some(schema), _) => walk(field, schema, &format!("{path}.{name}"), causes),
                    (None, Additional::Schema(schema)) => walk(field, schema, &format!("{path}[{name}]"), causes),
                    (None, _) => {}
                }
            }
        }
        Value::Array(elements) => {
            match &node.list {
                List::Atomic => {}
                List::Set => causes.extend(repeated(path, elements.clone())),
                List::Map(keys) => causes.extend(repeated_keys(path, elements, keys)),
            }
            if let Some(items) = &node.items {
                for (index, element) in elements.iter().enumerate() {
                    walk(element, items, &format!("{path}[{index}]"), causes);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn repeated_keys(path: &str, elements: &[Value], keys: &[String]) -> Vec<Cause> {
    let mut identities = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        match element {
            Value::Object(fields) => identities.push(Value::Object(identity(fields, keys))),
            Value::Null => identities.push(Value::Object(Map::new())),
            other => {
                let rule = "must be an object for an array of list-type map";
                return vec![Cause::invalid(format!("{path}[{index}]"), other, rule)];
            }
        }
    }
    repeated(path, identities)
}

/// The fields that make an element of a map what it is.
pub(super) fn identity(fields: &Map<String, Value>, keys: &[String]) -> Map<String, Value> {
    keys.iter().filter_map(|key| fields.get(key).map(|value| (key.clone(), value.clone()))).collect()
}

/// One complaint per repeated value, at its second place.
fn repeated(path: &str, values: Vec<Value>) -> Vec<Cause> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut causes = Vec::new();
    for (index, value) in values.into_iter().enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            causes.push(Cause::duplicate(format!("{path}[{index}]"), &value));
        }
    }
    causes
}
