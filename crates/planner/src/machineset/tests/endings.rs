//! Sets that were deleted.

use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::{SetFixture, deleted};

const OURS: &str = "machine.sapcloud.io/machine-controller-manager";

fn going(machines: usize, finalizers: &[&str]) -> SetFixture {
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
fn a_deleted_set_takes_its_machines_along_and_goes_after_them() {
    let mut fixture = going(150, &[OURS]);
    assert_eq!(deleted(&fixture.plan()).len(), 150, "all at once");
    fixture.settle();
    assert!(fixture.living().is_empty() && !fixture.set_is_gone);
    fixture.finish_all();
    fixture.settle();
    assert!(fixture.set_is_gone);
}

/// Shows MS-R11.
#[test]
fn who_deletes_a_set_without_its_machines_keeps_them() {
    let mut fixture = going(2, &["orphan", OURS]);
    assert_eq!(fixture.plan().because, Reason::LettingGo);
    assert_eq!(fixture.plan().steps, []);
    for name in ["m0", "m1"] {
        fixture.edit(name, |m| m["metadata"]["ownerReferences"] = json!([]));
    }
    assert_eq!(fixture.plan().steps, [Step::Finalizers(vec!["orphan".into()])]);
}

/// Shows MS-R11.
#[test]
fn a_machine_that_was_let_go_behind_our_back_is_not_deleted() {
    let fixture = going(1, &[OURS]);
    let plan = fixture.plan();
    let Step::Delete(deletes) = &plan.steps[0] else { panic!("{plan:?}") };
    assert_eq!(deletes[0].resource_version, fixture.machines["m0"].metadata.resource_version);
}

#[rstest]
#[case::without_our_finalizer(1, &["z/other"], Reason::NotOurs)]
#[case::without_machines(0, &["z/other"], Reason::NotOurs)]
fn what_others_hold_is_left_to_them(#[case] machines: usize, #[case] held: &[&str], #[case] because: Reason) {
    let fixture = going(machines, held);
    assert_eq!(fixture.plan().because, because);
    assert_eq!(fixture.plan().steps, []);
}

/// Shows MS-W6.
#[rstest]
#[case::no_selector(json!(null))]
#[case::a_broken_one(json!({ "matchExpressions": [{ "key": "a", "operator": "Near" }] }))]
fn an_invalid_set_can_be_deleted(#[case] selector: serde_json::Value) {
    let mut fixture = going(2, &[OURS]);
    fixture.edit_set(|set| set["spec"]["selector"] = selector);
    fixture.settle();
    fixture.finish_all();
    fixture.settle();
    assert!(fixture.set_is_gone && fixture.machines.is_empty());
}

#[test]
fn a_create_nobody_has_seen_keeps_the_set_until_it_is_settled() {
    let mut fixture = going(0, &[OURS]);
    let until = "2026-01-01T12:05:00Z".parse().unwrap();
    fixture.outstanding =
        Outstanding { creates: ["pool-xxxxx".into()].into(), until: Some(until), ..Default::default() };
    assert_eq!(fixture.plan().because, Reason::Unseen(1));
    assert_eq!(fixture.plan().wake, Wake::By { awaited: Awaited::Machines, at: until });
}

/// Shows MS-R12.
#[test]
fn a_machine_that_cannot_be_read_goes_with_its_set() {
    let mut fixture = going(0, &[OURS]);
    fixture.unreadable =
        vec![Unreadable { name: "odd".into(), uid: "u".into(), resource_version: "7".into(), ..Default::default() }];
    assert_eq!(deleted(&fixture.plan()), ["odd"]);
}
