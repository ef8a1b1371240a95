//! Which changes affect the plan of a MachineSet.

use api::names::{annotations, labels};
use api::{Machine, MachineSet, Object, OperationState, Uid};
use jiff::Timestamp;

use super::deletion::deletes_machines;
use super::deletion_order::DeletionReason;
use super::member::{Member, owns, selects};
use super::step::{Attempt, MachineDelete};
use crate::preservation::is_preserved;

/// Returns whether a change of a Machine may affect the plan of its MachineSet. Most changes are copies of Node
/// conditions and do not. Checking thousands of Machines for each of them would be too expensive.
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

/// Returns whether creates that were decided for `decided` are still valid for `now`. A plan may have a hundred
/// creates. If the MachineSet is scaled, frozen or deleted meanwhile, the remaining ones would create surplus Machines.
pub fn create_is_valid(decided: &MachineSet, now: &MachineSet) -> bool {
    let changed = |label: &str| now.label(label) != decided.label(label);
    decided.uid() == now.uid()
        && !now.is_deleting()
        && decided.spec == now.spec
        && !changed(labels::FREEZE)
        && !changed(labels::SCALE_UP_DISABLED)
}

/// The state against which a delete is checked immediately before it is sent.
pub struct DeleteCheck<'a, C> {
    /// The MachineSet that the delete was decided for.
    pub decided: &'a MachineSet,
    /// The MachineSet in the cache.
    pub now: Option<&'a MachineSet>,
    /// The delete.
    pub delete: &'a MachineDelete,
    /// The Machine in the cache; `None` if it is not in the cache or cannot be decoded.
    pub member: Option<Member<'a>>,
    /// Returns the number of Machines that count as replicas now (see [`is_staying`]), without those with a pending
    /// delete.
    pub staying: C,
    /// The time of the check.
    pub at: Timestamp,
}

/// Returns whether a delete is still valid. A plan has up to a hundred deletes, and each of them waits for the rate
/// limit. If the MachineSet is scaled up meanwhile, the remaining deletes would remove Machines that are needed again.
///
/// If a field of the MachineSet changed on which the selection depends, the delete is not valid, and the MachineSet is
/// planned again. The resourceVersion of the Machine is a precondition of the delete.
pub fn delete_is_valid<C: FnOnce() -> usize>(check: DeleteCheck<'_, C>) -> bool {
    let DeleteCheck { decided, now, delete, member, staying, at } = check;
    let Some(now) = now.filter(|now| now.uid() == decided.uid()) else { return false };
    if now.is_deleting() {
        return deletes_machines(now);
    }
    let last_change = |set: &MachineSet| set.annotation(annotations::LAST_REPLICA_CHANGE_BY_SCALER).map(str::to_owned);
    if decided.spec != now.spec || last_change(decided) != last_change(now) {
        return false;
    }
    let Some(member) = member.filter(|member| member.machine.uid() == delete.uid) else { return false };
    match delete.why {
        // The planner does not count a repeated delete as certain. It selects the Machine by its position in the order.
        DeletionReason::Surplus if delete.attempt == Attempt::Repeat => true,
        DeletionReason::Surplus => {
            usize::try_from(now.spec.replicas).is_ok_and(|replicas| replicas == 0 || staying() > replicas)
        }
        DeletionReason::Marked => true,
        DeletionReason::Failed => !is_preserved(member.machine, member.node, at),
        DeletionReason::SetDeleted => false,
    }
}

/// Returns whether a Machine counts as a replica when the surplus is calculated.
pub fn is_staying(set: &MachineSet, machine: &Machine, has_pending_delete: impl Fn(&Uid) -> bool) -> bool {
    let member = Member { machine, node: crate::Presence::Absent };
    owns(set, machine)
        && selects(set, machine)
        && !member.is_terminating()
        && !member.was_updated_in_place()
        && !has_pending_delete(&machine.uid())
}

/// Returns whether a Machine without controller is new to the MachineSets that select it.
pub fn is_new_without_controller(before: Option<&Machine>, now: &Machine) -> bool {
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
    #[case::unchanged(json!({}), false)]
    #[case::resource_version(json!({ "metadata": { "resourceVersion": "8" } }), false)]
    #[case::condition(json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } }), false)]
    #[case::operation_in_progress(json!({ "status": { "lastOperation": { "description": "d" } } }), false)]
    #[case::failed_operation(json!({ "status": { "lastOperation": { "state": "Failed" } } }), true)]
    #[case::phase(json!({ "status": { "currentStatus": { "phase": "Failed" } } }), true)]
    #[case::label(json!({ "metadata": { "labels": { "b": "1" } } }), true)]
    #[case::annotation(json!({ "metadata": { "annotations": { "b": "1" } } }), true)]
    #[case::owner(json!({ "metadata": { "ownerReferences": [{ "apiVersion": "v", "kind": "k", "name": "n", "uid": "u" }] } }), true)]
    #[case::deletion(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), true)]
    #[case::spec(json!({ "spec": { "providerID": "other" } }), true)]
    #[case::another_uid(json!({ "metadata": { "uid": "2" } }), true)]
    fn set_is_requeued_only_for_relevant_changes(#[case] change: Value, #[case] expected: bool) {
        assert_eq!(matters(&machine(&json!({})), &machine(&change)), expected);
    }

    /// Shows MS-R21.
    #[rstest]
    #[case::unchanged(json!({}), true)]
    #[case::status(json!({ "status": { "replicas": 3 }, "metadata": { "resourceVersion": "8" } }), true)]
    #[case::label(json!({ "metadata": { "labels": { "b": "1" } } }), true)]
    #[case::replicas(json!({ "spec": { "replicas": 1 } }), false)]
    #[case::template(json!({ "spec": { "template": { "spec": { "class": { "name": "other" } } } } }), false)]
    #[case::freeze(json!({ "metadata": { "labels": { labels::FREEZE: "True" } } }), false)]
    #[case::in_place_update(json!({ "metadata": { "labels": { labels::SCALE_UP_DISABLED: "true" } } }), false)]
    #[case::deletion(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), false)]
    #[case::another_uid(json!({ "metadata": { "uid": "2" } }), false)]
    fn create_is_not_sent_when_the_set_has_changed(#[case] change: Value, #[case] expected: bool) {
        assert_eq!(create_is_valid(&set(&json!({})), &set(&change)), expected);
    }

    fn set(change: &Value) -> MachineSet {
        let mut set = json!({
            "metadata": { "name": "s", "uid": "1", "labels": { "a": "1" }, "finalizers": [api::names::finalizers::MACHINE] },
            "spec": { "replicas": 2, "selector": { "matchLabels": { "a": "1" } } },
        });
        merge(&mut set, change);
        serde_json::from_value(set).unwrap()
    }

    struct Sent {
        why: DeletionReason,
        attempt: Attempt,
        staying: usize,
        machine: Value,
    }

    fn is_sent(sent: &Sent, change: &Value) -> bool {
        let (decided, now, machine) = (set(&json!({})), set(change), machine(&sent.machine));
        let delete = MachineDelete {
            name: "m".into(),
            uid: "1".into(),
            resource_version: String::new(),
            why: sent.why,
            attempt: sent.attempt,
        };
        delete_is_valid(DeleteCheck {
            decided: &decided,
            now: Some(&now),
            delete: &delete,
            member: Some(Member { machine: &machine, node: crate::Presence::Absent }),
            staying: || sent.staying,
            at: Timestamp::UNIX_EPOCH,
        })
    }

    /// Shows MS-R24.
    #[rstest]
    #[case::unchanged(json!({}), true)]
    #[case::status(json!({ "status": { "replicas": 3 }, "metadata": { "resourceVersion": "8" } }), true)]
    #[case::freeze(json!({ "metadata": { "labels": { labels::FREEZE: "True" } } }), true)]
    #[case::scaled_up(json!({ "spec": { "replicas": 80 } }), false)]
    #[case::scaled_down(json!({ "spec": { "replicas": 0 } }), false)]
    #[case::selector(json!({ "spec": { "selector": { "matchLabels": { "a": "2" } } } }), false)]
    #[case::scaler(json!({ "metadata": { "annotations": { annotations::LAST_REPLICA_CHANGE_BY_SCALER: "2026-01-01T00:00:00Z" } } }), false)]
    #[case::deletion(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), true)]
    #[case::deletion_with_orphaned_machines(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan", api::names::finalizers::MACHINE] } }), false)]
    #[case::another_uid(json!({ "metadata": { "uid": "2" } }), false)]
    fn delete_is_not_sent_when_the_set_has_changed(
        #[case] change: Value,
        #[case] expected: bool,
        #[values(DeletionReason::Surplus, DeletionReason::Marked, DeletionReason::Failed)] why: DeletionReason,
    ) {
        let sent = Sent { why, attempt: Attempt::First, staying: 3, machine: json!({}) };
        assert_eq!(is_sent(&sent, &change), expected);
    }

    /// Shows MS-R24.
    #[rstest]
    #[case::one_too_many(3, Attempt::First, true)]
    #[case::no_longer_too_many(2, Attempt::First, false)]
    #[case::repeated(2, Attempt::Repeat, true)]
    fn delete_is_not_sent_when_there_is_no_surplus_left(
        #[case] staying: usize,
        #[case] attempt: Attempt,
        #[case] expected: bool,
    ) {
        let sent = Sent { why: DeletionReason::Surplus, attempt, staying, machine: json!({}) };
        assert_eq!(is_sent(&sent, &json!({})), expected);
    }

    /// Shows MS-R24.
    #[rstest]
    #[case::failed(json!({}), true)]
    #[case::preserved(json!({ "metadata": { "annotations": { annotations::PRESERVE: "now" } } }), false)]
    #[case::another_uid(json!({ "metadata": { "uid": "2" } }), false)]
    fn delete_of_a_failed_machine_is_not_sent_when_preserved(#[case] machine: Value, #[case] expected: bool) {
        let sent = Sent { why: DeletionReason::Failed, attempt: Attempt::First, staying: 2, machine };
        assert_eq!(is_sent(&sent, &json!({})), expected);
    }

    #[test]
    fn delete_for_a_set_deletion_is_not_sent_when_the_set_is_gone() {
        let sent = |now: Option<&MachineSet>| {
            let deleting = set(&json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
            let delete = MachineDelete {
                name: "m".into(),
                uid: "1".into(),
                resource_version: String::new(),
                why: DeletionReason::SetDeleted,
                attempt: Attempt::First,
            };
            let at = Timestamp::UNIX_EPOCH;
            delete_is_valid(DeleteCheck { decided: &deleting, now, delete: &delete, member: None, staying: || 0, at })
        };
        let deleting = set(&json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
        assert!(sent(Some(&deleting)), "also a Machine that cannot be decoded");
        assert!(!sent(None));
    }

    #[test]
    fn machine_stays_unless_terminating_or_delete_is_pending() {
        let reference =
            json!([{ "apiVersion": "v", "kind": "MachineSet", "name": "s", "uid": "1", "controller": true }]);
        let owned = |change: Value| {
            let mut all = json!({ "metadata": { "ownerReferences": reference.clone() } });
            merge(&mut all, &change);
            machine(&all)
        };
        let stays = |machine: &Machine| is_staying(&set(&json!({})), machine, |_| false);
        assert!(stays(&owned(json!({}))));
        assert!(!stays(&machine(&json!({}))), "not owned");
        assert!(!stays(&owned(json!({ "metadata": { "labels": { "a": "2" } } }))), "not selected");
        assert!(!stays(&owned(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }))));
        assert!(!stays(&owned(json!({ "metadata": { "labels": { labels::UPDATE_RESULT: "successful" } } }))));
        assert!(!is_staying(&set(&json!({})), &owned(json!({})), |_| true), "its delete is pending");
    }

    #[test]
    fn set_is_requeued_for_new_machines_without_controller() {
        let reference = json!([{ "apiVersion": "v", "kind": "k", "name": "n", "uid": "u", "controller": true }]);
        let (unowned, owned) = (machine(&json!({})), machine(&json!({ "metadata": { "ownerReferences": reference } })));
        let relabelled = machine(&json!({ "metadata": { "labels": { "a": "2" } } }));
        assert!(is_new_without_controller(None, &unowned));
        assert!(is_new_without_controller(Some(&owned), &unowned));
        assert!(is_new_without_controller(Some(&relabelled), &unowned));
        assert!(!is_new_without_controller(Some(&unowned), &unowned));
        assert!(!is_new_without_controller(None, &owned));
    }
}
