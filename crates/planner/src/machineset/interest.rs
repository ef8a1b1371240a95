//! Which changes of a machine could make a set's plan another one.

use api::names::{annotations, labels};
use api::{Machine, MachineSet, Object, OperationState, Uid};
use jiff::Timestamp;

use super::ending::takes_machines;
use super::member::{Member, owns, selects};
use super::step::{Asked, MachineDelete};
use super::victims::Why;
use crate::preservation::is_preserved;

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

/// The state that a decided delete is checked against immediately before it is sent.
pub struct DeleteCheck<'a, C> {
    /// The set that the delete was decided for.
    pub decided: &'a MachineSet,
    /// The set as the cache shows it now.
    pub now: Option<&'a MachineSet>,
    /// The delete.
    pub delete: &'a MachineDelete,
    /// The Machine as the cache shows it now; `None` if the cache does not show it or cannot decode it.
    pub member: Option<Member<'a>>,
    /// Returns the number of Machines that count as replicas now: see [`is_staying`]. Machines with a pending delete are excluded.
    pub staying: C,
    /// The time of the check.
    pub at: Timestamp,
}

/// Whether a decided delete is still to be sent. A plan has up to a hundred deletes, and each of them waits for the rate limit. If the
/// set is scaled up meanwhile, the remaining deletes would remove Machines that are wanted again.
///
/// If the set changed in a field that the choice depends on, the answer is no, and the set is planned again. The Machine itself is
/// guarded by its resourceVersion.
pub fn still_deletes<C: FnOnce() -> usize>(check: DeleteCheck<'_, C>) -> bool {
    let DeleteCheck { decided, now, delete, member, staying, at } = check;
    let Some(now) = now.filter(|now| now.uid() == decided.uid()) else { return false };
    if now.is_deleting() {
        return takes_machines(now);
    }
    let last_change = |set: &MachineSet| set.annotation(annotations::LAST_REPLICA_CHANGE_BY_SCALER).map(str::to_owned);
    if decided.spec != now.spec || last_change(decided) != last_change(now) {
        return false;
    }
    let Some(member) = member.filter(|member| member.machine.uid() == delete.uid) else { return false };
    match delete.why {
        // The planner does not count a repeated delete as certain; it chooses the Machine by its position in the order.
        Why::Surplus if delete.asked == Asked::Again => true,
        Why::Surplus => usize::try_from(now.spec.replicas).is_ok_and(|replicas| replicas == 0 || staying() > replicas),
        Why::Marked => true,
        Why::Failed => !is_preserved(member.machine, member.node, at),
        Why::SetGoes => false,
    }
}

/// Whether a Machine counts as one of the set's replicas when the surplus is calculated.
pub fn is_staying(set: &MachineSet, machine: &Machine, has_pending_delete: impl Fn(&Uid) -> bool) -> bool {
    let member = Member { machine, node: crate::Presence::Absent };
    owns(set, machine)
        && selects(set, machine)
        && !member.is_leaving()
        && !member.was_updated_in_place()
        && !has_pending_delete(&machine.uid())
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

    /// Shows MS-R21.
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
        assert_eq!(still_makes(&set(&json!({})), &set(&change)), expected);
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
        why: Why,
        asked: Asked,
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
            asked: sent.asked,
        };
        still_deletes(DeleteCheck {
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
    #[case::nothing(json!({}), true)]
    #[case::counts(json!({ "status": { "replicas": 3 }, "metadata": { "resourceVersion": "8" } }), true)]
    #[case::a_freeze(json!({ "metadata": { "labels": { labels::FREEZE: "True" } } }), true)]
    #[case::scaled_up(json!({ "spec": { "replicas": 80 } }), false)]
    #[case::scaled_down(json!({ "spec": { "replicas": 0 } }), false)]
    #[case::another_selector(json!({ "spec": { "selector": { "matchLabels": { "a": "2" } } } }), false)]
    #[case::a_scaler(json!({ "metadata": { "annotations": { annotations::LAST_REPLICA_CHANGE_BY_SCALER: "2026-01-01T00:00:00Z" } } }), false)]
    #[case::its_deletion(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), true)]
    #[case::its_deletion_without_machines(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan", api::names::finalizers::MACHINE] } }), false)]
    #[case::another_set_of_that_name(json!({ "metadata": { "uid": "2" } }), false)]
    fn delete_is_not_sent_when_the_set_has_changed(
        #[case] change: Value,
        #[case] expected: bool,
        #[values(Why::Surplus, Why::Marked, Why::Failed)] why: Why,
    ) {
        let sent = Sent { why, asked: Asked::First, staying: 3, machine: json!({}) };
        assert_eq!(is_sent(&sent, &change), expected);
    }

    /// Shows MS-R24.
    #[rstest]
    #[case::one_too_many(3, Asked::First, true)]
    #[case::no_longer_too_many(2, Asked::First, false)]
    #[case::repeated(2, Asked::Again, true)]
    fn delete_is_not_sent_when_there_is_no_surplus_left(
        #[case] staying: usize,
        #[case] asked: Asked,
        #[case] expected: bool,
    ) {
        let sent = Sent { why: Why::Surplus, asked, staying, machine: json!({}) };
        assert_eq!(is_sent(&sent, &json!({})), expected);
    }

    /// Shows MS-R24.
    #[rstest]
    #[case::failed(json!({}), true)]
    #[case::preserved(json!({ "metadata": { "annotations": { annotations::PRESERVE: "now" } } }), false)]
    #[case::another_machine_of_that_name(json!({ "metadata": { "uid": "2" } }), false)]
    fn delete_of_a_failed_machine_is_not_sent_when_it_is_kept(#[case] machine: Value, #[case] expected: bool) {
        let sent = Sent { why: Why::Failed, asked: Asked::First, staying: 2, machine };
        assert_eq!(is_sent(&sent, &json!({})), expected);
    }

    #[test]
    fn delete_for_a_set_deletion_is_not_sent_when_the_set_is_gone() {
        let sent = |now: Option<&MachineSet>| {
            let going = set(&json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
            let delete = MachineDelete {
                name: "m".into(),
                uid: "1".into(),
                resource_version: String::new(),
                why: Why::SetGoes,
                asked: Asked::First,
            };
            let at = Timestamp::UNIX_EPOCH;
            still_deletes(DeleteCheck { decided: &going, now, delete: &delete, member: None, staying: || 0, at })
        };
        let going = set(&json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
        assert!(sent(Some(&going)), "also a Machine that cannot be decoded");
        assert!(!sent(None));
    }

    #[test]
    fn machine_stays_unless_it_leaves_or_its_delete_is_pending() {
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
