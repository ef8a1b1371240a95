//! Deletion: at once, after a time to wind down, or when the last finalizer is gone.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Call, Selection};
use crate::failure::Failure;
use crate::meta;
use crate::resource::{DeleteAnswer, Resource};
use crate::schema::Cause;
use crate::state::{Effect, State};
use crate::store::Key;

/// What a deletion may say in its body. The propagation policy is accepted and means nothing yet: there is no garbage
/// collector that could act on it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Options {
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    dry_run: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Options {
    /// Reads the body, if there is one; what the query says counts where the body says nothing.
    pub(crate) fn parse(call: &Call, body: &[u8]) -> Result<Self, Failure> {
        let mut options = if body.iter().all(u8::is_ascii_whitespace) {
            Self::default()
        } else {
            serde_json::from_slice(body).map_err(|error| {
                Failure::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
            })?
        };
        if let Some(other) = options.dry_run.iter().flatten().find(|value| *value != "All") {
            let cause = Cause::unsupported("dryRun", &json!([other]), &[json!("All")]);
            return Err(Failure::invalid_options("DeleteOptions", &[cause]));
        }
        options.grace_period_seconds = options.grace_period_seconds.or(call.query.number("gracePeriodSeconds")?);
        Ok(options)
    }

    fn is_dry_run(&self) -> bool {
        self.dry_run.as_ref().is_some_and(|values| values.iter().any(|v| v == "All"))
    }
}

/// Deletes one object.
pub(crate) fn delete(state: &mut State, call: &Call, options: &Options) -> Result<Answer, Failure> {
    let key = call.key();
    let removal = remove(state, call, &key, options)?;
    let whole = call.resource.delete_answer == DeleteAnswer::Object;
    let object = match removal {
        Removal::Begun(object) => object,
        Removal::Done(object) if whole => object,
        Removal::Done(object) => Arc::new(success(&call.resource, &object)),
    };
    Ok(Answer::ok(object))
}

/// Deletes all objects of a selection and returns them as they were.
pub(crate) fn delete_collection(state: &mut State, call: &Call, options: &Options) -> Result<Vec<Arc<Value>>, Failure> {
    let selection = Selection::of(call)?;
    let kind = call.resource.qualified();
    let view = state.store.view(kind, state.store.revision(), selection.namespace.as_deref(), None);
    let chosen = view.unwrap_or_default().into_iter().filter(|(_, object)| selection.matches(object));
    let chosen: Vec<(Key, Arc<Value>)> = chosen.map(|(key, object)| (key.clone(), object.clone())).collect();
    let mut deleted = Vec::with_capacity(chosen.len());
    for (key, object) in chosen {
        remove(state, call, &key, options)?;
        deleted.push(object);
    }
    Ok(deleted)
}

enum Removal {
    /// The object is still there and knows that it has to go.
    Begun(Arc<Value>),
    /// The object is gone.
    Done(Arc<Value>),
}

fn remove(state: &mut State, call: &Call, key: &Key, options: &Options) -> Result<Removal, Failure> {
    let resource = &call.resource;
    let Some(old) = state.get(resource, key).cloned() else {
        return Err(Failure::not_found(resource, &key.name));
    };
    check_preconditions(resource, &old, options)?;
    let mut object = old.as_ref().clone();
    let grace = time_to_wind_down(resource, &old, options.grace_period_seconds);
    let graceful = !matches!(grace, Grace::None);
    match grace {
        Grace::None => begin(resource, &mut object, call.now, 0),
        Grace::Begin { seconds } => begin(resource, &mut object, call.now, seconds),
        Grace::Shorten { seconds } => shorten(&mut object, seconds),
        Grace::Pending => return Ok(Removal::Begun(old)),
    }
    let effect = if options.is_dry_run() { Effect::DryRun } else { call.effect() };
    let stays = meta::deletion_grace(&object).unwrap_or_default() > 0
        || !meta::finalizers(&object).is_empty()
        || resource.rules.is_held(&object);
    if !stays && !graceful {
        let last = state.remove(resource, key, call.now, effect).unwrap_or(old);
        return Ok(Removal::Done(last));
    }
    if object == *old {
        return Ok(Removal::Begun(old));
    }
    let marked = state.put(resource, key.clone(), object, call.now, effect);
    if stays {
        return Ok(Removal::Begun(marked));
    }
    // Kinds that wind down are marked first even when they get no time for it: watchers see both steps.
    Ok(Removal::Done(
        state.remove(resource, key, call.now, effect).filter(|_| effect == Effect::Real).unwrap_or(marked),
    ))
}

fn check_preconditions(resource: &Resource, object: &Value, options: &Options) -> Result<(), Failure> {
    let Some(wanted) = &options.preconditions else { return Ok(()) };
    let name = meta::name(object);
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != meta::uid(object)) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted \
             and then recreated",
            meta::uid(object)
        );
        return Err(Failure::precondition(resource, name, &why));
    }
    if let Some(version) = wanted.resource_version.as_deref().filter(|v| *v != meta::version(object)) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The \
             object might have been modified",
            meta::version(object)
        );
        return Err(Failure::precondition(resource, name, &why));
    }
    Ok(())
}

enum Grace {
    /// The kind has no such period.
    None,
    /// From now on.
    Begin { seconds: i64 },
    /// It has begun, and somebody is in more of a hurry now.
    Shorten { seconds: i64 },
    /// It has begun, and nothing changes.
    Pending,
}

fn time_to_wind_down(resource: &Resource, object: &Value, requested: Option<i64>) -> Grace {
    let Some(seconds) = resource.rules.grace_period(object, requested) else { return Grace::None };
    if !meta::is_deleting(object) {
        return Grace::Begin { seconds };
    }
    match (meta::deletion_grace(object), requested) {
        (None, _) => Grace::None,
        // Only ever shorter: a client cannot give back time that others already count with.
        (Some(current), Some(requested)) if requested < current => Grace::Shorten { seconds: requested },
        (Some(_), _) => Grace::Pending,
    }
}

fn begin(resource: &Resource, object: &mut Value, now: Timestamp, seconds: i64) {
    if meta::is_deleting(object) {
        return;
    }
    let end = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    meta::set(object, "deletionTimestamp", meta::time(end));
    meta::set(object, "deletionGracePeriodSeconds", seconds);
    if meta::generation(object) > 0 {
        meta::set(object, "generation", meta::generation(object) + 1);
    }
    resource.rules.mark_deleting(object);
}

fn shorten(object: &mut Value, seconds: i64) {
    let seconds = seconds.max(0);
    let current = meta::deletion_grace(object).unwrap_or_default();
    if let Ok(end) = meta::text(object, "deletionTimestamp").parse::<Timestamp>() {
        let sooner = end.checked_sub(SignedDuration::from_secs(current - seconds)).unwrap_or(end);
        meta::set(object, "deletionTimestamp", meta::time(sooner));
    }
    meta::set(object, "deletionGracePeriodSeconds", seconds);
}

fn success(resource: &Resource, object: &Value) -> Value {
    let mut details = json!({ "name": meta::name(object), "kind": resource.plural, "uid": meta::uid(object) });
    if let (Some(details), false) = (details.as_object_mut(), resource.group.is_empty()) {
        details.insert("group".to_owned(), Value::from(resource.group.clone()));
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}
