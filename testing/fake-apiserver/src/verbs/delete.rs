//! Deletion: at once, after a time to wind down, or when the last finalizer is gone.

use std::sync::Arc;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Call, Selection};
use crate::failure::Failure;
use crate::meta;
use crate::resource::{DeleteAnswer, Dependents, Resource};
use crate::schema::Cause;
use crate::state::{Effect, State};
use crate::store::Key;

/// What a deletion may say in its body.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Options {
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    dry_run: Option<Vec<String>>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are collected some time after it.
    Background,
    /// They are collected first, and it waits for them.
    Foreground,
    /// They stay and forget it.
    Orphan,
}

/// Keeps an owner until those of its dependents that insist on it are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an owner until its dependents have forgotten it.
pub(crate) const ORPHAN: &str = "orphan";

impl Propagation {
    const NAMES: [(&str, Self); 3] =
        [("Background", Self::Background), ("Foreground", Self::Foreground), ("Orphan", Self::Orphan)];

    fn named(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(n, _)| *n == name).map(|(_, propagation)| propagation)
    }

    fn finalizer(self) -> Option<&'static str> {
        match self {
            Self::Background => None,
            Self::Foreground => Some(FOREGROUND),
            Self::Orphan => Some(ORPHAN),
        }
    }
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
        options.grace_period_seconds = options.grace_period_seconds.or(call.query.number("gracePeriodSeconds")?);
        let policy = call.query.text("propagationPolicy").map(str::to_owned);
        options.propagation_policy = options.propagation_policy.take().or(policy);
        options.orphan_dependents = options.orphan_dependents.or(call.query.flag("orphanDependents"));
        options.checked()
    }

    /// Reads the options that another request carries along.
    pub(crate) fn of(value: Option<&Value>) -> Result<Self, Failure> {
        let Some(value) = value else { return Ok(Self::default()) };
        let options = Self::deserialize(value).map_err(|error| Failure::bad_request(format!("json: {error}")))?;
        options.checked()
    }

    /// The options of the garbage collector, which means one object in one state of it.
    pub(crate) fn collecting(object: &Value, propagation: Propagation) -> Self {
        let name = Propagation::NAMES.into_iter().find(|(_, p)| *p == propagation).map(|(name, _)| name.to_owned());
        let preconditions = Preconditions { uid: Some(meta::uid(object).to_owned()), resource_version: None };
        Self { propagation_policy: name, preconditions: Some(preconditions), ..Self::default() }
    }

    fn checked(self) -> Result<Self, Failure> {
        let mut causes = Vec::new();
        if self.propagation_policy.is_some() && self.orphan_dependents.is_some() {
            let rule = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid("propagationPolicy", &json!(self.propagation_policy), rule));
        }
        if let Some(policy) = self.propagation_policy.as_deref().filter(|policy| Propagation::named(policy).is_none()) {
            let known = ["Foreground", "Background", "Orphan", "nil"].map(|name| json!(name));
            causes.push(Cause::unsupported("propagationPolicy", &json!(policy), &known));
        }
        if let Some(other) = self.dry_run.iter().flatten().find(|value| *value != "All") {
            causes.push(Cause::unsupported("dryRun", &json!([other]), &[json!("All")]));
        }
        if causes.is_empty() { Ok(self) } else { Err(Failure::invalid_options("DeleteOptions", &causes)) }
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run.as_ref().is_some_and(|values| values.iter().any(|v| v == "All"))
    }

    /// Makes a trial of it.
    pub(super) fn only_try(&mut self) {
        self.dry_run = Some(vec!["All".to_owned()]);
    }

    /// Takes a version of our own making for the one that was meant.
    pub(super) fn follow(&mut self, version: &str) {
        if let Some(wanted) = self.preconditions.as_mut().and_then(|p| p.resource_version.as_mut()) {
            version.clone_into(wanted);
        }
    }

    /// What becomes of the dependents of an object. What the client says counts more than a finalizer from an earlier
    /// deletion, and that more than what is usual for the kind.
    fn propagation(&self, resource: &Resource, object: &Value) -> Propagation {
        let named = self.propagation_policy.as_deref().and_then(Propagation::named);
        let said =
            self.orphan_dependents.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background });
        let has = |finalizer: &str| meta::finalizers(object).contains(&finalizer);
        match (resource.dependents, said.or(named)) {
            (Dependents::Ignored, _) => Propagation::Background,
            (_, Some(said)) => said,
            (_, None) if has(ORPHAN) => Propagation::Orphan,
            (_, None) if has(FOREGROUND) => Propagation::Foreground,
            (Dependents::Orphaned, None) => Propagation::Orphan,
            (Dependents::Collected, None) => Propagation::Background,
        }
    }

    /// Whether the client wants to hear that it has to wait.
    fn waits(&self) -> bool {
        self.orphan_dependents == Some(false)
    }
}

/// Deletes one object.
pub(crate) fn delete(state: &mut State, call: &Call, options: &Options) -> Result<Answer, Failure> {
    let key = call.key();
    let removal = remove(state, call, &key, options)?;
    let whole = call.resource.delete_answer == DeleteAnswer::Object;
    Ok(match removal {
        Removal::Begun(object) if options.waits() => Answer::new(StatusCode::ACCEPTED, object),
        Removal::Begun(object) => Answer::ok(object),
        Removal::Done(object) if whole => Answer::ok(object),
        Removal::Done(object) => Answer::ok(Arc::new(success(&call.resource, &object))),
    })
}

/// Deletes all objects of a selection and returns them as they were.
pub(crate) fn delete_collection(state: &mut State, call: &Call, options: &Options) -> Result<Vec<Arc<Value>>, Failure> {
    let selection = Selection::of(call)?;
    let kind = call.resource.stored_as();
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

/// How far a deletion got.
pub(crate) enum Removal {
    /// The object is still there and knows that it has to go.
    Begun(Arc<Value>),
    /// The object is gone.
    Done(Arc<Value>),
}

/// Deletes the object with this key, or begins to.
pub(crate) fn remove(state: &mut State, call: &Call, key: &Key, options: &Options) -> Result<Removal, Failure> {
    let resource = &call.resource;
    let Some(old) = state.get(resource, key).cloned() else {
        return Err(Failure::not_found(resource, &key.name));
    };
    if let Some(why) = resource.rules.undeletable(&old) {
        return Err(Failure::forbidden(resource, &key.name, why, &[]));
    }
    options.check_preconditions(resource, &old)?;
    let mut object = old.as_ref().clone();
    let grace = time_to_wind_down(resource, &old, options.grace_period_seconds);
    let graceful = !matches!(grace, Grace::None);
    match grace {
        Grace::None => begin(resource, &mut object, call.now, 0),
        Grace::Begin { seconds } => begin(resource, &mut object, call.now, seconds),
        Grace::Shorten { seconds } => shorten(&mut object, call.now, seconds),
        Grace::Pending => return Ok(Removal::Begun(old)),
    }
    leave_to_collector(&mut object, options.propagation(resource, &old));
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

impl Options {
    /// Whether the object is the one that is meant.
    pub(super) fn check_preconditions(&self, resource: &Resource, object: &Value) -> Result<(), Failure> {
        let Some(wanted) = &self.preconditions else { return Ok(()) };
        let name = meta::name(object);
        if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != meta::uid(object)) {
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
                 deleted and then recreated",
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
}

/// The finalizer that makes the garbage collector do what was asked, and not the other one.
fn leave_to_collector(object: &mut Value, propagation: Propagation) {
    let present = meta::finalizers(object).into_iter();
    let others = present.filter(|finalizer| !matches!(*finalizer, FOREGROUND | ORPHAN));
    let finalizers: Vec<&str> = others.chain(propagation.finalizer()).collect();
    if finalizers.is_empty() {
        meta::unset(object, "finalizers");
    } else {
        let unchanged = finalizers.len() == meta::finalizers(object).len()
            && finalizers.iter().all(|finalizer| meta::finalizers(object).contains(finalizer));
        let finalizers = json!(finalizers);
        if !unchanged {
            meta::set(object, "finalizers", finalizers);
        }
    }
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
    match (meta::deletion_grace(object), requested.map(|seconds| if seconds < 0 { 1 } else { seconds })) {
        (None | Some(0), _) => Grace::None,
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

fn shorten(object: &mut Value, now: Timestamp, seconds: i64) {
    let current = meta::deletion_grace(object).unwrap_or_default();
    let mut period = seconds;
    if let Ok(end) = meta::text(object, "deletionTimestamp").parse::<Timestamp>() {
        let mut sooner = end.checked_sub(SignedDuration::from_secs(current - seconds)).unwrap_or(end);
        if sooner < now {
            // What has passed cannot be shortened. Somebody else still has the last word, unless it was to be none.
            sooner = now;
            period = seconds.min(1);
        }
        meta::set(object, "deletionTimestamp", meta::time(sooner));
    }
    meta::set(object, "deletionGracePeriodSeconds", period);
}

fn success(resource: &Resource, object: &Value) -> Value {
    let mut details = json!({ "name": meta::name(object), "kind": resource.plural, "uid": meta::uid(object) });
    if let (Some(details), false) = (details.as_object_mut(), resource.group.is_empty()) {
        details.insert("group".to_owned(), Value::from(resource.group.clone()));
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}
