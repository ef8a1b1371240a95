//! From a VM that runs to a node that has joined.

use std::time::Duration;

use api::names::finalizers;
use api::{MachinePhase, Object};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::{BEGIN, MachineFixture, read};

fn pending() -> MachineFixture {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.diary.clear();
    fixture.told.clear();
    fixture
}

/// Shows MC-H2, MC-W13, MC-W32, MC-W74.
#[test]
fn a_healthy_node_makes_the_machine_run_and_is_marked_as_ours() {
    let mut fixture = pending();
    fixture.wait(Duration::from_secs(42));
    fixture.register("True");
    fixture.settle();
    assert_eq!(fixture.diary, ["set its phase to Running", "tell: Joined", "mark node \"node-1\" as its own"]);
    assert_eq!(
        fixture.machine().status.last_operation.description,
        "Machine m-1 successfully joined the cluster in 42s"
    );
    let node = fixture.node.as_ref().unwrap();
    assert_eq!(node.metadata.finalizers, [finalizers::NODE, "someone/else"]);
    assert_eq!(node.label(api::names::labels::MACHINE_NAME), Some("m-1"));
}

/// Shows MC-M3.
#[test]
fn join_duration_is_zero_when_the_api_server_clock_is_ahead() {
    let mut fixture = pending();
    fixture.edit(|m| m["metadata"]["creationTimestamp"] = json!("2026-01-01T02:00:00Z"));
    fixture.register("True");
    fixture.settle();
    assert_eq!(
        fixture.machine().status.last_operation.description,
        "Machine m-1 successfully joined the cluster in 0s"
    );
}

/// Shows MC-H2.
#[test]
fn a_node_that_is_not_ready_is_waited_for() {
    let mut fixture = pending();
    fixture.register("False");
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Pending);
    assert_eq!(fixture.plan().because, Reason::NodeNotHealthy("Ready is False".into()));
    assert_eq!(fixture.machine().status.conditions.len(), 1, "the machine shows what its node says");
}

#[test]
fn a_node_that_has_just_registered_is_not_ready_by_one_write_with_what_follows() {
    let mut fixture = pending();
    fixture.register("False");
    fixture.edit_node(|node| node["metadata"]["creationTimestamp"] = json!(BEGIN));
    fixture.settle();
    assert_eq!(fixture.diary, ["mark node \"node-1\" as its own"], "nothing is written that is over in a second");
    fixture.diary.clear();
    fixture.wait(Duration::from_secs(2));
    fixture.report_ready("True");
    fixture.settle();
    assert_eq!(fixture.diary, ["set its phase to Running", "tell: Joined"]);
    assert_eq!(fixture.machine().status.conditions.len(), 1, "its conditions came along");
}

#[rstest]
#[case::it_stays_so(BEGIN)]
#[case::the_servers_clock_is_ahead("2026-01-01T00:00:15Z")]
fn a_node_that_registered_and_is_still_not_ready_is_told_after_ten_seconds(#[case] registered: &str) {
    let mut fixture = pending();
    fixture.register("False");
    fixture.edit_node(|node| node["metadata"]["creationTimestamp"] = json!(registered));
    fixture.settle();
    if fixture.machine().status.conditions.is_empty() {
        let Wake::By { awaited: Awaited::Node, at } = fixture.plan().wake else { panic!("it must wake itself") };
        assert_eq!(at, "2026-01-01T00:00:10Z".parse().unwrap());
        fixture.now = at;
        fixture.settle();
    }
    assert_eq!(fixture.machine().status.conditions.len(), 1, "the machine shows what its node says");
    assert_eq!(*fixture.machine().phase(), MachinePhase::Pending);
}

/// Shows MC-H2.
#[test]
fn a_node_whose_critical_components_have_not_started_is_waited_for() {
    let mut fixture = pending();
    fixture.register("True");
    let mut node = serde_json::to_value(fixture.node.as_ref().unwrap()).unwrap();
    node["spec"] =
        json!({ "taints": [{ "key": "node.gardener.cloud/critical-components-not-ready", "effect": "NoSchedule" }] });
    fixture.node = Some(read(node));
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Pending);
    assert_eq!(fixture.plan().because, Reason::CriticalComponentsNotReady);
}

/// Shows MC-H7, MC-H11, MC-W44.
#[test]
fn a_node_that_does_not_come_in_time_makes_the_machine_failed() {
    let mut fixture = pending();
    fixture.wait(Duration::from_mins(20));
    assert!(fixture.plan().steps.is_empty(), "at the very instant there is still time");
    let Wake::By { awaited: Awaited::Node, at } = fixture.plan().wake else { panic!("it must wake itself") };
    fixture.now = at;
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Failed);
    assert_eq!(
        fixture.machine().status.last_operation.description,
        "Machine m-1 failed to join the cluster in 20m0s minutes."
    );
    assert_eq!(fixture.told, ["GivenUp"]);
}

/// Shows MC-H7.
#[test]
fn the_machines_own_patience_beats_the_flag_and_its_annotation_beats_both() {
    let mut fixture = pending();
    fixture.edit(|m| m["spec"]["creationTimeout"] = json!("5m"));
    fixture.wait(Duration::from_secs(301));
    assert_eq!(fixture.plan().because, Reason::JoinTimedOut);
    fixture.edit(|m| m["metadata"]["annotations"][api::names::annotations::EFFECTIVE_CREATION_TIMEOUT] = json!("1h"));
    assert_eq!(fixture.plan().because, Reason::NodeNotThere("node-1".into()));
    fixture.edit(|m| m["metadata"]["annotations"][api::names::annotations::EFFECTIVE_CREATION_TIMEOUT] = json!("soon"));
    assert_eq!(fixture.plan().because, Reason::JoinTimedOut, "an annotation that is no duration is ignored");
}

#[test]
fn a_running_machine_needs_nothing_and_a_heartbeat_changes_that_not() {
    let mut fixture = pending();
    fixture.register("True");
    fixture.settle();
    let mut node = serde_json::to_value(fixture.node.as_ref().unwrap()).unwrap();
    node["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-01-01T00:10:00Z");
    node["status"]["conditions"][0]["message"] = json!("still here");
    fixture.node = Some(read(node));
    let plan = fixture.plan();
    assert!(plan.steps.is_empty());
    assert_eq!(plan.because, Reason::Converged);
}

/// Shows API-14.
#[test]
fn a_new_condition_is_copied() {
    let mut fixture = pending();
    fixture.register("True");
    fixture.settle();
    let mut node = serde_json::to_value(fixture.node.as_ref().unwrap()).unwrap();
    node["status"]["conditions"] =
        json!([{ "type": "Ready", "status": "True" }, { "type": "DiskPressure", "status": "False", "later": 1 }]);
    fixture.node = Some(read(node));
    fixture.diary.clear();
    fixture.settle();
    assert_eq!(fixture.diary, ["copy the conditions of its node"]);
    let written = serde_json::to_value(&fixture.machine().status.conditions).unwrap();
    assert_eq!(written[1]["later"], 1, "a key of a newer API survives the copy");
}

/// Shows MC-W19.
#[test]
fn a_node_that_is_being_deleted_gets_no_new_finalizer() {
    let mut fixture = pending();
    fixture.register("True");
    let mut node = serde_json::to_value(fixture.node.as_ref().unwrap()).unwrap();
    node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:10Z");
    // Not managed, or its machine would follow it and nothing would be written to it at all.
    node["metadata"]["annotations"][api::names::annotations::NOT_MANAGED] = json!("1");
    fixture.node = Some(read(node));
    let added = |fixture: &MachineFixture| {
        let writes = fixture.plan().steps.into_iter().filter_map(|step| match step {
            Step::PatchNode(write) => Some(write),
            _ => None,
        });
        writes.map(|write| write.finalizers.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(added(&fixture), [false; 0], "the API server would refuse it");
    fixture.edit_node(|node| node["metadata"]["deletionTimestamp"] = json!(null));
    assert_eq!(added(&fixture), [true], "the same node, while it stays");
}
