//! Volumes in use are not pulled away: a deleted claim waits for the pods that use it, a deleted volume for its claim.
//!
//! The finalizers are put on when the objects are made; taking them off is the work of kube-controller-manager in a real cluster
//! and of the housekeeper here.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::volumes::{CLAIM_PROTECTION, VOLUME_PROTECTION};
use crate::meta;
use crate::state::State;
use crate::store::Key;

/// Lets go of the deleted claims and volumes that nobody uses.
pub(crate) fn release_unused(state: &mut State, now: Timestamp) {
    let claims = leaving(state, "persistentvolumeclaims", CLAIM_PROTECTION);
    if !claims.is_empty() {
        let used = used_claims(state);
        let unused = claims.into_iter().filter(|(key, _)| !used.contains(key));
        release(state, "persistentvolumeclaims", CLAIM_PROTECTION, unused.collect(), now);
    }
    let volumes = leaving(state, "persistentvolumes", VOLUME_PROTECTION).into_iter();
    let unbound =
        volumes.filter(|(_, volume)| volume.pointer("/status/phase").and_then(Value::as_str) != Some("Bound"));
    release(state, "persistentvolumes", VOLUME_PROTECTION, unbound.collect(), now);
}

/// The deleted objects of a kind that this finalizer keeps.
fn leaving(state: &State, kind: &str, finalizer: &str) -> Vec<(Key, Value)> {
    let view = state.store.view(kind, state.store.revision(), None, None).unwrap_or_default();
    let leaving = view.into_iter().filter(|(_, o)| meta::is_deleting(o) && meta::finalizers(o).contains(&finalizer));
    leaving.map(|(key, object)| (key.clone(), object.as_ref().clone())).collect()
}

/// The claims of all pods that have a node. The others will not get one while their claim is leaving.
fn used_claims(state: &State) -> BTreeSet<Key> {
    let pods = state.store.view("pods", state.store.revision(), None, None).unwrap_or_default();
    let placed = |pod: &Value| pod.pointer("/spec/nodeName").and_then(Value::as_str).is_some_and(|n| !n.is_empty());
    let mut used = BTreeSet::new();
    for (key, pod) in pods.into_iter().filter(|(_, pod)| placed(pod)) {
        let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
        let claims = volumes.filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName")?.as_str());
        used.extend(claims.map(|claim| Key::new(&key.namespace, claim)));
    }
    used
}

fn release(state: &mut State, plural: &str, finalizer: &str, objects: Vec<(Key, Value)>, now: Timestamp) {
    let Some(resource) = state.catalog.find("", "v1", plural).cloned() else { return };
    for (key, mut object) in objects {
        let left: Vec<Value> =
            meta::finalizers(&object).into_iter().filter(|f| *f != finalizer).map(|f| json!(f)).collect();
        if left.is_empty() {
            meta::unset(&mut object, "finalizers");
        } else {
            meta::set(&mut object, "finalizers", left);
        }
        state.settle(&resource, &key, object, now);
    }
}
