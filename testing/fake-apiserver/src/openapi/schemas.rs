//! Types and schemas in the words of OpenAPI.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::resource::Resource;
use crate::types::{Field, Need, Shape, Types};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The schemas of kinds, and of all types that occur in them.
pub(super) fn of(types: &Types, served: &[&Resource]) -> Map<String, Value> {
    let mut schemas = Map::new();
    let mut wanted: Vec<String> = vec![OBJECT_META.to_owned()];
    for resource in served {
        match &resource.defined_by {
            Some(version) => {
                schemas.insert(name(resource), defined(resource, version));
            }
            None => wanted.push(name(resource)),
        }
    }
    let mut described = BTreeSet::new();
    while let Some(wanting) = wanted.pop() {
        let Some(shape) = types.named(&wanting) else { continue };
        if described.insert(wanting.clone()) {
            mentioned(shape, &mut wanted);
            schemas.insert(wanting, schema(shape));
        }
    }
    for resource in served {
        if let Some(schema) = schemas.get_mut(&name(resource)).and_then(Value::as_object_mut) {
            schema.insert("x-kubernetes-group-version-kind".to_owned(), json!([kind(resource)]));
        }
    }
    schemas
}

/// The name of a kind's type: the reference's for its own kinds, and made as it makes them for custom ones.
pub(super) fn name(resource: &Resource) -> String {
    if let Some(kind_type) = &resource.kind_type {
        return kind_type.name().to_owned();
    }
    let reversed: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{}.{}", reversed.join("."), resource.version, resource.kind)
}

/// Group, version and kind, as clients look for them.
pub(super) fn kind(resource: &Resource) -> Value {
    json!({ "group": resource.group, "version": resource.version, "kind": resource.kind })
}

/// A mention of a type.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The schema that a definition brings, with what every object has.
fn defined(resource: &Resource, version: &Value) -> Value {
    let mut schema = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(|| json!({ "type": "object" }));
    if let Some(schema) = schema.as_object_mut() {
        let fields = schema.entry("properties").or_insert_with(|| json!({}));
        if let Some(fields) = fields.as_object_mut() {
            for field in ["apiVersion", "kind"] {
                fields.entry(field).or_insert_with(|| json!({ "type": "string" }));
            }
            let description = format!("Name, labels and the like of this {}.", resource.kind);
            let metadata = json!({ "description": description, "allOf": [reference(OBJECT_META)] });
            fields.insert("metadata".to_owned(), metadata);
        }
    }
    schema
}

fn mentioned(shape: &Shape, names: &mut Vec<String>) {
    match shape {
        Shape::Named(name) => names.push(name.clone()),
        Shape::List(of) | Shape::Map(of) => mentioned(of, names),
        Shape::Fields(fields) => fields.values().for_each(|field| mentioned(&field.shape, names)),
        Shape::Anything | Shape::Object | Shape::IntOrString | Shape::Scalar { .. } => {}
    }
}

fn schema(shape: &Shape) -> Value {
    match shape {
        Shape::Anything => json!({}),
        Shape::Object => json!({ "type": "object" }),
        Shape::IntOrString => {
            json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] })
        }
        Shape::Scalar { of, format: None } => json!({ "type": of }),
        Shape::Scalar { of, format: Some(format) } => json!({ "type": of, "format": format }),
        Shape::List(of) => json!({ "type": "array", "items": schema(of) }),
        Shape::Map(of) => json!({ "type": "object", "additionalProperties": schema(of) }),
        Shape::Named(name) => reference(name),
        Shape::Fields(fields) => {
            let properties: Map<String, Value> =
                fields.iter().map(|(name, field)| (name.clone(), property(field))).collect();
            let required = fields.iter().filter(|(_, field)| field.need == Need::Required);
            let required: Vec<&String> = required.map(|(name, _)| name).collect();
            let mut schema = json!({ "type": "object", "properties": properties });
            if let (false, Some(schema)) = (required.is_empty(), schema.as_object_mut()) {
                schema.insert("required".to_owned(), json!(required));
            }
            schema
        }
    }
}

fn property(field: &Field) -> Value {
    let mut notes = Map::new();
    let mut note = |name: &str, value: Value| notes.insert(name.to_owned(), value);
    if let Some((list, keys)) = &field.list {
        note("x-kubernetes-list-type", json!(list));
        if !keys.is_empty() {
            note("x-kubernetes-list-map-keys", json!(keys));
        }
    }
    if let Some(map) = &field.map {
        note("x-kubernetes-map-type", json!(map));
    }
    if let Some(strategy) = field.strategy.text() {
        note("x-kubernetes-patch-strategy", json!(strategy));
    }
    if let Some(key) = &field.merge_key {
        note("x-kubernetes-patch-merge-key", json!(key));
    }
    if !field.one_of.is_empty() {
        note("enum", json!(field.one_of));
    }
    match schema(&field.shape) {
        // Beside a mention nothing else counts, so it is wrapped.
        mention if mention.get("$ref").is_some() && !notes.is_empty() => {
            notes.insert("allOf".to_owned(), json!([mention]));
            Value::Object(notes)
        }
        Value::Object(mut schema) => {
            schema.extend(notes);
            Value::Object(schema)
        }
        other => other,
    }
}
