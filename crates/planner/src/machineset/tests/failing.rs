//! Failed Machines and their preservation.

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
#[case::not_requested(json!({}), None, None, false)]
#[case::not_expired(json!({}), Some(FUTURE), None, true)]
#[case::expired(json!({PRESERVE: "now"}), Some(PAST), None, false)]
#[case::requested_on_machine(json!({PRESERVE: "when-failed"}), None, None, true)]
#[case::now(json!({PRESERVE: "now"}), None, Some(node(&json!({}))), true)]
#[case::refused_on_machine(json!({PRESERVE: "false"}), None, None, false)]
#[case::invalid_value(json!({PRESERVE: "please"}), None, None, false)]
#[case::requested_on_node(json!({}), None, Some(node(&json!({PRESERVE: "now"}))), true)]
#[case::refused_on_node(json!({PRESERVE: "now"}), None, Some(node(&json!({PRESERVE: "false"}))), false)]
#[case::removed_from_node(json!({PRESERVE: "when-failed", LAST_APPLIED: "now"}), None, Some(node(&json!({}))), false)]
fn failed_machine_is_kept_while_it_is_preserved(
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
fn refusal_on_the_node_overrides_the_set() {
    let mut fixture = SetFixture::new(1);
    fixture.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(1));
    fixture.add("m", "Failed", 0);
    assert_eq!(deleted(&fixture.plan()), [""; 0]);
    fixture.nodes = [("m".to_owned(), node(&json!({PRESERVE: "false"})))].into();
    assert_eq!(deleted(&fixture.plan()), ["m"]);
}

/// Shows MC-W78.
#[test]
fn set_does_not_preserve_a_machine_preserved_by_its_node() {
    let mut fixture = SetFixture::new(1);
    fixture.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(1));
    fixture.add("m", "Failed", 0);
    fixture.nodes = [("m".to_owned(), node(&json!({PRESERVE: "now"})))].into();
    fixture.reconcile();
    assert_eq!(auto_preserved(&fixture), [""; 0], "otherwise the machine controller would revert it endlessly");
    assert_eq!(deleted(&fixture.plan()), [""; 0]);
}

/// Shows MS-R5.
#[test]
fn set_wakes_at_the_end_of_a_preservation() {
    let mut fixture = SetFixture::new(1);
    fixture.add("m", "Failed", 0);
    fixture.edit("m", |m| m["status"]["currentStatus"]["preserveExpiryTime"] = json!(FUTURE));
    assert_eq!(fixture.plan().wake, Wake::By { awaited: Awaited::Machines, at: FUTURE.parse().unwrap() });
}

/// Shows MS-R3.
#[test]
fn preserved_machine_is_deleted_last() {
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
    assert_eq!(deleted(&fixture.plan()), ["failed"], "a MachineSet can still scale down");
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
fn machines_that_fail_immediately_are_replaced_with_backoff() {
    let mut fixture = SetFixture::new(2);
    let (mut created, mut events) = (0, 0);
    let begin = fixture.now;
    while fixture.now.duration_since(begin).as_secs() < 600 {
        for _ in 0..10 {
            created += created_by(&fixture);
            fixture.reconcile();
            fixture.catch_up();
        }
        fail_all(&mut fixture);
        fixture.now = fixture.now.checked_add(jiff::SignedDuration::from_secs(1)).unwrap();
        events = events.max(fixture.events.len());
    }
    // Two at the start, two undelayed replacements, then one each after 10, 20, 40, 80, 160 and 320 s.
    assert!((8..=18).contains(&created), "{created}");
    assert_eq!(events, 6, "one Event per delay: {:?}", fixture.events);
    assert!(fixture.events[0].starts_with("waiting 10s (until 2026-01-01T12:00:1"), "{:?}", fixture.events);
    let condition = fixture.set.status.conditions.iter().find(|condition| condition.kind == "ReplicaFailure");
    assert_eq!(condition.map(|condition| condition.reason.as_str()), Some("ReplacementDelayed"));
}

fn created_by(fixture: &SetFixture) -> usize {
    created(&fixture.plan()).iter().sum()
}

/// Shows MS-R26.
#[test]
fn single_early_failure_is_replaced_immediately() {
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
    assert_eq!((fixture.living().len(), fixture.events.len()), (2, 0));
}

/// Shows MS-R26.
#[test]
fn delayed_machine_is_deleted_when_the_set_scales_down() {
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
fn new_process_waits_the_first_delay_after_a_restart() {
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
fn newest_failures_are_preserved_up_to_the_limit() {
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
fn lower_limit_releases_the_oldest_preserved_machines() {
    let mut fixture = SetFixture::new(3);
    fixture.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(3));
    fixture.add("a", "Failed", 0).add("b", "Failed", 1).add("c", "Failed", 2);
    fixture.settle();
    assert_eq!(auto_preserved(&fixture), ["a", "b", "c"]);
    fixture.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(2));
    fixture.reconcile();
    assert_eq!(auto_preserved(&fixture), ["b", "c"]);
    fixture.settle();
    assert_eq!(auto_preserved(&fixture), ["b", "c"], "the previous status is not used");
    assert_eq!(created(&fixture.plan()), [0usize; 0]);
}

/// Ends a preservation as the machine controller does: the annotation is removed first, then the expiry.
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
fn machine_is_not_preserved_twice() {
    let mut fixture = SetFixture::new(1);
    fixture.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(1));
    fixture.add("m", "Failed", 0);
    fixture.settle();
    assert_eq!(auto_preserved(&fixture), ["m"]);
    assert_eq!(fixture.machines["m"].annotation(BEFORE), Some("true"), "the MachineSet knows its earlier request");
    // The machine controller was faster than the MachineSet controller, or the latter did not run.
    fixture.edit("m", |m| drop(m["metadata"]["annotations"].as_object_mut().unwrap().remove(PRESERVE)));
    assert_eq!(deleted(&fixture.plan()), ["m"]);
    fixture.reconcile();
    assert_eq!(auto_preserved(&fixture), [""; 0]);
}

/// Shows MS-R18.
#[test]
fn frozen_set_does_not_preserve_a_machine_twice() {
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
    assert_eq!(auto_preserved(&fixture), [""; 0], "a frozen MachineSet creates, deletes and preserves nothing");
    fixture.edit_set(|set| set["metadata"]["labels"] = json!({}));
    fixture.settle();
    assert!(!fixture.living().contains(&"m"), "it is deleted after the unfreeze");
}

/// Shows MS-R18.
#[test]
fn set_does_not_preserve_a_machine_preserved_by_a_user_before() {
    let mut fixture = SetFixture::new(1);
    fixture.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(1));
    fixture.add("m", "Failed", 0);
    fixture.edit("m", |m| m["metadata"]["annotations"] = json!({ PRESERVE: "now" }));
    end_preservation(&mut fixture, "m", "true");
    assert_eq!(deleted(&fixture.plan()), ["m"]);
}

/// Shows MS-R18.
#[test]
fn user_can_preserve_a_machine_again() {
    let mut fixture = SetFixture::new(1);
    fixture.add("m", "Failed", 0);
    fixture.edit("m", |m| m["metadata"]["annotations"] = json!({ PRESERVE: "now", BEFORE: "true" }));
    assert_eq!(deleted(&fixture.plan()), [""; 0]);
}

/// Shows MS-R18.
#[test]
fn machine_whose_preservation_is_ending_is_not_preserved_again() {
    let mut fixture = SetFixture::new(2);
    fixture.edit_set(|set| {
        set["spec"]["autoPreserveFailedMachineMax"] = json!(1);
        set["metadata"]["labels"] = json!({ "freeze": "True" });
    });
    fixture.add("m", "Failed", 0);
    // Its annotation is removed, its expiry not yet.
    fixture.edit("m", |m| m["status"]["currentStatus"]["preserveExpiryTime"] = json!(PAST));
    fixture.settle();
    assert_eq!(auto_preserved(&fixture), [""; 0]);
}
