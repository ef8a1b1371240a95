//! The table of health transitions, row by row.

use std::time::Duration;

use api::names::{annotations, labels};
use api::{MachinePhase, OperationState, OperationType};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::world::World;
use crate::replacement_limit::Siblings;

const HEALTH: Duration = Duration::from_mins(10);

fn operation(world: &World) -> (&OperationType, &OperationState) {
    let last = &world.machine().status.last_operation;
    (&last.kind, &last.state)
}

/// A machine whose node has fallen ill.
fn ill() -> World {
    let mut world = World::running();
    world.wait(Duration::from_mins(30));
    world.report(&[("Ready", "Unknown")]);
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Unknown);
    world.forget();
    world
}

fn updating() -> World {
    let mut world = World::running();
    world.edit(|m| {
        m["status"]["currentStatus"] = json!({ "phase": "InPlaceUpdating", "lastUpdateTime": super::world::BEGIN });
        m["status"]["lastOperation"] =
            json!({ "type": "InPlaceUpdate", "state": "Processing", "lastUpdateTime": super::world::BEGIN });
    });
    world
}

fn critical_components() -> serde_json::Value {
    json!({ "taints": [{ "key": "node.gardener.cloud/critical-components-not-ready", "effect": "NoSchedule" }] })
}

#[test]
fn h7_a_node_whose_critical_components_never_start_is_given_up_for_good() {
    let mut world = World::new();
    world.settle();
    world.register("True");
    world.edit_node(|n| n["spec"] = critical_components());
    world.wait(Duration::from_secs(20 * 60 + 1));
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Failed);
    world.edit_node(|n| n["spec"] = json!({}));
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Running, "unless they do while nobody has replaced it");
}

#[test]
fn h1_a_running_machine_whose_node_is_gone_becomes_unknown() {
    let mut world = World::running();
    let node = world.node.take();
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Unknown);
    assert_eq!(world.text(), "Node object went missing. Machine m-1 is unhealthy - changing MachinePhase to Unknown");
    assert_eq!(operation(&world), (&OperationType::HealthCheck, &OperationState::Processing));
    assert_eq!(world.told, ["Unhealthy"]);
    world.node = node;
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Running, "and back it is");
}

#[test]
fn h1_a_running_machine_that_never_heard_of_its_node_does_not_miss_it() {
    let mut world = World::running();
    world.edit(|m| m["status"]["conditions"] = json!([]));
    world.node = None;
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Running);
}

#[rstest]
#[case::given_up("Failed", "Create", "Failed", "joined")]
#[case::in_trouble("CrashLoopBackOff", "Create", "Failed", "joined")]
#[case::lost("Unknown", "HealthCheck", "Processing", "re-joined")]
#[case::without_target_before("Available", "Create", "Successful", "re-joined")]
#[case::updated("InPlaceUpdateSuccessful", "InPlaceUpdate", "Successful", "re-joined")]
#[case::given_up_later("Failed", "HealthCheck", "Failed", "re-joined")]
fn h2_h3_a_node_that_is_well_makes_its_machine_run_from_wherever_it_stood(
    #[case] phase: &str,
    #[case] kind: &str,
    #[case] state: &str,
    #[case] verb: &str,
) {
    let mut world = World::running();
    world.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!(phase);
        m["status"]["lastOperation"] = json!({ "type": kind, "state": state });
    });
    if verb == "re-joined" {
        // The taint holds back only those that have never joined.
        world.edit_node(|n| n["spec"] = critical_components());
    }
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Running);
    assert!(world.text().starts_with(&format!("Machine m-1 successfully {verb} the cluster")), "{}", world.text());
    assert_eq!(operation(&world).1, &OperationState::Successful);
    assert_eq!(world.told, [if verb == "joined" { "Joined" } else { "Rejoined" }]);
}

#[rstest]
#[case::not_ready(&[("Ready", "False")], true)]
#[case::silent(&[("Ready", "Unknown")], true)]
#[case::full(&[("Ready", "True"), ("DiskPressure", "True")], true)]
#[case::maybe_full(&[("Ready", "True"), ("DiskPressure", "Unknown")], true)]
#[case::not_listed(&[("Ready", "True"), ("MemoryPressure", "True")], false)]
#[case::fine(&[("Ready", "True"), ("KernelDeadlock", "False")], false)]
#[case::says_nothing(&[], true)]
#[case::says_nothing_of_ready(&[("MemoryPressure", "False")], false)]
fn h4_a_running_machine_is_unknown_when_its_node_is_unhealthy(#[case] conditions: &[(&str, &str)], #[case] ill: bool) {
    let mut world = World::running();
    world.report(conditions);
    world.settle();
    assert_eq!(*world.phase(), if ill { MachinePhase::Unknown } else { MachinePhase::Running });
    assert_eq!(world.machine().status.conditions.len(), conditions.len(), "and shows what its node says");
}

#[test]
fn h4_shows_the_conditions_as_go_prints_them() {
    let mut world = World::running();
    world.edit_node(|n| {
        n["status"]["conditions"] = json!([{
            "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting",
            "lastHeartbeatTime": "2025-01-31T12:00:00Z", "lastTransitionTime": "2025-01-31T12:01:00Z",
        }]);
    });
    world.settle();
    assert_eq!(
        world.text(),
        "Machine m-1 is unhealthy - changing MachinePhase to Unknown. Node conditions: [{Type:Ready Status:Unknown LastHeartbeatTime:2025-01-31 12:00:00 +0000 UTC LastTransitionTime:2025-01-31 12:01:00 +0000 UTC Reason:NodeStatusUnknown Message:Kubelet stopped posting}]"
    );
    assert_eq!(world.diary, ["set its phase to Unknown", "tell: Unhealthy"], "phase and conditions in one write");
    assert_eq!(
        world.said,
        ["its node is not healthy: Ready is Unknown; it is marked Failed after 10m0s unless that changes"]
    );
}

#[test]
fn a_node_that_never_said_ready_can_be_held_for_ill() {
    let mut world = World::running();
    world.policy.missing_ready = crate::policy::MissingReady::Unhealthy;
    world.report(&[("MemoryPressure", "False")]);
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Unknown);
}

#[test]
fn the_machines_own_list_of_harmful_conditions_counts() {
    let mut world = World::running();
    world.edit(|m| m["spec"]["nodeConditions"] = json!("MemoryPressure,PIDPressure"));
    world.report(&[("Ready", "True"), ("DiskPressure", "True")]);
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Running);
    world.report(&[("Ready", "True"), ("PIDPressure", "True")]);
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Unknown);
}

#[rstest]
#[case::updating("InPlaceUpdating")]
#[case::failed_before("InPlaceUpdateFailed")]
fn h5_an_update_that_the_node_reports_done_is_done(#[case] phase: &str) {
    let mut world = updating();
    world.edit(|m| m["status"]["currentStatus"]["phase"] = json!(phase));
    world.report(&[("Ready", "False")]);
    world.edit_node(|n| n["metadata"]["labels"][labels::UPDATE_RESULT] = json!("successful"));
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::InPlaceUpdateSuccessful);
    assert_eq!(world.text(), "Machine m-1 successfully updated dependencies");
    world.report(&[("Ready", "True")]);
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Running);
}

#[test]
fn h6_an_update_that_the_node_reports_failed_is_failed_with_its_reason() {
    let mut world = updating();
    world.edit_node(|n| {
        n["metadata"]["labels"][labels::UPDATE_RESULT] = json!("failed");
        n["metadata"]["annotations"] = json!({ (annotations::UPDATE_FAILED_REASON): "no space" });
    });
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::InPlaceUpdateFailed);
    assert_eq!(world.text(), "Machine m-1 failed to update dependencies: no space");
    assert_eq!(operation(&world), (&OperationType::InPlaceUpdate, &OperationState::Failed));
}

#[test]
fn h8_an_update_that_takes_too_long_is_failed() {
    let mut world = updating();
    let Wake::By { awaited: Awaited::Node, at } = world.plan().wake else { panic!("it must wake itself") };
    world.now = at;
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::InPlaceUpdateFailed);
    assert_eq!(world.text(), "Machine m-1 failed to in-place update in 20m0s minutes.");
}

#[test]
fn h9_a_machine_that_stays_ill_is_marked_failed_at_its_deadline_and_not_before() {
    let mut world = ill();
    world.wait(HEALTH);
    assert!(world.plan().steps.is_empty(), "at the very instant there is still time");
    let Wake::By { awaited: Awaited::Node, at } = world.plan().wake else { panic!("it must wake itself") };
    assert!(at > world.now && at <= super::super::facts::later(world.now, Duration::from_secs(1)));
    world.now = at;
    assert_eq!(world.plan().exclusive_in, None, "it is of no deployment");
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Failed);
    assert_eq!(
        world.text(),
        "Machine m-1 health checks failing since last 10m0s minutes. Updating machine phase to Failed. Node Conditions: [{Type:Ready Status:Unknown LastHeartbeatTime:0001-01-01 00:00:00 +0000 UTC LastTransitionTime:0001-01-01 00:00:00 +0000 UTC Reason: Message:}]"
    );
    assert_eq!(operation(&world), (&OperationType::HealthCheck, &OperationState::Failed));
    assert_eq!(world.told, ["GivenUp"]);
}

#[test]
fn h9_waits_while_others_of_the_deployment_are_on_their_way_and_does_the_rest_of_its_work() {
    let mut world = ill();
    world.edit(|m| m["metadata"]["labels"]["name"] = json!("pool"));
    world.siblings = Siblings { machines: 5, in_progress: 1 };
    world.wait(HEALTH + Duration::from_secs(1));
    let plan = world.plan();
    assert!(plan.steps.is_empty());
    assert_eq!(plan.because, Reason::ReplacementsInProgress { in_progress: 1, limit: 1 });
    assert!(matches!(plan.wake, Wake::By { awaited: Awaited::Sibling, .. }), "a sibling wakes it, not a poll");
    world.report(&[("Ready", "False")]);
    world.edit_node(|n| n["metadata"]["labels"] = json!({}));
    world.settle();
    assert_eq!(world.diary, ["copy the conditions of its node", "mark node \"node-1\" as its own"]);

    world.siblings.in_progress = 0;
    assert_eq!(world.plan().exclusive_in.as_deref(), Some("pool"));
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Failed);
}

#[test]
fn h9_an_update_that_failed_is_given_up_too() {
    let mut world = updating();
    world.edit(|m| m["status"]["currentStatus"]["phase"] = json!("InPlaceUpdateFailed"));
    world.wait(HEALTH + Duration::from_secs(1));
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Failed);
}

#[test]
fn h10_who_disables_the_health_timeout_is_never_given_up() {
    let mut world = ill();
    world.edit(|m| m["spec"]["disableHealthTimeout"] = json!(true));
    world.wait(Duration::from_hours(100));
    let plan = world.plan();
    assert!(plan.steps.is_empty());
    assert_eq!((plan.because, plan.wake), (Reason::HealthTimeoutDisabled, Wake::On(Awaited::Node)));
}

#[test]
fn preserving_a_machine_does_not_give_it_more_time() {
    let mut world = ill();
    world.wait(Duration::from_mins(9));
    let now = world.now.to_string();
    world.edit(|m| m["status"]["currentStatus"]["lastUpdateTime"] = json!(now));
    world.wait(Duration::from_secs(61));
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Failed);
}

#[test]
fn the_machines_own_health_timeout_beats_the_flag() {
    let mut world = ill();
    world.edit(|m| m["spec"]["healthTimeout"] = json!("1h"));
    world.wait(Duration::from_mins(59));
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Unknown);
    world.wait(Duration::from_mins(2));
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Failed);
}

#[rstest]
#[case::running("Running")]
#[case::pending("Pending")]
#[case::ill("Unknown")]
fn a_node_that_cannot_be_read_changes_nothing(#[case] phase: &str) {
    let mut world = World::running();
    world.edit(|m| m["status"]["currentStatus"]["phase"] = json!(phase));
    world.node_is_unreadable = true;
    world.wait(Duration::from_hours(3));
    assert!(world.plan().steps.is_empty());
}

#[rstest]
#[case::running("Running")]
#[case::pending("Pending")]
#[case::ill("Unknown")]
#[case::updating("InPlaceUpdating")]
fn while_we_are_disconnected_nobody_is_marked_failed(#[case] phase: &str) {
    let mut world = World::running();
    world.edit(|m| m["status"]["currentStatus"]["phase"] = json!(phase));
    world.node = None;
    world.connectivity = Connectivity::Frozen;
    world.wait(Duration::from_hours(3));
    let plan = world.plan();
    assert!(plan.steps.is_empty());
    assert_eq!(plan.wake, Wake::On(Awaited::Connectivity));
}

#[test]
fn time_in_which_we_were_disconnected_counts_against_no_creation() {
    let mut world = World::new();
    world.settle();
    world.outages.begin(world.now);
    world.wait(Duration::from_hours(1));
    world.outages.end(world.now);
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Pending);
    world.wait(Duration::from_secs(20 * 60 + 2));
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Failed);
}

#[test]
fn an_expiry_survives_the_whole_way_to_failed() {
    let mut world = World::running();
    world.edit(|m| {
        m["metadata"]["annotations"][api::names::annotations::PRESERVE] = json!("now");
        m["status"]["currentStatus"]["preserveExpiryTime"] = json!("2026-01-05T00:00:00Z");
    });
    for step in ["Unknown", "Failed"] {
        world.report(&[("Ready", "False")]);
        world.settle();
        assert_eq!(world.phase().to_string(), step);
        assert!(world.machine().status.current_status.preserve_expiry_time.is_some());
        world.wait(HEALTH + Duration::from_secs(2));
    }
}

#[test]
fn an_empty_list_of_harmful_conditions_means_none_and_not_those_of_the_flag() {
    let mut world = World::running();
    world.edit(|m| m["spec"]["nodeConditions"] = json!(""));
    world.report(&[("Ready", "True"), ("DiskPressure", "True")]);
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Running);
    world.report(&[("Ready", "False"), ("DiskPressure", "True")]);
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Unknown, "Ready counts whatever the list says");
}

#[test]
fn h9_a_machine_of_a_deployment_whose_update_failed_is_kept_unless_the_flag_says_otherwise() {
    let mut world = updating();
    world.edit(|m| {
        m["metadata"]["labels"]["name"] = json!("pool");
        m["status"]["currentStatus"]["phase"] = json!("InPlaceUpdateFailed");
    });
    world.siblings = Siblings { machines: 5, in_progress: 0 };
    world.wait(Duration::from_hours(100));
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::InPlaceUpdateFailed);
    assert_eq!((world.plan().because, world.plan().wake), (Reason::FailedUpdateKept, Wake::On(Awaited::Node)));
    world.policy.failed_update = crate::policy::FailedUpdate::Replaced;
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Failed);
}
