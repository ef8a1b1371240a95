//! From a machine that must go to nothing left of it.

use std::time::Duration;

use api::deletion::Step as Stage;
use api::{Code, MachinePhase};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::world::World;
use crate::drain::{self, Answer, Outlook};
use crate::node::Departure;

pub(super) fn running() -> World {
    World::running()
}

#[test]
fn a_machine_goes_in_this_order_and_leaves_nothing() {
    let mut world = running();
    world.delete();
    world.settle();
    assert_eq!(
        world.diary,
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
    assert!(world.machine.is_none() && world.node.is_none());
    assert_eq!(world.vms, 0);
}

/// A machine that goes, whose node another machine names too, with a pod on it.
fn disputed(on_node: &str) -> World {
    let mut world = running();
    let rival = json!({ "metadata": { "name": "m-2" }, "spec": { "providerID": "vm:///zone/m-2" } });
    world.rivals = vec![std::sync::Arc::new(super::world::read(rival))];
    world.edit_node(|node| node["spec"]["providerID"] = json!(on_node));
    world.now = "2026-01-01T01:00:00Z".parse().unwrap();
    world.delete();
    world
}

/// Whether anything was done to the node, its pods or its volumes.
fn touched(world: &World) -> bool {
    let touches = |line: &String| {
        ["cordon", "say ", "watch", "evict", "delete pod", "delete node", "let go of", "delete 1 Vol"]
            .iter()
            .any(|deed| line.starts_with(deed))
    };
    world.diary.iter().any(touches)
}

#[test]
fn a_machine_whose_node_is_another_machines_goes_without_it() {
    let mut world = disputed("vm:///m-2");
    world.settle();
    assert!(world.machine.is_none() && world.vms == 0);
    assert!(world.node.is_some() && !touched(&world), "the node is left to the other one: {:?}", world.diary);
}

#[rstest]
#[case::nothing("")]
#[case::nobodys_vm("vm:///m-3")]
fn a_node_of_which_nobody_knows_whose_it_is_is_never_drained_and_its_machine_waits_until_force_is_due(
    #[case] on_node: &str,
) {
    let mut world = disputed(on_node);
    world.settle();
    assert_eq!(world.vms, 1, "{:?}", world.diary);
    let expected = "Drain failed due to - node \"node-1\" is named by machine m-2 too, and does not say on whose VM it runs. \
                    Will retry in next sync. Initiate node drain";
    assert_eq!(world.text(), expected);
    assert_eq!(world.told, ["Terminating", "NodeDisputed"]);
    world.wait(Duration::from_secs(2 * 60 * 60 + 1));
    world.settle();
    assert!(world.machine.is_none() && world.vms == 0);
    assert!(world.node.is_some() && !touched(&world), "{:?}", world.diary);
}

#[test]
fn a_dispute_that_ends_lets_the_drain_begin() {
    let mut world = disputed("");
    world.settle();
    world.rivals.clear();
    world.settle();
    assert!(world.machine.is_none() && world.node.is_none());
}

#[test]
fn force_passes_a_dispute_and_takes_no_volume_from_the_node() {
    let mut world = disputed("");
    world.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("True"));
    world.edit_node(|node| node["status"]["volumesAttached"] = json!([{ "name": "v", "devicePath": "" }]));
    world.settle();
    assert!(world.machine.is_none() && world.vms == 0 && world.node.is_some());
    assert!(!touched(&world), "{:?}", world.diary);
}

#[test]
fn volumes_of_a_node_that_is_another_machines_are_left_to_it() {
    let mut world = disputed("vm:///m-2");
    world.edit_node(|node| node["status"]["volumesAttached"] = json!([{ "name": "v", "devicePath": "" }]));
    world.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] =
            json!({ "description": "Force Drain successful. Delete Volume Attachments", "type": "Delete" });
    });
    world.settle();
    assert!(world.machine.is_none() && world.node.is_some());
    assert!(!touched(&world), "{:?}", world.diary);
}

#[test]
fn a_machine_that_never_had_a_vm_goes_too() {
    let mut world = World::new();
    world.reconcile();
    world.delete();
    world.settle();
    assert!(world.machine.is_none());
    assert_eq!(world.created, 0);
}

#[test]
fn a_machine_that_is_deleted_before_we_saw_it_is_left_to_others() {
    let mut world = World::new();
    world.edit(|m| m["metadata"]["finalizers"] = json!(["someone/else"]));
    world.delete();
    let plan = world.plan();
    assert!(plan.steps.is_empty(), "the API server refuses new finalizers, and there is no VM to care for");
    assert_eq!(plan.because, Reason::NotOurs);
}

#[rstest]
fn a_machine_that_nobody_deleted_is_not_taken_apart_whatever_its_status_says(
    #[values("Initiate node drain", "Initiate VM deletion", "Initiate machine object finalizer removal")] step: &str,
) {
    let mut world = running();
    world.vm = VmState::Unasked;
    world.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] = json!({ "description": step, "state": "Processing", "type": "Delete" });
    });
    world.settle();
    assert_eq!((world.vms, world.node.is_some()), (1, true), "{:?}", world.diary);
    assert!(world.machine().metadata.finalizers.as_ref().is_some_and(|list| list.len() == 1));
}

#[rstest]
#[case::marked("Set machine status to termination. Now, getting VM Status", &["say Terminating True (ScaleDown) on node \"node-1\"", "cordon node \"node-1\""])]
#[case::by_the_manager("Deleting machine from cloud provider", &["set its phase to Terminating"])]
#[case::draining("Drain failed due to - boom. Will retry in next sync. Initiate node drain", &["say Terminating True (ScaleDown) on node \"node-1\"", "cordon node \"node-1\""])]
#[case::attachments("Force Drain successful. Delete Volume Attachments", &["note: Node Volumes for node: node-1 are already detached. Moving to VM Deletion. Initiate VM deletion"])]
#[case::vm("Drain successful. Initiate VM deletion", &["ask the cloud to delete its VM"])]
#[case::node("VM deletion was successful. Initiate node object deletion", &["let go of node \"node-1\"", "delete node \"node-1\""])]
#[case::last("Deletion of Node Object \"n\" is successful. Initiate machine object finalizer removal", &["tell: Gone", "remove our finalizer"])]
fn a_deletion_begun_by_the_reference_is_finished_from_its_text(#[case] text: &str, #[case] next: &[&str]) {
    let mut world = running();
    if Stage::from_description(text) >= Some(Stage::DeleteNode) {
        world.vms = 0;
    }
    world.delete();
    world.vm = VmState::Unasked;
    world.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] = json!({ "description": text, "state": "Processing", "type": "Delete" });
    });
    world.reconcile();
    assert_eq!(world.diary.iter().filter(|s| !s.starts_with("tell: Term")).collect::<Vec<_>>(), next);
    world.settle();
    assert!(world.machine.is_none());
}

#[rstest]
#[case(Code::Unavailable, 5, ". However, will re-try in the next resync. ")]
#[case(Code::PermissionDenied, 600, ". Aborting operation. ")]
fn a_vm_that_cannot_be_deleted_is_told_and_tried_again(#[case] code: Code, #[case] seconds: u64, #[case] words: &str) {
    let mut world = running();
    world.delete();
    world.failures = vec![code];
    world.settle();
    let operation = &world.machine().status.last_operation;
    assert!(operation.description.ends_with(&format!("{words}Initiate VM deletion")), "{}", operation.description);
    assert!(operation.error_code.is_empty());
    let at = super::super::facts::later(world.now, Duration::from_secs(seconds));
    assert_eq!(world.plan().wake, Wake::By { awaited: Awaited::Retry, at });
    world.now = at;
    world.settle();
    assert!(world.machine.is_none());
}

#[test]
fn a_vm_that_is_already_gone_counts_as_deleted() {
    let mut world = running();
    world.delete();
    world.vms = 0;
    world.failures = vec![Code::NotFound];
    world.settle();
    assert!(world.machine.is_none());
}

#[test]
fn without_its_class_the_vm_cannot_be_deleted_and_the_machine_says_so() {
    let mut world = running();
    let class = std::mem::replace(&mut world.class, Presence::Absent);
    world.delete();
    world.settle();
    assert_eq!(
        world.machine().status.last_operation.description,
        "MachineClass \"c\" does not exist. Initiate VM deletion"
    );
    assert_eq!(*world.machine().phase(), MachinePhase::Terminating);
    world.class = class;
    world.settle();
    assert!(world.machine.is_none());
}

#[test]
fn a_creation_under_way_is_waited_for_before_the_deletion_begins() {
    let mut world = World::new();
    world.reconcile();
    world.delete();
    let until = super::super::facts::later(world.now, Duration::from_mins(1));
    world.call_under_way = Some(CallUnderWay { call: Call::Create, until });
    assert!(world.plan().steps.is_empty());
}

#[test]
fn a_node_held_by_someone_else_does_not_hold_the_machine() {
    let mut world = running();
    world.delete();
    let mut node = serde_json::to_value(world.node.as_ref().unwrap()).unwrap();
    node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:10Z");
    node["metadata"]["finalizers"] = json!(["someone/else"]);
    world.node = Some(super::world::read(node));
    world.settle();
    assert!(world.machine.is_none());
}

#[test]
fn a_node_that_nobody_had_written_down_is_found_by_asking_and_goes_too() {
    let mut world = World::new();
    world.reconcile();
    world.vms = 1; // created by a process that died before it could write anything down
    world.register("True");
    world.delete();
    world.settle();
    assert!(world.diary.contains(&"link it to node \"node-1\"".to_owned()), "{:#?}", world.diary);
    assert!(world.machine.is_none() && world.node.is_none());
    assert_eq!(world.vms, 0);
}

#[rstest]
#[case(Code::Unavailable, 5, "aborting with retry.")]
#[case(Code::PermissionDenied, 180, "machine code: machine codes error: code = [PermissionDenied] message = [no luck]")]
fn a_cloud_that_cannot_say_which_node_it_became_is_asked_again(
    #[case] code: Code,
    #[case] seconds: u64,
    #[case] words: &str,
) {
    let mut world = World::new();
    world.reconcile();
    world.delete();
    world.failures = vec![code];
    world.settle();
    let said = &world.machine().status.last_operation.description;
    assert!(said.ends_with(&format!("{words} Set machine status to termination. Now, getting VM Status")), "{said}");
    let at = super::super::facts::later(world.now, Duration::from_secs(seconds));
    assert_eq!(world.plan().wake, Wake::By { awaited: Awaited::Retry, at });
    world.now = at;
    world.settle();
    assert!(world.machine.is_none());
}

#[test]
fn a_creation_that_failed_does_not_hold_up_the_question_for_the_node() {
    let mut world = World::new();
    world.reconcile();
    world.vm = VmState::Failed(failed(Call::Create, None, &world));
    world.delete();
    world.settle();
    assert!(world.machine.is_none(), "{}", world.text());
}

fn failed(call: Call, note: Option<&str>, world: &World) -> Failure {
    let code = Code::Unavailable;
    let text = api::CodedText { code, message: "no luck" }.to_string();
    Failure { call, code, text, last_known_state: note.map(str::to_owned), at: world.now }
}

#[test]
fn what_a_cloud_says_does_not_skip_the_drain() {
    let mut world = running();
    world.add_pod("web-1");
    let (text, outlook) = ("Initiate VM deletion".to_owned(), Outlook::Lasting);
    world.decision = Answer::Failed(drain::Failure { text, outlook, retry_after: None });
    world.delete();
    world.settle();
    assert!(world.text().contains("Initiate VM deletion") && world.text().ends_with("Initiate node drain"));
    world.diary.clear();
    world.wait(Duration::from_mins(1));
    world.settle();
    assert_eq!(world.vms, 1, "{:?}", world.diary);
}

#[test]
fn a_machine_of_a_class_that_never_existed_can_be_deleted() {
    let mut world = World::new();
    world.class = Presence::Absent;
    world.settle();
    world.delete();
    world.settle();
    assert!(world.machine.is_none(), "{:?}", world.diary);
}

#[rstest]
#[case::written_down(json!({ "spec": { "providerID": "vm:///m-1" } }))]
#[case::linked(json!({ "metadata": { "labels": { "node": "node-1" } } }))]
#[case::tried(json!({ "status": { "currentStatus": { "phase": "CrashLoopBackOff" }, "lastOperation": { "errorCode": "DeadlineExceeded" } } }))]
fn without_its_class_a_machine_that_may_have_a_vm_stays(#[case] evidence: serde_json::Value) {
    let mut world = World::new();
    world.reconcile();
    world.class = Presence::Absent;
    world.edit(|m| json_patch::merge(m, &evidence));
    world.delete();
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Terminating);
    assert!(world.text().starts_with("MachineClass \"c\" does not exist."), "{}", world.text());
    assert_eq!(world.told, ["Terminating", "DeletionBlocked"]);
    assert!(!world.diary.iter().any(|step| step.contains("ask the cloud")), "nobody can be asked: {:?}", world.diary);
}

#[test]
fn neither_an_invalid_class_nor_an_unusable_secret_stops_a_deletion() {
    let mut world = running();
    world.class = Presence::Present(super::world::read(json!({
        "metadata": { "name": "c", "namespace": "ns" }, "providerSpec": {}, "nodeTemplate": { "capacity": {}, "instanceType": "", "region": "", "zone": "" },
    })));
    world.secret = SecretState::Unusable("no user data".into());
    world.edit(|m| m["spec"]["drainTimeout"] = json!("soon"));
    world.delete();
    world.settle();
    assert!(world.machine.is_none() && world.vms == 0, "{:?}", world.diary);
}

#[test]
fn deleting_a_machine_that_a_manager_has_marked_already_ends_its_preservation() {
    let mut world = running();
    world.edit(|m| {
        m["status"]["currentStatus"] = json!({ "phase": "Terminating", "preserveExpiryTime": "2026-01-05T00:00:00Z" });
        m["status"]["lastOperation"] =
            json!({ "description": "Deleting machine from cloud provider", "type": "Delete" });
    });
    world.delete();
    world.reconcile();
    assert_eq!(world.machine().status.current_status.preserve_expiry_time, None);
}

#[rstest]
#[case::no_longer_wanted("Running", "True", Departure::ScaleDown)]
#[case::failed("Failed", "True", Departure::Unhealthy)]
#[case::marked_while_ill("Terminating", "Unknown", Departure::Unhealthy)]
#[case::marked_while_well("Terminating", "True", Departure::ScaleDown)]
fn a_node_learns_why_its_machine_goes(#[case] phase: &str, #[case] ready: &str, #[case] departure: Departure) {
    let mut world = running();
    world.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!(phase);
        m["status"]["conditions"] = json!([{ "type": "Ready", "status": ready }]);
    });
    assert_eq!(super::super::diagnosis::departure(world.machine(), &world.policy), departure);
}

#[test]
fn a_node_that_cannot_be_read_is_not_left_behind() {
    let mut world = running();
    world.delete();
    (world.vm, world.vms) = (VmState::Gone { last_known_state: None }, 0);
    world.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] =
            json!({ "description": "Drain successful. Initiate VM deletion", "type": "Delete" });
    });
    world.node_is_unreadable = true;
    world.settle();
    assert_eq!(
        world.text(),
        "Retrieval of Node Object \"node-1\" failed due to error: it cannot be read, Retrying. Initiate node object deletion"
    );
    world.node_is_unreadable = false;
    world.settle();
    assert!(world.machine.is_none() && world.node.is_none());
}

#[test]
fn a_deletion_that_was_asked_for_goes_on_though_we_are_frozen() {
    let mut world = running();
    world.connectivity = Connectivity::Frozen;
    world.delete();
    world.settle();
    assert!(world.machine.is_none());
}

fn unserved() -> DriverState {
    DriverState::Missing("no driver serves \"mars\"; this process has virtual".into())
}

#[rstest]
#[case::new(json!({}))]
#[case::marked_by_a_manager(json!({ "currentStatus": { "phase": "Terminating" }, "lastOperation": { "description": "Deleting machine from cloud provider", "type": "Delete" } }))]
fn a_machine_of_a_provider_that_nobody_serves_goes_if_no_vm_was_ever_asked_for(#[case] status: serde_json::Value) {
    let mut world = World::new();
    world.driver = unserved();
    world.settle();
    world.edit(|m| json_patch::merge(&mut m["status"], &status));
    world.delete();
    world.settle();
    assert!(world.machine.is_none(), "{:?}", world.diary);
    assert!(!world.diary.iter().any(|step| step.contains("ask the cloud")), "{:?}", world.diary);
}

#[rstest]
#[case::written_down(json!({ "spec": { "providerID": "vm:///m-1" } }))]
#[case::tried(json!({ "status": { "currentStatus": { "phase": "CrashLoopBackOff" }, "lastOperation": { "errorCode": "DeadlineExceeded" } } }))]
fn a_machine_that_may_have_a_vm_of_a_provider_that_nobody_serves_stays_and_is_told_what_to_do(
    #[case] evidence: serde_json::Value,
) {
    let mut world = World::new();
    world.reconcile();
    world.edit(|m| json_patch::merge(m, &evidence));
    world.driver = unserved();
    world.settle();
    world.forget();
    world.delete();
    world.settle();
    assert!(!world.diary.iter().any(|step| step.contains("ask the cloud")), "nobody can be asked: {:?}", world.diary);
    assert_eq!(world.text(), "no driver serves \"mars\"; this process has virtual. Initiate VM deletion");
    assert_eq!(world.told.last(), Some(&"DeletionBlocked"));
    let said = world.said.last().unwrap();
    for fix in ["start a driver", "correct the provider of its MachineClass", "remove the finalizer"] {
        assert!(said.contains(fix), "{said}");
    }
    world.driver = DriverState::Served;
    world.settle();
    assert!(world.machine.is_none());
}

#[test]
fn a_vm_that_is_uninitialized_and_that_nobody_names_does_not_hold_up_a_deletion() {
    let mut world = World::new();
    world.reconcile();
    world.vms = 1;
    world.delete();
    world.failures = vec![Code::Uninitialized];
    world.settle();
    assert!(world.machine.is_none() && world.vms == 0, "{}", world.text());
}

#[test]
fn a_node_that_cannot_be_removed_is_told_in_the_reference_s_words_each_time_they_change() {
    let mut world = running();
    world.delete();
    world.keeps_node = Some("nodes \"node-1\" is forbidden: no");
    while world.vms == 1 {
        assert!(world.reconcile());
    }
    world.forget();
    world.reconcile();
    let finalizer = "Removal of finalizers from Node Object \"node-1\" failed due to error: nodes \"node-1\" is forbidden: no, \
                     Retrying. Initiate node object deletion";
    assert_eq!((world.text(), &world.machine().status.last_operation.state), (finalizer, &api::OperationState::Failed));
    assert_eq!(world.told, ["NodeNotRemoved"]);
    world.wait(Duration::from_secs(5));
    world.reconcile();
    assert_eq!(world.told.len(), 1, "the same is not said again");

    world.keeps_node = Some("timed out");
    world.edit_node(|n| n["metadata"]["finalizers"] = json!([]));
    world.reconcile();
    assert_eq!(
        world.text(),
        "Deletion of Node Object \"node-1\" failed due to error: timed out. Initiate node object deletion"
    );
    world.keeps_node = None;
    world.vm = VmState::Unasked; // another process goes on from the text
    world.settle();
    assert!(world.machine.is_none() && world.node.is_none());
}

#[rstest]
#[case(Code::Unavailable)]
#[case(Code::PermissionDenied)]
fn a_failed_delete_without_a_note_leaves_the_drivers_last_one_as_it_is(#[case] code: Code) {
    let mut world = running();
    world.edit(|m| m["status"]["lastKnownState"] = json!("disk 7 detached"));
    world.failures = vec![code];
    world.delete();
    world.settle();
    assert!(world.text().contains(&code.to_string()), "{}", world.text());
    assert_eq!(world.machine().status.last_known_state, "disk 7 detached");
}

#[test]
fn the_note_of_a_failed_delete_is_kept() {
    let mut world = running();
    world.delete();
    while world.text() != "Initiate VM deletion" && !world.text().ends_with(". Initiate VM deletion") {
        assert!(world.reconcile(), "the deletion of the VM never begins: {}", world.text());
    }
    world.vm = VmState::Failed(failed(Call::Delete, Some("disk 8 is attached"), &world));
    world.reconcile();
    assert_eq!(world.machine().status.last_known_state, "disk 8 is attached", "{}", world.text());
}

#[test]
fn what_the_driver_noted_when_it_deleted_the_vm_is_kept_as_long_as_the_machine() {
    let mut world = running();
    world.note = Some("address 9 is still reserved".into());
    world.delete();
    while world.machine().status.last_known_state.is_empty() {
        assert!(world.reconcile(), "nothing is left to do, and the note is not kept: {:?}", world.diary);
    }
    assert_eq!(world.machine().status.last_known_state, "address 9 is still reserved");
    assert_eq!(world.text(), "VM deletion was successful. Initiate node object deletion");
    assert!(world.node.is_some(), "before the machine can go");
    world.settle();
    assert!(world.machine.is_none() && world.node.is_none());
}
