//! How many Machines are created and deleted.

use api::Object;
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::{RequestResult, SetFixture, created, deleted};

/// Creates a MachineSet of this size with Machines in these phases, created one second apart.
fn pool(replicas: i32, phases: &[&str]) -> SetFixture {
    let mut fixture = SetFixture::new(replicas);
    for (n, phase) in phases.iter().enumerate() {
        fixture.add(&format!("m{n}"), phase, u32::try_from(n).unwrap());
    }
    fixture
}

/// Shows MS-R1.
#[rstest]
#[case(3, &[1, 2])]
#[case(10, &[1, 2, 4, 3])]
#[case(300, &[1, 2, 4, 8, 16, 32, 37])]
fn machines_are_created_in_doubling_batches_up_to_a_hundred(#[case] replicas: i32, #[case] batches: &[usize]) {
    let plan = SetFixture::new(replicas).plan();
    assert_eq!(created(&plan), batches);
    assert_eq!(plan.wake == Wake::Again, replicas > 100);
}

/// Shows MS-R10, MS-W20.
#[test]
fn terminating_machine_is_replaced_immediately() {
    let mut fixture = pool(3, &["Running", "Running", "Running"]);
    fixture.edit("m0", |m| m["metadata"]["deletionTimestamp"] = json!("2026-01-01T11:00:00Z"));
    assert_eq!(created(&fixture.plan()), [1], "its phase does not matter");
    fixture.policy.set.replacement = Replacement::OnceGone;
    assert_eq!(created(&fixture.plan()), [0usize; 0], "with OnceGone it waits");
    fixture.finish_all();
    assert_eq!(created(&fixture.plan()), [1]);
}

/// Shows MS-R10.
#[test]
fn terminating_machines_are_neither_missing_nor_surplus() {
    let mut fixture = pool(3, &["Running", "Running", "Running", "Terminating"]);
    fixture.reconcile();
    assert_eq!(fixture.plan().steps, []);
    assert_eq!(fixture.set.status.replicas, 4);
}

/// Shows MS-R5.
#[test]
fn failed_machine_is_deleted_and_then_replaced() {
    let mut fixture = pool(3, &["Running", "Running", "Failed"]);
    assert_eq!(deleted(&fixture.plan()), ["m2"]);
    assert_eq!(fixture.plan().wake, Wake::Again);
    fixture.reconcile();
    assert_eq!(created(&fixture.plan()), [1]);
}

/// Shows MS-R5.
#[test]
fn nothing_is_deleted_while_machines_are_missing() {
    let fixture = pool(3, &["Running", "Failed"]);
    assert_eq!((created(&fixture.plan()), deleted(&fixture.plan())), (vec![1], vec![]));
}

/// Shows MS-R4.
#[rstest]
#[case::same_time(3, "2026-01-01T10:00:00Z", &["m0", "m1"])]
#[case::marked_too_late(2, "2026-01-01T09:59:59Z", &[])]
#[case::invalid_time(2, "soon", &[])]
fn marked_machines_are_deleted_without_surplus(#[case] replicas: i32, #[case] changed: &str, #[case] victims: &[&str]) {
    let mut fixture = pool(replicas.min(2), &["Running", "Running"]);
    fixture.edit_set(|set| {
        set["metadata"]["annotations"] =
            json!({ "machine.sapcloud.io/last-deployment-replica-change-by-scaler-time": changed });
    });
    for name in ["m0", "m1"] {
        fixture.edit(name, |m| {
            m["metadata"]["annotations"] = json!({
                "machinepriority.machine.sapcloud.io": "1",
                "machine.sapcloud.io/marked-for-deletion-time": "2026-01-01T10:00:00Z",
            });
        });
    }
    assert_eq!(deleted(&fixture.plan()), victims);
}

/// Shows MS-R4.
#[test]
fn mark_without_the_highest_priority_is_ignored() {
    let mut fixture = pool(1, &["Running"]);
    fixture.edit_set(|set| {
        set["metadata"]["annotations"] =
            json!({ "machine.sapcloud.io/last-deployment-replica-change-by-scaler-time": "2026-01-01T10:00:00Z" });
    });
    fixture.edit("m0", |m| {
        m["metadata"]["annotations"] = json!({
            "machinepriority.machine.sapcloud.io": "2",
            "machine.sapcloud.io/marked-for-deletion-time": "2026-01-01T10:00:00Z",
        });
    });
    assert_eq!(deleted(&fixture.plan()), [""; 0]);
}

/// Shows MS-R8.
#[rstest]
#[case(3, 3, &[])]
#[case(3, 5, &["m1"])]
fn machine_updated_in_place_is_kept_until_replicas_change(
    #[case] replicas: i32,
    #[case] machines: usize,
    #[case] victims: &[&str],
) {
    let mut fixture = pool(replicas, &vec!["Running"; machines]);
    fixture.edit("m0", |m| m["metadata"]["labels"]["node.machine.sapcloud.io/update-result"] = json!("successful"));
    assert_eq!(deleted(&fixture.plan()), victims);
}

/// Shows MS-R7.
#[rstest]
#[case::frozen("freeze", "True", true)]
#[case::not_frozen("freeze", "true", false)]
#[case::scale_up_disabled("node.machine.sapcloud.io/scale-up-disabled", "", true)]
fn blocked_set_creates_nothing_and_replaces_no_machine(#[case] label: &str, #[case] value: &str, #[case] held: bool) {
    let mut fixture = pool(3, &["Running", "Failed"]);
    fixture.edit_set(|set| set["metadata"]["labels"] = json!({ label: value }));
    assert_eq!(fixture.plan().steps.is_empty(), held);
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(1));
    assert_eq!(deleted(&fixture.plan()).len(), 1, "it can still scale down");
}

#[test]
fn reconcile_deletes_at_most_a_hundred_machines() {
    let fixture = pool(0, &vec!["Running"; 150]);
    assert_eq!(deleted(&fixture.plan()).len(), 100);
    assert_eq!(fixture.plan().wake, Wake::Again);
}

/// Shows MS-R12.
#[test]
fn undecodable_machine_is_counted_and_never_selected() {
    let mut fixture = pool(2, &["Running"]);
    fixture.undecodable = vec![UndecodableMachine {
        name: "odd".into(),
        uid: "u-odd".into(),
        resource_version: "1".into(),
        ..Default::default()
    }];
    assert_eq!(fixture.plan().because, Reason::Converged);
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(0));
    assert_eq!(deleted(&fixture.plan()), ["m0"]);
}

/// Shows MS-W1.
#[test]
fn pending_creates_and_deletes_are_counted_conservatively() {
    let mut fixture = pool(3, &["Running", "Running"]);
    fixture.outstanding.creates = ["pool-xxxxx".into()].into();
    let plan = fixture.plan();
    let Step::Create(batches) = &plan.steps[0] else { panic!("{plan:?}") };
    assert_eq!(batches.concat()[0].name, "pool-xxxxx");
    assert_eq!(created(&plan), [1], "only the pending create");

    fixture.outstanding = Outstanding { deletes: ["u-m0".into()].into(), ..Default::default() };
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(1));
    assert_eq!(deleted(&fixture.plan()), ["m0"], "only the pending delete");
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(2));
    assert_eq!(created(&fixture.plan()), [0usize; 0], "it may still exist");
}

/// The first delete of `m0` timed out: its result is unknown.
fn pool_with_a_lost_delete(replicas: i32, phases: &[&str]) -> SetFixture {
    let mut fixture = pool(replicas, phases);
    fixture.outstanding = Outstanding { deletes: ["u-m0".into()].into(), ..Default::default() };
    fixture
}

/// Shows MS-R17.
#[test]
fn lost_delete_is_not_repeated_after_a_scale_up() {
    let mut fixture = pool(3, &["Running", "Running", "Running"]);
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(2));
    fixture.results = vec![RequestResult::RequestLost];
    fixture.reconcile();
    assert_eq!(fixture.outstanding.deletes, ["u-m0".into()].into());
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(3));
    let plan = fixture.plan();
    assert_eq!(plan.steps, [], "m0 is healthy and needed");
    assert_eq!(plan.because, Reason::ResultsPending(1));
}

/// Shows MS-R17.
#[test]
fn lost_delete_is_not_repeated_after_the_machine_recovered() {
    let mut fixture = pool_with_a_lost_delete(2, &["Failed", "Running"]);
    assert_eq!(deleted(&fixture.plan()), ["m0"], "while it is Failed it is selected again");
    fixture.edit("m0", |m| m["status"]["currentStatus"]["phase"] = json!("Running"));
    assert_eq!(fixture.plan().steps, []);
}

/// Shows MS-R17.
#[test]
fn lost_delete_is_not_repeated_if_the_machine_is_preserved() {
    let mut fixture = pool_with_a_lost_delete(2, &["Failed", "Running"]);
    fixture.edit("m0", |m| m["metadata"]["annotations"] = json!({ "node.machine.sapcloud.io/preserve": "now" }));
    assert_eq!(fixture.plan().steps, []);
}

/// Shows MS-R17.
#[test]
fn machine_with_a_lost_delete_is_neither_present_nor_gone() {
    // Another Machine is now first in the order. If m0 is gone, m1 has to stay.
    let mut fixture = pool_with_a_lost_delete(2, &["Running", "Running", "Running"]);
    fixture.edit("m1", |m| m["metadata"]["annotations"] = json!({ "machinepriority.machine.sapcloud.io": "1" }));
    assert_eq!(fixture.plan().steps, []);
    // Two have to be deleted. One more can be deleted whatever the result for m0 is, and m0 would be selected again.
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(1));
    assert_eq!(deleted(&fixture.plan()), ["m1", "m0"]);
    // No Machine is created to replace it.
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(3));
    assert_eq!(created(&fixture.plan()), [0usize; 0]);
    assert_eq!(deleted(&fixture.plan()), [""; 0]);
}

/// Shows MS-R17.
#[test]
fn repeated_delete_is_marked_as_repeated() {
    let fixture = pool_with_a_lost_delete(0, &["Running", "Running"]);
    let plan = fixture.plan();
    let [Step::Delete(deletes)] = &plan.steps[..] else { panic!("{plan:?}") };
    let attempts: Vec<_> = deletes.iter().map(|delete| (delete.name.as_str(), delete.why, delete.attempt)).collect();
    assert_eq!(
        attempts,
        [("m0", DeletionReason::Surplus, Attempt::Repeat), ("m1", DeletionReason::Surplus, Attempt::First)]
    );
}

/// Shows MS-R13.
#[test]
fn template_that_is_not_selected_is_reported_and_not_created() {
    let mut fixture = SetFixture::new(1);
    fixture.edit_set(|set| {
        set["spec"]["selector"] = json!({ "matchExpressions": [{ "key": "pool", "operator": "DoesNotExist" }] });
        set["spec"]["template"]["metadata"] = json!({});
    });
    fixture.reconcile();
    assert_eq!(fixture.set.status.conditions[0].message, "unable to create machines, no labels");
    fixture.edit_set(|set| {
        set["spec"]["template"]["metadata"] = json!({ "labels": { "pool": "a" } });
        set["spec"]["selector"] =
            json!({ "matchExpressions": [{ "key": "pool", "operator": "NotIn", "values": ["a"] }] });
    });
    fixture.reconcile();
    assert!(fixture.machines.is_empty());
    assert!(fixture.set.status.conditions[0].message.contains("spec.selector does not select"));
}

/// Shows MS-W17.
#[test]
fn finalizer_is_added_before_the_first_machine() {
    let mut fixture = SetFixture::new(1);
    fixture.edit_set(|set| set["metadata"]["finalizers"] = json!(["z/other"]));
    let plan = fixture.plan();
    let finalizer = "machine.sapcloud.io/machine-controller-manager";
    assert_eq!(plan.steps, [Step::Finalizers(vec![finalizer.into(), "z/other".into()])]);
    fixture.settle();
    assert!(fixture.set.has_finalizer(finalizer) && fixture.set.has_finalizer("z/other"));
    assert_eq!(fixture.living().len(), 1);
}
