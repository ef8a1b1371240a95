//! The end of a namespace: its contents go, then it goes.
//!
//! A deleted namespace takes nothing new and waits for whoever set its `kubernetes` finalizer to clear it out; in a real
//! cluster that is a part of kube-controller-manager. Pods go first and everything else waits for them, because a pod that
//! winds down may still need its secrets. What cannot go yet is said in the namespace's conditions.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::conditions;
use crate::meta;
use crate::query::Query;
use crate::state::{Effect, State};
use crate::store::Key;
use crate::verbs::delete::{Options, Propagation, remove};
use crate::verbs::{Call, Part};

/// How long the reference lets a deleted namespace be, so that all API servers have heard of its end.
const SILENCE: SignedDuration = SignedDuration::from_secs(5);
const FINALIZER: &str = "kubernetes";

/// Clears out the namespaces that are ending, and returns when the next one is due, if one is.
pub(crate) fn end_namespaces(state: &mut State, now: Timestamp) -> Option<Timestamp> {
    let view = state.store.view("namespaces", state.store.revision(), None, None).unwrap_or_default();
    let ending = view.into_iter().filter(|(_, namespace)| meta::is_deleting(namespace) && is_ours(namespace));
    let ending: Vec<Value> = ending.map(|(_, namespace)| namespace.as_ref().clone()).collect();
    let mut next: Option<Timestamp> = None;
    for namespace in ending {
        let deleted = meta::text(&namespace, "deletionTimestamp").parse::<Timestamp>().unwrap_or(now);
        let due = deleted.checked_add(SILENCE).unwrap_or(now);
        if now < due {
            next = Some(next.map_or(due, |next| next.min(due)));
        } else {
            end(state, &namespace, now);
        }
    }
    next
}

fn is_ours(namespace: &Value) -> bool {
    let finalizers = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|f| f == FINALIZER))
}

fn end(state: &mut State, namespace: &Value, now: Timestamp) {
    let name = meta::name(namespace).to_owned();
    let mut left = clear(state, &name, now, |kind| kind == "pods");
    let pods_left = !left.is_empty();
    if !pods_left {
        left = clear(state, &name, now, |kind| kind != "pods");
    }
    let key = Key::new("", &name);
    let Some(namespaces) = state.catalog.find("", "v1", "namespaces").cloned() else { return };
    let mut object = namespace.clone();
    // The reference says nothing of pods that wind down, only of what is left after them.
    report(&mut object, if pods_left { &[] } else { &left }, now);
    if object != *namespace {
        state.put(&namespaces, key.clone(), object.clone(), now, Effect::Real);
    }
    if left.is_empty() {
        let finalizers = object.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut);
        if let Some(finalizers) = finalizers {
            finalizers.retain(|f| f != FINALIZER);
        }
        state.settle(&namespaces, &key, object, now);
    }
}

/// Deletes all objects of some kinds in a namespace and returns those that are still there.
fn clear(state: &mut State, namespace: &str, now: Timestamp, wanted: impl Fn(&str) -> bool) -> Vec<(String, Value)> {
    let kinds = state.catalog.all().filter(|r| r.is_namespaced() && wanted(r.stored_as()));
    // A kind in several versions is one kind.
    let kinds: BTreeMap<_, _> = kinds.map(|r| (r.stored_as().to_owned(), r.clone())).collect();
    let mut left = Vec::new();
    for (kind, resource) in kinds {
        let view = |state: &State| {
            let view = state.store.view(&kind, state.store.revision(), Some(namespace), None).unwrap_or_default();
            view.into_iter().map(|(key, object)| (key.clone(), object.clone())).collect::<Vec<_>>()
        };
        for (key, object) in view(state) {
            let call = Call {
                resource: resource.clone(),
                namespace: Some(namespace.to_owned()),
                name: Some(key.name.to_string()),
                part: Part::Whole,
                query: Query::default(),
                now,
            };
            if !meta::is_deleting(&object) {
                let _begun = remove(state, &call, &key, &Options::collecting(&object, Propagation::Background));
            }
        }
        let name = format!("{}.{}", resource.plural, resource.group);
        left.extend(view(state).into_iter().map(|(_, object)| (name.clone(), object.as_ref().clone())));
    }
    left
}

/// Says in the namespace's conditions what is left of it.
fn report(namespace: &mut Value, left: &[(String, Value)], now: Timestamp) {
    let mut objects: BTreeMap<&str, usize> = BTreeMap::new();
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for (kind, object) in left {
        *objects.entry(kind).or_default() += 1;
        for finalizer in meta::finalizers(object) {
            *finalizers.entry(finalizer).or_default() += 1;
        }
    }
    let listed = |counts: &BTreeMap<&str, usize>, verb: &str| {
        counts
            .iter()
            .map(|(name, count)| format!("{name} {verb} {count} resource instances"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let remaining = match listed(&objects, "has") {
        list if list.is_empty() => ("False", "ContentRemoved", "All content successfully removed".to_owned()),
        list => ("True", "SomeResourcesRemain", format!("Some resources are remaining: {list}")),
    };
    let held = match listed(&finalizers, "in") {
        list if list.is_empty() => {
            ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned())
        }
        list => {
            let text = format!("Some content in the namespace has finalizers remaining: {list}");
            ("True", "SomeFinalizersRemain", text)
        }
    };
    let fine = |reason: &'static str, message: &str| ("False", reason, message.to_owned());
    let told = [
        ("NamespaceDeletionDiscoveryFailure", fine("ResourcesDiscovered", "All resources successfully discovered")),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            fine("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            fine("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        ("NamespaceContentRemaining", remaining),
        ("NamespaceFinalizersRemaining", held),
    ];
    let Some(status) = namespace.get_mut("status").and_then(Value::as_object_mut) else { return };
    for (kind, (is, reason, message)) in told {
        conditions::set(status, &json!({ "type": kind, "status": is, "reason": reason, "message": message }), now);
    }
}
