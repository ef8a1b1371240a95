//! The rows of the table of health transitions.

use std::time::Duration;

use api::names::{annotations, labels};
use api::{MachinePhase, OperationState, OperationType};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;
use crate::replacement_limit::Siblings;

const HEALTH: Duration = Duration::from_mins(10);

fn operation(fixture: &MachineFixture) -> (&OperationType, &OperationState) {
    let last = &fixture.machine().status.last_operation;
    (&last.kind, &last.state)
}

/// Returns a Machine whose Node has become unhealthy.
fn ill() -> MachineFixture {
    let mut fixture = MachineFixture::running();
    fixture.wait(Duration::from_mins(30));
    fixture.report(&[("Ready", "Unknown")]);
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Unknown);
    fixture.forget();
    fixture
}

fn updating() -> MachineFixture {
    let mut fixture = MachineFixture::running();
    fixture.edit(|m| {
        m["status"]["currentStatus"] = json!({ "phase": "InPlaceUpdating", "lastUpdateTime": super::fixture::BEGIN });
        m["status"]["lastOperation"] =
            json!({ "type": "InPlaceUpdate", "state": "Processing", "lastUpdateTime": super::fixture::BEGIN });
    });
    fixture
}

fn critical_components() -> serde_json::Value {
    json!({ "taints": [{ "key": "node.gardener.cloud/critical-components-not-ready", "effect": "NoSchedule" }] })
}

/// Shows MC-H2.
#[test]
fn h7_machine_fails_when_critical_components_never_start() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.register("True");
    fixture.edit_node(|n| n["spec"] = critical_components());
    fixture.wait(Duration::from_secs(20 * 60 + 1));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
    fixture.edit_node(|n| n["spec"] = json!({}));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Running, "unless they become ready before the replacement");
}

/// Shows MC-H1.
#[test]
fn h1_running_machine_without_node_becomes_unknown() {
    let mut fixture = MachineFixture::running();
    let node = fixture.node.take();
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Unknown);
    assert_eq!(fixture.text(), "Node object went missing. Machine m-1 is unhealthy - changing MachinePhase to Unknown");
    assert_eq!(operation(&fixture), (&OperationType::HealthCheck, &OperationState::Processing));
    assert_eq!(fixture.emitted, ["Unhealthy"]);
    fixture.node = node;
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Running, "running again");
}

/// Shows MC-H1.
#[test]
fn h1_machine_that_never_had_a_node_stays_running() {
    let mut fixture = MachineFixture::running();
    fixture.edit(|m| m["status"]["conditions"] = json!([]));
    fixture.node = None;
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Running);
}

/// Shows MC-H2, MC-H3.
#[rstest]
#[case::given_up("Failed", "Create", "Failed", "joined")]
#[case::in_trouble("CrashLoopBackOff", "Create", "Failed", "joined")]
#[case::lost("Unknown", "HealthCheck", "Processing", "re-joined")]
#[case::without_target_before("Available", "Create", "Successful", "re-joined")]
#[case::updated("InPlaceUpdateSuccessful", "InPlaceUpdate", "Successful", "re-joined")]
#[case::given_up_later("Failed", "HealthCheck", "Failed", "re-joined")]
fn h2_h3_machine_runs_when_its_node_is_healthy(
    #[case] phase: &str,
    #[case] kind: &str,
    #[case] state: &str,
    #[case] verb: &str,
) {
    let mut fixture = MachineFixture::running();
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!(phase);
        m["status"]["lastOperation"] = json!({ "type": kind, "state": state });
    });
    if verb == "re-joined" {
        // The taint affects only Machines that have never joined.
        fixture.edit_node(|n| n["spec"] = critical_components());
    }
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Running);
    assert!(fixture.text().starts_with(&format!("Machine m-1 successfully {verb} the cluster")), "{}", fixture.text());
    assert_eq!(operation(&fixture).1, &OperationState::Successful);
    assert_eq!(fixture.emitted, [if verb == "joined" { "Joined" } else { "Rejoined" }]);
}

/// Shows MC-H4, MC-W17.
#[rstest]
#[case::not_ready(&[("Ready", "False")], true)]
#[case::silent(&[("Ready", "Unknown")], true)]
#[case::full(&[("Ready", "True"), ("DiskPressure", "True")], true)]
#[case::maybe_full(&[("Ready", "True"), ("DiskPressure", "Unknown")], true)]
#[case::not_listed(&[("Ready", "True"), ("MemoryPressure", "True")], false)]
#[case::fine(&[("Ready", "True"), ("KernelDeadlock", "False")], false)]
#[case::says_nothing(&[], true)]
#[case::says_nothing_of_ready(&[("MemoryPressure", "False")], false)]
fn h4_running_machine_is_unknown_when_node_is_unhealthy(#[case] conditions: &[(&str, &str)], #[case] ill: bool) {
    let mut fixture = MachineFixture::running();
    fixture.report(conditions);
    fixture.settle();
    assert_eq!(*fixture.phase(), if ill { MachinePhase::Unknown } else { MachinePhase::Running });
    assert_eq!(fixture.machine().status.conditions.len(), conditions.len(), "and copies the conditions");
}

/// Shows MC-H4, MC-W44.
#[test]
fn h4_shows_the_conditions_as_go_prints_them() {
    let mut fixture = MachineFixture::running();
    fixture.edit_node(|n| {
        n["status"]["conditions"] = json!([{
            "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting",
            "lastHeartbeatTime": "2025-01-31T12:00:00Z", "lastTransitionTime": "2025-01-31T12:01:00Z",
        }]);
    });
    fixture.settle();
    assert_eq!(
        fixture.text(),
        "Machine m-1 is unhealthy - changing MachinePhase to Unknown. Node conditions: [{Type:Ready Status:Unknown LastHeartbeatTime:2025-01-31 12:00:00 +0000 UTC LastTransitionTime:2025-01-31 12:01:00 +0000 UTC Reason:NodeStatusUnknown Message:Kubelet stopped posting}]"
    );
    assert_eq!(
        fixture.history,
        ["set the phase to Unknown", "emit Event Unhealthy"],
        "phase and conditions in one write"
    );
    assert_eq!(
        fixture.messages,
        ["Node is not healthy: Ready is Unknown; the Machine is marked Failed after 10m0s unless the Node recovers"]
    );
}

/// Shows MC-W17.
#[test]
fn node_without_ready_condition_can_count_as_unhealthy() {
    let mut fixture = MachineFixture::running();
    fixture.policy.missing_ready = crate::policy::MissingReady::Unhealthy;
    fixture.report(&[("MemoryPressure", "False")]);
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Unknown);
}

/// Shows MC-H4.
#[test]
fn conditions_in_the_spec_override_the_flag() {
    let mut fixture = MachineFixture::running();
    fixture.edit(|m| m["spec"]["nodeConditions"] = json!("MemoryPressure,PIDPressure"));
    fixture.report(&[("Ready", "True"), ("DiskPressure", "True")]);
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Running);
    fixture.report(&[("Ready", "True"), ("PIDPressure", "True")]);
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Unknown);
}

/// Shows MC-H5.
#[rstest]
#[case::updating("InPlaceUpdating")]
#[case::failed_before("InPlaceUpdateFailed")]
fn h5_update_succeeds_when_the_node_reports_success(#[case] phase: &str) {
    let mut fixture = updating();
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!(phase));
    fixture.report(&[("Ready", "False")]);
    fixture.edit_node(|n| n["metadata"]["labels"][labels::UPDATE_RESULT] = json!("successful"));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::InPlaceUpdateSuccessful);
    assert_eq!(fixture.text(), "Machine m-1 successfully updated dependencies");
    fixture.report(&[("Ready", "True")]);
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Running);
}

/// Shows MC-H6.
#[test]
fn h6_update_fails_with_the_reason_of_the_node() {
    let mut fixture = updating();
    fixture.edit_node(|n| {
        n["metadata"]["labels"][labels::UPDATE_RESULT] = json!("failed");
        n["metadata"]["annotations"] = json!({ (annotations::UPDATE_FAILED_REASON): "no space" });
    });
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::InPlaceUpdateFailed);
    assert_eq!(fixture.text(), "Machine m-1 failed to update dependencies: no space");
    assert_eq!(operation(&fixture), (&OperationType::InPlaceUpdate, &OperationState::Failed));
}

/// Shows MC-H8, MC-H11, MC-W9.
#[test]
fn h8_update_fails_at_its_timeout() {
    let mut fixture = updating();
    let Wake::By { awaited: Awaited::Node, at } = fixture.plan().wake else { panic!("no wake-up") };
    fixture.now = at;
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::InPlaceUpdateFailed);
    assert_eq!(fixture.text(), "Machine m-1 failed to in-place update in 20m0s minutes.");
}

/// Shows MC-H9, MC-H11.
#[test]
fn h9_unhealthy_machine_fails_at_its_deadline_not_before() {
    let mut fixture = ill();
    fixture.wait(HEALTH);
    assert!(fixture.plan().steps.is_empty(), "not at the deadline itself");
    let Wake::By { awaited: Awaited::Node, at } = fixture.plan().wake else { panic!("no wake-up") };
    assert!(at > fixture.now && at <= super::super::facts::later(fixture.now, Duration::from_secs(1)));
    fixture.now = at;
    assert_eq!(fixture.plan().exclusive_in, None, "no MachineDeployment");
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
    assert_eq!(
        fixture.text(),
        "Machine m-1 health checks failing since last 10m0s minutes. Updating machine phase to Failed. Node Conditions: [{Type:Ready Status:Unknown LastHeartbeatTime:0001-01-01 00:00:00 +0000 UTC LastTransitionTime:0001-01-01 00:00:00 +0000 UTC Reason: Message:}]"
    );
    assert_eq!(operation(&fixture), (&OperationType::HealthCheck, &OperationState::Failed));
    assert_eq!(fixture.emitted, ["GivenUp"]);
}

/// Shows MC-H9, MC-W72.
#[test]
fn h9_waits_while_other_machines_are_replaced() {
    let mut fixture = ill();
    fixture.edit(|m| m["metadata"]["labels"]["name"] = json!("pool"));
    fixture.siblings = Siblings { machines: 5, in_progress: 1 };
    fixture.wait(HEALTH + Duration::from_secs(1));
    let plan = fixture.plan();
    assert!(plan.steps.is_empty());
    assert_eq!(plan.because, Reason::ReplacementsInProgress { in_progress: 1, limit: 1 });
    assert!(
        matches!(plan.wake, Wake::By { awaited: Awaited::Sibling, .. }),
        "woken by another Machine, not by polling"
    );
    fixture.report(&[("Ready", "False")]);
    fixture.edit_node(|n| n["metadata"]["labels"] = json!({}));
    fixture.settle();
    assert_eq!(fixture.history, ["copy the conditions of the Node", "label node \"node-1\" with its Machine"]);

    fixture.siblings.in_progress = 0;
    assert_eq!(fixture.plan().exclusive_in.as_deref(), Some("pool"));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
}

/// Shows MC-H9.
#[test]
fn h9_machine_with_failed_update_is_marked_failed() {
    let mut fixture = updating();
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!("InPlaceUpdateFailed"));
    fixture.wait(HEALTH + Duration::from_secs(1));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
}

/// Shows MC-H10.
#[test]
fn h10_machine_stays_when_health_timeout_is_disabled() {
    let mut fixture = ill();
    fixture.edit(|m| m["spec"]["disableHealthTimeout"] = json!(true));
    fixture.wait(Duration::from_hours(100));
    let plan = fixture.plan();
    assert!(plan.steps.is_empty());
    assert_eq!((plan.because, plan.wake), (Reason::HealthTimeoutDisabled, Wake::On(Awaited::Node)));
}

/// Shows MC-W9.
#[test]
fn preservation_does_not_extend_the_health_timeout() {
    let mut fixture = ill();
    fixture.wait(Duration::from_mins(9));
    let now = fixture.now.to_string();
    fixture.edit(|m| m["status"]["currentStatus"]["lastUpdateTime"] = json!(now));
    fixture.wait(Duration::from_secs(61));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
}

/// Shows MC-H9.
#[test]
fn health_timeout_of_the_machine_overrides_the_flag() {
    let mut fixture = ill();
    fixture.edit(|m| m["spec"]["healthTimeout"] = json!("1h"));
    fixture.wait(Duration::from_mins(59));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Unknown);
    fixture.wait(Duration::from_mins(2));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
}

#[rstest]
#[case::running("Running")]
#[case::pending("Pending")]
#[case::unhealthy("Unknown")]
fn undecodable_node_changes_nothing(#[case] phase: &str) {
    let mut fixture = MachineFixture::running();
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!(phase));
    fixture.node_is_unreadable = true;
    fixture.wait(Duration::from_hours(3));
    assert!(fixture.plan().steps.is_empty());
}

#[rstest]
#[case::running("Running")]
#[case::pending("Pending")]
#[case::unhealthy("Unknown")]
#[case::updating("InPlaceUpdating")]
fn no_machine_is_marked_failed_while_frozen(#[case] phase: &str) {
    let mut fixture = MachineFixture::running();
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!(phase));
    fixture.node = None;
    fixture.connectivity = Connectivity::Frozen;
    fixture.wait(Duration::from_hours(3));
    let plan = fixture.plan();
    assert!(plan.steps.is_empty());
    assert_eq!(plan.wake, Wake::On(Awaited::Connectivity));
}

#[test]
fn outage_does_not_count_towards_the_creation_timeout() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.outages.begin(fixture.now);
    fixture.wait(Duration::from_hours(1));
    fixture.outages.end(fixture.now);
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Pending);
    fixture.wait(Duration::from_secs(20 * 60 + 2));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
}

/// Shows MC-W8.
#[test]
fn preservation_expiry_survives_until_failed() {
    let mut fixture = MachineFixture::running();
    fixture.edit(|m| {
        m["metadata"]["annotations"][api::names::annotations::PRESERVE] = json!("now");
        m["status"]["currentStatus"]["preserveExpiryTime"] = json!("2026-01-05T00:00:00Z");
    });
    for step in ["Unknown", "Failed"] {
        fixture.report(&[("Ready", "False")]);
        fixture.settle();
        assert_eq!(fixture.phase().to_string(), step);
        assert!(fixture.machine().status.current_status.preserve_expiry_time.is_some());
        fixture.wait(HEALTH + Duration::from_secs(2));
    }
}

/// Shows MC-H4.
#[test]
fn empty_condition_list_means_none() {
    let mut fixture = MachineFixture::running();
    fixture.edit(|m| m["spec"]["nodeConditions"] = json!(""));
    fixture.report(&[("Ready", "True"), ("DiskPressure", "True")]);
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Running);
    fixture.report(&[("Ready", "False"), ("DiskPressure", "True")]);
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Unknown, "Ready always counts");
}

/// Shows MC-H9.
#[test]
fn h9_machine_with_failed_update_is_kept_by_default() {
    let mut fixture = updating();
    fixture.edit(|m| {
        m["metadata"]["labels"]["name"] = json!("pool");
        m["status"]["currentStatus"]["phase"] = json!("InPlaceUpdateFailed");
    });
    fixture.siblings = Siblings { machines: 5, in_progress: 0 };
    fixture.wait(Duration::from_hours(100));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::InPlaceUpdateFailed);
    assert_eq!((fixture.plan().because, fixture.plan().wake), (Reason::FailedUpdateKept, Wake::On(Awaited::Node)));
    fixture.policy.failed_update = crate::policy::FailedUpdate::Replaced;
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
}
