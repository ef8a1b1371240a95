//! Changes of lists that a merge patch replaces as a whole.
//!
//! Taints, finalizers and owner references are lists with several writers, and a merge patch replaces the whole list.
//! Therefore a writer that changes one element must preserve the other elements, their order, and their unknown keys. These
//! functions compute the new list from the current one.

use crate::{OwnerReference, Taint, Text, Uid};

/// Returns the taints with `taint` added. It replaces the same taint, or is appended.
#[must_use]
pub fn taints_with(taints: &[Taint], taint: &Taint) -> Vec<Taint> {
    let mut list = taints.to_vec();
    match list.iter_mut().find(|other| other.is_same_as(taint)) {
        Some(old) => {
            let extra = std::mem::take(&mut old.extra);
            *old = taint.clone();
            if old.extra.is_empty() {
                old.extra = extra;
            }
        }
        None => list.push(taint.clone()),
    }
    list
}

/// Returns the taints without those that are the same as `taint`.
#[must_use]
pub fn taints_without(taints: &[Taint], taint: &Taint) -> Vec<Taint> {
    taints.iter().filter(|other| !other.is_same_as(taint)).cloned().collect()
}

/// Returns the finalizers with `finalizer` added, sorted as MCM does, or `None` if the list contains it.
#[must_use]
pub fn finalizers_with(finalizers: &[Text], finalizer: &str) -> Option<Vec<Text>> {
    if finalizers.iter().any(|other| *other == *finalizer) {
        return None;
    }
    let mut list = finalizers.to_vec();
    list.push(finalizer.into());
    list.sort_unstable();
    Some(list)
}

/// Returns the finalizers without `finalizer`, in their order, or `None` if the list does not contain it.
#[must_use]
pub fn finalizers_without(finalizers: &[Text], finalizer: &str) -> Option<Vec<Text>> {
    let list: Vec<Text> = finalizers.iter().filter(|other| **other != *finalizer).cloned().collect();
    (list.len() < finalizers.len()).then_some(list)
}

/// Returns the owners with `owner` added. It replaces the owner with the same uid, or is appended.
#[must_use]
pub fn owners_with(owners: &[OwnerReference], owner: &OwnerReference) -> Vec<OwnerReference> {
    let mut list = owners.to_vec();
    match list.iter_mut().find(|other| other.uid == owner.uid) {
        Some(old) => {
            let extra = std::mem::take(&mut old.extra);
            *old = owner.clone();
            if old.extra.is_empty() {
                old.extra = extra;
            }
        }
        None => list.push(owner.clone()),
    }
    list
}

/// Returns the owners without the one with this uid.
#[must_use]
pub fn owners_without(owners: &[OwnerReference], uid: &Uid) -> Vec<OwnerReference> {
    owners.iter().filter(|owner| owner.uid != *uid).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::NodeView;
    use crate::{Machine, TaintEffect, names};
    use serde_json::json;

    fn node() -> NodeView {
        serde_json::from_value(json!({
            "metadata": {"name": "n", "finalizers": ["z.example.org/theirs"]},
            "spec": {"taints": [
                {"key": "theirs", "effect": "NoSchedule", "graceSeconds": 30},
                {"key": "node.machine.sapcloud.io/preserved", "effect": "NoSchedule", "note": {"by": "someone"}},
            ]},
        }))
        .unwrap()
    }

    /// Shows API-14, MC-W40, MD-D8.
    #[test]
    fn unknown_keys_of_other_taints_are_preserved() {
        let taint =
            Taint { key: names::taints::PRESERVED.into(), effect: TaintEffect::NoSchedule, ..Default::default() };
        let patch = json!({"spec": {"taints": taints_with(&node().spec.taints, &taint)}});
        assert_eq!(
            patch,
            json!({"spec": {"taints": [
                {"key": "theirs", "effect": "NoSchedule", "graceSeconds": 30},
                {"key": "node.machine.sapcloud.io/preserved", "effect": "NoSchedule", "note": {"by": "someone"}},
            ]}})
        );
        let patch = json!(taints_without(&node().spec.taints, &taint));
        assert_eq!(patch, json!([{"key": "theirs", "effect": "NoSchedule", "graceSeconds": 30}]));
    }

    /// Shows API-14, MS-W5.
    #[test]
    fn unknown_keys_of_other_owner_references_are_preserved() {
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
        // The whole object preserves the key as well.
        assert_eq!(
            serde_json::to_value(&machine).unwrap()["metadata"]["ownerReferences"][0]["scope"],
            json!("cluster")
        );
    }

    /// Shows API-15, MC-W74, MS-W17.
    #[test]
    fn other_finalizers_are_preserved() {
        let node = node();
        let with = finalizers_with(&node.metadata.finalizers, names::finalizers::NODE).unwrap();
        assert_eq!(with, [names::finalizers::NODE, "z.example.org/theirs"]);
        assert_eq!(finalizers_with(&with, names::finalizers::NODE), None);
        assert_eq!(finalizers_without(&with, names::finalizers::NODE).unwrap(), ["z.example.org/theirs"]);
        assert_eq!(finalizers_without(&node.metadata.finalizers, names::finalizers::NODE), None);
        assert_eq!(finalizers_with(&[], "a"), Some(vec!["a".into()]));
    }
}
