//! Lists that must be rewritten whole.
//!
//! Taints, conditions, finalizers and owner references are lists with several writers, and a merge patch can only replace
//! such a list as a whole. So whoever changes one element writes the others back, and must not lose anything of theirs: not
//! an element, not its place, not a key of a newer API than ours. These functions make the new list from the one we saw.

use crate::{NodeCondition, OwnerReference, Taint, Text, Uid};

/// The taints with ours among them, in the place of the one it replaces, else at the end.
#[must_use]
pub fn taints_with(taints: &[Taint], ours: &Taint) -> Vec<Taint> {
    let mut list = taints.to_vec();
    match list.iter_mut().find(|taint| taint.is_same_as(ours)) {
        Some(taint) => {
            let extra = std::mem::take(&mut taint.extra);
            *taint = ours.clone();
            if taint.extra.is_empty() {
                taint.extra = extra;
            }
        }
        None => list.push(ours.clone()),
    }
    list
}

/// The taints without those that are the same as ours.
#[must_use]
pub fn taints_without(taints: &[Taint], ours: &Taint) -> Vec<Taint> {
    taints.iter().filter(|taint| !taint.is_same_as(ours)).cloned().collect()
}

/// The conditions with ours at the end, in place of the one of its type. While status and reason stay the same, so does the
/// time of the last transition.
#[must_use]
pub fn conditions_with(conditions: &[NodeCondition], mut ours: NodeCondition) -> Vec<NodeCondition> {
    if let Some(old) = conditions.iter().rfind(|condition| condition.kind == ours.kind) {
        if old.status == ours.status && old.reason == ours.reason {
            ours.last_transition_time = old.last_transition_time;
        }
        if ours.extra.is_empty() {
            ours.extra = old.extra.clone();
        }
    }
    let others = conditions.iter().filter(|condition| condition.kind != ours.kind).cloned();
    others.chain([ours.clone()]).collect()
}

/// The finalizers with ours among them, sorted as the reference does; `None` if it is there already.
#[must_use]
pub fn finalizers_with(finalizers: &[Text], ours: &str) -> Option<Vec<Text>> {
    if finalizers.iter().any(|finalizer| *finalizer == *ours) {
        return None;
    }
    let mut list = finalizers.to_vec();
    list.push(ours.into());
    list.sort_unstable();
    Some(list)
}

/// The finalizers without ours, the others in their places; `None` if it is not there.
#[must_use]
pub fn finalizers_without(finalizers: &[Text], ours: &str) -> Option<Vec<Text>> {
    let list: Vec<Text> = finalizers.iter().filter(|finalizer| **finalizer != *ours).cloned().collect();
    (list.len() < finalizers.len()).then_some(list)
}

/// The owners with this one among them, in place of the one of the same uid, else at the end.
#[must_use]
pub fn owners_with(owners: &[OwnerReference], ours: &OwnerReference) -> Vec<OwnerReference> {
    let mut list = owners.to_vec();
    match list.iter_mut().find(|owner| owner.uid == ours.uid) {
        Some(owner) => {
            let extra = std::mem::take(&mut owner.extra);
            *owner = ours.clone();
            if owner.extra.is_empty() {
                owner.extra = extra;
            }
        }
        None => list.push(ours.clone()),
    }
    list
}

/// The owners without the one of this uid.
#[must_use]
pub fn owners_without(owners: &[OwnerReference], uid: &Uid) -> Vec<OwnerReference> {
    owners.iter().filter(|owner| owner.uid != *uid).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::NodeView;
    use crate::{ConditionStatus, Machine, TaintEffect, names};
    use serde_json::json;

    fn node() -> NodeView {
        serde_json::from_value(json!({
            "metadata": {"name": "n", "finalizers": ["z.example.org/theirs"]},
            "spec": {"taints": [
                {"key": "theirs", "effect": "NoSchedule", "graceSeconds": 30},
                {"key": "node.machine.sapcloud.io/preserved", "effect": "NoSchedule", "note": {"by": "someone"}},
            ]},
            "status": {"conditions": [
                {"type": "Terminating", "status": "True", "reason": "ScaleDown", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Theirs", "status": "True", "severity": "high", "observedGeneration": 4},
            ]},
        }))
        .unwrap()
    }

    /// Shows API-14, MC-W40, MD-D8.
    #[test]
    fn a_key_we_do_not_know_in_a_foreign_taint_survives_our_write() {
        let ours =
            Taint { key: names::taints::PRESERVED.into(), effect: TaintEffect::NoSchedule, ..Default::default() };
        let patch = json!({"spec": {"taints": taints_with(&node().spec.taints, &ours)}});
        assert_eq!(
            patch,
            json!({"spec": {"taints": [
                {"key": "theirs", "effect": "NoSchedule", "graceSeconds": 30},
                {"key": "node.machine.sapcloud.io/preserved", "effect": "NoSchedule", "note": {"by": "someone"}},
            ]}})
        );
        let patch = json!(taints_without(&node().spec.taints, &ours));
        assert_eq!(patch, json!([{"key": "theirs", "effect": "NoSchedule", "graceSeconds": 30}]));
    }

    /// Shows API-14.
    #[test]
    fn a_key_we_do_not_know_in_a_foreign_condition_survives_our_write() {
        let ours = NodeCondition {
            kind: "Terminating".into(),
            status: ConditionStatus::True,
            reason: "ScaleDown".into(),
            last_transition_time: Some("2026-02-02T00:00:00Z".parse().unwrap()),
            ..Default::default()
        };
        let patch = json!({"status": {"conditions": conditions_with(&node().status.conditions, ours)}});
        assert_eq!(
            patch,
            json!({"status": {"conditions": [
                {"type": "Theirs", "status": "True", "severity": "high", "observedGeneration": 4},
                {"type": "Terminating", "status": "True", "reason": "ScaleDown", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]}})
        );
    }

    #[test]
    fn a_changed_reason_moves_the_transition_time() {
        let ours = NodeCondition {
            kind: "Terminating".into(),
            status: ConditionStatus::True,
            reason: "Unhealthy".into(),
            last_transition_time: Some("2026-02-02T00:00:00Z".parse().unwrap()),
            ..Default::default()
        };
        let conditions = conditions_with(&node().status.conditions, ours.clone());
        assert_eq!(conditions.last(), Some(&ours));
    }

    /// Shows API-14, MS-W5.
    #[test]
    fn a_key_we_do_not_know_in_a_foreign_owner_reference_survives_our_write() {
        let machine: Machine = serde_json::from_value(json!({
            "metadata": {"name": "m", "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u1", "scope": "cluster"},
                {"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "name": "s", "uid": "u2", "controller": true},
            ]},
        }))
        .unwrap();
        assert_eq!(machine.controller_owner().unwrap().name, "s");
        let patch =
            json!({"metadata": {"ownerReferences": owners_without(&machine.metadata.owner_references, &"u2".into())}});
        assert_eq!(
            patch,
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u1", "scope": "cluster"},
            ]}})
        );
        let adopted =
            owners_with(&machine.metadata.owner_references, &OwnerReference { uid: "u3".into(), ..Default::default() });
        assert_eq!(json!(adopted)[0]["scope"], json!("cluster"));
        assert_eq!(adopted.len(), 3);
        // Written as a whole the object keeps it as well.
        assert_eq!(
            serde_json::to_value(&machine).unwrap()["metadata"]["ownerReferences"][0]["scope"],
            json!("cluster")
        );
    }

    /// Shows API-15, MC-W74, MS-W17.
    #[test]
    fn foreign_finalizers_survive_ours_coming_and_going() {
        let node = node();
        let with = finalizers_with(&node.metadata.finalizers, names::finalizers::NODE).unwrap();
        assert_eq!(with, [names::finalizers::NODE, "z.example.org/theirs"]);
        assert_eq!(finalizers_with(&with, names::finalizers::NODE), None);
        assert_eq!(finalizers_without(&with, names::finalizers::NODE).unwrap(), ["z.example.org/theirs"]);
        assert_eq!(finalizers_without(&node.metadata.finalizers, names::finalizers::NODE), None);
        assert_eq!(finalizers_with(&[], "a"), Some(vec!["a".into()]));
    }
}
