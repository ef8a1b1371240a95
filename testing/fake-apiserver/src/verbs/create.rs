//! Creation.

use http::StatusCode;
use serde_json::Value;

use super::{Answer, Call};
use crate::admission;
use crate::decode;
use crate::failure::Failure;
use crate::meta;
use crate::resource::{Generation, StatusWrites};
use crate::schema::Cause;
use crate::state::State;
use crate::store::Key;
use crate::validate;

/// How often a generated name is drawn again when it is taken.
const DRAWS: usize = 8;

/// Creates an object from the body of a request.
pub(crate) fn create(state: &mut State, call: &Call, body: &[u8]) -> Result<Answer, Failure> {
    let mut object = decode::object(&call.resource, body)?;
    call.check_readable(&object).map_err(|why| call.not_handled(&why))?;
    let warnings = call.prune(&mut object).map_err(|why| call.not_handled(&why))?;
    call.resource.to_stored(&mut object);
    if !meta::version(&object).is_empty() {
        return Err(Failure::unexpected("resourceVersion should not be set on objects to be created"));
    }
    admit(state, call, object).map(|answer| answer.warning(warnings))
}

/// Creates an object that was already decoded.
pub(super) fn admit(state: &mut State, call: &Call, mut object: Value) -> Result<Answer, Failure> {
    let resource = &call.resource;
    place_in_namespace(call, &mut object)?;
    let namespace = meta::namespace(&object).to_owned();
    let generated = meta::name(&object).is_empty() && !meta::text(&object, "generateName").is_empty();
    if generated {
        draw_name(state, call, &mut object);
    }
    let name = meta::name(&object).to_owned();
    check_namespace(state, call, &namespace, &name)?;

    let uid = state.uid();
    if let Some(metadata) = meta::edit(&mut object) {
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
        metadata.remove("resourceVersion");
        metadata.insert("uid".to_owned(), Value::from(uid));
        metadata.insert("creationTimestamp".to_owned(), Value::from(meta::time(call.now)));
        if resource.generation != Generation::Absent {
            metadata.insert("generation".to_owned(), Value::from(1));
        }
    }
    if let (StatusWrites::StatusOnly, Some(object)) = (resource.status, object.as_object_mut()) {
        object.remove("status");
    }
    resource.rules.complete_new(&mut object, call.now);
    admission::admit(state, call, &name, &mut object)?;

    let mut causes = validate::new_metadata(resource, &object);
    causes.extend(resource.rules.validate(&object, None));
    if !causes.is_empty() {
        return Err(Failure::invalid(resource, &name, &causes));
    }
    let key = Key::new(&namespace, &name);
    if let Some(old) = state.get(resource, &key) {
        return Err(Failure::already_exists(resource, old));
    }
    let stored = state.put(resource, key, object, call.now, call.effect());
    Ok(Answer::new(StatusCode::CREATED, stored))
}

/// The namespace of the path is the namespace of the object.
fn place_in_namespace(call: &Call, object: &mut Value) -> Result<(), Failure> {
    let path = call.namespace.as_deref().unwrap_or_default();
    let own = meta::namespace(object);
    if !call.resource.is_namespaced() {
        meta::unset(object, "namespace");
    } else if path.is_empty() {
        return Err(Failure::method_not_allowed());
    } else if own.is_empty() {
        meta::set(object, "namespace", path);
    } else if own != path {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

fn draw_name(state: &mut State, call: &Call, object: &mut Value) {
    let base = meta::text(object, "generateName").to_owned();
    let namespace = meta::namespace(object).to_owned();
    let mut name = state.generated_name(&base);
    for _ in 1..DRAWS {
        if state.get(&call.resource, &Key::new(&namespace, &name)).is_none() {
            break;
        }
        name = state.generated_name(&base);
    }
    meta::set(object, "name", name);
}

/// Nothing is created in a namespace that does not exist or is on its way out.
fn check_namespace(state: &State, call: &Call, namespace: &str, name: &str) -> Result<(), Failure> {
    if !call.resource.is_namespaced() {
        return Ok(());
    }
    let Some(namespaces) = state.catalog.find("", "v1", "namespaces") else { return Ok(()) };
    match state.get(namespaces, &Key::new("", namespace)) {
        None => Err(Failure::not_found(namespaces, namespace)),
        Some(found) if meta::is_deleting(found) => {
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let cause = Cause {
                field: "metadata.namespace".to_owned(),
                reason: "NamespaceTerminating".to_owned(),
                message: format!("namespace {namespace} is being terminated"),
            };
            Err(Failure::forbidden(&call.resource, name, &why, &[cause]))
        }
        Some(_) => Ok(()),
    }
}
