//! Deletions of Machines whose Node is not in the cache.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;
use crate::drain::Persistence;

const ASKED: &str = "look up node \"node-1\"";

/// Returns a Machine whose VM is running and recorded, and whose Node is not in the cache.
fn pending() -> MachineFixture {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.forget();
    fixture
}

fn asked(fixture: &MachineFixture) -> usize {
    fixture.history.iter().filter(|line| *line == ASKED).count()
}

/// Shows MC-D6a.
#[test]
fn uncached_node_is_looked_up_drained_and_deleted() {
    let mut fixture = pending();
    fixture.register("True");
    fixture.node_is_unseen = true;
    fixture.add_pod("web-1");
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_none(), "{:#?}", fixture.history);
    assert_eq!(asked(&fixture), 1, "no lookup after the deletion");
    let place = |what: &str| fixture.history.iter().position(|line| line.starts_with(what)).unwrap();
    assert!(place(ASKED) < place("cordon"));
    assert!(place("cordon") < place("call the driver to delete"));
}

/// Shows MC-D6a.
#[test]
fn node_joined_after_the_drain_is_found_after_vm_deletion() {
    let mut fixture = pending();
    fixture.delete();
    while !fixture.history.iter().any(|line| line.ends_with("Initiate VM deletion")) {
        assert!(fixture.reconcile());
    }
    fixture.register("True");
    fixture.node_is_unseen = true;
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_none(), "{:#?}", fixture.history);
}

/// Shows MC-D6a.
#[test]
fn cached_node_is_not_looked_up() {
    let mut fixture = MachineFixture::running();
    fixture.delete();
    fixture.settle();
    assert_eq!(asked(&fixture), 0);
}

#[test]
fn machine_without_node_is_deleted_after_two_lookups() {
    let mut fixture = pending();
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
    assert_eq!(asked(&fixture), 2);
    assert_eq!(fixture.emitted, ["Terminating", "Gone"]);
}

/// Shows MC-D6a.
#[rstest]
#[case::marked("Set machine status to termination. Now, getting VM Status")]
#[case::draining("Initiate node drain")]
#[case::detaching("Force Drain successful. Delete Volume Attachments")]
#[case::at_its_node("VM deletion was successful. Initiate node object deletion")]
fn new_leader_looks_up_the_node_first(#[case] text: &str) {
    let mut fixture = pending();
    fixture.delete();
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] = json!({ "description": text, "state": "Processing", "type": "Delete" });
    });
    fixture.reconcile();
    assert_eq!(fixture.history, [ASKED]);
}

#[test]
fn failed_lookup_is_retried_and_reported_once() {
    let mut fixture = pending();
    fixture.mute = Some(Persistence::Transient);
    fixture.delete();
    fixture.settle();
    assert_eq!(
        fixture.text(),
        "Retrieval of Node Object \"node-1\" failed due to error: boom, Retrying. Initiate node drain"
    );
    let at = super::super::facts::later(fixture.now, Duration::from_secs(5));
    assert_eq!(fixture.plan().wake, Wake::By { awaited: Awaited::Retry, at });
    fixture.forget();
    fixture.now = at;
    fixture.settle();
    assert_eq!(fixture.history, [ASKED], "reported once");
    fixture.mute = None;
    fixture.wait(Duration::from_secs(5));
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows MC-D6a.
#[rstest]
#[case::error_is_permanent(Some(Persistence::Permanent), false, Duration::ZERO)]
#[case::force_is_requested(Some(Persistence::Transient), true, Duration::ZERO)]
#[case::timeout_has_passed(Some(Persistence::Transient), false, Duration::from_hours(2))]
fn deletion_continues_when_lookups_fail_for_too_long(
    #[case] mute: Option<Persistence>,
    #[case] force: bool,
    #[case] patience: Duration,
) {
    let mut fixture = pending();
    fixture.delete();
    while !fixture.history.iter().any(|line| line.ends_with("Initiate VM deletion")) {
        assert!(fixture.reconcile());
    }
    fixture.mute = mute;
    if force {
        fixture.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("true"));
    }
    fixture.settle();
    if !patience.is_zero() {
        fixture.wait(patience.saturating_sub(Duration::from_secs(1)));
        fixture.settle();
        assert!(fixture.machine.is_some(), "not before the timeout");
        fixture.wait(Duration::from_secs(1));
        fixture.settle();
    }
    assert!(fixture.machine.is_none(), "{:#?}", fixture.history);
    assert_eq!(fixture.emitted, ["Terminating", "NodeMayBeLeft"]);
    assert_eq!(
        fixture.messages.last().unwrap(),
        "VM is deleted, but the lookup of node \"node-1\" failed: boom; if the Node still exists, delete it manually"
    );
}

#[test]
fn token_is_deleted_when_the_node_is_unknown() {
    let mut fixture = pending();
    (fixture.mute, fixture.token) = (Some(Persistence::Permanent), TokenRecord::Made);
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
    assert_eq!(fixture.token, TokenRecord::Gone);
}

#[test]
fn no_lookup_is_made_without_a_node_name() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
    assert_eq!(asked(&fixture), 0);
}

/// The Node is in the cache, and writes to the target cluster fail.
/// Shows MC-D6c.
#[rstest]
#[case::for_the_drain_timeout(false, Duration::from_hours(2))]
#[case::twice_if_force_is_requested(true, Duration::from_secs(5))]
fn machine_is_deleted_when_node_removal_keeps_failing(#[case] force: bool, #[case] after: Duration) {
    let mut fixture = MachineFixture::running();
    fixture.delete();
    while fixture.vms == 1 {
        assert!(fixture.reconcile());
    }
    fixture.keeps_node = Some("unreachable");
    if force {
        fixture.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("True"));
    }
    fixture.reconcile();
    let text = "Removal of finalizers from Node Object \"node-1\" failed due to error: unreachable, Retrying. \
                Initiate node object deletion";
    assert_eq!(fixture.text(), text);
    fixture.wait(after.saturating_sub(Duration::from_secs(1)));
    if !force {
        fixture.reconcile();
        assert!(fixture.machine.is_some(), "not before the drain timeout");
    }
    fixture.wait(Duration::from_secs(1));
    fixture.reconcile();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_some(), "{:#?}", fixture.history);
    assert_eq!(fixture.emitted.last(), Some(&"NodeMayBeLeft"));
    let said = "VM is deleted, but deletion of node \"node-1\" failed: unreachable; if the Node still exists, delete it manually";
    assert_eq!(fixture.messages.last().unwrap(), said);
}
