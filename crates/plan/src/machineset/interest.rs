//! Which changes of a machine could make a set's plan another one.

use api::names::labels;
use api::{Machine, MachineSet, Object, OperationState};

/// Whether a set could decide differently for this change. Most changes of a Machine are copies of its Node's conditions, and
/// looking at five thousand machines for each of them would be work for nothing.
pub fn matters(old: &Machine, new: &Machine) -> bool {
    let operation = |machine: &Machine| {
        let failed = machine.status.last_operation.state == OperationState::Failed;
        failed.then(|| machine.status.last_operation.clone())
    };
    let (before, after) = (&old.metadata, &new.metadata);
    old.uid() != new.uid()
        || before.labels != after.labels
        || before.annotations != after.annotations
        || before.owner_references != after.owner_references
        || before.deletion_timestamp != after.deletion_timestamp
        || old.spec != new.spec
        || old.status.current_status != new.status.current_status
        || operation(old) != operation(new)
}

/// Whether machines that were decided on for `decided` are still to be made now that the set is `now`. A plan may be a hundred requests
/// long: if the set is scaled, frozen or deleted meanwhile, the rest of it would be machines that nobody wants any more.
pub fn still_makes(decided: &MachineSet, now: &MachineSet) -> bool {
    let held_back = |label: &str| now.label(label) != decided.label(label);
    decided.uid() == now.uid()
        && !now.is_deleting()
        && decided.spec == now.spec
        && !held_back(labels::FREEZE)
        && !held_back(labels::SCALE_UP_DISABLED)
}

/// Whether a machine without an owner is one that sets which select it have not looked at yet.
pub fn is_new_orphan(before: Option<&Machine>, now: &Machine) -> bool {
    let same = |before: &Machine| before.metadata.labels == now.metadata.labels && before.controller_owner().is_none();
    now.controller_owner().is_none() && !before.is_some_and(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn machine(change: &Value) -> Machine {
        let mut machine = json!({
            "metadata": { "name": "m", "uid": "1", "labels": { "a": "1" } },
            "spec": { "providerID": "vm" },
            "status": { "currentStatus": { "phase": "Running" }, "lastOperation": { "state": "Successful" } },
        });
        merge(&mut machine, change);
        serde_json::from_value(machine).unwrap()
    }

    fn merge(into: &mut Value, change: &Value) {
        match (into.as_object_mut(), change.as_object()) {
            (Some(object), Some(change)) => {
                for (key, value) in change {
                    merge(object.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
            _ => *into = change.clone(),
        }
    }

    #[rstest]
    #[case::nothing(json!({}), false)]
    #[case::a_version(json!({ "metadata": { "resourceVersion": "8" } }), false)]
    #[case::a_condition(json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } }), false)]
    #[case::an_operation_that_goes_on(json!({ "status": { "lastOperation": { "description": "d" } } }), false)]
    #[case::an_operation_that_failed(json!({ "status": { "lastOperation": { "state": "Failed" } } }), true)]
    #[case::another_phase(json!({ "status": { "currentStatus": { "phase": "Failed" } } }), true)]
    #[case::a_label(json!({ "metadata": { "labels": { "b": "1" } } }), true)]
    #[case::an_annotation(json!({ "metadata": { "annotations": { "b": "1" } } }), true)]
    #[case::an_owner(json!({ "metadata": { "ownerReferences": [{ "apiVersion": "v", "kind": "k", "name": "n", "uid": "u" }] } }), true)]
    #[case::its_deletion(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), true)]
    #[case::its_spec(json!({ "spec": { "providerID": "other" } }), true)]
    #[case::another_machine_of_that_name(json!({ "metadata": { "uid": "2" } }), true)]
    fn a_set_is_woken_for_what_it_looks_at_and_for_nothing_else(#[case] change: Value, #[case] expected: bool) {
        assert_eq!(matters(&machine(&json!({})), &machine(&change)), expected);
    }

    #[rstest]
    #[case::nothing(json!({}), true)]
    #[case::counts(json!({ "status": { "replicas": 3 }, "metadata": { "resourceVersion": "8" } }), true)]
    #[case::another_label(json!({ "metadata": { "labels": { "b": "1" } } }), true)]
    #[case::its_size(json!({ "spec": { "replicas": 1 } }), false)]
    #[case::its_template(json!({ "spec": { "template": { "spec": { "class": { "name": "other" } } } } }), false)]
    #[case::a_freeze(json!({ "metadata": { "labels": { labels::FREEZE: "True" } } }), false)]
    #[case::an_update_in_place(json!({ "metadata": { "labels": { labels::SCALE_UP_DISABLED: "true" } } }), false)]
    #[case::its_deletion(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), false)]
    #[case::another_set_of_that_name(json!({ "metadata": { "uid": "2" } }), false)]
    fn machines_are_made_only_for_the_set_that_was_decided_on(#[case] change: Value, #[case] expected: bool) {
        let set = |change: &Value| -> MachineSet {
            let mut set =
                json!({ "metadata": { "name": "s", "uid": "1", "labels": { "a": "1" } }, "spec": { "replicas": 2 } });
            merge(&mut set, change);
            serde_json::from_value(set).unwrap()
        };
        assert_eq!(still_makes(&set(&json!({})), &set(&change)), expected);
    }

    #[test]
    fn an_orphan_is_offered_to_sets_when_it_appears_and_when_its_labels_or_owners_change() {
        let reference = json!([{ "apiVersion": "v", "kind": "k", "name": "n", "uid": "u", "controller": true }]);
        let (orphan, owned) = (machine(&json!({})), machine(&json!({ "metadata": { "ownerReferences": reference } })));
        let relabelled = machine(&json!({ "metadata": { "labels": { "a": "2" } } }));
        assert!(is_new_orphan(None, &orphan));
        assert!(is_new_orphan(Some(&owned), &orphan));
        assert!(is_new_orphan(Some(&relabelled), &orphan));
        assert!(!is_new_orphan(Some(&orphan), &orphan));
        assert!(!is_new_orphan(None, &owned));
    }
}
