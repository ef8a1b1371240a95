//! The `scale` subresource: how many replicas an object wants and has, in one form for all kinds.
//!
//! An autoscaler knows nothing of MachineDeployments. It reads and writes a `Scale`, and where the numbers stand in the object
//! is known here: built-in kinds have them where one expects, custom ones where their definition says. A write changes the
//! one number and is a change of the object like any other, with its validation, its generation and its optimistic lock.

use serde_json::{Value, json};

use super::update::Language;
use super::{Answer, Call, Part, update};
use crate::failure::Failure;
use crate::meta;
use crate::patch::PatchKind;
use crate::schema::Cause;
use crate::selector;
use crate::state::State;

const API_VERSION: &str = "autoscaling/v1";

/// Where the numbers stand, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    wanted: String,
    counted: String,
    selector: Selector,
}

/// Where it stands which pods belong to the object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Selector {
    /// Nowhere.
    Unknown,
    /// Written out, as custom kinds have it.
    Text(String),
    /// As an object, as built-in kinds have it.
    Object(String),
}

impl Paths {
    /// Where built-in kinds have them.
    pub(crate) fn of_built_in() -> Self {
        Self {
            wanted: "/spec/replicas".to_owned(),
            counted: "/status/replicas".to_owned(),
            selector: Selector::Object("/spec/selector".to_owned()),
        }
    }

    /// Where a definition says that they are.
    pub(crate) fn of_custom(scale: &Value) -> Option<Self> {
        let pointer = |field: &str| scale.get(field).and_then(Value::as_str).map(|path| path.replace('.', "/"));
        Some(Self {
            wanted: pointer("specReplicasPath")?,
            counted: pointer("statusReplicasPath")?,
            selector: pointer("labelSelectorPath").map_or(Selector::Unknown, Selector::Text),
        })
    }

    /// What is wrong with the number of replicas that a custom object wants.
    pub(crate) fn wrong_wish(&self, object: &Value) -> Option<Cause> {
        wrong_number(object, &self.wanted)
    }

    /// What is wrong with the number of replicas that a custom object counts.
    pub(crate) fn wrong_count(&self, object: &Value) -> Option<Cause> {
        wrong_number(object, &self.counted)
    }

    fn scale_of(&self, object: &Value) -> Value {
        let number = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or_default();
        let mut metadata = json!({});
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let (Some(value), Some(metadata)) = (meta::get(object, field), metadata.as_object_mut()) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        let mut spec = json!({});
        // Fields that are zero are left out, those of the status never are.
        if let (wanted @ 1.., Some(spec)) = (number(&self.wanted), spec.as_object_mut()) {
            spec.insert("replicas".to_owned(), json!(wanted));
        }
        let mut status = json!({ "replicas": number(&self.counted) });
        let selector = match &self.selector {
            Selector::Unknown => None,
            Selector::Text(path) => object.pointer(path).and_then(Value::as_str).map(str::to_owned),
            Selector::Object(path) => object.pointer(path).and_then(selector::written_out),
        };
        if let (Some(selector), Some(status)) = (selector.filter(|s| !s.is_empty()), status.as_object_mut()) {
            status.insert("selector".to_owned(), json!(selector));
        }
        json!({ "kind": "Scale", "apiVersion": API_VERSION, "metadata": metadata, "spec": spec, "status": status })
    }
}

fn wrong_number(object: &Value, pointer: &str) -> Option<Cause> {
    let value = object.pointer(pointer)?;
    let rule = match value.as_i64()? {
        ..0 => "should be a non-negative integer",
        number if number > i64::from(i32::MAX) => "should be less than or equal to 2147483647",
        _ => return None,
    };
    Some(Cause::invalid(pointer.trim_start_matches('/').replace('/', "."), value, rule))
}

fn paths(call: &Call) -> Result<&Paths, Failure> {
    call.resource.scale.as_ref().ok_or_else(Failure::unknown_path)
}

/// Reads the scale of an object.
pub(crate) fn get(state: &State, call: &Call) -> Result<Answer, Failure> {
    let (key, paths) = (call.key(), paths(call)?);
    let object = state.get(&call.resource, &key).ok_or_else(|| Failure::not_found(&call.resource, &key.name))?;
    if call.resource.custom && object.pointer(&paths.wanted).is_none() {
        return Err(Failure::internal(&format!(
            "the spec replicas field {:?} does not exist",
            paths.wanted.replace('/', ".")
        )));
    }
    Ok(Answer::ok(paths.scale_of(object).into()))
}

/// Puts the scale in the body in the place of the present one.
pub(crate) fn update(state: &mut State, call: &Call, body: &[u8]) -> Result<Answer, Failure> {
    let scale = serde_json::from_slice(body).map_err(|error| {
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type Scale): couldn't get version/kind; json parse error: {error}"
        ))
    })?;
    write(state, call, scale)
}

/// Changes some fields of the present scale.
pub(crate) fn patch(state: &mut State, call: &Call, language: Language, body: &[u8]) -> Result<Answer, Failure> {
    let kind = match language {
        Language::General(kind) => kind,
        // The two differ in what they do to lists, and a scale has none.
        Language::Strategic => PatchKind::Merge,
    };
    let (key, paths) = (call.key(), paths(call)?);
    let object = state.get(&call.resource, &key).ok_or_else(|| Failure::not_found(&call.resource, &key.name))?;
    let patched = update::apply(kind, &paths.scale_of(object), body)?;
    write(state, call, patched)
}

fn write(state: &mut State, call: &Call, mut scale: Value) -> Result<Answer, Failure> {
    let (resource, key, paths) = (&call.resource, call.key(), paths(call)?);
    check_type(&mut scale)?;
    update::check_address(call, &key, &mut scale)?;
    let old = state.get(resource, &key).cloned().ok_or_else(|| Failure::not_found(resource, &key.name))?;
    let wanted = match scale.pointer("/spec/replicas") {
        None | Some(Value::Null) => 0,
        Some(value) => value.as_i64().filter(|n| i32::try_from(*n).is_ok()).ok_or_else(|| {
            Failure::bad_request(
                "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal into Go struct field \
                 ScaleSpec.spec.replicas of type int32",
            )
        })?,
    };
    if wanted < 0 && !resource.custom {
        let cause = Cause::invalid("spec.replicas", &json!(wanted), "must be greater than or equal to 0");
        return Err(Failure::invalid_scale(&key.name, &[cause]));
    }
    let (meant, found) = (meta::uid(&scale), meta::uid(&old));
    if !meant.is_empty() && meant != found {
        let why = format!("Precondition failed: UID in precondition: {meant}, UID in object meta: {found}");
        return Err(Failure::conflict_of_part(resource, Part::Scale, &key.name, &why));
    }
    let mut object = old.as_ref().clone();
    set_number(&mut object, &paths.wanted, wanted);
    match meta::version(&scale) {
        // A custom kind is never overwritten blindly, but its scale may be.
        "" if resource.custom => {}
        version => meta::set(&mut object, "resourceVersion", version),
    }
    let whole = Call { part: Part::Whole, ..call.clone() };
    let answer = update::replace(state, &whole, &key, &old, object)?;
    Ok(Answer::ok(paths.scale_of(&answer.object).into()))
}

fn check_type(scale: &mut Value) -> Result<(), Failure> {
    let text = |field: &str| scale.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, version) = (text("kind"), text("apiVersion"));
    if !matches!(kind, "" | "Scale") || !matches!(version, "" | API_VERSION) || !scale.is_object() {
        let version = version.rsplit('/').next().unwrap_or_default();
        let message = format!(
            "{kind} in version {version:?} cannot be handled as a Scale: no kind {kind:?} is registered for this path"
        );
        return Err(Failure::bad_request(message));
    }
    if let Some(scale) = scale.as_object_mut() {
        scale.entry("metadata").or_insert_with(|| json!({}));
    }
    Ok(())
}

/// Sets a number, and makes the objects around it where they are missing.
fn set_number(object: &mut Value, pointer: &str, number: i64) {
    let (parents, last) = pointer.rsplit_once('/').unwrap_or_default();
    let mut place = object;
    for parent in parents.split('/').filter(|p| !p.is_empty()) {
        let Some(fields) = place.as_object_mut() else { return };
        place = fields.entry(parent).or_insert_with(|| json!({}));
    }
    if let Some(fields) = place.as_object_mut() {
        fields.insert(last.to_owned(), json!(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_shows_the_numbers_from_where_they_stand() {
        let paths = Paths::of_custom(&json!({
            "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.count", "labelSelectorPath": ".status.pods",
        }));
        let object = json!({
            "metadata": { "name": "a", "labels": { "not": "shown" } },
            "spec": { "size": 3 }, "status": { "count": 2, "pods": "a=b" },
        });
        let scale = paths.unwrap().scale_of(&object);
        assert_eq!(scale["metadata"], json!({ "name": "a" }));
        assert_eq!(scale["spec"], json!({ "replicas": 3 }));
        assert_eq!(scale["status"], json!({ "replicas": 2, "selector": "a=b" }));
    }

    #[test]
    fn a_number_is_set_also_where_nothing_was() {
        let mut object = json!({});
        set_number(&mut object, "/spec/size", 3);
        assert_eq!(object, json!({ "spec": { "size": 3 } }));
    }
}
