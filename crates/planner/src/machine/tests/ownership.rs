//! Nodes that cannot be the Node of a Machine, although its label names them.

use std::time::Duration;

use api::{MachinePhase, Object};
use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::deletion::touched;
use super::fixture::MachineFixture;

fn other_vm() -> Value {
    json!({ "spec": { "providerID": "vm:///cp/cp-1" } })
}

fn control_plane() -> Value {
    json!({ "metadata": { "labels": { "node-role.kubernetes.io/control-plane": "" } } })
}

/// Sets these fields of the Node that the label of the Machine names.
fn becomes(fixture: &mut MachineFixture, change: &Value) {
    fixture.edit_node(|node| json_patch::merge(node, change));
}

/// Shows MC-S4.
#[rstest]
#[case::on_another_vm(other_vm())]
#[case::of_the_control_plane(control_plane())]
fn foreign_node_is_not_adopted_when_a_driver_names_it(#[case] node: Value) {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.forget();
    fixture.register("True");
    becomes(&mut fixture, &node);
    let before = fixture.node.clone();
    fixture.settle();
    assert_eq!((fixture.phase(), &fixture.node), (&MachinePhase::Pending, &before), "{:?}", fixture.history);
    let plan = fixture.plan();
    assert!(matches!(plan.because, Reason::NodeForeign { .. }), "{:?}", plan.because);
    assert_eq!(plan.remarks.iter().map(|remark| remark.reason).collect::<Vec<_>>(), ["NodeDisputed"]);

    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0 && fixture.node == before, "{:#?}", fixture.history);
}

/// Shows MC-S4.
#[test]
fn machine_fails_at_creation_timeout_if_its_node_is_foreign() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.register("True");
    becomes(&mut fixture, &other_vm());
    fixture.settle();
    fixture.forget();
    fixture.wait(Duration::from_mins(21));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
    let said = fixture.messages.last().unwrap();
    assert!(said.contains("node \"node-1\" runs on another VM (vm:///cp/cp-1)"), "{said}");
}

/// Shows MC-S4, MC-S5.
#[rstest]
#[case::on_another_vm(other_vm(), "Node node-1 runs on another VM (vm:///cp/cp-1) and is not changed.")]
#[case::of_the_control_plane(control_plane(), "Node node-1 has the control-plane role and is not changed.")]
fn foreign_node_is_neither_drained_nor_deleted_with_a_machine(#[case] node: Value, #[case] said: &str) {
    let mut fixture = MachineFixture::running();
    becomes(&mut fixture, &node);
    let before = fixture.node.clone();
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Running, "a wrong label does not replace the Machine");
    fixture.add_pod("etcd");
    fixture.pods_there.clear(); // the pods of a foreign Node do not block the deletion of this VM
    fixture.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("True"));
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0, "{:#?}", fixture.history);
    assert_eq!(fixture.node, before, "{:#?}", fixture.history);
    assert!(!touched(&fixture), "{:#?}", fixture.history);
    assert!(fixture.history.contains(&format!("report: {said} Initiate VM deletion")), "{:#?}", fixture.history);
    assert_eq!(fixture.messages.last().unwrap(), &format!("VM is deleted; {said}"));
}

/// Shows MC-S4.
#[test]
fn machine_stays_when_a_foreign_node_is_deleted() {
    let mut fixture = MachineFixture::running();
    becomes(&mut fixture, &other_vm());
    becomes(&mut fixture, &json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:10Z" } }));
    fixture.settle();
    assert!(!fixture.machine().is_deleting());
}

#[test]
fn node_without_an_id_is_drained_and_deleted_as_before() {
    let mut fixture = MachineFixture::running();
    becomes(&mut fixture, &json!({ "spec": { "providerID": "" } }));
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_none());
}

/// Another label than the one of its Node, which names the Machine.
/// Shows MC-S6.
#[rstest]
#[case::before_its_deletion(false)]
#[case::during_its_deletion(true)]
fn label_is_corrected_when_the_own_node_is_known(#[case] deleting: bool) {
    let mut fixture = MachineFixture::running();
    fixture.edit(|m| m["metadata"]["labels"]["node"] = json!("cp-2"));
    if deleting {
        fixture.delete();
        fixture.settle();
        assert!(fixture.machine.is_none() && fixture.node.is_none(), "{:#?}", fixture.history);
    } else {
        fixture.settle();
        assert_eq!(fixture.machine().node_name().unwrap(), "node-1");
    }
    assert!(fixture.history.contains(&"record node \"node-1\"".to_owned()), "{:#?}", fixture.history);
    assert!(fixture.emitted.contains(&"NodeDisputed"));
}

/// Shows MC-S4.
#[test]
fn deletion_does_not_link_a_machine_to_a_foreign_node() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.vms = 1;
    fixture.register("True");
    becomes(&mut fixture, &other_vm());
    fixture.namesake = fixture.node.clone();
    let before = fixture.node.clone();
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0 && fixture.node == before, "{:#?}", fixture.history);
    assert!(!fixture.history.iter().any(|line| line.starts_with("record node")), "{:#?}", fixture.history);
}
