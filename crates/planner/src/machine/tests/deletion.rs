//! Deletion of Machines.

use std::time::Duration;

use api::deletion::Step as Stage;
use api::{Code, MachinePhase};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;
use crate::drain::{self, Answer, Persistence};
use crate::node::TerminationReason;

pub(super) fn running() -> MachineFixture {
    MachineFixture::running()
}

/// Shows THR-2, MC-D1, MC-D6, MC-D7, MC-W6.
#[test]
fn machine_is_deleted_in_this_order_without_leftovers() {
    let mut fixture = running();
    fixture.delete();
    fixture.settle();
    assert_eq!(
        fixture.history,
        [
            "set the phase to Terminating",
            "emit Event Terminating",
            "set condition Terminating=True (ScaleDown) on node \"node-1\"",
            "cordon node \"node-1\"",
            "watch the pods of node \"node-1\"",
            "report: Drain successful. Initiate VM deletion",
            "record that the Node is drained",
            "call the driver to delete the VM",
            "remove the finalizer from node \"node-1\"",
            "delete node \"node-1\"",
            "emit Event Gone",
            "remove the finalizer",
        ]
    );
    assert!(fixture.machine.is_none() && fixture.node.is_none());
    assert_eq!(fixture.vms, 0);
}

/// Returns a Machine that is being deleted and whose Node another Machine also names, with a pod on it.
fn disputed(on_node: &str) -> MachineFixture {
    let mut fixture = running();
    let rival = json!({ "metadata": { "name": "m-2" }, "spec": { "providerID": "vm:///zone/m-2" } });
    fixture.rivals = vec![std::sync::Arc::new(super::fixture::read(rival))];
    fixture.edit_node(|node| node["spec"]["providerID"] = json!(on_node));
    fixture.now = "2026-01-01T01:00:00Z".parse().unwrap();
    fixture.delete();
    fixture
}

/// Returns whether the Node, its pods or its volumes were changed.
pub(super) fn touched(fixture: &MachineFixture) -> bool {
    let touches = |line: &String| {
        [
            "cordon",
            "set condition",
            "watch",
            "evict",
            "delete pod",
            "delete node",
            "remove the finalizer from",
            "delete 1 Vol",
        ]
        .iter()
        .any(|deed| line.starts_with(deed))
    };
    fixture.history.iter().any(touches)
}

/// Shows MC-W43.
#[test]
fn machine_is_deleted_without_the_node_of_another() {
    let mut fixture = disputed("vm:///m-2");
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0);
    assert!(fixture.node.is_some() && !touched(&fixture), "the node is left to the other one: {:?}", fixture.history);
}

/// Shows MC-W43.
#[rstest]
#[case::nothing("")]
#[case::id_of_no_vm("m-3")]
fn disputed_node_is_never_drained_and_delays_the_deletion(#[case] on_node: &str) {
    let mut fixture = disputed(on_node);
    fixture.settle();
    assert_eq!(fixture.vms, 1, "{:?}", fixture.history);
    let expected = "Drain failed due to - node \"node-1\" is also named by Machine m-2, and its VM is unknown. \
                    Will retry in next sync. Initiate node drain";
    assert_eq!(fixture.text(), expected);
    assert_eq!(fixture.emitted, ["Terminating", "NodeDisputed"]);
    fixture.wait(Duration::from_secs(2 * 60 * 60 + 1));
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0);
    assert!(fixture.node.is_some() && !touched(&fixture), "{:?}", fixture.history);
}

/// Shows MC-W43.
#[test]
fn drain_begins_when_the_dispute_ends() {
    let mut fixture = disputed("");
    fixture.settle();
    fixture.rivals.clear();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_none());
}

/// Shows MC-W43.
#[test]
fn forced_deletion_keeps_volumes_of_a_disputed_node() {
    let mut fixture = disputed("");
    fixture.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("True"));
    fixture.edit_node(|node| node["status"]["volumesAttached"] = json!([{ "name": "v", "devicePath": "" }]));
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0 && fixture.node.is_some());
    assert!(!touched(&fixture), "{:?}", fixture.history);
}

/// Shows MC-W43.
#[test]
fn volumes_of_a_foreign_node_are_not_detached() {
    let mut fixture = disputed("vm:///m-2");
    fixture.edit_node(|node| node["status"]["volumesAttached"] = json!([{ "name": "v", "devicePath": "" }]));
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] =
            json!({ "description": "Force Drain successful. Delete Volume Attachments", "type": "Delete" });
    });
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_some());
    assert!(!touched(&fixture), "{:?}", fixture.history);
}

#[test]
fn machine_without_vm_is_deleted() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
    assert_eq!(fixture.created, 0);
}

/// Shows MC-W19.
#[test]
fn deleting_machine_without_finalizer_is_ignored() {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| m["metadata"]["finalizers"] = json!(["someone/else"]));
    fixture.delete();
    let plan = fixture.plan();
    assert!(plan.steps.is_empty(), "the API server refuses new finalizers, and there is no VM to care for");
    assert_eq!(plan.because, Reason::OtherFinalizer);
}

/// Shows MC-W3.
#[rstest]
fn status_alone_never_starts_a_deletion(
    #[values("Initiate node drain", "Initiate VM deletion", "Initiate machine object finalizer removal")] step: &str,
) {
    let mut fixture = running();
    fixture.vm = VmState::Unknown;
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] = json!({ "description": step, "state": "Processing", "type": "Delete" });
    });
    fixture.settle();
    assert_eq!((fixture.vms, fixture.node.is_some()), (1, true), "{:?}", fixture.history);
    assert!(fixture.machine().metadata.finalizers.len() == 1);
}

/// Shows MC-D2.
#[rstest]
#[case::marked("Set machine status to termination. Now, getting VM Status", &["set condition Terminating=True (ScaleDown) on node \"node-1\"", "cordon node \"node-1\""])]
#[case::by_the_manager("Deleting machine from cloud provider", &["set the phase to Terminating"])]
#[case::draining("Drain failed due to - boom. Will retry in next sync. Initiate node drain", &["set condition Terminating=True (ScaleDown) on node \"node-1\"", "cordon node \"node-1\""])]
#[case::attachments("Force Drain successful. Delete Volume Attachments", &["report: Node Volumes for node: node-1 are already detached. Moving to VM Deletion. Initiate VM deletion"])]
#[case::vm("Drain successful. Initiate VM deletion", &["call the driver to delete the VM"])]
#[case::node("VM deletion was successful. Initiate node object deletion", &["remove the finalizer from node \"node-1\"", "delete node \"node-1\""])]
#[case::last("Deletion of Node Object \"n\" is successful. Initiate machine object finalizer removal", &["emit Event Gone", "remove the finalizer"])]
fn deletion_started_by_mcm_is_finished_from_its_text(#[case] text: &str, #[case] next: &[&str]) {
    let mut fixture = running();
    if Stage::from_description(text) >= Some(Stage::DeleteNode) {
        fixture.vms = 0;
    }
    fixture.delete();
    fixture.vm = VmState::Unknown;
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] = json!({ "description": text, "state": "Processing", "type": "Delete" });
    });
    fixture.reconcile();
    assert_eq!(fixture.history.iter().filter(|s| !s.starts_with("emit Event Term")).collect::<Vec<_>>(), next);
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows MC-D5.
#[rstest]
#[case(Code::Unavailable, 5, ". However, will re-try in the next resync. ")]
#[case(Code::PermissionDenied, 600, ". Aborting operation. ")]
fn failed_vm_deletion_is_reported_and_retried(#[case] code: Code, #[case] seconds: u64, #[case] words: &str) {
    let mut fixture = running();
    fixture.delete();
    fixture.failures = vec![code];
    fixture.settle();
    let operation = &fixture.machine().status.last_operation;
    assert!(operation.description.ends_with(&format!("{words}Initiate VM deletion")), "{}", operation.description);
    assert!(operation.error_code.is_empty());
    let at = super::super::facts::later(fixture.now, Duration::from_secs(seconds));
    assert_eq!(fixture.plan().wake, Wake::By { awaited: Awaited::Retry, at });
    fixture.now = at;
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows MC-D5.
#[test]
fn missing_vm_counts_as_deleted() {
    let mut fixture = running();
    fixture.delete();
    fixture.vms = 0;
    fixture.failures = vec![Code::NotFound];
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows MC-W73.
#[test]
fn missing_class_blocks_the_deletion_and_is_reported() {
    let mut fixture = running();
    let class = std::mem::replace(&mut fixture.class, Presence::Absent);
    fixture.delete();
    fixture.settle();
    assert_eq!(
        fixture.machine().status.last_operation.description,
        "MachineClass \"c\" does not exist. Initiate VM deletion"
    );
    assert_eq!(*fixture.machine().phase(), MachinePhase::Terminating);
    fixture.class = class;
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows MC-W4, MC-W5.
#[test]
fn deletion_waits_for_a_create_call_in_progress() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.delete();
    let until = super::super::facts::later(fixture.now, Duration::from_mins(1));
    fixture.call_under_way = Some(CallUnderWay { call: Call::Create, until });
    assert!(fixture.plan().steps.is_empty());
}

/// Shows MC-D6.
#[test]
fn foreign_node_finalizer_does_not_block_the_machine() {
    let mut fixture = running();
    fixture.delete();
    let mut node = serde_json::to_value(fixture.node.as_ref().unwrap()).unwrap();
    node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:10Z");
    node["metadata"]["finalizers"] = json!(["someone/else"]);
    fixture.node = Some(super::fixture::read(node));
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows MC-D2.
#[test]
fn unrecorded_node_is_queried_and_deleted() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.vms = 1; // created by a process that stopped before it was recorded
    fixture.register("True");
    fixture.delete();
    fixture.settle();
    assert!(fixture.history.contains(&"record node \"node-1\"".to_owned()), "{:#?}", fixture.history);
    assert!(fixture.machine.is_none() && fixture.node.is_none());
    assert_eq!(fixture.vms, 0);
}

/// Shows MC-D2.
#[rstest]
#[case(Code::Unavailable, 5, "aborting with retry.")]
#[case(Code::PermissionDenied, 180, "machine code: machine codes error: code = [PermissionDenied] message = [no luck]")]
fn failed_query_for_the_node_name_is_retried(#[case] code: Code, #[case] seconds: u64, #[case] words: &str) {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.delete();
    fixture.failures = vec![code];
    fixture.settle();
    let said = &fixture.machine().status.last_operation.description;
    assert!(said.ends_with(&format!("{words} Set machine status to termination. Now, getting VM Status")), "{said}");
    let at = super::super::facts::later(fixture.now, Duration::from_secs(seconds));
    assert_eq!(fixture.plan().wake, Wake::By { awaited: Awaited::Retry, at });
    fixture.now = at;
    fixture.settle();
    assert!(fixture.machine.is_none());
}

#[test]
fn failed_creation_does_not_delay_the_node_query() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.vm = VmState::Failed(failed(Call::Create, None, &fixture));
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none(), "{}", fixture.text());
}

fn failed(call: Call, note: Option<&str>, fixture: &MachineFixture) -> Failure {
    let code = Code::Unavailable;
    let text = api::CodedText { code, message: "no luck" }.to_string();
    Failure { call, code, text, last_known_state: note.map(str::to_owned), at: fixture.now }
}

/// Shows MC-W1.
#[test]
fn markers_in_driver_errors_do_not_skip_the_drain() {
    let mut fixture = running();
    fixture.add_pod("web-1");
    let (text, persistence) = ("Initiate VM deletion".to_owned(), Persistence::Permanent);
    fixture.decision = Answer::Failed(drain::Failure { text, persistence, retry_after: None });
    fixture.delete();
    fixture.settle();
    assert!(fixture.text().contains("Initiate VM deletion") && fixture.text().ends_with("Initiate node drain"));
    fixture.history.clear();
    fixture.wait(Duration::from_mins(1));
    fixture.settle();
    assert_eq!(fixture.vms, 1, "{:?}", fixture.history);
}

/// Shows MC-W73.
#[test]
fn machine_whose_class_never_existed_can_be_deleted() {
    let mut fixture = MachineFixture::new();
    fixture.class = Presence::Absent;
    fixture.settle();
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none(), "{:?}", fixture.history);
}

/// Shows MC-W73.
#[rstest]
#[case::recorded(json!({ "spec": { "providerID": "vm:///m-1" } }))]
#[case::linked(json!({ "metadata": { "labels": { "node": "node-1" } } }))]
#[case::tried(json!({ "status": { "currentStatus": { "phase": "CrashLoopBackOff" }, "lastOperation": { "errorCode": "DeadlineExceeded" } } }))]
fn machine_that_may_have_a_vm_stays_without_its_class(#[case] evidence: serde_json::Value) {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.class = Presence::Absent;
    fixture.edit(|m| json_patch::merge(m, &evidence));
    fixture.delete();
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Terminating);
    assert!(fixture.text().starts_with("MachineClass \"c\" does not exist."), "{}", fixture.text());
    assert_eq!(fixture.emitted, ["Terminating", "DeletionBlocked"]);
    assert!(
        !fixture.history.iter().any(|step| step.contains("call the driver")),
        "no driver call is possible: {:?}",
        fixture.history
    );
}

/// Shows MC-W73.
#[test]
fn invalid_class_or_secret_does_not_block_a_deletion() {
    let mut fixture = running();
    fixture.class = Presence::Present(super::fixture::read(json!({
        "metadata": { "name": "c", "namespace": "ns" }, "providerSpec": {}, "nodeTemplate": { "capacity": {}, "instanceType": "", "region": "", "zone": "" },
    })));
    fixture.secret = SecretState::Unusable("no user data".into());
    fixture.edit(|m| m["spec"]["drainTimeout"] = json!("soon"));
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0, "{:?}", fixture.history);
}

/// Shows MC-W8.
#[test]
fn deletion_ends_the_preservation() {
    let mut fixture = running();
    fixture.edit(|m| {
        m["status"]["currentStatus"] = json!({ "phase": "Terminating", "preserveExpiryTime": "2026-01-05T00:00:00Z" });
        m["status"]["lastOperation"] =
            json!({ "description": "Deleting machine from cloud provider", "type": "Delete" });
    });
    fixture.delete();
    fixture.reconcile();
    assert_eq!(fixture.machine().status.current_status.preserve_expiry_time, None);
}

/// Shows MC-W14.
#[rstest]
#[case::scaled_down("Running", "True", TerminationReason::ScaleDown)]
#[case::failed("Failed", "True", TerminationReason::Unhealthy)]
#[case::marked_while_unhealthy("Terminating", "Unknown", TerminationReason::Unhealthy)]
#[case::marked_while_well("Terminating", "True", TerminationReason::ScaleDown)]
fn node_condition_names_the_reason_of_the_deletion(
    #[case] phase: &str,
    #[case] ready: &str,
    #[case] departure: TerminationReason,
) {
    let mut fixture = running();
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!(phase);
        m["status"]["conditions"] = json!([{ "type": "Ready", "status": ready }]);
    });
    assert_eq!(super::super::diagnosis::departure(fixture.machine(), &fixture.policy), departure);
}

/// Shows MC-D6.
#[test]
fn undecodable_node_blocks_the_deletion() {
    let mut fixture = running();
    fixture.delete();
    (fixture.vm, fixture.vms) = (VmState::Deleted { last_known_state: None }, 0);
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] =
            json!({ "description": "Drain successful. Initiate VM deletion", "type": "Delete" });
    });
    fixture.node_is_unreadable = true;
    fixture.settle();
    assert_eq!(
        fixture.text(),
        "Retrieval of Node Object \"node-1\" failed due to error: the Node cannot be decoded, Retrying. Initiate node object deletion"
    );
    fixture.node_is_unreadable = false;
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_none());
}

#[test]
fn deletion_continues_while_frozen() {
    let mut fixture = running();
    fixture.connectivity = Connectivity::Frozen;
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
}

fn unserved() -> DriverState {
    DriverState::Missing("no driver serves \"mars\"; this process has virtual".into())
}

/// Shows MC-W73.
#[rstest]
#[case::new(json!({}))]
#[case::marked_by_a_manager(json!({ "currentStatus": { "phase": "Terminating" }, "lastOperation": { "description": "Deleting machine from cloud provider", "type": "Delete" } }))]
fn machine_without_driver_or_vm_request_is_deleted(#[case] status: serde_json::Value) {
    let mut fixture = MachineFixture::new();
    fixture.driver = unserved();
    fixture.settle();
    fixture.edit(|m| json_patch::merge(&mut m["status"], &status));
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none(), "{:?}", fixture.history);
    assert!(!fixture.history.iter().any(|step| step.contains("call the driver")), "{:?}", fixture.history);
}

/// Shows MC-W73.
#[rstest]
#[case::recorded(json!({ "spec": { "providerID": "vm:///m-1" } }))]
#[case::tried(json!({ "status": { "currentStatus": { "phase": "CrashLoopBackOff" }, "lastOperation": { "errorCode": "DeadlineExceeded" } } }))]
fn machine_that_may_have_a_vm_stays_without_its_driver(#[case] evidence: serde_json::Value) {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.edit(|m| json_patch::merge(m, &evidence));
    fixture.driver = unserved();
    fixture.settle();
    fixture.forget();
    fixture.delete();
    fixture.settle();
    assert!(
        !fixture.history.iter().any(|step| step.contains("call the driver")),
        "no driver call is possible: {:?}",
        fixture.history
    );
    assert_eq!(fixture.text(), "no driver serves \"mars\"; this process has virtual. Initiate VM deletion");
    assert_eq!(fixture.emitted.last(), Some(&"DeletionBlocked"));
    let said = fixture.messages.last().unwrap();
    for fix in ["start a driver", "correct the provider of its MachineClass", "remove the finalizer"] {
        assert!(said.contains(fix), "{said}");
    }
    fixture.driver = DriverState::Served;
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows MC-D2.
#[test]
fn uninitialized_unnamed_vm_does_not_block_a_deletion() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.vms = 1;
    fixture.delete();
    fixture.failures = vec![Code::Uninitialized];
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0, "{}", fixture.text());
}

/// Shows MC-D6.
#[test]
fn failed_node_removal_is_reported_with_the_text_of_mcm() {
    let mut fixture = running();
    fixture.delete();
    fixture.keeps_node = Some("nodes \"node-1\" is forbidden: no");
    while fixture.vms == 1 {
        assert!(fixture.reconcile());
    }
    fixture.forget();
    fixture.reconcile();
    let finalizer = "Removal of finalizers from Node Object \"node-1\" failed due to error: nodes \"node-1\" is forbidden: no, \
                     Retrying. Initiate node object deletion";
    assert_eq!(
        (fixture.text(), &fixture.machine().status.last_operation.state),
        (finalizer, &api::OperationState::Failed)
    );
    assert_eq!(fixture.emitted, ["NodeNotRemoved"]);
    fixture.wait(Duration::from_secs(5));
    fixture.reconcile();
    assert_eq!(fixture.emitted.len(), 1, "reported once");

    fixture.keeps_node = Some("timed out");
    fixture.edit_node(|n| n["metadata"]["finalizers"] = json!([]));
    fixture.reconcile();
    assert_eq!(
        fixture.text(),
        "Deletion of Node Object \"node-1\" failed due to error: timed out. Initiate node object deletion"
    );
    fixture.keeps_node = None;
    fixture.vm = VmState::Unknown; // a restarted process continues from the text
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_none());
}

/// Shows MC-W11.
#[rstest]
#[case(Code::Unavailable)]
#[case(Code::PermissionDenied)]
fn failed_delete_keeps_the_last_known_state(#[case] code: Code) {
    let mut fixture = running();
    fixture.edit(|m| m["status"]["lastKnownState"] = json!("disk 7 detached"));
    fixture.failures = vec![code];
    fixture.delete();
    fixture.settle();
    assert!(fixture.text().contains(&code.to_string()), "{}", fixture.text());
    assert_eq!(fixture.machine().status.last_known_state, "disk 7 detached");
}

#[test]
fn known_state_of_a_failed_delete_is_recorded() {
    let mut fixture = running();
    fixture.delete();
    while fixture.text() != "Initiate VM deletion" && !fixture.text().ends_with(". Initiate VM deletion") {
        assert!(fixture.reconcile(), "the deletion of the VM never begins: {}", fixture.text());
    }
    fixture.vm = VmState::Failed(failed(Call::Delete, Some("disk 8 is attached"), &fixture));
    fixture.reconcile();
    assert_eq!(fixture.machine().status.last_known_state, "disk 8 is attached", "{}", fixture.text());
}

/// Shows MC-W11.
#[test]
fn known_state_of_a_delete_is_kept_with_the_machine() {
    let mut fixture = running();
    fixture.note = Some("address 9 is still reserved".into());
    fixture.delete();
    while fixture.machine().status.last_known_state.is_empty() {
        assert!(fixture.reconcile(), "nothing is left to do, and the note is not kept: {:?}", fixture.history);
    }
    assert_eq!(fixture.machine().status.last_known_state, "address 9 is still reserved");
    assert_eq!(fixture.text(), "VM deletion was successful. Initiate node object deletion");
    assert!(fixture.node.is_some(), "before the Machine is deleted");
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_none());
}

/// A Machine whose VM exists and of which nothing is recorded.
fn unrecorded(vms: usize) -> MachineFixture {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.vms = vms;
    fixture.now = "2026-01-01T01:00:00Z".parse().unwrap();
    fixture.delete();
    fixture
}

/// Shows MC-D2a.
#[test]
fn machine_with_two_vms_and_no_provider_id_is_deleted() {
    let mut fixture = unrecorded(2);
    fixture.failures = vec![Code::OutOfRange];
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0, "{:#?}", fixture.history);
    assert_eq!(fixture.emitted, ["Terminating", "NodeMayBeLeft", "Gone"]);
    let note = "report: Driver failed to name the Node: OutOfRange: no luck. Initiate VM deletion";
    assert!(fixture.history.contains(&note.to_owned()), "{:#?}", fixture.history);
}

/// Shows MC-D2a.
#[rstest]
#[case::force(Code::PermissionDenied, true, Duration::ZERO)]
#[case::the_drain_timeout(Code::PermissionDenied, false, Duration::from_hours(2))]
#[case::the_drain_timeout_of_a_passing_failure(Code::Unavailable, false, Duration::from_hours(2))]
#[case::the_drain_timeout_although_force_is_asked_for(Code::Unavailable, true, Duration::from_hours(2))]
fn machine_is_deleted_by_name_if_its_status_call_keeps_failing(
    #[case] code: Code,
    #[case] force: bool,
    #[case] after: Duration,
) {
    let mut fixture = unrecorded(1);
    if force {
        fixture.edit(|m| m["metadata"]["labels"] = json!({ "force-deletion": "True" }));
    }
    fixture.failures = vec![code];
    fixture.settle();
    if !after.is_zero() {
        fixture.wait(after.saturating_sub(Duration::from_secs(1)));
        fixture.failures = vec![code];
        fixture.settle();
        assert!(fixture.vms == 1, "not before the drain timeout: {:#?}", fixture.history);
        fixture.wait(Duration::from_secs(1));
        fixture.settle();
    }
    assert!(fixture.machine.is_none() && fixture.vms == 0, "{:#?}", fixture.history);
    assert!(fixture.emitted.contains(&"NodeMayBeLeft"));
}

/// The MachineClass was deleted without its finalizer, and the process that sent the create call has stopped.
/// Shows MC-S9.
#[rstest]
#[case::deleted_at_once(false)]
#[case::reported_without_its_class_before(true)]
fn machine_stays_if_a_lost_create_may_have_left_a_vm(#[case] seen_before: bool) {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.class = Presence::Absent;
    fixture.outages.led_until("2026-01-01T00:30:00Z".parse().unwrap());
    fixture.now = "2026-01-01T01:00:00Z".parse().unwrap();
    if seen_before {
        fixture.settle();
        fixture.outages.led_until("2025-01-01T00:00:00Z".parse().unwrap()); // only the status shows it
    }
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_some(), "{:#?}", fixture.history);
    assert_eq!(fixture.text(), "MachineClass \"c\" does not exist. Initiate VM deletion");
    let said = fixture.messages.last().unwrap();
    assert!(said.contains("create the MachineClass again"), "{said}");
}

/// Shows MC-S9.
#[rstest]
#[case::born_since("2025-12-31T00:00:00Z", false)]
#[case::born_in_the_same_second("2026-01-01T00:00:00.7Z", false)]
#[case::refused_by_an_earlier_process("2026-01-01T00:30:00Z", true)]
fn machine_goes_if_no_create_can_have_been_sent(#[case] led_until: &str, #[case] refused: bool) {
    let mut fixture = MachineFixture::new();
    fixture.class = Presence::Absent;
    if refused {
        fixture.settle();
    }
    fixture.reconcile();
    fixture.outages.led_until(led_until.parse().unwrap());
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none(), "{:#?}", fixture.history);
}
