//! Whom a drain is about.
//!
//! Everybody but three kinds of pod: those a kubelet reads from a file, because deleting their image in the API does nothing;
//! those of a DaemonSet, because they would be back at once; and those that the operator said to leave alone. Finished pods,
//! pods without a controller and pods with scratch space on the node all go.

use api::Object;
use api::view::PodView;
use api::{LabelSelector, Uid};

use super::{EphemeralVolumes, Limits};

/// A pod as requests name it: this very one, not a later one of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodId {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: Uid,
}

impl PodId {
    /// The id of a pod.
    pub fn of(pod: &PodView) -> Self {
        Self { namespace: pod.namespace().to_owned(), name: pod.name().to_owned(), uid: pod.uid() }
    }
}

impl std::fmt::Display for PodId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// When a pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// With the others.
    Ordinary,
    /// After them.
    Last,
}

/// Whether a pod has to leave.
pub(super) fn has_to_leave(pod: &PodView, limits: &Limits) -> bool {
    !(pod.is_mirror() || pod.is_of_daemon_set() || selected(pod, limits.skip.as_ref()))
}

/// When it does.
pub(super) fn rank(pod: &PodView, limits: &Limits) -> Rank {
    if selected(pod, limits.last.as_ref()) { Rank::Last } else { Rank::Ordinary }
}

/// Whether it is moved one at a time, because a volume has to follow it.
pub(super) fn has_volumes(pod: &PodView, limits: &Limits) -> bool {
    pod.spec.volumes.iter().any(|volume| {
        volume.persistent_volume_claim.is_some()
            || (volume.ephemeral.is_some() && limits.ephemeral == EphemeralVolumes::Awaited)
    })
}

/// In the order in which pods with volumes go: the highest priority first; a missing one is zero.
pub(super) fn in_order(pods: &mut [&PodView]) {
    pods.sort_by(|a, b| {
        let priority = |pod: &PodView| pod.spec.priority.unwrap_or_default();
        let place = |pod: &PodView| (pod.namespace().to_owned(), pod.name().to_owned());
        priority(b).cmp(&priority(a)).then_with(|| place(a).cmp(&place(b)))
    });
}

/// A selector that cannot be evaluated selects nobody: who leaves a pod behind by mistake loses it with the VM.
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
    #[case::told_to_stay(json!({"metadata": {"labels": {"drain": "skip"}}}), false)]
    #[case::told_to_go_last(json!({"metadata": {"labels": {"drain": "last"}}}), true)]
    fn a_pod_has_to_leave(#[case] value: Value, #[case] expected: bool) {
        let label =
            |value: &str| LabelSelector { match_labels: [("drain".into(), value.into())].into(), ..Default::default() };
        let limits = Limits { skip: Some(label("skip")), last: Some(label("last")), ..Limits::default() };
        assert_eq!(has_to_leave(&pod(value), &limits), expected);
    }

    /// Shows DR-13.
    #[test]
    fn by_default_nobody_is_told_to_stay_and_nobody_goes_last() {
        let labelled = pod(json!({"metadata": {"labels": {"drain": "skip"}}}));
        assert!(has_to_leave(&labelled, &Limits::default()));
        assert_eq!(rank(&labelled, &Limits::default()), Rank::Ordinary);
    }

    #[test]
    fn a_selector_that_cannot_be_evaluated_leaves_nobody_behind() {
        let odd = serde_json::from_value(json!({"matchExpressions": [{"key": "a", "operator": "Near"}]})).unwrap();
        let limits = Limits { skip: Some(odd), ..Limits::default() };
        assert!(has_to_leave(&pod(json!({})), &limits));
    }

    /// Shows DR-Q7.
    #[rstest]
    #[case::claim(json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}), true, true)]
    #[case::ephemeral(json!({"name": "v", "ephemeral": {}}), false, true)]
    #[case::scratch(json!({"name": "v", "emptyDir": {}}), false, false)]
    fn a_pod_with_a_claim_goes_one_at_a_time(#[case] volume: Value, #[case] usual: bool, #[case] asked: bool) {
        let pod = pod(json!({"spec": {"volumes": [volume]}}));
        assert_eq!(has_volumes(&pod, &Limits::default()), usual);
        let limits = Limits { ephemeral: EphemeralVolumes::Awaited, ..Limits::default() };
        assert_eq!(has_volumes(&pod, &limits), asked);
    }

    /// Shows DR-Q9, MC-W64.
    #[test]
    fn a_missing_priority_is_zero_and_ties_are_broken_by_namespace_and_name() {
        let make = |name: &str, priority: Option<i32>| {
            pod(json!({"metadata": {"namespace": "ns", "name": name}, "spec": {"priority": priority}}))
        };
        let pods = [make("c", None), make("b", Some(0)), make("low", Some(-1)), make("high", Some(7))];
        let mut order: Vec<&PodView> = pods.iter().collect();
        in_order(&mut order);
        assert_eq!(order.iter().map(|pod| pod.name()).collect::<Vec<_>>(), ["high", "b", "c", "low"]);
    }
}
