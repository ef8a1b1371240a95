//! Selects the pods to drain.
//!
//! All pods are drained except three kinds: static pods, because the deletion of their mirror pods has no effect; pods
//! of a DaemonSet, because they would be recreated on the Node; and pods that are configured to be skipped. Completed
//! pods, pods without a controller and pods with local storage are drained.

use api::Object;
use api::view::PodView;
use api::{LabelSelector, Uid};

use super::{EphemeralVolumes, Limits};

/// A pod. The UID distinguishes it from a later pod of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodId {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: Uid,
}

impl PodId {
    /// Returns the ID of a pod.
    pub fn of(pod: &PodView) -> Self {
        Self { namespace: pod.namespace().to_owned(), name: pod.name().to_owned(), uid: pod.uid() }
    }
}

impl std::fmt::Display for PodId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The order of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// With the other pods.
    Ordinary,
    /// After the other pods.
    Last,
}

/// Returns whether a pod must be drained.
pub(super) fn must_be_drained(pod: &PodView, limits: &Limits) -> bool {
    !(pod.is_mirror() || pod.is_of_daemon_set() || selected(pod, limits.skip.as_ref()))
}

/// Returns the order of a pod.
pub(super) fn rank(pod: &PodView, limits: &Limits) -> Rank {
    if selected(pod, limits.last.as_ref()) { Rank::Last } else { Rank::Ordinary }
}

/// Returns whether the pod is evicted alone, because a volume moves with it.
pub(super) fn has_volumes(pod: &PodView, limits: &Limits) -> bool {
    pod.spec.volumes.iter().any(|volume| {
        volume.persistent_volume_claim.is_some()
            || (volume.ephemeral.is_some() && limits.ephemeral == EphemeralVolumes::Awaited)
    })
}

/// Sorts pods with volumes by priority, the highest first; a missing priority is zero.
pub(super) fn sort(pods: &mut [&PodView]) {
    pods.sort_by(|a, b| {
        let priority = |pod: &PodView| pod.spec.priority.unwrap_or_default();
        let key = |pod: &PodView| (pod.namespace().to_owned(), pod.name().to_owned());
        priority(b).cmp(&priority(a)).then_with(|| key(a).cmp(&key(b)))
    });
}

/// An invalid selector selects no pod: a pod that is skipped by mistake is lost with the VM.
fn selected(pod: &PodView, selector: Option<&LabelSelector>) -> bool {
    selector.is_some_and(|selector| selector.matches(&pod.metadata.labels).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn pod(value: Value) -> PodView {
        serde_json::from_value(value).unwrap()
    }

    fn owned(kind: &str, controller: bool) -> Value {
        let owner = json!({"apiVersion": "x/v1", "kind": kind, "name": "o", "uid": "u", "controller": controller});
        json!({"metadata": {"name": "p", "namespace": "ns", "ownerReferences": [owner]}})
    }

    /// Shows DR-1.
    #[rstest]
    #[case::mirror(json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": ""}}}), false)]
    #[case::daemon(owned("DaemonSet", true), false)]
    #[case::owned_but_not_managed_by_a_daemon_set(owned("DaemonSet", false), true)]
    #[case::replica(owned("ReplicaSet", true), true)]
    #[case::bare(json!({}), true)]
    #[case::succeeded(json!({"status": {"phase": "Succeeded"}}), true)]
    #[case::failed(json!({"status": {"phase": "Failed"}}), true)]
    #[case::pending(json!({"status": {"phase": "Pending"}}), true)]
    #[case::terminating(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), true)]
    #[case::scratch_space(json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}), true)]
    #[case::system(json!({"metadata": {"namespace": "kube-system"}}), true)]
    #[case::skipped(json!({"metadata": {"labels": {"drain": "skip"}}}), false)]
    #[case::last(json!({"metadata": {"labels": {"drain": "last"}}}), true)]
    fn pod_must_be_drained_unless_excluded(#[case] value: Value, #[case] expected: bool) {
        let label =
            |value: &str| LabelSelector { match_labels: [("drain".into(), value.into())].into(), ..Default::default() };
        let limits = Limits { skip: Some(label("skip")), last: Some(label("last")), ..Limits::default() };
        assert_eq!(must_be_drained(&pod(value), &limits), expected);
    }

    /// Shows DR-13.
    #[test]
    fn no_pod_is_skipped_or_last_by_default() {
        let labelled = pod(json!({"metadata": {"labels": {"drain": "skip"}}}));
        assert!(must_be_drained(&labelled, &Limits::default()));
        assert_eq!(rank(&labelled, &Limits::default()), Rank::Ordinary);
    }

    #[test]
    fn invalid_selector_skips_no_pod() {
        let odd = serde_json::from_value(json!({"matchExpressions": [{"key": "a", "operator": "Near"}]})).unwrap();
        let limits = Limits { skip: Some(odd), ..Limits::default() };
        assert!(must_be_drained(&pod(json!({})), &limits));
    }

    /// Shows DR-Q7.
    #[rstest]
    #[case::claim(json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}), true, true)]
    #[case::ephemeral(json!({"name": "v", "ephemeral": {}}), false, true)]
    #[case::scratch(json!({"name": "v", "emptyDir": {}}), false, false)]
    fn pod_with_claim_is_evicted_alone(#[case] volume: Value, #[case] usual: bool, #[case] asked: bool) {
        let pod = pod(json!({"spec": {"volumes": [volume]}}));
        assert_eq!(has_volumes(&pod, &Limits::default()), usual);
        let limits = Limits { ephemeral: EphemeralVolumes::Awaited, ..Limits::default() };
        assert_eq!(has_volumes(&pod, &limits), asked);
    }

    /// Shows DR-Q9, MC-W64.
    #[test]
    fn pods_are_sorted_by_priority_then_namespace_and_name() {
        let make = |name: &str, priority: Option<i32>| {
            pod(json!({"metadata": {"namespace": "ns", "name": name}, "spec": {"priority": priority}}))
        };
        let pods = [make("c", None), make("b", Some(0)), make("low", Some(-1)), make("high", Some(7))];
        let mut order: Vec<&PodView> = pods.iter().collect();
        sort(&mut order);
        assert_eq!(order.iter().map(|pod| pod.name()).collect::<Vec<_>>(), ["high", "b", "c", "low"]);
    }
}
