//! The rules for metadata that hold for every kind.

use serde_json::Value;

use crate::meta;
use crate::names;
use crate::resource::Resource;
use crate::schema::Cause;

const MOST_ANNOTATION_BYTES: u64 = 256 * 1024;
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];
/// Fields that no update changes, in the order in which they are complained about.
const IMMUTABLE: &[&str] =
    &["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];

/// What is wrong with the metadata of a new object that already has its name.
pub(crate) fn new_metadata(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = meta::name(object);
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        let complaints = names::complaints(resource.names, name);
        causes.extend(complaints.iter().map(|c| Cause::invalid("metadata.name", &Value::from(name), c)));
    }
    causes.extend(any_metadata(object));
    if !resource.custom {
        causes.extend(finalizer_domains(object));
    }
    causes
}

/// Built-in kinds insist on finalizers that say whose they are; custom ones do not.
fn finalizer_domains(object: &Value) -> Vec<Cause> {
    let rule = "name is neither a standard finalizer name nor is it fully qualified";
    let unowned = |name: &str| !name.contains('/') && !STANDARD_FINALIZERS.contains(&name);
    let finalizers = meta::finalizers(object).into_iter().enumerate().filter(|(_, name)| unowned(name));
    finalizers.map(|(i, name)| Cause::invalid(format!("metadata.finalizers[{i}]"), &Value::from(name), rule)).collect()
}

/// What is wrong with a change of metadata.
pub(crate) fn changed_metadata(object: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if meta::is_deleting(old) {
        let had = meta::finalizers(old);
        let added: Vec<&str> = meta::finalizers(object).into_iter().filter(|f| !had.contains(f)).collect();
        if !added.is_empty() {
            let list = added.iter().map(|f| format!("{f:?}")).collect::<Vec<_>>().join(", ");
            let rule = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
            );
            causes.push(Cause::forbidden("metadata.finalizers", &rule));
        }
    }
    for field in IMMUTABLE {
        let value = meta::get(object, field);
        if value != meta::get(old, field) {
            let value = value.cloned().unwrap_or(Value::Null);
            causes.push(Cause::invalid(format!("metadata.{field}"), &value, "field is immutable"));
        }
    }
    causes.extend(any_metadata(object));
    causes
}

fn any_metadata(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in pairs(object, "labels") {
        causes.extend(
            names::qualified_complaints(key).iter().map(|c| Cause::invalid("metadata.labels", &Value::from(key), c)),
        );
        causes.extend(
            names::label_value_complaints(value)
                .iter()
                .map(|c| Cause::invalid("metadata.labels", &Value::from(value), c)),
        );
    }
    let mut size = 0;
    for (key, value) in pairs(object, "annotations") {
        let complaints = names::qualified_complaints(&key.to_lowercase());
        causes.extend(complaints.iter().map(|c| Cause::invalid("metadata.annotations", &Value::from(key), c)));
        size += (key.len() + value.len()) as u64;
    }
    if size > MOST_ANNOTATION_BYTES {
        causes.push(Cause::too_long("metadata.annotations", MOST_ANNOTATION_BYTES));
    }
    for finalizer in meta::finalizers(object) {
        let complaints = names::qualified_complaints(finalizer);
        causes.extend(complaints.iter().map(|c| Cause::invalid("metadata.finalizers", &Value::from(finalizer), c)));
    }
    causes.extend(owner_references(object));
    causes
}

fn pairs<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = meta::get(object, field).and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn owner_references(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut controllers: Vec<String> = Vec::new();
    let owners = meta::get(object, "ownerReferences").and_then(Value::as_array);
    for owner in owners.into_iter().flatten() {
        let path = "metadata.ownerReferences";
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        let rules = [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ];
        for (field, rule) in rules {
            if text(field).is_empty() {
                causes.push(Cause::invalid(format!("{path}.{field}"), &Value::from(""), rule));
            }
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            controllers.push(format!("{}/{}", text("kind"), text("name")));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let rule = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        let owners = owners.cloned().unwrap_or_default();
        causes.push(Cause::invalid("metadata.ownerReferences", &Value::Array(owners), &rule));
    }
    causes
}
