//! Machines that name the same VM.

use std::sync::Arc;

use api::{Machine, MachinePhase};
use rstest::rstest;
use serde_json::json;

use super::fixture::{MachineFixture, read};

/// Another Machine that names the VM of the fixture.
fn rival(uid: &str, deleting: bool) -> Arc<Machine> {
    let mut machine = json!({ "metadata": { "name": "orig", "uid": uid }, "spec": { "providerID": "vm:///m-1" } });
    if deleting {
        machine["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:59:00Z");
    }
    Arc::new(read(machine))
}

/// Shows MC-S7.
#[rstest]
#[case::the_other_lives("u-0", false, 1)]
#[case::the_other_is_deleted_later("u-2", true, 1)]
#[case::the_other_was_deleted_first("u-0", true, 0)]
fn shared_vm_is_deleted_by_the_last_machine_only(#[case] uid: &str, #[case] deleting: bool, #[case] vms: usize) {
    let mut fixture = MachineFixture::running();
    fixture.vm_rivals = vec![rival(uid, deleting)];
    let node = fixture.node.clone();
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none(), "{:#?}", fixture.history);
    assert_eq!(fixture.vms, vms, "{:#?}", fixture.history);
    assert_eq!(fixture.node == node, vms == 1, "the Node stays with its VM: {:#?}", fixture.history);
    assert_eq!(fixture.emitted.contains(&"VMShared"), vms == 1);
    if vms == 1 {
        let said = "VM vm:///m-1 is also the VM of Machine \"orig\"; the VM and its Node are left to that Machine";
        assert_eq!(fixture.messages.last().unwrap(), said);
    }
}

/// Shows MC-S7.
#[test]
fn shared_vm_is_not_recorded_when_a_driver_returns_it() {
    let mut fixture = MachineFixture::new();
    fixture.vm_rivals = vec![rival("u-0", false)];
    fixture.reconcile();
    fixture.vms = 1;
    fixture.settle();
    let machine = fixture.machine();
    assert!(machine.spec.provider_id.is_empty() && machine.node_name().is_none(), "{:#?}", fixture.history);
    assert_eq!(*fixture.phase(), MachinePhase::CrashLoopBackOff);
    assert!(fixture.text().contains("VM vm:///m-1 is also the VM of Machine \"orig\""), "{}", fixture.text());
    assert_eq!(fixture.emitted, ["DriverError"]);

    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 1, "{:#?}", fixture.history);
}

/// Shows MC-S7.
#[test]
fn copied_machine_does_not_run_on_the_vm_of_another() {
    let mut fixture = MachineFixture::new();
    fixture.vms = 1;
    fixture.edit(|m| m["spec"]["providerID"] = json!("vm:///m-1"));
    fixture.vm_rivals = vec![rival("u-0", false)];
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::CrashLoopBackOff, "{:#?}", fixture.history);
    assert!(fixture.machine().node_name().is_none());
}

/// Shows MC-S7.
#[test]
fn running_machine_reports_that_its_vm_is_shared() {
    let mut fixture = MachineFixture::running();
    assert!(fixture.plan().remarks.is_empty());
    fixture.vm_rivals = vec![rival("u-0", false)];
    let plan = fixture.plan();
    assert_eq!(plan.remarks.iter().map(|remark| remark.reason).collect::<Vec<_>>(), ["VMShared"]);
    assert_eq!(*fixture.phase(), MachinePhase::Running);
}
