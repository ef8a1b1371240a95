//! Changes: whole objects by PUT, some fields by PATCH. Both end in the same step, which knows what a change may touch.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::{Answer, Call, Part, create};
use crate::decode;
use crate::failure::Failure;
use crate::meta;
use crate::patch::{self, PatchKind};
use crate::resource::{BlindUpdate, Generation, PutOfMissing, Resource, StatusWrites};
use crate::state::State;
use crate::store::Key;
use crate::strategic;
use crate::validate;

/// Puts the object in the body in the place of the stored one.
pub(crate) fn update(state: &mut State, call: &Call, body: &[u8]) -> Result<Answer, Failure> {
    let resource = &call.resource;
    let mut object = decode::object(resource, body)?;
    call.check_readable(&object).map_err(|why| call.not_handled(&why))?;
    let warnings = call.prune(&mut object).map_err(|why| call.not_handled(&why))?;
    let key = call.key();
    check_address(call, &key, &mut object)?;
    resource.to_stored(&mut object);
    let Some(old) = state.get(resource, &key).cloned() else {
        let creates = resource.put_of_missing == PutOfMissing::Creates && call.part == Part::Whole;
        return if creates { create::admit(state, call, object) } else { Err(Failure::not_found(resource, &key.name)) };
    };
    let (wanted, found) = (meta::uid(&object), meta::uid(&old));
    if !wanted.is_empty() && wanted != found {
        let path = format!("/registry/{}/{}/{}", resource.plural, key.namespace, key.name);
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
             UID in precondition: {wanted}, UID in object meta: {found}",
            path.replace("//", "/")
        );
        return Err(Failure::conflict(resource, &key.name, &why));
    }
    replace(state, call, &key, &old, object).map(|answer| answer.warning(warnings))
}

/// What a patch is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// One that fits every JSON.
    General(PatchKind),
    /// The one that knows the types of built-in kinds.
    Strategic,
}

/// Changes some fields of the stored object.
pub(crate) fn patch(state: &mut State, call: &Call, language: Language, body: &[u8]) -> Result<Answer, Failure> {
    let resource = &call.resource;
    let key = call.key();
    let Some(old) = state.get(resource, &key).cloned() else {
        return Err(Failure::not_found(resource, &key.name));
    };
    let mut shown = old.as_ref().clone();
    resource.to_shown(&mut shown);
    let patched = patched(resource, language, &shown, body)?;
    let unreadable = |why: String| Failure::unreadable_patch(&why);
    let mut object = decode::shaped(resource, patched).map_err(|failure| match failure.code {
        StatusCode::BAD_REQUEST => unreadable(failure.message),
        _ => failure,
    })?;
    call.check_readable(&object).map_err(unreadable)?;
    let warnings = call.prune(&mut object).map_err(unreadable)?;
    check_address(call, &key, &mut object)?;
    resource.to_stored(&mut object);
    replace(state, call, &key, &old, object).map(|answer| answer.warning(warnings))
}

fn patched(resource: &Resource, language: Language, object: &Value, body: &[u8]) -> Result<Value, Failure> {
    match (language, &resource.kind_type) {
        (Language::Strategic, Some(kind_type)) => strategic::apply(object, body, kind_type.root()).map_err(|error| {
            let text = error.to_string();
            if error.is_bad_request() { Failure::bad_request(text) } else { Failure::unexpected(text) }
        }),
        (Language::Strategic, None) => Err(Failure::unsupported_patch(resource)),
        (Language::General(kind), _) => apply(kind, object, body),
    }
}

/// What a patch in a language that fits every JSON makes of an object.
pub(super) fn apply(kind: PatchKind, object: &Value, body: &[u8]) -> Result<Value, Failure> {
    patch::apply(kind, object, body).map_err(|error| {
        let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::BAD_REQUEST);
        let failure = Failure::new(code, error.reason(), error.to_string());
        if code == StatusCode::UNPROCESSABLE_ENTITY { failure.with_details(json!({})) } else { failure }
    })
}

/// The object in the body is the object in the path.
pub(super) fn check_address(call: &Call, key: &Key, object: &mut Value) -> Result<(), Failure> {
    let name = meta::name(object);
    if name.is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            key.name
        )));
    }
    if *name != *key.name {
        let text = format!("the name of the object ({name}) does not match the name on the URL ({})", key.name);
        return Err(Failure::bad_request(text));
    }
    let path = call.namespace.as_deref().unwrap_or_default();
    if meta::namespace(object).is_empty() {
        if !path.is_empty() {
            meta::set(object, "namespace", path);
        }
    } else if meta::namespace(object) != path {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Puts an object in the place of the stored one, as far as the part that is written allows.
pub(super) fn replace(
    state: &mut State,
    call: &Call,
    key: &Key,
    old: &Arc<Value>,
    mut object: Value,
) -> Result<Answer, Failure> {
    let resource = &call.resource;
    check_version(resource, key, old, &object)?;
    keep_what_belongs_to_the_server(&mut object, old);
    match call.part {
        Part::Whole | Part::Scale | Part::Binding | Part::Eviction => {
            if resource.status != StatusWrites::NoSubresource {
                take_field(&mut object, old, "status");
            }
            resource.rules.complete_changed(&mut object, old, call.now);
        }
        Part::Status => {
            object = with_only_status_changed(resource, &object, old);
            resource.rules.complete_changed(&mut object, old, call.now);
        }
        Part::Finalize => object = with_only_finalizers_changed(&object, old),
    }
    follow_generation(resource, &mut object, old);

    let mut causes = validate::changed_metadata(&object, old);
    causes.extend(match call.part {
        Part::Status => resource.rules.validate_status(&object, Some(old)),
        _ => resource.rules.validate(&object, Some(old)),
    });
    if !causes.is_empty() {
        return Err(Failure::invalid(resource, &key.name, &causes));
    }
    if object == **old {
        return Ok(Answer::ok(old.clone()));
    }
    let nothing_keeps_it = meta::is_deleting(old)
        && meta::finalizers(&object).is_empty()
        && meta::deletion_grace(old).unwrap_or_default() == 0
        && !resource.rules.is_held(&object);
    if nothing_keeps_it {
        // The last finalizer went: the change itself is never stored, the object goes.
        state.remove(resource, key, call.now, call.effect());
        return Ok(Answer::ok(Arc::new(object)));
    }
    Ok(Answer::ok(state.put(resource, key.clone(), object, call.now, call.effect())))
}

/// The optimistic lock: who names a version means exactly that one.
fn check_version(resource: &Resource, key: &Key, old: &Value, object: &Value) -> Result<(), Failure> {
    match meta::version(object) {
        "" | "0" if resource.blind_update == BlindUpdate::Refused => {
            Err(Failure::version_required(resource, &key.name))
        }
        "" | "0" => Ok(()),
        wanted if wanted == meta::version(old) => Ok(()),
        wanted if wanted.parse::<u64>().is_err() => {
            Err(Failure::unexpected(format!("strconv.ParseUint: parsing {wanted:?}: invalid syntax")))
        }
        _ => Err(Failure::modified(resource, &key.name)),
    }
}

/// Fields that clients send back as they read them, or not at all; either way they stay.
fn keep_what_belongs_to_the_server(object: &mut Value, old: &Value) {
    for field in ["creationTimestamp", "resourceVersion", "generation"] {
        meta::copy(object, old, field);
    }
    if meta::uid(object).is_empty() {
        meta::copy(object, old, "uid");
    }
    if meta::is_deleting(old) {
        meta::copy(object, old, "deletionTimestamp");
        if meta::deletion_grace(object).is_none() {
            meta::copy(object, old, "deletionGracePeriodSeconds");
        }
    }
}

fn take_field(object: &mut Value, from: &Value, field: &str) {
    let Some(object) = object.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => object.insert(field.to_owned(), value.clone()),
        None => object.remove(field),
    };
}

fn with_only_status_changed(resource: &Resource, object: &Value, old: &Value) -> Value {
    let mut result = old.clone();
    take_field(&mut result, object, "status");
    if resource.status == StatusWrites::StatusAndMetadata {
        take_field(&mut result, object, "metadata");
        meta::copy(&mut result, old, "ownerReferences");
    }
    result
}

fn with_only_finalizers_changed(object: &Value, old: &Value) -> Value {
    let mut result = old.clone();
    let finalizers = object.pointer("/spec/finalizers").filter(|f| f.as_array().is_some_and(|f| !f.is_empty()));
    if let Some(spec) = result.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("finalizers");
        spec.extend(finalizers.map(|f| ("finalizers".to_owned(), f.clone())));
    }
    result
}

/// A new generation for every change of what the object is *meant* to be.
fn follow_generation(resource: &Resource, object: &mut Value, old: &Value) {
    if matches!(resource.generation, Generation::Absent | Generation::Constant) {
        return;
    }
    let ignored = if resource.status == StatusWrites::NoSubresource { "metadata" } else { "status" };
    let ordered_otherwise = resource.generation == Generation::FollowsSpecAndAnnotations
        && meta::get(object, "annotations") != meta::get(old, "annotations");
    if ordered_otherwise || !meant(object, ignored).eq(meant(old, ignored)) {
        meta::set(object, "generation", meta::generation(old) + 1);
    }
}

/// The fields that say what the object is meant to be.
fn meant<'a>(object: &'a Value, ignored: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(move |(field, _)| *field != "metadata" && *field != "apiVersion" && *field != ignored)
}
