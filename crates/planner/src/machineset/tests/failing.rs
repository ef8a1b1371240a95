//! Failed machines, and those that are kept for a look.

use api::Object;
use api::view::NodeView;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::fixture::{SetFixture, created, deleted};

const PRESERVE: &str = "node.machine.sapcloud.io/preserve";
const LAST_APPLIED: &str = "node.machine.sapcloud.io/last-applied-node-preserve-value";
const BEFORE: &str = "node.machine.sapcloud.io/preserved-before";
const FUTURE: &str = "2026-01-02T00:00:00Z";
const PAST: &str = "2026-01-01T00:00:00Z";

fn node(annotations: &Value) -> NodeView {
    super::fixture::read(json!({ "metadata": { "name": "n", "annotations": annotations } }))
}

/// Shows MC-W54, MS-R5.
#[rstest]
#[case::nobody_asked(json!({}), None, None, false)]
#[case::until_later(json!({}), Some(FUTURE), None, true)]
#[case::until_before(json!({PRESERVE: "now"}), Some(PAST), None, false)]
#[case::the_machine_asks(json!({PRESERVE: "when-failed"}), None, None, true)]
#[case::now(json!({PRESERVE: "now"}), None, Some(node(&json!({}))), true)]
#[case::the_machine_asks_not(json!({PRESERVE: "false"}), None, None, false)]
#[case::nonsense(json!({PRESERVE: "please"}), None, None, false)]
#[case::the_node_asks(json!({}), None, Some(node(&json!({PRESERVE: "now"}))), true)]
#[case::the_node_wins(json!({PRESERVE: "now"}), None, Some(node(&json!({PRESERVE: "false"}))), false)]
#[case::the_node_fell_silent(json!({PRESERVE: "when-failed", LAST_APPLIED: "now"}), None, Some(node(&json!({}))), false)]
fn a_failed_machine_is_kept_when_somebody_wants_it(
    #[case] annotations: Value,
    #[case] expiry: Option<&str>,
    #[case] node: Option<NodeView>,
    #[case] kept: bool,
) {
    let mut fixture = SetFixture::new(1);
    fixture.add("m", "Failed", 0);
    fixture.edit("m", |m| {
        m["metadata"]["annotations"] = annotations;
        m["status"]["currentStatus"]["preserveExpiryTime"] = json!(expiry);
    });
    fixture.nodes = node.into_iter().map(|node| ("m".to_owned(), node)).collect();
    assert_eq!(deleted(&fixture.plan()).is_empty(), kept);
}

/// Shows MS-R5.
#[test]
fn a_node_that_refuses_beats_what_the_set_asks_for() {
    let mut fixture = SetFixture::new(1);
    fixture.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(1));
    fixture.add("m", "Failed", 0);
    assert_eq!(deleted(&fixture.plan()), [""; 0]);
    fixture.nodes = [("m".to_owned(), node(&json!({PRESERVE: "false"})))].into();
    assert_eq!(deleted(&fixture.plan()), ["m"]);
}

/// Shows MC-W78.
#[test]
fn a_machine_that_its_node_preserves_is_not_asked_for_by_its_set_as_well() {
    let mut fixture = SetFixture::new(1);
    fixture.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(1));
    fixture.add("m", "Failed", 0);
    fixture.nodes = [("m".to_owned(), node(&json!({PRESERVE: "now"})))].into();
    fixture.reconcile();
    assert_eq!(auto_preserved(&fixture), [""; 0], "or the machine's controller would take it back, and so on for ever");
    assert_eq!(deleted(&fixture.plan()), [""; 0]);
}

/// Shows MS-R5.
#[test]
fn the_end_of_a_preservation_wakes_its_set() {
    let mut fixture = SetFixture::new(1);
    fixture.add("m", "Failed", 0);
    fixture.edit("m", |m| m["status"]["currentStatus"]["preserveExpiryTime"] = json!(FUTURE));
    assert_eq!(fixture.plan().wake, Wake::By { awaited: Awaited::Machines, at: FUTURE.parse().unwrap() });
}

/// Shows MS-R3.
#[test]
fn a_preserved_machine_goes_last_and_goes_when_nobody_else_is_left() {
    let mut fixture = SetFixture::new(1);
    fixture.add("healthy", "Running", 0).add("kept", "Failed", 1);
    fixture.edit("kept", |m| m["status"]["currentStatus"]["preserveExpiryTime"] = json!(FUTURE));
    assert_eq!(deleted(&fixture.plan()), ["healthy"]);
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(0));
    assert_eq!(deleted(&fixture.plan()), ["healthy", "kept"]);
}

/// Shows MS-R28.
#[test]
fn set_creates_and_replaces_nothing_while_the_clock_is_skewed() {
    let mut fixture = SetFixture::new(2);
    fixture.clock = ClockTrust::Skewed;
    fixture.add("failed", "Failed", 0).add("running", "Running", 1);
    let plan = fixture.plan();
    assert_eq!((deleted(&plan), &plan.because), (Vec::new(), &Reason::ClockSkewed));
    assert!(matches!(plan.wake, Wake::By { .. }), "{:?}", plan.wake);
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(3));
    assert_eq!((created(&fixture.plan()), fixture.plan().because), (Vec::new(), Reason::ClockSkewed));
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(1));
    assert_eq!(deleted(&fixture.plan()), ["failed"], "a set still shrinks");
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(2));
    fixture.clock = ClockTrust::Trusted;
    assert_eq!(deleted(&fixture.plan()), ["failed"]);
}

/// Marks each living Machine Failed now.
fn fail_all(fixture: &mut SetFixture) {
    let now = json!(api::Time::from(fixture.now));
    for name in fixture.living().iter().map(|name| (*name).to_owned()).collect::<Vec<_>>() {
        fixture.edit(&name, |m| {
            m["status"]["currentStatus"] = json!({ "phase": "Failed", "lastUpdateTime": now });
        });
    }
}

/// Shows MS-R26.
#[test]
fn machines_that_fail_at_once_are_replaced_with_backoff() {
    let mut fixture = SetFixture::new(2);
    let (mut created, mut told) = (0, 0);
    let begin = fixture.now;
    while fixture.now.duration_since(begin).as_secs() < 600 {
        for _ in 0..10 {
            created += created_by(&fixture);
            fixture.reconcile();
            fixture.catch_up();
        }
        fail_all(&mut fixture);
        fixture.now = fixture.now.checked_add(jiff::SignedDuration::from_secs(1)).unwrap();
        told = told.max(fixture.told.len());
    }
    // Two at the start, two undelayed replacements, then one each after 10, 20, 40, 80, 160 and 320 s.
    assert!((8..=18).contains(&created), "{created}");
    assert_eq!(told, 6, "one Event for each delay: {:?}", fixture.told);
    assert!(fixture.told[0].starts_with("waiting 10s (until 2026-01-01T12:00:1"), "{:?}", fixture.told);
    let condition = fixture.set.status.conditions.iter().find(|condition| condition.kind == "ReplicaFailure");
    assert_eq!(condition.map(|condition| condition.reason.as_str()), Some("ReplacementDelayed"));
}

fn created_by(fixture: &SetFixture) -> usize {
    created(&fixture.plan()).iter().sum()
}

/// Shows MS-R26.
#[test]
fn single_early_failure_is_replaced_at_once() {
    let mut fixture = SetFixture::new(2);
    fixture.settle();
    for name in fixture.living().iter().map(|name| (*name).to_owned()).collect::<Vec<_>>() {
        fixture.edit(&name, |m| m["status"]["currentStatus"]["phase"] = json!("Running"));
    }
    let victim = fixture.living()[0].to_owned();
    let now = json!(api::Time::from(fixture.now));
    fixture.edit(&victim, |m| m["status"]["currentStatus"] = json!({ "phase": "Failed", "lastUpdateTime": now }));
    assert_eq!(deleted(&fixture.plan()), [victim.as_str()]);
    fixture.settle();
    assert_eq!((fixture.living().len(), fixture.told.len()), (2, 0));
}

/// Shows MS-R26.
#[test]
fn delayed_machine_is_deleted_at_once_when_the_set_shrinks() {
    let mut fixture = SetFixture::new(1);
    for _ in 0..3 {
        fixture.settle();
        fail_all(&mut fixture);
    }
    assert_eq!(deleted(&fixture.plan()), [""; 0]);
    assert!(matches!(fixture.plan().because, Reason::ReplacementDelayed(_)), "{:?}", fixture.plan().because);
    fixture.edit_set(|set| set["spec"]["replicas"] = json!(0));
    assert_eq!(deleted(&fixture.plan()).len(), 1);
}

/// Shows MS-R26.
#[test]
fn new_process_waits_the_first_delay_when_the_condition_shows_one() {
    let mut fixture = SetFixture::new(1);
    for _ in 0..3 {
        fixture.settle();
        fail_all(&mut fixture);
    }
    fixture.reconcile();
    fixture.early_failures = EarlyFailures::restored(&fixture.set, &fixture.policy.set);
    assert_eq!(deleted(&fixture.plan()), [""; 0]);
    fixture.now = fixture.now.checked_add(jiff::SignedDuration::from_secs(10)).unwrap();
    assert_eq!(deleted(&fixture.plan()).len(), 1);
}

fn auto_preserved(fixture: &SetFixture) -> Vec<&str> {
    let asks = |m: &&api::Machine| api::Object::annotation(*m, PRESERVE) == Some("auto-preserved");
    fixture.machines.values().filter(asks).map(api::Object::name).collect()
}

/// Shows MS-R6.
#[test]
fn the_newest_failures_are_kept_up_to_the_limit_and_the_rest_is_replaced() {
    let mut fixture = SetFixture::new(4);
    fixture.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(2));
    fixture.add("a", "Failed", 0).add("b", "Failed", 1).add("c", "Failed", 2).add("no", "Failed", 3);
    fixture.edit("no", |m| m["metadata"]["annotations"] = json!({ PRESERVE: "false" }));
    assert_eq!(deleted(&fixture.plan()), ["a", "no"]);
    fixture.reconcile();
    assert_eq!(auto_preserved(&fixture), ["b", "c"]);
    assert_eq!(fixture.set.status.auto_preserve_failed_machine_count, 2);
}

/// Shows MS-W15.
#[test]
fn a_lower_limit_lets_go_of_the_oldest_and_of_no_more_than_it_must() {
    let mut fixture = SetFixture::new(3);
    fixture.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(3));
    fixture.add("a", "Failed", 0).add("b", "Failed", 1).add("c", "Failed", 2);
    fixture.settle();
    assert_eq!(auto_preserved(&fixture), ["a", "b", "c"]);
    fixture.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(2));
    fixture.reconcile();
    assert_eq!(auto_preserved(&fixture), ["b", "c"]);
    fixture.settle();
    assert_eq!(auto_preserved(&fixture), ["b", "c"], "the status of the reconcile before is not asked");
    assert_eq!(created(&fixture.plan()), [0usize; 0]);
}

/// What the machine controller does when a preservation's time is up: the annotation goes, then the expiry.
fn end_preservation(fixture: &mut SetFixture, name: &str, before: &str) {
    fixture.edit(name, |m| {
        let annotations = m["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove(PRESERVE);
        annotations.insert(BEFORE.to_owned(), json!(before));
        m["status"]["currentStatus"]["preserveExpiryTime"] = Value::Null;
    });
}

/// Shows MS-R18.
#[test]
fn a_machine_whose_preservation_has_ended_is_replaced_and_not_preserved_a_second_time() {
    let mut fixture = SetFixture::new(1);
    fixture.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(1));
    fixture.add("m", "Failed", 0);
    fixture.settle();
    assert_eq!(auto_preserved(&fixture), ["m"]);
    assert_eq!(fixture.machines["m"].annotation(BEFORE), Some("true"), "whoever ends it, the set knows that it asked");
    // The machine's controller was faster than its set, or its set was away.
    fixture.edit("m", |m| drop(m["metadata"]["annotations"].as_object_mut().unwrap().remove(PRESERVE)));
    assert_eq!(deleted(&fixture.plan()), ["m"]);
    fixture.reconcile();
    assert_eq!(auto_preserved(&fixture), [""; 0]);
}

/// Shows MS-R18.
#[test]
fn a_frozen_set_does_not_preserve_a_machine_a_second_time() {
    let mut fixture = SetFixture::new(2);
    fixture.edit_set(|set| {
        set["spec"]["autoPreserveFailedMachineMax"] = json!(1);
        set["metadata"]["labels"] = json!({ "freeze": "True" });
    });
    fixture.add("m", "Failed", 0);
    fixture.settle();
    assert_eq!(auto_preserved(&fixture), ["m"]);
    end_preservation(&mut fixture, "m", "true");
    fixture.settle();
    assert_eq!(
        auto_preserved(&fixture),
        [""; 0],
        "a frozen set makes nothing and removes nothing, and asks for nothing"
    );
    fixture.edit_set(|set| set["metadata"]["labels"] = json!({}));
    fixture.settle();
    assert!(!fixture.living().contains(&"m"), "it goes when its set thaws");
}

/// Shows MS-R18.
#[test]
fn a_machine_that_a_person_preserved_before_is_not_preserved_by_its_set_afterwards() {
    let mut fixture = SetFixture::new(1);
    fixture.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(1));
    fixture.add("m", "Failed", 0);
    fixture.edit("m", |m| m["metadata"]["annotations"] = json!({ PRESERVE: "now" }));
    end_preservation(&mut fixture, "m", "true");
    assert_eq!(deleted(&fixture.plan()), ["m"]);
}

/// Shows MS-R18.
#[test]
fn a_person_may_ask_for_a_machine_that_was_preserved_before() {
    let mut fixture = SetFixture::new(1);
    fixture.add("m", "Failed", 0);
    fixture.edit("m", |m| m["metadata"]["annotations"] = json!({ PRESERVE: "now", BEFORE: "true" }));
    assert_eq!(deleted(&fixture.plan()), [""; 0]);
}

/// Shows MS-R18.
#[test]
fn a_machine_whose_preservation_is_just_being_ended_is_not_asked_for() {
    let mut fixture = SetFixture::new(2);
    fixture.edit_set(|set| {
        set["spec"]["autoPreserveFailedMachineMax"] = json!(1);
        set["metadata"]["labels"] = json!({ "freeze": "True" });
    });
    fixture.add("m", "Failed", 0);
    // Its annotation is gone, its expiry not yet.
    fixture.edit("m", |m| m["status"]["currentStatus"]["preserveExpiryTime"] = json!(PAST));
    fixture.settle();
    assert_eq!(auto_preserved(&fixture), [""; 0]);
}
