//! Plans during and after outages.

use std::time::Duration;

use api::MachinePhase;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;

const MINUTE: Duration = Duration::from_mins(1);

/// Returns a Machine whose Node has just become unhealthy.
fn ill() -> MachineFixture {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.register("True");
    fixture.settle();
    fixture.register("False");
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Unknown);
    fixture.history.clear();
    fixture
}

fn disconnected_for(fixture: &mut MachineFixture, time: Duration) {
    fixture.outages.begin(fixture.now);
    fixture.wait(time);
    fixture.outages.end(fixture.now);
}

/// Shows MC-W28.
#[test]
fn health_timeout_restarts_after_an_outage() {
    let mut fixture = ill();
    fixture.wait(9 * MINUTE);
    disconnected_for(&mut fixture, 30 * MINUTE);
    fixture.settle();
    let status = &fixture.machine().status;
    assert_eq!(status.current_status.phase, MachinePhase::Unknown, "its health is unknown");
    assert_eq!(
        status.last_operation.description,
        "Machine Health Timeout was reset due to APIServer being unreachable"
    );
    fixture.wait(9 * MINUTE);
    assert!(fixture.plan().steps.is_empty(), "written once");
    fixture.wait(2 * MINUTE);
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Failed, "marked Failed when the Node stays unhealthy");
}

#[test]
fn machine_runs_when_its_node_recovered_in_an_outage() {
    let mut fixture = ill();
    disconnected_for(&mut fixture, 30 * MINUTE);
    fixture.register("True");
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Running);
}

/// Shows MC-W28.
#[test]
fn outage_extends_the_creation_timeout() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.wait(10 * MINUTE);
    disconnected_for(&mut fixture, 60 * MINUTE);
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Pending);
    fixture.wait(10 * MINUTE + Duration::from_secs(1));
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Failed);
}

#[test]
fn frozen_controller_creates_and_fails_nothing() {
    let mut new = MachineFixture::new();
    new.connectivity = Connectivity::Frozen;
    new.settle();
    assert_eq!((new.created, new.history.as_slice()), (0, ["add the finalizer".to_owned()].as_slice()));
    let mut ill = ill();
    ill.connectivity = Connectivity::Frozen;
    ill.wait(60 * MINUTE);
    assert!(ill.plan().steps.is_empty());
}

#[test]
fn frozen_controller_continues_deletions() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.register("True");
    fixture.settle();
    fixture.connectivity = Connectivity::Frozen;
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
    assert_eq!((fixture.vms, fixture.node.is_none()), (0, true));
}

#[test]
fn frozen_controller_deletes_no_machine_for_its_node() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.register("True");
    fixture.settle();
    let mut node = serde_json::to_value(fixture.node.as_ref().unwrap()).unwrap();
    node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    fixture.node = Some(super::fixture::read(node));
    fixture.connectivity = Connectivity::Frozen;
    assert!(fixture.plan().steps.is_empty(), "{:?}", fixture.plan());
}

/// The Node is in the cache, and the API server of the target cluster does not respond.
/// Shows DR-4, MC-D6c.
#[test]
fn deletion_ends_if_the_target_api_server_stays_unreachable() {
    let mut fixture = MachineFixture::running();
    fixture.now = "2026-01-01T01:00:00Z".parse().unwrap();
    fixture.outages.begin(fixture.now);
    (fixture.connectivity, fixture.barred, fixture.keeps_node) =
        (Connectivity::Frozen, Some("unreachable"), Some("unreachable"));
    fixture.edit(|m| m["spec"]["drainTimeout"] = json!("20s"));
    fixture.delete();
    let begin = fixture.now;
    while fixture.machine.is_some() && fixture.now.duration_since(begin).as_secs() < 600 {
        fixture.reconcile();
        fixture.wait(Duration::from_secs(1));
    }
    assert!(fixture.machine.is_none(), "{}", fixture.text());
    assert_eq!((fixture.vms, fixture.node.is_some()), (0, true));
    assert_eq!(fixture.emitted.last(), Some(&"NodeMayBeLeft"));
    let took = fixture.now.duration_since(begin).as_secs();
    assert!((40..=180).contains(&took), "the outage extends the drain timeout by at most itself: {took} s");
}
