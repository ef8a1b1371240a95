//! Questions about pods that several parts ask.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use runtime::Key;
use runtime::cache::Index;
use serde_json::{Value, json};

use crate::time::{later, whole_seconds};

/// Pods by the node they are bound to; those bound to none under the empty name.
pub(crate) const BY_NODE: Index<Pod> =
    Index::new("pods-by-node", |pod| vec![node_of(pod).unwrap_or_default().to_owned()]);

/// Pods by the uid of their controller.
pub(crate) const BY_CONTROLLER: Index<Pod> = Index::new("pods-by-controller", |pod| {
    controller_of(&pod.metadata).map(|owner| owner.uid.clone()).into_iter().collect()
});

/// Pods by `namespace/claim` of the claims they use.
pub(crate) const BY_CLAIM: Index<Pod> = Index::new("pods-by-claim", |pod| {
    claims_of(pod).map(|claim| Key::new(namespace_of(&pod.metadata), claim).to_string()).collect()
});

/// The namespace, empty for cluster-scoped objects.
pub(crate) fn namespace_of(meta: &ObjectMeta) -> &str {
    meta.namespace.as_deref().unwrap_or_default()
}

/// The name.
pub(crate) fn name_of(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// The key of an object.
pub(crate) fn key_of(meta: &ObjectMeta) -> Key {
    Key::new(namespace_of(meta), name_of(meta))
}

/// Returns the controller reference of an object.
pub(crate) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether an object has been told to go.
pub(crate) fn is_leaving(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

/// The node a pod is bound to.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

/// The claims a pod mounts.
pub(crate) fn claims_of(pod: &Pod) -> impl Iterator<Item = &str> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.as_str()))
}

/// What a pod tolerates.
pub(crate) fn tolerations_of(pod: &Pod) -> &[Toleration] {
    pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default()
}

/// Pending, Running, Succeeded, Failed, Unknown.
pub(crate) fn phase_of(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Returns whether its containers have ended permanently.
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase_of(pod), "Succeeded" | "Failed")
}

/// Returns whether it counts as a replica.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !is_leaving(&pod.metadata)
}

/// What a pod's status says under this heading.
pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether it serves.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// From when on it has been ready for long enough; `None` if it is not ready.
pub(crate) fn available_from(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "True")?;
    if min_ready_seconds <= 0 {
        return Some(Timestamp::MIN);
    }
    let since = ready.last_transition_time.as_ref()?.0;
    Some(later(since, Duration::from_secs(u64::from(min_ready_seconds.unsigned_abs()))))
}

/// Returns a status patch that sets one condition and keeps the others. It is bound to the version of the pod that was
/// read, because the list is replaced. A condition whose status does not change keeps its transition time.
pub(crate) fn condition_patch(pod: &Pod, kind: &str, status: &str, why: (&str, &str), now: Timestamp) -> Value {
    let mut conditions: Vec<Value> = pod
        .status
        .iter()
        .filter_map(|status| status.conditions.as_ref())
        .flatten()
        .filter(|condition| condition.type_ != kind)
        .map(|condition| json!(condition))
        .collect();
    let since = condition(pod, kind).filter(|before| before.status == status);
    let since = since.and_then(|before| before.last_transition_time.clone()).unwrap_or_else(|| whole_seconds(now));
    let mut said = json!({ "type": kind, "status": status, "lastTransitionTime": since });
    if let Some(fields) = said.as_object_mut() {
        let (reason, message) = why;
        for (field, text) in [("reason", reason), ("message", message)] {
            if !text.is_empty() {
                fields.insert(field.to_owned(), text.into());
            }
        }
    }
    conditions.push(said);
    json!({
        "metadata": { "uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version },
        "status": { "conditions": conditions },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_condition_that_stays_keeps_its_time_and_its_neighbours() {
        let before = pod(json!({ "metadata": { "uid": "u", "resourceVersion": "3" }, "status": { "conditions": [
            { "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z" },
            { "type": "Foreign", "status": "True" },
        ] } }));
        let now = "2026-01-01T00:01:00.5Z".parse().unwrap();
        let patch = condition_patch(&before, "Ready", "False", ("Again", ""), now);
        assert_eq!(patch["metadata"]["resourceVersion"], "3");
        assert_eq!(
            patch["status"]["conditions"],
            json!([
                { "type": "Foreign", "status": "True" },
                { "type": "Ready", "status": "False", "reason": "Again", "lastTransitionTime": "2026-01-01T00:00:00Z" },
            ])
        );
        let flipped = condition_patch(&before, "Ready", "True", ("", ""), now);
        assert_eq!(flipped["status"]["conditions"][1]["lastTransitionTime"], "2026-01-01T00:01:00Z");
    }

    #[test]
    fn a_pod_is_available_once_it_was_ready_for_long_enough() {
        let ready = pod(json!({ "metadata": {}, "status": { "conditions": [
            { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" },
        ] } }));
        assert_eq!(available_from(&ready, 0), Some(Timestamp::MIN));
        assert_eq!(available_from(&ready, 10), Some("2026-01-01T00:00:10Z".parse().unwrap()));
        assert_eq!(available_from(&pod(json!({ "metadata": {} })), 0), None);
    }
}
