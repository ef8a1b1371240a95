//! From the bytes of a request to an object that the rest of the server can rely on.
//!
//! After this, an object is a JSON object with a `metadata` object whose fields have the right types, and it says of what kind
//! it is. Nothing else is promised; whether its content makes sense is for [`crate::validate`] and the kind's own rules.

use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::meta;
use crate::resource::Resource;

/// Where the reference keeps its types; it says so to whoever sends another.
const SCHEME: &str = "pkg/runtime/scheme.go:111";
const TEXTS: &[&str] =
    &["name", "generateName", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"];
const NUMBERS: &[&str] = &["generation", "deletionGracePeriodSeconds"];
const TEXT_MAPS: &[&str] = &["labels", "annotations"];

/// Reads the body of a create or update.
pub(crate) fn object(resource: &Resource, body: &[u8]) -> Result<Value, Failure> {
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {error}",
            resource.kind
        ))
    })?;
    shaped(resource, value)
}

/// Reads the body of a request that is an order rather than an object: a binding, an eviction.
pub(crate) fn foreign(body: &[u8], kind: &str) -> Result<Value, Failure> {
    let mut order: Value = serde_json::from_slice(body).map_err(|error| {
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {error}"
        ))
    })?;
    let text = |field: &str| order.get(field).and_then(Value::as_str).unwrap_or_default();
    let (found, version) = (text("kind"), text("apiVersion").rsplit('/').next().unwrap_or_default());
    if !order.is_object() || !(found.is_empty() || found == kind) {
        let message = format!(
            "{found} in version {version:?} cannot be handled as a {kind}: no kind {found:?} is registered for this path"
        );
        return Err(Failure::bad_request(message));
    }
    if let Some((field, found, wanted)) = misshapen(&order) {
        return Err(Failure::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: json: cannot unmarshal {found} into Go struct field \
             ObjectMeta.{field} of type {wanted}"
        )));
    }
    drop_nulls(&mut order);
    Ok(order)
}

/// Checks the shape of an object, from a body or from a patch, and completes its type where the reference would.
pub(crate) fn shaped(resource: &Resource, value: Value) -> Result<Value, Failure> {
    let Value::Object(mut object) = value else {
        return Err(Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: json: \
             cannot unmarshal {} into Go value",
            resource.kind,
            type_name(&value)
        )));
    };
    check_type(resource, &mut object)?;
    if object.get("metadata").is_none_or(Value::is_null) {
        object.insert("metadata".to_owned(), Value::Object(Map::new()));
    }
    let mut value = Value::Object(object);
    if let Some((field, found, wanted)) = misshapen(&value) {
        return Err(Failure::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: json: cannot unmarshal {found} into Go struct field \
             ObjectMeta.{} of type {wanted}",
            resource.kind,
            resource.version,
            resource.kind,
            if resource.custom { field.trim_start_matches("metadata.") } else { &field }
        )));
    }
    meta::tidy(&mut value);
    // Typed kinds have no nulls: a field that is null is not there. What custom ones do with them is up to their schemas.
    if !resource.custom {
        for map in ["/metadata/labels", "/metadata/annotations", "/data", "/stringData"] {
            fill_texts(value.pointer_mut(map));
        }
        drop_nulls(&mut value);
    }
    Ok(value)
}

fn check_type(resource: &Resource, object: &mut Map<String, Value>) -> Result<(), Failure> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    // Built-in kinds are decoded into a type that is known from the path; custom ones have to say what they are.
    if resource.custom && kind.is_empty() {
        return Err(Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing",
            resource.kind
        )));
    }
    let expected = resource.api_version();
    let other_version = !api_version.is_empty() && api_version != expected;
    let other_kind = !kind.is_empty() && kind != resource.kind;
    if resource.custom && (other_version || api_version.is_empty()) {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if resource.custom && other_kind {
        let name = object.get("metadata").and_then(|m| m.get("name")).and_then(Value::as_str);
        return Err(Failure::wrong_kind(resource, &kind, name.unwrap_or_default()));
    }
    if other_version || other_kind {
        let kind = if kind.is_empty() { &resource.kind } else { &kind };
        let version = api_version.rsplit('/').next().filter(|v| !v.is_empty()).unwrap_or(&resource.version);
        let registered = if api_version.is_empty() { &expected } else { &api_version };
        return Err(Failure::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: no kind {kind:?} is registered for version \
             {registered:?} in scheme {SCHEME:?}",
            resource.kind
        )));
    }
    object.insert("kind".to_owned(), Value::from(resource.kind.clone()));
    object.insert("apiVersion".to_owned(), Value::from(expected));
    Ok(())
}

/// The first metadata field of a wrong type: its path, what was found, what was wanted.
fn misshapen(object: &Value) -> Option<(String, &'static str, &'static str)> {
    let metadata = object.get("metadata")?;
    let Some(metadata) = metadata.as_object() else {
        return Some(("metadata".to_owned(), type_name(metadata), "v1.ObjectMeta"));
    };
    // In the order of the fields, which is that of a client that sorts them, as most do.
    metadata.iter().filter(|(_, value)| !value.is_null()).find_map(|(field, value)| {
        let (found, wanted) = misread(field, value)?;
        Some((format!("metadata.{field}"), type_name(found), wanted))
    })
}

/// What a field of metadata should have been and is not, and the value that spoils it.
fn misread<'a>(field: &str, value: &'a Value) -> Option<(&'a Value, &'static str)> {
    match (field, value) {
        (text, value) if TEXTS.contains(&text) => (!value.is_string()).then_some((value, "string")),
        (number, value) if NUMBERS.contains(&number) => (!value.is_i64()).then_some((value, "int64")),
        (map, Value::Object(pairs)) if TEXT_MAPS.contains(&map) => {
            pairs.values().find(|value| !value.is_string() && !value.is_null()).map(|value| (value, "string"))
        }
        (map, value) if TEXT_MAPS.contains(&map) => Some((value, "map[string]string")),
        ("finalizers", Value::Array(names)) if names.iter().all(Value::is_string) => None,
        ("finalizers", value) => Some((value, "[]string")),
        ("ownerReferences", Value::Array(owners)) if owners.iter().all(Value::is_object) => None,
        ("ownerReferences", value) => Some((value, "[]v1.OwnerReference")),
        _ => None,
    }
}

/// In a map of texts a key without a value has the empty one.
fn fill_texts(map: Option<&mut Value>) {
    let nulls = map.and_then(Value::as_object_mut).into_iter().flat_map(serde_json::Map::values_mut);
    nulls.filter(|value| value.is_null()).for_each(|value| *value = Value::from(""));
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// What JSON calls the type of a value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn config_maps() -> Resource {
        Resource::built_in("", "v1", "ConfigMap", "configmaps")
    }

    #[test]
    fn a_built_in_object_need_not_say_what_it_is() {
        let object = object(&config_maps(), br#"{"metadata":{"name":"a"}}"#).unwrap();
        assert_eq!(object["kind"], "ConfigMap");
        assert_eq!(object["apiVersion"], "v1");
    }

    #[rstest]
    #[case("[]", "cannot unmarshal array")]
    #[case("{", "json parse error")]
    #[case(r#"{"kind":"Secret"}"#, "Secret in version \"v1\" cannot be handled as a ConfigMap")]
    #[case(r#"{"apiVersion":"v2"}"#, "ConfigMap in version \"v2\" cannot be handled as a ConfigMap")]
    #[case(r#"{"metadata":3}"#, "ObjectMeta.metadata of type v1.ObjectMeta")]
    #[case(r#"{"metadata":{"labels":{"a":1}}}"#, "ObjectMeta.metadata.labels of type string")]
    #[case(r#"{"metadata":{"name":1}}"#, "ObjectMeta.metadata.name of type string")]
    #[case(r#"{"metadata":{"finalizers":["a",1]}}"#, "ObjectMeta.metadata.finalizers of type []string")]
    fn a_body_of_the_wrong_shape_is_a_bad_request(#[case] body: &str, #[case] says: &str) {
        let refusal = object(&config_maps(), body.as_bytes()).unwrap_err();
        assert_eq!(refusal.code.as_u16(), 400);
        assert!(refusal.message.contains(says), "{}", refusal.message);
    }

    #[test]
    fn a_null_in_a_built_in_object_is_not_there() {
        let object =
            object(&config_maps(), br#"{"metadata":{"name":"a","labels":null},"data":null,"more":[{"x":null}]}"#);
        let expected =
            serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "more": [{}]});
        assert_eq!(object.unwrap(), expected);
    }

    #[test]
    fn a_null_in_a_map_of_texts_is_an_empty_text() {
        let object = object(&config_maps(), br#"{"metadata":{"labels":{"a":null}},"data":{"k":null}}"#).unwrap();
        assert_eq!(object["metadata"]["labels"], serde_json::json!({"a": ""}));
        assert_eq!(object["data"], serde_json::json!({"k": ""}));
    }

    #[test]
    fn a_custom_object_has_to_say_what_it_is() {
        let widgets = Resource { custom: true, ..Resource::built_in("test.io", "v1", "Widget", "widgets") };
        let refused = |body: &str| object(&widgets, body.as_bytes()).unwrap_err();
        assert!(refused("{}").message.contains("Object 'Kind' is missing"));
        assert_eq!(refused(r#"{"kind":"Widget"}"#).code.as_u16(), 400);
        let other = refused(r#"{"kind":"Gadget","apiVersion":"test.io/v1","metadata":{"name":"a"}}"#);
        assert_eq!(other.code.as_u16(), 422);
        assert_eq!(other.message, "Gadget.test.io \"a\" is invalid: kind: Invalid value: \"Gadget\": must be Widget");
    }

    #[test]
    fn metadata_nobody_knows_is_dropped() {
        let object =
            object(&config_maps(), br#"{"metadata":{"name":"a","managedFields":[{}],"selfLink":"x"}}"#).unwrap();
        assert_eq!(object["metadata"], serde_json::json!({"name": "a"}));
    }
}
