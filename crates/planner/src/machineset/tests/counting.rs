//! How many machines come and go.

use api::Object;
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::{Fate, SetFixture, created, deleted};

/// A set of this size with machines in these phases, made one second after the other.
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
fn machines_are_made_in_batches_that_double_and_a_hundred_in_a_reconcile(
    #[case] replicas: i32,
    #[case] batches: &[usize],
) {
    let plan = SetFixture::new(replicas).plan();
    assert_eq!(created(&plan), batches);
    assert_eq!(plan.wake == Wake::Again, replicas > 100);
}

/// Shows MS-R10, MS-W20.
#[test]
fn a_machine_that_goes_is_replaced_before_it_is_gone() {
    let mut fixture = pool(3, &["Running", "Running", "Running"]);
    fixture.edit("m0", |m| m["metadata"]["deletionTimestamp"] = json!("2026-01-01T11:00:00Z"));
    assert_eq!(created(&fixture.plan()), [1], "whatever its phase says, it is going");
    fixture.policy.set.replacement = Replacement::OnceGone;
    assert_eq!(created(&fixture.plan()), [0usize; 0], "unless asked to wait");
    fixture.finish_all();
    assert_eq!(created(&fixture.plan()), [1]);
}

/// Shows MS-R10.
#[test]
fn terminating_machines_are_neither_missing_nor_too_many() {
    let mut fixture = pool(3, &["Running", "Running", "Running", "Terminating"]);
    fixture.reconcile();
    assert_eq!(fixture.plan().steps, []);
    assert_eq!(fixture.set.status.replicas, 4);
}

/// Shows MS-R5.
#[test]
fn a_failed_machine_goes_first_and_is_replaced_with_the_next_look() {
    let mut fixture = pool(3, &["Running", "Running", "Failed"]);
    assert_eq!(deleted(&fixture.plan()), ["m2"]);
    assert_eq!(fixture.plan().wake, Wake::Again);
    fixture.reconcile();
    assert_eq!(created(&fixture.plan()), [1]);
}

/// Shows MS-R5.
#[test]
fn where_machines_are_missing_none_is_deleted() {
    let fixture = pool(3, &["Running", "Failed"]);
    assert_eq!((created(&fixture.plan()), deleted(&fixture.plan())), (vec![1], vec![]));
}

/// Shows MS-R4.
#[rstest]
#[case::the_same_time(3, "2026-01-01T10:00:00Z", &["m0", "m1"])]
#[case::marked_too_late(2, "2026-01-01T09:59:59Z", &[])]
#[case::no_time_at_all(2, "soon", &[])]
fn machines_that_a_scaler_marked_go_whatever_the_number(
    #[case] replicas: i32,
    #[case] changed: &str,
    #[case] victims: &[&str],
) {
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
fn a_mark_without_the_first_priority_is_no_mark() {
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
fn a_machine_updated_in_place_is_spared_until_the_replicas_follow(
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
#[case::not_quite_frozen("freeze", "true", false)]
#[case::moving_away("node.machine.sapcloud.io/scale-up-disabled", "", true)]
fn a_set_that_may_not_grow_makes_nothing_and_removes_no_failed_machine(
    #[case] label: &str,
    #[case] value: &str,
    #[case] held: bool,
) {
    let mut fixture = pool(3, &["Running", "Failed"]);
    fixture.edit_set(|set| set["metadata"]["labels"] = json!({ label: value }));
    assert_eq!(fixture.plan().steps.is_empty(), held);
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(1));
    assert_eq!(deleted(&fixture.plan()).len(), 1, "it shrinks all the same");
}

#[test]
fn no_more_than_a_hundred_go_in_a_reconcile() {
    let fixture = pool(0, &vec!["Running"; 150]);
    assert_eq!(deleted(&fixture.plan()).len(), 100);
    assert_eq!(fixture.plan().wake, Wake::Again);
}

/// Shows MS-R12.
#[test]
fn what_cannot_be_read_counts_and_is_never_chosen() {
    let mut fixture = pool(2, &["Running"]);
    fixture.unreadable = vec![Unreadable {
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
fn what_may_exist_is_not_made_again_and_what_may_be_gone_is_not_counted_on() {
    let mut fixture = pool(3, &["Running", "Running"]);
    fixture.outstanding.creates = ["pool-xxxxx".into()].into();
    let plan = fixture.plan();
    let Step::Create(batches) = &plan.steps[0] else { panic!("{plan:?}") };
    assert_eq!(batches.concat()[0].name, "pool-xxxxx");
    assert_eq!(created(&plan), [1], "the one that was asked for before, and no other");

    fixture.outstanding = Outstanding { deletes: ["u-m0".into()].into(), ..Default::default() };
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(1));
    assert_eq!(deleted(&fixture.plan()), ["m0"], "asked again for the same one, and for no other");
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(2));
    assert_eq!(created(&fixture.plan()), [0usize; 0], "it may still be there");
}

/// The first delete of `m0` timed out: nobody knows whether it was carried out.
fn pool_with_a_lost_delete(replicas: i32, phases: &[&str]) -> SetFixture {
    let mut fixture = pool(replicas, phases);
    fixture.outstanding = Outstanding { deletes: ["u-m0".into()].into(), ..Default::default() };
    fixture
}

/// Shows MS-R17.
#[test]
fn a_delete_whose_answer_was_lost_is_not_repeated_once_the_set_wants_the_machine_again() {
    let mut fixture = pool(3, &["Running", "Running", "Running"]);
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(2));
    fixture.fates = vec![Fate::LostUnheard];
    fixture.reconcile();
    assert_eq!(fixture.outstanding.deletes, ["u-m0".into()].into());
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(3));
    let plan = fixture.plan();
    assert_eq!(plan.steps, [], "m0 is healthy and wanted");
    assert_eq!(plan.because, Reason::Unseen(1));
}

/// Shows MS-R17.
#[test]
fn a_delete_whose_answer_was_lost_is_not_repeated_once_the_failed_machine_has_recovered() {
    let mut fixture = pool_with_a_lost_delete(2, &["Failed", "Running"]);
    assert_eq!(deleted(&fixture.plan()), ["m0"], "as long as it is Failed it would be chosen again");
    fixture.edit("m0", |m| m["status"]["currentStatus"]["phase"] = json!("Running"));
    assert_eq!(fixture.plan().steps, []);
}

/// Shows MS-R17.
#[test]
fn a_delete_whose_answer_was_lost_is_not_repeated_once_the_failed_machine_is_preserved() {
    let mut fixture = pool_with_a_lost_delete(2, &["Failed", "Running"]);
    fixture.edit("m0", |m| m["metadata"]["annotations"] = json!({ "node.machine.sapcloud.io/preserve": "now" }));
    assert_eq!(fixture.plan().steps, []);
}

/// Shows MS-R17.
#[test]
fn a_machine_whose_delete_was_lost_counts_neither_as_there_nor_as_gone() {
    // Another one is now first in the order: if m0 is gone, m1 has to stay.
    let mut fixture = pool_with_a_lost_delete(2, &["Running", "Running", "Running"]);
    fixture.edit("m1", |m| m["metadata"]["annotations"] = json!({ "machinepriority.machine.sapcloud.io": "1" }));
    assert_eq!(fixture.plan().steps, []);
    // Two have to go. One more can go whatever became of m0, and m0 would be chosen again.
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(1));
    assert_eq!(deleted(&fixture.plan()), ["m1", "m0"]);
    // Nor is a machine made in its stead.
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(3));
    assert_eq!(created(&fixture.plan()), [0usize; 0]);
    assert_eq!(deleted(&fixture.plan()), [""; 0]);
}

/// Shows MS-R17.
#[test]
fn a_delete_that_repeats_a_lost_one_says_so() {
    let fixture = pool_with_a_lost_delete(0, &["Running", "Running"]);
    let plan = fixture.plan();
    let [Step::Delete(deletes)] = &plan.steps[..] else { panic!("{plan:?}") };
    let asked: Vec<_> = deletes.iter().map(|delete| (delete.name.as_str(), delete.why, delete.asked)).collect();
    assert_eq!(asked, [("m0", Why::Surplus, Asked::Again), ("m1", Why::Surplus, Asked::First)]);
}

/// Shows MS-R13.
#[test]
fn a_template_that_makes_nothing_of_its_own_is_told_instead_of_tried() {
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
fn the_finalizer_comes_before_the_first_machine() {
    let mut fixture = SetFixture::new(1);
    fixture.edit_set(|set| set["metadata"]["finalizers"] = json!(["z/other"]));
    let plan = fixture.plan();
    let ours = "machine.sapcloud.io/machine-controller-manager";
    assert_eq!(plan.steps, [Step::Finalizers(vec![ours.into(), "z/other".into()])]);
    fixture.settle();
    assert!(fixture.set.has_finalizer(ours) && fixture.set.has_finalizer("z/other"));
    assert_eq!(fixture.living().len(), 1);
}
