//! The deletion order.

use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::fixture::{SetFixture, deleted};

const PRIORITY: &str = "machinepriority.machine.sapcloud.io";
const MARKED: &str = "machine.sapcloud.io/marked-for-deletion-time";
const PRESERVE: &str = "node.machine.sapcloud.io/preserve";
const FUTURE: &str = "2026-01-02T00:00:00Z";
const LATER: &str = "2026-01-03T00:00:00Z";
const PAST: &str = "2026-01-01T00:00:00Z";

/// A Running Machine with these annotations and this expiry of its preservation.
fn machine(annotations: &Value, expiry: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": annotations }, "status": { "currentStatus": { "phase": "Running", "preserveExpiryTime": expiry } } })
}

fn phase(phase: &str) -> Value {
    json!({ "status": { "currentStatus": { "phase": phase } } })
}

/// `a` is older, so a tie would select `a`. Each case expects `b` first.
/// Shows MS-R3, MS-W4.
#[rstest]
#[case::not_preserved_before_preserved(machine(&json!({PRIORITY: "1"}), Some(FUTURE)), machine(&json!({}), None))]
#[case::expired_preservation_is_none(machine(&json!({}), Some(FUTURE)), machine(&json!({}), Some(PAST)))]
#[case::preserved_by_the_set_first(machine(&json!({PRESERVE: "now"}), Some(FUTURE)), machine(&json!({PRESERVE: "auto-preserved"}), Some(LATER)))]
#[case::soonest_expiry_first(machine(&json!({PRESERVE: "now"}), Some(LATER)), machine(&json!({PRESERVE: "now"}), Some(FUTURE)))]
#[case::lower_priority_first(machine(&json!({}), None), machine(&json!({PRIORITY: "2"}), None))]
#[case::invalid_priority_is_three(machine(&json!({PRIORITY: "4"}), None), machine(&json!({PRIORITY: "first"}), None))]
#[case::marked_first(machine(&json!({}), None), machine(&json!({MARKED: PAST}), None))]
#[case::earlier_mark_first(machine(&json!({MARKED: FUTURE}), None), machine(&json!({MARKED: PAST}), None))]
#[case::failed_before_crashing(phase("CrashLoopBackOff"), phase("Failed"))]
#[case::crashing_before_unknown(phase("Unknown"), phase("CrashLoopBackOff"))]
#[case::unknown_before_pending(phase("Pending"), phase("Unknown"))]
#[case::pending_before_available(phase("Available"), phase("Pending"))]
#[case::available_before_running(phase("Running"), phase("Available"))]
#[case::in_place_before_failed(phase("Failed"), phase("InPlaceUpdating"))]
#[case::no_phase_before_failed(phase("Failed"), phase(""))]
fn b_is_deleted_before_a(#[case] a: Value, #[case] b: Value) {
    let mut fixture = SetFixture::new(1);
    for (name, second, change) in [("a", 0, a), ("b", 1, b)] {
        fixture.add(name, "Running", second);
        fixture.edit(name, |machine| json_patch::merge(machine, &change));
    }
    assert_eq!(deleted(&fixture.plan()).first(), Some(&"b"));
}

/// Shows MS-R3, MS-W4.
#[test]
fn older_machine_is_deleted_first_then_by_name() {
    let mut fixture = SetFixture::new(1);
    fixture.add("z", "Running", 0).add("a", "Running", 5).add("b", "Running", 5);
    assert_eq!(deleted(&fixture.plan()), ["z", "a"]);
    let again = fixture.plan();
    assert_eq!(fixture.plan(), again);
}

/// Shows MS-W9.
#[test]
fn machines_updated_in_place_are_deleted_last_if_configured() {
    let mut fixture = SetFixture::new(1);
    fixture.add("a", "InPlaceUpdating", 0).add("b", "Running", 1);
    assert_eq!(deleted(&fixture.plan()), ["a"]);
    fixture.policy.set.in_place_rank = InPlaceRank::Last;
    assert_eq!(deleted(&fixture.plan()), ["b"]);
}
