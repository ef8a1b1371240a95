//! From nothing to a VM that is waited for.

use std::time::Duration;

use api::{Code, MachinePhase};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::world::World;

#[test]
fn a_machine_comes_up_in_this_order() {
    let mut world = World::new();
    world.settle();
    assert_eq!(
        world.diary,
        [
            "add our finalizer",
            "ask the cloud to look up its VM",
            "ask the cloud to create its VM",
            "write down its VM vm:///m-1",
            "tell: VMCreated",
            "ask the cloud to initialize its VM",
            "set its phase to Pending",
        ]
    );
    assert_eq!(world.plan().because, Reason::NodeNotThere("node-1".into()));
}

#[test]
fn a_vm_left_by_a_lost_answer_is_adopted_and_not_made_twice() {
    let mut world = World::new();
    world.vms = 1; // an earlier process created it and died before it could write it down
    world.settle();
    assert_eq!(world.created, 0);
    assert_eq!(world.machine().spec.provider_id, "vm:///m-1");
    assert_eq!(*world.machine().phase(), MachinePhase::Pending);
}

#[test]
fn without_a_target_cluster_a_machine_is_available_once_its_vm_runs() {
    let mut world = World::new();
    world.joins = false;
    world.settle();
    assert_eq!(*world.machine().phase(), MachinePhase::Available);
    let addresses: Vec<_> =
        world.machine().status.addresses.iter().map(|a| format!("{}={}", a.kind, a.address)).collect();
    assert_eq!(addresses, ["Hostname=node-1"]);
    assert_eq!(world.plan().because, Reason::Converged);
}

#[test]
fn a_failed_machine_makes_no_further_vm() {
    let mut world = World::new().with_status("Failed", "");
    world.settle();
    assert_eq!(world.created, 0);
    assert_eq!(world.diary, ["add our finalizer"]);
}

#[test]
fn a_priority_someone_set_is_left_alone() {
    let mut world = World::new();
    world.edit(|m| m["metadata"]["annotations"] = json!({ (api::names::annotations::PRIORITY): "1" }));
    world.settle();
    assert_eq!(world.machine().metadata.annotations.as_ref().unwrap()[api::names::annotations::PRIORITY], "1");
}

#[rstest]
#[case(Code::ResourceExhausted, 600)]
#[case(Code::Unknown, 5)]
#[case(Code::DeadlineExceeded, 5)]
#[case(Code::Aborted, 5)]
#[case(Code::Unavailable, 5)]
#[case(Code::InvalidArgument, 180)]
#[case(Code::PermissionDenied, 180)]
#[case(Code::Internal, 180)]
fn a_failed_creation_is_tried_again_after_a_while_that_depends_on_the_code(#[case] code: Code, #[case] seconds: u64) {
    let mut world = World::new();
    world.failures = vec![code, Code::NotFound];
    world.settle();
    assert_eq!(*world.machine().phase(), MachinePhase::CrashLoopBackOff);
    assert_eq!(world.machine().status.last_operation.error_code, code.to_string());
    let text = &world.machine().status.last_operation.description;
    assert_eq!(*text, format!("Cloud provider message - machine codes error: code = [{code}] message = [no luck]"));
    let at = super::super::facts::later(world.now, Duration::from_secs(seconds));
    assert_eq!(world.plan().wake, Wake::By { awaited: Awaited::Retry, at });

    world.now = at;
    world.settle();
    assert_eq!(*world.machine().phase(), MachinePhase::Pending);
    assert!(world.machine().status.last_operation.error_code.is_empty(), "an old error code must not stay");
}

#[test]
fn after_a_failure_the_cloud_is_asked_before_anything_is_created_again() {
    let mut world = World::new();
    world.failures = vec![Code::DeadlineExceeded, Code::NotFound];
    world.settle();
    world.diary.clear();
    world.wait(Duration::from_secs(5));
    world.reconcile();
    assert_eq!(world.diary, ["ask the cloud to look up its VM"]);
}

#[test]
fn a_failure_past_the_creation_timeout_is_final() {
    let mut world = World::new();
    world.failures = vec![Code::Internal, Code::NotFound];
    world.wait(Duration::from_secs(20 * 60 + 1));
    world.settle();
    assert_eq!(*world.machine().phase(), MachinePhase::Failed);
    assert_eq!(world.plan().because, Reason::AwaitsReplacement);
}

#[test]
fn the_same_failure_is_written_again_only_after_half_an_hour() {
    let mut world = World::new();
    world.policy.creation_timeout = Duration::from_hours(24);
    let mut writes = 0;
    for _ in 0..100 {
        world.failures = vec![Code::Unavailable];
        world.diary.clear();
        world.settle();
        writes += world.diary.iter().filter(|step| step.starts_with("set its phase")).count();
        world.wait(Duration::from_secs(30));
    }
    assert_eq!(writes, 2, "50 minutes of the same failure: once at the beginning, once after 30 minutes");
}

#[rstest]
#[case::absent(Presence::Absent, "MachineClass \"c\" does not exist")]
#[case::unreadable(Presence::Undecodable, "MachineClass \"c\" exists but cannot be read")]
fn without_its_class_a_machine_says_so_and_waits_for_it(
    #[case] class: Presence<api::MachineClass>,
    #[case] sentence: &str,
) {
    let mut world = World::new();
    let good = std::mem::replace(&mut world.class, class);
    world.settle();
    assert_eq!(world.machine().status.last_operation.description, sentence);
    assert_eq!(
        world.told,
        [if sentence.ends_with("exist") { "MachineClassNotFound" } else { "MachineClassUnreadable" }]
    );
    assert!(matches!(world.plan().wake, Wake::By { awaited: Awaited::Class, .. }));
    assert_eq!(world.created, 0);

    world.class = good;
    world.settle();
    assert_eq!(*world.machine().phase(), MachinePhase::Pending);
}

#[test]
fn an_invalid_spec_is_told_with_its_field_and_waits_for_a_change() {
    let mut world = World::new();
    world.edit(|m| m["spec"]["class"]["name"] = json!(""));
    world.settle();
    assert!(world.machine().status.last_operation.description.contains("spec.class.name: Required value"));
    assert_eq!(world.told, ["Invalid"]);
    assert_eq!(world.created, 0);
}

#[test]
fn while_a_call_is_under_way_nothing_is_planned() {
    let mut world = World::new();
    world.reconcile();
    let until = super::super::facts::later(world.now, Duration::from_mins(1));
    world.call_under_way = Some(CallUnderWay { call: Call::Create, until });
    let plan = world.plan();
    assert!(plan.steps.is_empty());
    assert_eq!(plan.wake, Wake::By { awaited: Awaited::DriverAnswer, at: until });
}

fn answer(world: &World, provider_id: &str, node_name: &str, unusable: &str) -> VmState {
    VmState::Known(Vm {
        provider_id: provider_id.into(),
        node_name: node_name.into(),
        addresses: vec![],
        initialized: Initialized::Yes,
        unusable: Some(unusable.to_owned()),
        origin: Origin::Found,
        at: world.now,
    })
}

#[test]
fn a_vm_whose_node_name_cannot_be_used_is_an_error_and_its_id_is_written_down() {
    let mut world = World::new();
    world.reconcile();
    world.vm = answer(&world, "p", "", "the node name is too long");
    assert_eq!(world.plan().because, Reason::NamelessVm);
    world.reconcile();
    world.reconcile();
    assert_eq!(world.machine().spec.provider_id, "p", "whoever deletes the machine must know of the VM");
    assert_eq!(world.machine().status.last_operation.error_code, "Internal");
    assert!(world.text().contains("the node name is too long"), "{}", world.text());
    assert!(world.said.iter().any(|said| said.contains("the node name is too long")), "{:?}", world.said);
}

#[test]
fn a_vm_whose_id_cannot_be_used_is_an_error_and_the_machine_is_deleted_by_its_name() {
    let mut world = World::new();
    world.reconcile();
    world.vms = 1;
    world.vm = answer(&world, "", "node-1", "the provider id holds control characters");
    world.reconcile();
    assert!(world.machine().spec.provider_id.is_empty());
    assert!(world.text().contains("the provider id holds control characters"), "{}", world.text());
    world.delete();
    world.settle();
    assert!(world.machine.is_none() && world.vms == 0, "{:?}", world.diary);
}

#[test]
fn a_machine_whose_vm_cannot_be_used_is_marked_failed_at_its_creation_timeout() {
    let mut world = World::new();
    world.reconcile();
    world.vms = 1;
    world.vm = answer(&world, "p", "", "the node name is too long");
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::CrashLoopBackOff);
    world.wait(Duration::from_mins(21));
    world.vm = answer(&world, "p", "", "the node name is too long");
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Failed);
    world.delete();
    world.settle();
    assert!(world.machine.is_none() && world.vms == 0, "{:?}", world.diary);
}

#[test]
fn a_vm_that_was_written_down_is_trusted_though_the_cloud_does_not_show_it() {
    let mut world = World::new();
    world.edit(|m| {
        m["spec"]["providerID"] = json!("vm:///m-1");
        m["metadata"]["labels"] = json!({ "node": "node-1" });
    });
    world.settle();
    assert_eq!(world.created, 0, "clouds show new VMs late, and a second one would be worse");
    assert_eq!(*world.machine().phase(), MachinePhase::Pending);
}

#[rstest]
#[case::pending(vec![], MachinePhase::Pending)]
#[case::refused(vec![Code::Internal, Code::NotFound], MachinePhase::CrashLoopBackOff)]
fn an_expiry_survives_every_status_write_until_the_machine_is_deleted(
    #[case] failures: Vec<Code>,
    #[case] phase: MachinePhase,
) {
    let mut world = World::new();
    world.edit(|m| {
        m["metadata"]["annotations"][api::names::annotations::PRESERVE] = json!("now");
        m["status"] = json!({ "currentStatus": { "preserveExpiryTime": "2026-01-05T00:00:00Z" } });
    });
    let expiry = world.machine().status.current_status.preserve_expiry_time;
    assert!(expiry.is_some());
    world.failures = failures;
    world.settle();
    assert_eq!(*world.machine().phase(), phase);
    assert_eq!(world.machine().status.current_status.preserve_expiry_time, expiry);

    world.delete();
    world.reconcile();
    assert_eq!(*world.machine().phase(), MachinePhase::Terminating);
    assert_eq!(world.machine().status.current_status.preserve_expiry_time, None);
}

#[rstest]
#[case(Code::Unavailable)]
#[case(Code::ResourceExhausted)]
#[case(Code::InvalidArgument)]
#[case(Code::Internal)]
fn a_failed_create_without_a_note_leaves_the_drivers_last_one_as_it_is(#[case] code: Code) {
    let mut world = World::new();
    world.edit(|m| m["status"]["lastKnownState"] = json!("step 2"));
    world.failures = vec![code, Code::NotFound];
    world.settle();
    assert_eq!(world.machine().status.last_operation.error_code, code.to_string());
    assert_eq!(world.machine().status.last_known_state, "step 2");
}

#[rstest]
#[case(Code::Unavailable)]
#[case(Code::PermissionDenied)]
#[case(Code::NotFound)]
fn a_failed_initialization_is_tried_again_in_seconds_and_keeps_what_the_driver_noted(#[case] code: Code) {
    let mut world = World::new();
    world.edit(|m| m["status"]["lastKnownState"] = json!("step 2"));
    for _ in 0..4 {
        world.reconcile();
    }
    assert_eq!(world.diary.last().unwrap(), "tell: VMCreated");
    world.failures = vec![code];
    world.settle();
    assert_eq!(
        world.text(),
        format!("Provider error: machine codes error: code = [{code}] message = [no luck]. Initialize VM Instance")
    );
    assert_eq!(world.machine().status.last_operation.error_code, code.to_string());
    assert_eq!(world.machine().status.last_known_state, "step 2");
    let at = super::super::facts::later(world.now, Duration::from_secs(5));
    assert_eq!(world.plan().wake, Wake::By { awaited: Awaited::Retry, at });
    world.now = at;
    world.settle();
    assert_eq!((world.phase(), world.created), (&MachinePhase::Pending, 1));
}

#[test]
fn a_time_of_the_next_try_that_would_not_be_kept_is_not_told() {
    let mut world = World::new();
    world.failures = vec![Code::ResourceExhausted, Code::NotFound];
    world.settle();
    assert!(!world.said[0].contains("next try at"), "any machine of the class may try: {:?}", world.said);

    let mut world = World::new();
    world.now = super::super::facts::later(world.now, Duration::from_mins(18));
    world.failures = vec![Code::InvalidArgument, Code::NotFound];
    world.settle();
    let outlook = "it is marked Failed at 00:20:00 UTC, when its creation timeout has passed";
    assert_eq!(world.said, [format!("CreateMachine failed: InvalidArgument: no luck; {outlook}")]);
}

#[test]
fn nothing_is_concluded_from_a_class_that_was_not_looked_for() {
    let mut world = World::new();
    world.class = Presence::Absent;
    world.class_looked_for = LookedFor::NotYet;
    world.settle();
    assert_eq!((world.told.len(), world.text()), (0, ""), "it may exist");
    world.delete();
    world.settle();
    assert!(world.machine.is_some(), "somebody may have made a VM of that class");
    world.class_looked_for = LookedFor::Yes;
    world.settle();
    assert!(world.machine.is_none(), "no VM can have been made");
}

#[test]
fn a_failure_is_told_with_what_was_tried_what_was_said_and_when_it_is_tried_again() {
    let mut world = World::new();
    world.failures = vec![Code::InvalidArgument, Code::NotFound];
    world.settle();
    let outlook = "next try at 00:03:00 UTC, or when its MachineClass or Secret changes";
    assert_eq!(world.said, [format!("CreateMachine failed: InvalidArgument: no luck; {outlook}")]);
    world.failures = vec![Code::InvalidArgument, Code::NotFound];
    world.wait(Duration::from_mins(3));
    world.settle();
    assert_eq!(world.said.len(), 1, "the same failure is not told again");
}

#[test]
fn a_creation_that_keeps_failing_is_marked_failed_at_its_deadline_and_makes_no_vm_after_it() {
    let mut world = World::new();
    world.policy.creation_timeout = Duration::from_mins(12);
    world.failures = vec![Code::ResourceExhausted, Code::NotFound, Code::ResourceExhausted, Code::NotFound];
    world.settle();
    world.wait(Duration::from_mins(10));
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::CrashLoopBackOff);
    let Wake::By { awaited: Awaited::Retry, at } = world.plan().wake else { panic!("it must look again") };
    assert_eq!(at, super::super::facts::later(super::world::BEGIN.parse().unwrap(), Duration::from_secs(12 * 60 + 1)));
    world.now = at;
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Failed);
    assert_eq!(world.machine().status.last_operation.error_code, "ResourceExhausted");
    assert!(world.said.last().unwrap().ends_with("its creation timeout has passed"), "{:?}", world.said);
    assert_eq!(world.created, 0);
    assert_eq!(world.plan().because, Reason::AwaitsReplacement);
}

#[test]
fn a_process_that_comes_back_after_the_deadline_gives_a_failing_creation_up_too() {
    let mut world = World::new();
    world.failures = vec![Code::Unavailable, Code::NotFound];
    world.settle();
    world.vm = VmState::Unasked;
    world.wait(Duration::from_mins(21));
    world.settle();
    assert_eq!((world.phase(), world.created), (&MachinePhase::Failed, 0));
    assert_eq!(world.machine().status.last_operation.error_code, "Unavailable");
}

#[test]
fn a_machine_that_waited_for_a_controller_longer_than_its_timeout_still_gets_its_vm() {
    let mut world = World::new();
    world.wait(Duration::from_hours(2));
    world.settle();
    assert_eq!(world.created, 1);
    world.register("True");
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Running);
}

#[test]
fn an_answer_without_a_name_is_asked_for_again() {
    let mut world = World::new();
    world.reconcile();
    world.vms = 1;
    world.vm = VmState::Known(Vm {
        provider_id: "".into(),
        node_name: "node-1".into(),
        addresses: vec![],
        initialized: Initialized::Yes,
        unusable: None,
        origin: Origin::Found,
        at: world.now,
    });
    world.settle();
    let Wake::By { awaited: Awaited::Retry, at } = world.plan().wake else { panic!("it must try again") };
    world.now = at;
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Pending);
}

#[test]
fn what_the_driver_noted_while_it_made_the_vm_is_kept_without_a_write_of_its_own() {
    let mut world = World::new();
    world.note = Some("disk 7".into());
    world.settle();
    assert_eq!(world.machine().status.last_known_state, "disk 7");
    let writes = world.diary.iter().filter(|step| step.starts_with("set ") || step.starts_with("write ")).count();
    assert_eq!(writes, 2, "{:?}", world.diary);
}

fn node_of_another(provider_id: &str) -> api::view::NodeView {
    super::world::read(json!({ "metadata": { "name": "node-1", "uid": "n-0" }, "spec": { "providerID": provider_id } }))
}

#[rstest]
#[case::says_nothing("")]
#[case::is_another("vm:///m-0")]
fn a_vm_that_took_over_anothers_node_is_given_back_and_no_second_one_is_made(#[case] provider_id: &str) {
    let mut world = World::new();
    world.namesake = Some(node_of_another(provider_id));
    world.settle();
    assert_eq!((world.phase(), world.text()), (&MachinePhase::Failed, "VM using old node obj"));
    assert_eq!((world.created, world.vms), (1, 0));
    assert_eq!(world.told, ["GivenUp"]);
    assert!(world.machine().spec.provider_id.is_empty() && world.machine().node_name().is_none());

    world.vm = VmState::Unasked; // another process
    world.settle();
    assert_eq!((world.created, world.plan().because), (1, Reason::AwaitsReplacement));
}

#[test]
fn a_vm_whose_node_came_before_the_answer_is_kept() {
    let mut world = World::new();
    world.namesake = Some(node_of_another("vm:///somewhere/m-1"));
    world.settle();
    assert_eq!((world.phase(), world.vms), (&MachinePhase::Pending, 1));
}

#[test]
fn a_process_that_dies_before_the_vm_was_given_back_leaves_that_to_the_next() {
    let mut world = World::new();
    world.namesake = Some(node_of_another(""));
    while world.vms == 0 {
        world.reconcile();
    }
    world.failures = vec![Code::Unavailable];
    world.reconcile();
    assert_eq!((world.phase(), world.vms), (&MachinePhase::Failed, 1));
    world.vm = VmState::Unasked;
    world.settle();
    assert_eq!((world.created, world.vms), (1, 0));
}

#[test]
fn a_creation_that_keeps_failing_though_its_node_is_well_counts_as_joined() {
    let mut world = World::new();
    world.settle();
    world.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("CrashLoopBackOff");
        m["status"]["lastOperation"]["state"] = json!("Failed");
    });
    world.register("True");
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Running);
}

#[test]
fn while_we_are_disconnected_nothing_is_made() {
    let mut world = World::new();
    world.connectivity = Connectivity::Frozen;
    world.settle();
    assert_eq!(world.diary, ["add our finalizer"]);
    assert_eq!(world.plan().because, Reason::Frozen);
    world.connectivity = Connectivity::Connected;
    world.settle();
    assert_eq!(world.created, 1);
}

#[test]
fn a_label_left_from_a_time_with_a_target_cluster_does_no_harm_without_one() {
    let mut world = World::new();
    world.joins = false;
    world.edit(|m| m["metadata"]["labels"] = json!({ "node": "node-1" }));
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Available);
    world.delete();
    world.settle();
    assert!(world.machine.is_none() && world.vms == 0);
}

#[test]
fn a_node_label_that_a_machine_was_created_with_gives_way_to_the_name_its_vm_has() {
    let mut world = World::new();
    world.edit(|m| m["metadata"]["labels"]["node"] = json!("node-of-another"));
    world.settle();
    assert_eq!(world.machine().node_name().unwrap(), "node-1", "{:#?}", world.diary);
    assert_eq!(*world.phase(), MachinePhase::Pending);
}

#[test]
fn a_node_label_that_somebody_changes_later_is_left_alone() {
    let mut world = World::new();
    world.settle();
    world.edit(|m| {
        m["metadata"]["labels"]["node"] = json!("node-2");
        m["status"]["currentStatus"]["phase"] = json!("CrashLoopBackOff");
    });
    world.vm = VmState::Unasked;
    world.settle();
    assert_eq!(world.machine().node_name().unwrap(), "node-2");
}

#[test]
fn a_creation_that_keeps_failing_does_not_count_as_joined_because_of_the_node_of_another_machine() {
    let mut world = World::new().with_status("CrashLoopBackOff", "Cloud provider message - no luck");
    world.edit(|m| m["metadata"]["labels"]["node"] = json!("node-1"));
    world.register("True");
    world.edit_node(|n| n["spec"]["providerID"] = json!("vm:///m-2"));
    let rival = json!({ "metadata": { "name": "m-2" }, "spec": { "providerID": "vm:///zone/m-2" } });
    world.rivals = vec![std::sync::Arc::new(super::world::read(rival))];
    world.failures = vec![Code::Unavailable, Code::NotFound];
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::CrashLoopBackOff);
}

#[test]
fn without_a_target_cluster_the_addresses_of_every_answer_are_kept() {
    let mut world = World::new();
    world.joins = false;
    world.reached = [(Call::Create, "10.0.0.1"), (Call::Initialize, "10.0.0.2"), (Call::Status, "10.0.0.3")].into();
    world.settle();
    let addresses: Vec<_> =
        world.machine().status.addresses.iter().map(|a| format!("{}={}", a.kind, a.address)).collect();
    assert_eq!(addresses, ["Hostname=node-1", "InternalIP=10.0.0.1", "InternalIP=10.0.0.2", "InternalIP=10.0.0.3"]);
    assert_eq!(*world.machine().phase(), MachinePhase::Available);
}

#[test]
fn addresses_that_were_told_outlive_a_cloud_that_does_not_show_its_new_vm_yet() {
    let mut world = World::new();
    world.joins = false;
    world.reached = [(Call::Create, "10.0.0.1"), (Call::Initialize, "10.0.0.2")].into();
    while !world.diary.iter().any(|step| step.contains("initialize")) {
        world.reconcile();
    }
    world.failures = vec![Code::NotFound];
    world.settle();
    let addresses: Vec<_> = world.machine().status.addresses.iter().map(|a| a.address.as_str()).collect();
    assert_eq!(addresses, ["node-1", "10.0.0.1", "10.0.0.2"]);
    assert_eq!((world.phase(), world.created), (&MachinePhase::Available, 1));
}

#[test]
fn with_a_target_cluster_addresses_are_left_to_the_node_and_nothing_more_is_asked() {
    let mut world = World::new();
    world.reached = [(Call::Create, "10.0.0.1"), (Call::Initialize, "10.0.0.2")].into();
    world.settle();
    assert!(world.machine().status.addresses.is_empty());
    assert_eq!(world.diary.iter().filter(|step| step.contains("look up")).count(), 1);
}

#[test]
fn a_provider_that_nobody_serves_is_told_and_no_cloud_is_asked() {
    let mut world = World::new();
    world.driver = DriverState::Missing("no driver serves \"mars\"; this process has virtual".into());
    world.settle();
    assert_eq!((world.phase(), world.created), (&MachinePhase::New, 0));
    assert!(world.text().contains("no driver serves \"mars\""), "{}", world.text());
    assert_eq!(world.told, ["DriverNotFound"]);
    assert!(!world.diary.iter().any(|step| step.contains("ask the cloud")), "{:?}", world.diary);
    world.driver = DriverState::Served;
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Pending);
}
