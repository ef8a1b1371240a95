//! Deletion of MachineSets.

use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::{SetFixture, deleted};

const OURS: &str = "machine.sapcloud.io/machine-controller-manager";

fn deleting(machines: usize, finalizers: &[&str]) -> SetFixture {
    let mut fixture = SetFixture::new(3);
    for n in 0..machines {
        fixture.add(&format!("m{n}"), "Running", 0);
    }
    fixture.edit_set(|set| {
        set["metadata"]["deletionTimestamp"] = json!("2026-01-01T11:00:00Z");
        set["metadata"]["finalizers"] = json!(finalizers);
    });
    fixture
}

/// Shows MS-R11.
#[test]
fn deleted_set_deletes_its_machines_first() {
    let mut fixture = deleting(150, &[OURS]);
    assert_eq!(deleted(&fixture.plan()).len(), 150, "all in one reconcile");
    fixture.settle();
    assert!(fixture.living().is_empty() && !fixture.set_is_gone);
    fixture.finish_all();
    fixture.settle();
    assert!(fixture.set_is_gone);
}

/// Shows MS-R11.
#[test]
fn machines_stay_when_the_set_is_deleted_with_orphan() {
    let mut fixture = deleting(2, &["orphan", OURS]);
    assert_eq!(fixture.plan().because, Reason::Orphaning);
    assert_eq!(fixture.plan().steps, []);
    for name in ["m0", "m1"] {
        fixture.edit(name, |m| m["metadata"]["ownerReferences"] = json!([]));
    }
    assert_eq!(fixture.plan().steps, [Step::Finalizers(vec!["orphan".into()])]);
}

/// Shows MS-R11.
#[test]
fn machine_orphaned_since_the_last_update_is_not_deleted() {
    let fixture = deleting(1, &[OURS]);
    let plan = fixture.plan();
    let Step::Delete(deletes) = &plan.steps[0] else { panic!("{plan:?}") };
    assert_eq!(deletes[0].resource_version, fixture.machines["m0"].metadata.resource_version);
}

#[rstest]
#[case::without_the_finalizer(1, &["z/other"], Reason::OtherFinalizer)]
#[case::without_machines(0, &["z/other"], Reason::OtherFinalizer)]
fn other_finalizers_are_not_removed(#[case] machines: usize, #[case] held: &[&str], #[case] because: Reason) {
    let fixture = deleting(machines, held);
    assert_eq!(fixture.plan().because, because);
    assert_eq!(fixture.plan().steps, []);
}

/// Shows MS-W6.
#[rstest]
#[case::no_selector(json!(null))]
#[case::invalid_selector(json!({ "matchExpressions": [{ "key": "a", "operator": "Near" }] }))]
fn invalid_set_can_be_deleted(#[case] selector: serde_json::Value) {
    let mut fixture = deleting(2, &[OURS]);
    fixture.edit_set(|set| set["spec"]["selector"] = selector);
    fixture.settle();
    fixture.finish_all();
    fixture.settle();
    assert!(fixture.set_is_gone && fixture.machines.is_empty());
}

#[test]
fn set_stays_while_a_create_is_pending() {
    let mut fixture = deleting(0, &[OURS]);
    let until = "2026-01-01T12:05:00Z".parse().unwrap();
    fixture.outstanding =
        Outstanding { creates: ["pool-xxxxx".into()].into(), until: Some(until), ..Default::default() };
    assert_eq!(fixture.plan().because, Reason::ResultsPending(1));
    assert_eq!(fixture.plan().wake, Wake::By { awaited: Awaited::Machines, at: until });
}

/// Shows MS-R12.
#[test]
fn undecodable_machine_is_deleted_with_its_set() {
    let mut fixture = deleting(0, &[OURS]);
    fixture.undecodable = vec![UndecodableMachine {
        name: "odd".into(),
        uid: "u".into(),
        resource_version: "7".into(),
        ..Default::default()
    }];
    assert_eq!(deleted(&fixture.plan()), ["odd"]);
}
