//! Machines whose VM is running and whose Node joins.

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
    fixture.history.clear();
    fixture.emitted.clear();
    fixture
}

/// Shows MC-H2, MC-W13, MC-W32, MC-W74.
#[test]
fn machine_runs_and_marks_its_healthy_node() {
    let mut fixture = pending();
    fixture.wait(Duration::from_secs(42));
    fixture.register("True");
    fixture.settle();
    assert_eq!(
        fixture.history,
        ["set the phase to Running", "emit Event Joined", "label node \"node-1\" with its Machine"]
    );
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
fn machine_waits_for_a_node_that_is_not_ready() {
    let mut fixture = pending();
    fixture.register("False");
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Pending);
    assert_eq!(fixture.plan().because, Reason::NodeNotHealthy("Ready is False".into()));
    assert_eq!(fixture.machine().status.conditions.len(), 1, "the Machine has a copy of the conditions");
}

/// Shows MC-H1a.
#[test]
fn first_conditions_are_written_together_with_the_phase() {
    let mut fixture = pending();
    fixture.register("False");
    fixture.edit_node(|node| node["metadata"]["creationTimestamp"] = json!(BEGIN));
    fixture.settle();
    assert_eq!(fixture.history, ["label node \"node-1\" with its Machine"], "no write for a state that lasts a second");
    fixture.history.clear();
    fixture.wait(Duration::from_secs(2));
    fixture.report_ready("True");
    fixture.settle();
    assert_eq!(fixture.history, ["set the phase to Running", "emit Event Joined"]);
    assert_eq!(fixture.machine().status.conditions.len(), 1, "the conditions are in the same write");
}

/// Shows MC-H1a.
#[rstest]
#[case::it_stays_so(BEGIN)]
#[case::the_servers_clock_is_ahead("2026-01-01T00:00:15Z")]
fn conditions_are_copied_after_ten_seconds_when_not_ready(#[case] registered: &str) {
    let mut fixture = pending();
    fixture.register("False");
    fixture.edit_node(|node| node["metadata"]["creationTimestamp"] = json!(registered));
    fixture.settle();
    if fixture.machine().status.conditions.is_empty() {
        let Wake::By { awaited: Awaited::Node, at } = fixture.plan().wake else { panic!("no wake-up") };
        assert_eq!(at, "2026-01-01T00:00:10Z".parse().unwrap());
        fixture.now = at;
        fixture.settle();
    }
    assert_eq!(fixture.machine().status.conditions.len(), 1, "the Machine has a copy of the conditions");
    assert_eq!(*fixture.machine().phase(), MachinePhase::Pending);
}

/// Shows MC-H2.
#[test]
fn machine_waits_for_critical_components() {
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
fn machine_fails_when_its_node_does_not_join_in_time() {
    let mut fixture = pending();
    fixture.wait(Duration::from_mins(20));
    assert!(fixture.plan().steps.is_empty(), "not at the deadline itself");
    let Wake::By { awaited: Awaited::Node, at } = fixture.plan().wake else { panic!("no wake-up") };
    fixture.now = at;
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Failed);
    assert_eq!(
        fixture.machine().status.last_operation.description,
        "Machine m-1 failed to join the cluster in 20m0s minutes."
    );
    assert_eq!(fixture.emitted, ["GivenUp"]);
}

/// Shows MC-H7.
#[test]
fn creation_timeout_is_annotation_then_spec_then_flag() {
    let mut fixture = pending();
    fixture.edit(|m| m["spec"]["creationTimeout"] = json!("5m"));
    fixture.wait(Duration::from_secs(301));
    assert_eq!(fixture.plan().because, Reason::JoinTimedOut);
    fixture.edit(|m| m["metadata"]["annotations"][api::names::annotations::EFFECTIVE_CREATION_TIMEOUT] = json!("1h"));
    assert_eq!(fixture.plan().because, Reason::NodeNotRegistered("node-1".into()));
    fixture.edit(|m| m["metadata"]["annotations"][api::names::annotations::EFFECTIVE_CREATION_TIMEOUT] = json!("soon"));
    assert_eq!(fixture.plan().because, Reason::JoinTimedOut, "an invalid annotation is ignored");
}

#[test]
fn heartbeats_cause_no_write() {
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
fn new_condition_is_copied() {
    let mut fixture = pending();
    fixture.register("True");
    fixture.settle();
    let mut node = serde_json::to_value(fixture.node.as_ref().unwrap()).unwrap();
    node["status"]["conditions"] =
        json!([{ "type": "Ready", "status": "True" }, { "type": "DiskPressure", "status": "False", "later": 1 }]);
    fixture.node = Some(read(node));
    fixture.history.clear();
    fixture.settle();
    assert_eq!(fixture.history, ["copy the conditions of the Node"]);
    let written = serde_json::to_value(&fixture.machine().status.conditions).unwrap();
    assert_eq!(written[1]["later"], 1, "a key of a newer API survives the copy");
}

/// Shows MC-W19.
#[test]
fn deleting_node_gets_no_finalizer() {
    let mut fixture = pending();
    fixture.register("True");
    let mut node = serde_json::to_value(fixture.node.as_ref().unwrap()).unwrap();
    node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:10Z");
    // Not managed: otherwise the Machine would be deleted with the Node, and nothing would be written to the Node.
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
    assert_eq!(added(&fixture), [true], "the Node itself is unchanged");
}
