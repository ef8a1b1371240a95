//! From a machine that must go to nothing left of it.

use std::time::Duration;

use api::deletion::Step as Stage;
use api::{Code, MachinePhase};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;
use crate::drain::{self, Answer, Outlook};
use crate::node::Departure;

pub(super) fn running() -> MachineFixture {
    MachineFixture::running()
}

/// Shows THR-2, MC-D1, MC-D6, MC-D7, MC-W6.
#[test]
fn a_machine_goes_in_this_order_and_leaves_nothing() {
    let mut fixture = running();
    fixture.delete();
    fixture.settle();
    assert_eq!(
        fixture.diary,
        [
            "set its phase to Terminating",
            "tell: Terminating",
            "say Terminating True (ScaleDown) on node \"node-1\"",
            "cordon node \"node-1\"",
            "watch the pods of node \"node-1\"",
            "note: Drain successful. Initiate VM deletion",
            "note that its node is empty",
            "ask the cloud to delete its VM",
            "let go of node \"node-1\"",
            "delete node \"node-1\"",
            "tell: Gone",
            "remove our finalizer",
        ]
    );
    assert!(fixture.machine.is_none() && fixture.node.is_none());
    assert_eq!(fixture.vms, 0);
}

/// A machine that goes, whose node another machine names too, with a pod on it.
fn disputed(on_node: &str) -> MachineFixture {
    let mut fixture = running();
    let rival = json!({ "metadata": { "name": "m-2" }, "spec": { "providerID": "vm:///zone/m-2" } });
    fixture.rivals = vec![std::sync::Arc::new(super::fixture::read(rival))];
    fixture.edit_node(|node| node["spec"]["providerID"] = json!(on_node));
    fixture.now = "2026-01-01T01:00:00Z".parse().unwrap();
    fixture.delete();
    fixture
}

/// Whether anything was done to the node, its pods or its volumes.
pub(super) fn touched(fixture: &MachineFixture) -> bool {
    let touches = |line: &String| {
        ["cordon", "say ", "watch", "evict", "delete pod", "delete node", "let go of", "delete 1 Vol"]
            .iter()
            .any(|deed| line.starts_with(deed))
    };
    fixture.diary.iter().any(touches)
}

/// Shows MC-W43.
#[test]
fn a_machine_whose_node_is_another_machines_goes_without_it() {
    let mut fixture = disputed("vm:///m-2");
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0);
    assert!(fixture.node.is_some() && !touched(&fixture), "the node is left to the other one: {:?}", fixture.diary);
}

/// Shows MC-W43.
#[rstest]
#[case::nothing("")]
#[case::an_id_that_proves_nothing("m-3")]
fn a_node_of_which_nobody_knows_whose_it_is_is_never_drained_and_its_machine_waits_until_force_is_due(
    #[case] on_node: &str,
) {
    let mut fixture = disputed(on_node);
    fixture.settle();
    assert_eq!(fixture.vms, 1, "{:?}", fixture.diary);
    let expected = "Drain failed due to - node \"node-1\" is named by machine m-2 too, and does not say on whose VM it runs. \
                    Will retry in next sync. Initiate node drain";
    assert_eq!(fixture.text(), expected);
    assert_eq!(fixture.told, ["Terminating", "NodeDisputed"]);
    fixture.wait(Duration::from_secs(2 * 60 * 60 + 1));
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0);
    assert!(fixture.node.is_some() && !touched(&fixture), "{:?}", fixture.diary);
}

/// Shows MC-W43.
#[test]
fn a_dispute_that_ends_lets_the_drain_begin() {
    let mut fixture = disputed("");
    fixture.settle();
    fixture.rivals.clear();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_none());
}

/// Shows MC-W43.
#[test]
fn force_passes_a_dispute_and_takes_no_volume_from_the_node() {
    let mut fixture = disputed("");
    fixture.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("True"));
    fixture.edit_node(|node| node["status"]["volumesAttached"] = json!([{ "name": "v", "devicePath": "" }]));
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0 && fixture.node.is_some());
    assert!(!touched(&fixture), "{:?}", fixture.diary);
}

/// Shows MC-W43.
#[test]
fn volumes_of_a_node_that_is_another_machines_are_left_to_it() {
    let mut fixture = disputed("vm:///m-2");
    fixture.edit_node(|node| node["status"]["volumesAttached"] = json!([{ "name": "v", "devicePath": "" }]));
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] =
            json!({ "description": "Force Drain successful. Delete Volume Attachments", "type": "Delete" });
    });
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_some());
    assert!(!touched(&fixture), "{:?}", fixture.diary);
}

#[test]
fn a_machine_that_never_had_a_vm_goes_too() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
    assert_eq!(fixture.created, 0);
}

/// Shows MC-W19.
#[test]
fn a_machine_that_is_deleted_before_we_saw_it_is_left_to_others() {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| m["metadata"]["finalizers"] = json!(["someone/else"]));
    fixture.delete();
    let plan = fixture.plan();
    assert!(plan.steps.is_empty(), "the API server refuses new finalizers, and there is no VM to care for");
    assert_eq!(plan.because, Reason::NotOurs);
}

/// Shows MC-W3.
#[rstest]
fn a_machine_that_nobody_deleted_is_not_taken_apart_whatever_its_status_says(
    #[values("Initiate node drain", "Initiate VM deletion", "Initiate machine object finalizer removal")] step: &str,
) {
    let mut fixture = running();
    fixture.vm = VmState::Unasked;
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] = json!({ "description": step, "state": "Processing", "type": "Delete" });
    });
    fixture.settle();
    assert_eq!((fixture.vms, fixture.node.is_some()), (1, true), "{:?}", fixture.diary);
    assert!(fixture.machine().metadata.finalizers.len() == 1);
}

/// Shows MC-D2.
#[rstest]
#[case::marked("Set machine status to termination. Now, getting VM Status", &["say Terminating True (ScaleDown) on node \"node-1\"", "cordon node \"node-1\""])]
#[case::by_the_manager("Deleting machine from cloud provider", &["set its phase to Terminating"])]
#[case::draining("Drain failed due to - boom. Will retry in next sync. Initiate node drain", &["say Terminating True (ScaleDown) on node \"node-1\"", "cordon node \"node-1\""])]
#[case::attachments("Force Drain successful. Delete Volume Attachments", &["note: Node Volumes for node: node-1 are already detached. Moving to VM Deletion. Initiate VM deletion"])]
#[case::vm("Drain successful. Initiate VM deletion", &["ask the cloud to delete its VM"])]
#[case::node("VM deletion was successful. Initiate node object deletion", &["let go of node \"node-1\"", "delete node \"node-1\""])]
#[case::last("Deletion of Node Object \"n\" is successful. Initiate machine object finalizer removal", &["tell: Gone", "remove our finalizer"])]
fn a_deletion_begun_by_the_reference_is_finished_from_its_text(#[case] text: &str, #[case] next: &[&str]) {
    let mut fixture = running();
    if Stage::from_description(text) >= Some(Stage::DeleteNode) {
        fixture.vms = 0;
    }
    fixture.delete();
    fixture.vm = VmState::Unasked;
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] = json!({ "description": text, "state": "Processing", "type": "Delete" });
    });
    fixture.reconcile();
    assert_eq!(fixture.diary.iter().filter(|s| !s.starts_with("tell: Term")).collect::<Vec<_>>(), next);
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows MC-D5.
#[rstest]
#[case(Code::Unavailable, 5, ". However, will re-try in the next resync. ")]
#[case(Code::PermissionDenied, 600, ". Aborting operation. ")]
fn a_vm_that_cannot_be_deleted_is_told_and_tried_again(#[case] code: Code, #[case] seconds: u64, #[case] words: &str) {
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
fn a_vm_that_is_already_gone_counts_as_deleted() {
    let mut fixture = running();
    fixture.delete();
    fixture.vms = 0;
    fixture.failures = vec![Code::NotFound];
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows MC-W73.
#[test]
fn without_its_class_the_vm_cannot_be_deleted_and_the_machine_says_so() {
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
fn a_creation_under_way_is_waited_for_before_the_deletion_begins() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.delete();
    let until = super::super::facts::later(fixture.now, Duration::from_mins(1));
    fixture.call_under_way = Some(CallUnderWay { call: Call::Create, until });
    assert!(fixture.plan().steps.is_empty());
}

/// Shows MC-D6.
#[test]
fn a_node_held_by_someone_else_does_not_hold_the_machine() {
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
fn a_node_that_nobody_had_written_down_is_found_by_asking_and_goes_too() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.vms = 1; // created by a process that died before it could write anything down
    fixture.register("True");
    fixture.delete();
    fixture.settle();
    assert!(fixture.diary.contains(&"link it to node \"node-1\"".to_owned()), "{:#?}", fixture.diary);
    assert!(fixture.machine.is_none() && fixture.node.is_none());
    assert_eq!(fixture.vms, 0);
}

/// Shows MC-D2.
#[rstest]
#[case(Code::Unavailable, 5, "aborting with retry.")]
#[case(Code::PermissionDenied, 180, "machine code: machine codes error: code = [PermissionDenied] message = [no luck]")]
fn a_cloud_that_cannot_say_which_node_it_became_is_asked_again(
    #[case] code: Code,
    #[case] seconds: u64,
    #[case] words: &str,
) {
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
fn a_creation_that_failed_does_not_hold_up_the_question_for_the_node() {
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
fn what_a_cloud_says_does_not_skip_the_drain() {
    let mut fixture = running();
    fixture.add_pod("web-1");
    let (text, outlook) = ("Initiate VM deletion".to_owned(), Outlook::Lasting);
    fixture.decision = Answer::Failed(drain::Failure { text, outlook, retry_after: None });
    fixture.delete();
    fixture.settle();
    assert!(fixture.text().contains("Initiate VM deletion") && fixture.text().ends_with("Initiate node drain"));
    fixture.diary.clear();
    fixture.wait(Duration::from_mins(1));
    fixture.settle();
    assert_eq!(fixture.vms, 1, "{:?}", fixture.diary);
}

/// Shows MC-W73.
#[test]
fn a_machine_of_a_class_that_never_existed_can_be_deleted() {
    let mut fixture = MachineFixture::new();
    fixture.class = Presence::Absent;
    fixture.settle();
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none(), "{:?}", fixture.diary);
}

/// Shows MC-W73.
#[rstest]
#[case::written_down(json!({ "spec": { "providerID": "vm:///m-1" } }))]
#[case::linked(json!({ "metadata": { "labels": { "node": "node-1" } } }))]
#[case::tried(json!({ "status": { "currentStatus": { "phase": "CrashLoopBackOff" }, "lastOperation": { "errorCode": "DeadlineExceeded" } } }))]
fn without_its_class_a_machine_that_may_have_a_vm_stays(#[case] evidence: serde_json::Value) {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.class = Presence::Absent;
    fixture.edit(|m| json_patch::merge(m, &evidence));
    fixture.delete();
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Terminating);
    assert!(fixture.text().starts_with("MachineClass \"c\" does not exist."), "{}", fixture.text());
    assert_eq!(fixture.told, ["Terminating", "DeletionBlocked"]);
    assert!(
        !fixture.diary.iter().any(|step| step.contains("ask the cloud")),
        "nobody can be asked: {:?}",
        fixture.diary
    );
}

/// Shows MC-W73.
#[test]
fn neither_an_invalid_class_nor_an_unusable_secret_stops_a_deletion() {
    let mut fixture = running();
    fixture.class = Presence::Present(super::fixture::read(json!({
        "metadata": { "name": "c", "namespace": "ns" }, "providerSpec": {}, "nodeTemplate": { "capacity": {}, "instanceType": "", "region": "", "zone": "" },
    })));
    fixture.secret = SecretState::Unusable("no user data".into());
    fixture.edit(|m| m["spec"]["drainTimeout"] = json!("soon"));
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0, "{:?}", fixture.diary);
}

/// Shows MC-W8.
#[test]
fn deleting_a_machine_that_a_manager_has_marked_already_ends_its_preservation() {
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
#[case::no_longer_wanted("Running", "True", Departure::ScaleDown)]
#[case::failed("Failed", "True", Departure::Unhealthy)]
#[case::marked_while_ill("Terminating", "Unknown", Departure::Unhealthy)]
#[case::marked_while_well("Terminating", "True", Departure::ScaleDown)]
fn a_node_learns_why_its_machine_goes(#[case] phase: &str, #[case] ready: &str, #[case] departure: Departure) {
    let mut fixture = running();
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!(phase);
        m["status"]["conditions"] = json!([{ "type": "Ready", "status": ready }]);
    });
    assert_eq!(super::super::diagnosis::departure(fixture.machine(), &fixture.policy), departure);
}

/// Shows MC-D6.
#[test]
fn a_node_that_cannot_be_read_is_not_left_behind() {
    let mut fixture = running();
    fixture.delete();
    (fixture.vm, fixture.vms) = (VmState::Gone { last_known_state: None }, 0);
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] =
            json!({ "description": "Drain successful. Initiate VM deletion", "type": "Delete" });
    });
    fixture.node_is_unreadable = true;
    fixture.settle();
    assert_eq!(
        fixture.text(),
        "Retrieval of Node Object \"node-1\" failed due to error: it cannot be read, Retrying. Initiate node object deletion"
    );
    fixture.node_is_unreadable = false;
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_none());
}

#[test]
fn a_deletion_that_was_asked_for_goes_on_though_we_are_frozen() {
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
fn a_machine_of_a_provider_that_nobody_serves_goes_if_no_vm_was_ever_asked_for(#[case] status: serde_json::Value) {
    let mut fixture = MachineFixture::new();
    fixture.driver = unserved();
    fixture.settle();
    fixture.edit(|m| json_patch::merge(&mut m["status"], &status));
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none(), "{:?}", fixture.diary);
    assert!(!fixture.diary.iter().any(|step| step.contains("ask the cloud")), "{:?}", fixture.diary);
}

/// Shows MC-W73.
#[rstest]
#[case::written_down(json!({ "spec": { "providerID": "vm:///m-1" } }))]
#[case::tried(json!({ "status": { "currentStatus": { "phase": "CrashLoopBackOff" }, "lastOperation": { "errorCode": "DeadlineExceeded" } } }))]
fn a_machine_that_may_have_a_vm_of_a_provider_that_nobody_serves_stays_and_is_told_what_to_do(
    #[case] evidence: serde_json::Value,
) {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.edit(|m| json_patch::merge(m, &evidence));
    fixture.driver = unserved();
    fixture.settle();
    fixture.forget();
    fixture.delete();
    fixture.settle();
    assert!(
        !fixture.diary.iter().any(|step| step.contains("ask the cloud")),
        "nobody can be asked: {:?}",
        fixture.diary
    );
    assert_eq!(fixture.text(), "no driver serves \"mars\"; this process has virtual. Initiate VM deletion");
    assert_eq!(fixture.told.last(), Some(&"DeletionBlocked"));
    let said = fixture.said.last().unwrap();
    for fix in ["start a driver", "correct the provider of its MachineClass", "remove the finalizer"] {
        assert!(said.contains(fix), "{said}");
    }
    fixture.driver = DriverState::Served;
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows MC-D2.
#[test]
fn a_vm_that_is_uninitialized_and_that_nobody_names_does_not_hold_up_a_deletion() {
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
fn a_node_that_cannot_be_removed_is_told_in_the_reference_s_words_each_time_they_change() {
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
    assert_eq!(fixture.told, ["NodeNotRemoved"]);
    fixture.wait(Duration::from_secs(5));
    fixture.reconcile();
    assert_eq!(fixture.told.len(), 1, "the same is not said again");

    fixture.keeps_node = Some("timed out");
    fixture.edit_node(|n| n["metadata"]["finalizers"] = json!([]));
    fixture.reconcile();
    assert_eq!(
        fixture.text(),
        "Deletion of Node Object \"node-1\" failed due to error: timed out. Initiate node object deletion"
    );
    fixture.keeps_node = None;
    fixture.vm = VmState::Unasked; // another process goes on from the text
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_none());
}

/// Shows MC-W11.
#[rstest]
#[case(Code::Unavailable)]
#[case(Code::PermissionDenied)]
fn a_failed_delete_without_a_note_leaves_the_drivers_last_one_as_it_is(#[case] code: Code) {
    let mut fixture = running();
    fixture.edit(|m| m["status"]["lastKnownState"] = json!("disk 7 detached"));
    fixture.failures = vec![code];
    fixture.delete();
    fixture.settle();
    assert!(fixture.text().contains(&code.to_string()), "{}", fixture.text());
    assert_eq!(fixture.machine().status.last_known_state, "disk 7 detached");
}

#[test]
fn the_note_of_a_failed_delete_is_kept() {
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
fn what_the_driver_noted_when_it_deleted_the_vm_is_kept_as_long_as_the_machine() {
    let mut fixture = running();
    fixture.note = Some("address 9 is still reserved".into());
    fixture.delete();
    while fixture.machine().status.last_known_state.is_empty() {
        assert!(fixture.reconcile(), "nothing is left to do, and the note is not kept: {:?}", fixture.diary);
    }
    assert_eq!(fixture.machine().status.last_known_state, "address 9 is still reserved");
    assert_eq!(fixture.text(), "VM deletion was successful. Initiate node object deletion");
    assert!(fixture.node.is_some(), "before the machine can go");
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
    assert!(fixture.machine.is_none() && fixture.vms == 0, "{:#?}", fixture.diary);
    assert_eq!(fixture.told, ["Terminating", "NodeMayBeLeft", "Gone"]);
    let note = "note: Driver failed to name the Node: OutOfRange: no luck. Initiate VM deletion";
    assert!(fixture.diary.contains(&note.to_owned()), "{:#?}", fixture.diary);
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
        assert!(fixture.vms == 1, "not before the drain timeout: {:#?}", fixture.diary);
        fixture.wait(Duration::from_secs(1));
        fixture.settle();
    }
    assert!(fixture.machine.is_none() && fixture.vms == 0, "{:#?}", fixture.diary);
    assert!(fixture.told.contains(&"NodeMayBeLeft"));
}

/// The class was removed by force, and the process that sent the create call is gone.
/// Shows MC-S9.
#[rstest]
#[case::deleted_at_once(false)]
#[case::seen_without_its_class_before(true)]
fn machine_stays_if_a_lost_create_may_have_left_a_vm(#[case] seen_before: bool) {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.class = Presence::Absent;
    fixture.outages.led_until("2026-01-01T00:30:00Z".parse().unwrap());
    fixture.now = "2026-01-01T01:00:00Z".parse().unwrap();
    if seen_before {
        fixture.settle();
        fixture.outages.led_until("2025-01-01T00:00:00Z".parse().unwrap()); // the status is what is left of it
    }
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_some(), "{:#?}", fixture.diary);
    assert_eq!(fixture.text(), "MachineClass \"c\" does not exist. Initiate VM deletion");
    let said = fixture.said.last().unwrap();
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
    assert!(fixture.machine.is_none(), "{:#?}", fixture.diary);
}
