//! From nothing to a VM that is waited for.

use std::time::Duration;

use api::{Code, MachinePhase};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;

/// Shows THR-2.
#[test]
fn a_machine_comes_up_in_this_order() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    assert_eq!(
        fixture.diary,
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
    assert_eq!(fixture.plan().because, Reason::NodeNotThere("node-1".into()));
}

#[test]
fn a_vm_left_by_a_lost_answer_is_adopted_and_not_made_twice() {
    let mut fixture = MachineFixture::new();
    fixture.vms = 1; // an earlier process created it and died before it could write it down
    fixture.settle();
    assert_eq!(fixture.created, 0);
    assert_eq!(fixture.machine().spec.provider_id, "vm:///m-1");
    assert_eq!(*fixture.machine().phase(), MachinePhase::Pending);
}

#[test]
fn without_a_target_cluster_a_machine_is_available_once_its_vm_runs() {
    let mut fixture = MachineFixture::new();
    fixture.joins = false;
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Available);
    let addresses: Vec<_> =
        fixture.machine().status.addresses.iter().map(|a| format!("{}={}", a.kind, a.address)).collect();
    assert_eq!(addresses, ["Hostname=node-1"]);
    assert_eq!(fixture.plan().because, Reason::Converged);
}

/// Shows MC-W10.
#[test]
fn a_failed_machine_makes_no_further_vm() {
    let mut fixture = MachineFixture::new().with_status("Failed", "");
    fixture.settle();
    assert_eq!(fixture.created, 0);
    assert_eq!(fixture.diary, ["add our finalizer"]);
}

#[test]
fn a_priority_someone_set_is_left_alone() {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| m["metadata"]["annotations"] = json!({ (api::names::annotations::PRIORITY): "1" }));
    fixture.settle();
    assert_eq!(fixture.machine().metadata.annotations.text(api::names::annotations::PRIORITY), Some("1"));
}

/// Shows DRV-6.
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
    let mut fixture = MachineFixture::new();
    fixture.failures = vec![code, Code::NotFound];
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::CrashLoopBackOff);
    assert_eq!(fixture.machine().status.last_operation.error_code, code.to_string());
    let text = &fixture.machine().status.last_operation.description;
    assert_eq!(*text, format!("Cloud provider message - machine codes error: code = [{code}] message = [no luck]"));
    let at = super::super::facts::later(fixture.now, Duration::from_secs(seconds));
    assert_eq!(fixture.plan().wake, Wake::By { awaited: Awaited::Retry, at });

    fixture.now = at;
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Pending);
    assert!(fixture.machine().status.last_operation.error_code.is_empty(), "an old error code must not stay");
}

#[test]
fn after_a_failure_the_cloud_is_asked_before_anything_is_created_again() {
    let mut fixture = MachineFixture::new();
    fixture.failures = vec![Code::DeadlineExceeded, Code::NotFound];
    fixture.settle();
    fixture.diary.clear();
    fixture.wait(Duration::from_secs(5));
    fixture.reconcile();
    assert_eq!(fixture.diary, ["ask the cloud to look up its VM"]);
}

/// Shows MC-W10.
#[test]
fn a_failure_past_the_creation_timeout_is_final() {
    let mut fixture = MachineFixture::new();
    fixture.failures = vec![Code::Internal, Code::NotFound];
    fixture.wait(Duration::from_secs(20 * 60 + 1));
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Failed);
    assert_eq!(fixture.plan().because, Reason::AwaitsReplacement);
}

/// Shows MC-W2.
#[test]
fn the_same_failure_is_written_again_only_after_half_an_hour() {
    let mut fixture = MachineFixture::new();
    fixture.policy.creation_timeout = Duration::from_hours(24);
    let mut writes = 0;
    for _ in 0..100 {
        fixture.failures = vec![Code::Unavailable];
        fixture.diary.clear();
        fixture.settle();
        writes += fixture.diary.iter().filter(|step| step.starts_with("set its phase")).count();
        fixture.wait(Duration::from_secs(30));
    }
    assert_eq!(writes, 2, "50 minutes of the same failure: once at the beginning, once after 30 minutes");
}

/// Shows THR-7.
#[rstest]
#[case::absent(Presence::Absent, "MachineClass \"c\" does not exist")]
#[case::unreadable(Presence::Undecodable, "MachineClass \"c\" exists but cannot be read")]
fn without_its_class_a_machine_says_so_and_waits_for_it(
    #[case] class: Presence<api::MachineClass>,
    #[case] sentence: &str,
) {
    let mut fixture = MachineFixture::new();
    let good = std::mem::replace(&mut fixture.class, class);
    fixture.settle();
    assert_eq!(fixture.machine().status.last_operation.description, sentence);
    assert_eq!(
        fixture.told,
        [if sentence.ends_with("exist") { "MachineClassNotFound" } else { "MachineClassUnreadable" }]
    );
    assert!(matches!(fixture.plan().wake, Wake::By { awaited: Awaited::Class, .. }));
    assert_eq!(fixture.created, 0);

    fixture.class = good;
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Pending);
}

/// Shows EVT-11.
#[test]
fn status_is_bounded_when_a_class_name_has_900_kilobytes() {
    let mut fixture = MachineFixture::new();
    fixture.class = Presence::Absent;
    fixture.edit(|m| m["spec"]["class"]["name"] = json!("x".repeat(900_000)));
    fixture.settle();
    let text = fixture.text();
    assert!(text.starts_with("MachineClass \"xxx") && text.ends_with("xxx\" does not exist"), "{text}");
    assert!(text.len() <= api::descriptions::LONGEST_TEXT, "{}", text.len());
    fixture.diary.clear();
    fixture.settle();
    assert_eq!(fixture.diary, [""; 0], "the same text is not written again");
}

/// Shows THR-7.
#[test]
fn an_invalid_spec_is_told_with_its_field_and_waits_for_a_change() {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| m["spec"]["class"]["name"] = json!(""));
    fixture.settle();
    assert!(fixture.machine().status.last_operation.description.contains("spec.class.name: Required value"));
    assert_eq!(fixture.told, ["Invalid"]);
    assert_eq!(fixture.created, 0);
}

#[test]
fn while_a_call_is_under_way_nothing_is_planned() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    let until = super::super::facts::later(fixture.now, Duration::from_mins(1));
    fixture.call_under_way = Some(CallUnderWay { call: Call::Create, until });
    let plan = fixture.plan();
    assert!(plan.steps.is_empty());
    assert_eq!(plan.wake, Wake::By { awaited: Awaited::DriverAnswer, at: until });
}

fn answer(fixture: &MachineFixture, provider_id: &str, node_name: &str, unusable: &str) -> VmState {
    VmState::Known(Vm {
        provider_id: provider_id.into(),
        node_name: node_name.into(),
        addresses: vec![],
        initialized: Initialized::Yes,
        unusable: Some(unusable.to_owned()),
        origin: Origin::Found,
        at: fixture.now,
    })
}

/// Shows LIM-15.
#[test]
fn a_vm_whose_node_name_cannot_be_used_is_an_error_and_its_id_is_written_down() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.vm = answer(&fixture, "p", "", "the node name is too long");
    assert_eq!(fixture.plan().because, Reason::NamelessVm);
    fixture.reconcile();
    fixture.reconcile();
    assert_eq!(fixture.machine().spec.provider_id, "p", "whoever deletes the machine must know of the VM");
    assert_eq!(fixture.machine().status.last_operation.error_code, "Internal");
    assert!(fixture.text().contains("the node name is too long"), "{}", fixture.text());
    assert!(fixture.said.iter().any(|said| said.contains("the node name is too long")), "{:?}", fixture.said);
}

/// Shows LIM-15.
#[test]
fn a_vm_whose_id_cannot_be_used_is_an_error_and_the_machine_is_deleted_by_its_name() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.vms = 1;
    fixture.vm = answer(&fixture, "", "node-1", "the provider id holds control characters");
    fixture.reconcile();
    assert!(fixture.machine().spec.provider_id.is_empty());
    assert!(fixture.text().contains("the provider id holds control characters"), "{}", fixture.text());
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0, "{:?}", fixture.diary);
}

/// Shows LIM-15.
#[test]
fn a_machine_whose_vm_cannot_be_used_is_marked_failed_at_its_creation_timeout() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.vms = 1;
    fixture.vm = answer(&fixture, "p", "", "the node name is too long");
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::CrashLoopBackOff);
    fixture.wait(Duration::from_mins(21));
    fixture.vm = answer(&fixture, "p", "", "the node name is too long");
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0, "{:?}", fixture.diary);
}

/// Shows MC-M2.
#[test]
fn status_names_the_provider_id_when_it_leads_to_no_vm() {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| m["spec"]["providerID"] = json!("nonsense\u{1b}"));
    fixture.settle();
    let text = fixture.text();
    assert!(text.contains("no VM for spec.providerID \"nonsense\\\\u{1b}\""), "{text}");
    assert!(text.contains("code = [Internal]") && !text.contains("the driver answered"), "{text}");
    assert_eq!(fixture.created, 0);
}

/// Shows MC-W12.
#[test]
fn a_vm_that_was_written_down_is_trusted_though_the_cloud_does_not_show_it() {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| {
        m["spec"]["providerID"] = json!("vm:///m-1");
        m["metadata"]["labels"] = json!({ "node": "node-1" });
    });
    fixture.settle();
    assert_eq!(fixture.created, 0, "clouds show new VMs late, and a second one would be worse");
    assert_eq!(*fixture.machine().phase(), MachinePhase::Pending);
}

/// Shows MC-W8.
#[rstest]
#[case::pending(vec![], MachinePhase::Pending)]
#[case::refused(vec![Code::Internal, Code::NotFound], MachinePhase::CrashLoopBackOff)]
fn an_expiry_survives_every_status_write_until_the_machine_is_deleted(
    #[case] failures: Vec<Code>,
    #[case] phase: MachinePhase,
) {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| {
        m["metadata"]["annotations"][api::names::annotations::PRESERVE] = json!("now");
        m["status"] = json!({ "currentStatus": { "preserveExpiryTime": "2026-01-05T00:00:00Z" } });
    });
    let expiry = fixture.machine().status.current_status.preserve_expiry_time;
    assert!(expiry.is_some());
    fixture.failures = failures;
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), phase);
    assert_eq!(fixture.machine().status.current_status.preserve_expiry_time, expiry);

    fixture.delete();
    fixture.reconcile();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Terminating);
    assert_eq!(fixture.machine().status.current_status.preserve_expiry_time, None);
}

/// Shows MC-W11.
#[rstest]
#[case(Code::Unavailable)]
#[case(Code::ResourceExhausted)]
#[case(Code::InvalidArgument)]
#[case(Code::Internal)]
fn a_failed_create_without_a_note_leaves_the_drivers_last_one_as_it_is(#[case] code: Code) {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| m["status"]["lastKnownState"] = json!("step 2"));
    fixture.failures = vec![code, Code::NotFound];
    fixture.settle();
    assert_eq!(fixture.machine().status.last_operation.error_code, code.to_string());
    assert_eq!(fixture.machine().status.last_known_state, "step 2");
}

/// Shows MC-W11, MC-W21.
#[rstest]
#[case(Code::Unavailable)]
#[case(Code::PermissionDenied)]
#[case(Code::NotFound)]
fn a_failed_initialization_is_tried_again_in_seconds_and_keeps_what_the_driver_noted(#[case] code: Code) {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| m["status"]["lastKnownState"] = json!("step 2"));
    for _ in 0..4 {
        fixture.reconcile();
    }
    assert_eq!(fixture.diary.last().unwrap(), "tell: VMCreated");
    fixture.failures = vec![code];
    fixture.settle();
    assert_eq!(
        fixture.text(),
        format!("Provider error: machine codes error: code = [{code}] message = [no luck]. Initialize VM Instance")
    );
    assert_eq!(fixture.machine().status.last_operation.error_code, code.to_string());
    assert_eq!(fixture.machine().status.last_known_state, "step 2");
    let at = super::super::facts::later(fixture.now, Duration::from_secs(5));
    assert_eq!(fixture.plan().wake, Wake::By { awaited: Awaited::Retry, at });
    fixture.now = at;
    fixture.settle();
    assert_eq!((fixture.phase(), fixture.created), (&MachinePhase::Pending, 1));
}

#[test]
fn a_time_of_the_next_try_that_would_not_be_kept_is_not_told() {
    let mut fixture = MachineFixture::new();
    fixture.failures = vec![Code::ResourceExhausted, Code::NotFound];
    fixture.settle();
    assert!(!fixture.said[0].contains("next try at"), "any machine of the class may try: {:?}", fixture.said);

    let mut fixture = MachineFixture::new();
    fixture.now = super::super::facts::later(fixture.now, Duration::from_mins(18));
    fixture.failures = vec![Code::InvalidArgument, Code::NotFound];
    fixture.settle();
    let outlook = "it is marked Failed at 00:20:00 UTC, when its creation timeout has passed";
    assert_eq!(fixture.said, [format!("CreateMachine failed: InvalidArgument: no luck; {outlook}")]);
}

#[test]
fn nothing_is_concluded_from_a_class_that_was_not_looked_for() {
    let mut fixture = MachineFixture::new();
    fixture.class = Presence::Absent;
    fixture.class_looked_for = LookedFor::NotYet;
    fixture.settle();
    assert_eq!((fixture.told.len(), fixture.text()), (0, ""), "it may exist");
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_some(), "somebody may have made a VM of that class");
    fixture.class_looked_for = LookedFor::Yes;
    fixture.settle();
    assert!(fixture.machine.is_none(), "no VM can have been made");
}

/// Shows MC-W44.
#[test]
fn a_failure_is_told_with_what_was_tried_what_was_said_and_when_it_is_tried_again() {
    let mut fixture = MachineFixture::new();
    fixture.failures = vec![Code::InvalidArgument, Code::NotFound];
    fixture.settle();
    let outlook = "next try at 00:03:00 UTC, or when its MachineClass or Secret changes";
    assert_eq!(fixture.said, [format!("CreateMachine failed: InvalidArgument: no luck; {outlook}")]);
    fixture.failures = vec![Code::InvalidArgument, Code::NotFound];
    fixture.wait(Duration::from_mins(3));
    fixture.settle();
    assert_eq!(fixture.said.len(), 1, "the same failure is not told again");
}

/// Shows MC-H7.
#[test]
fn a_creation_that_keeps_failing_is_marked_failed_at_its_deadline_and_makes_no_vm_after_it() {
    let mut fixture = MachineFixture::new();
    fixture.policy.creation_timeout = Duration::from_mins(12);
    fixture.failures = vec![Code::ResourceExhausted, Code::NotFound, Code::ResourceExhausted, Code::NotFound];
    fixture.settle();
    fixture.wait(Duration::from_mins(10));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::CrashLoopBackOff);
    let Wake::By { awaited: Awaited::Retry, at } = fixture.plan().wake else { panic!("it must look again") };
    assert_eq!(
        at,
        super::super::facts::later(super::fixture::BEGIN.parse().unwrap(), Duration::from_secs(12 * 60 + 1))
    );
    fixture.now = at;
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
    assert_eq!(fixture.machine().status.last_operation.error_code, "ResourceExhausted");
    assert!(fixture.said.last().unwrap().ends_with("its creation timeout has passed"), "{:?}", fixture.said);
    assert_eq!(fixture.created, 0);
    assert_eq!(fixture.plan().because, Reason::AwaitsReplacement);
}

#[test]
fn a_process_that_comes_back_after_the_deadline_gives_a_failing_creation_up_too() {
    let mut fixture = MachineFixture::new();
    fixture.failures = vec![Code::Unavailable, Code::NotFound];
    fixture.settle();
    fixture.vm = VmState::Unasked;
    fixture.wait(Duration::from_mins(21));
    fixture.settle();
    assert_eq!((fixture.phase(), fixture.created), (&MachinePhase::Failed, 0));
    assert_eq!(fixture.machine().status.last_operation.error_code, "Unavailable");
}

#[test]
fn a_machine_that_waited_for_a_controller_longer_than_its_timeout_still_gets_its_vm() {
    let mut fixture = MachineFixture::new();
    fixture.wait(Duration::from_hours(2));
    fixture.settle();
    assert_eq!(fixture.created, 1);
    fixture.register("True");
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Running);
}

/// Shows MC-W56.
#[test]
fn an_answer_without_a_name_is_asked_for_again() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.vms = 1;
    fixture.vm = VmState::Known(Vm {
        provider_id: "".into(),
        node_name: "node-1".into(),
        addresses: vec![],
        initialized: Initialized::Yes,
        unusable: None,
        origin: Origin::Found,
        at: fixture.now,
    });
    fixture.settle();
    let Wake::By { awaited: Awaited::Retry, at } = fixture.plan().wake else { panic!("it must try again") };
    fixture.now = at;
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Pending);
}

/// Shows MC-W11.
#[test]
fn what_the_driver_noted_while_it_made_the_vm_is_kept_without_a_write_of_its_own() {
    let mut fixture = MachineFixture::new();
    fixture.note = Some("disk 7".into());
    fixture.settle();
    assert_eq!(fixture.machine().status.last_known_state, "disk 7");
    let writes = fixture.diary.iter().filter(|step| step.starts_with("set ") || step.starts_with("write ")).count();
    assert_eq!(writes, 2, "{:?}", fixture.diary);
}

fn node_of_another(provider_id: &str) -> api::view::NodeView {
    super::fixture::read(
        json!({ "metadata": { "name": "node-1", "uid": "n-0" }, "spec": { "providerID": provider_id } }),
    )
}

/// Shows MC-W10, MC-W66.
#[rstest]
#[case::says_nothing("")]
#[case::is_another("vm:///m-0")]
fn a_vm_that_took_over_anothers_node_is_given_back_and_no_second_one_is_made(#[case] provider_id: &str) {
    let mut fixture = MachineFixture::new();
    fixture.namesake = Some(node_of_another(provider_id));
    fixture.settle();
    assert_eq!((fixture.phase(), fixture.text()), (&MachinePhase::Failed, "VM using old node obj"));
    assert_eq!((fixture.created, fixture.vms), (1, 0));
    assert_eq!(fixture.told, ["GivenUp"]);
    assert!(fixture.machine().spec.provider_id.is_empty() && fixture.machine().node_name().is_none());

    fixture.vm = VmState::Unasked; // another process
    fixture.settle();
    assert_eq!((fixture.created, fixture.plan().because), (1, Reason::AwaitsReplacement));
}

/// Shows MC-W66.
#[test]
fn a_vm_whose_node_came_before_the_answer_is_kept() {
    let mut fixture = MachineFixture::new();
    fixture.namesake = Some(node_of_another("vm:///somewhere/m-1"));
    fixture.settle();
    assert_eq!((fixture.phase(), fixture.vms), (&MachinePhase::Pending, 1));
}

/// Shows MC-W66.
#[test]
fn a_process_that_dies_before_the_vm_was_given_back_leaves_that_to_the_next() {
    let mut fixture = MachineFixture::new();
    fixture.namesake = Some(node_of_another(""));
    while fixture.vms == 0 {
        fixture.reconcile();
    }
    fixture.failures = vec![Code::Unavailable];
    fixture.reconcile();
    assert_eq!((fixture.phase(), fixture.vms), (&MachinePhase::Failed, 1));
    fixture.vm = VmState::Unasked;
    fixture.settle();
    assert_eq!((fixture.created, fixture.vms), (1, 0));
}

/// Shows MC-H2.
#[test]
fn a_creation_that_keeps_failing_though_its_node_is_well_counts_as_joined() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("CrashLoopBackOff");
        m["status"]["lastOperation"]["state"] = json!("Failed");
    });
    fixture.register("True");
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Running);
}

#[test]
fn while_we_are_disconnected_nothing_is_made() {
    let mut fixture = MachineFixture::new();
    fixture.connectivity = Connectivity::Frozen;
    fixture.settle();
    assert_eq!(fixture.diary, ["add our finalizer"]);
    assert_eq!(fixture.plan().because, Reason::Frozen);
    fixture.connectivity = Connectivity::Connected;
    fixture.settle();
    assert_eq!(fixture.created, 1);
}

/// Shows MC-W56.
#[test]
fn a_label_left_from_a_time_with_a_target_cluster_does_no_harm_without_one() {
    let mut fixture = MachineFixture::new();
    fixture.joins = false;
    fixture.edit(|m| m["metadata"]["labels"] = json!({ "node": "node-1" }));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Available);
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0);
}

/// Shows MC-S1.
#[test]
fn a_node_label_that_a_machine_was_created_with_gives_way_to_the_name_its_vm_has() {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| m["metadata"]["labels"]["node"] = json!("node-of-another"));
    fixture.settle();
    assert_eq!(fixture.machine().node_name().unwrap(), "node-1", "{:#?}", fixture.diary);
    assert_eq!(*fixture.phase(), MachinePhase::Pending);
}

/// Shows MC-S1.
#[test]
fn a_node_label_that_somebody_changes_later_is_left_alone() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.edit(|m| {
        m["metadata"]["labels"]["node"] = json!("node-2");
        m["status"]["currentStatus"]["phase"] = json!("CrashLoopBackOff");
    });
    fixture.vm = VmState::Unasked;
    fixture.settle();
    assert_eq!(fixture.machine().node_name().unwrap(), "node-2");
}

/// Shows MC-S1.
#[test]
fn a_creation_that_keeps_failing_does_not_count_as_joined_because_of_the_node_of_another_machine() {
    let mut fixture = MachineFixture::new().with_status("CrashLoopBackOff", "Cloud provider message - no luck");
    fixture.edit(|m| m["metadata"]["labels"]["node"] = json!("node-1"));
    fixture.register("True");
    fixture.edit_node(|n| n["spec"]["providerID"] = json!("vm:///m-2"));
    let rival = json!({ "metadata": { "name": "m-2" }, "spec": { "providerID": "vm:///zone/m-2" } });
    fixture.rivals = vec![std::sync::Arc::new(super::fixture::read(rival))];
    fixture.failures = vec![Code::Unavailable, Code::NotFound];
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::CrashLoopBackOff);
}

/// Shows MC-S2.
#[test]
fn without_a_target_cluster_the_addresses_of_every_answer_are_kept() {
    let mut fixture = MachineFixture::new();
    fixture.joins = false;
    fixture.reached = [(Call::Create, "10.0.0.1"), (Call::Initialize, "10.0.0.2"), (Call::Status, "10.0.0.3")].into();
    fixture.settle();
    let addresses: Vec<_> =
        fixture.machine().status.addresses.iter().map(|a| format!("{}={}", a.kind, a.address)).collect();
    assert_eq!(addresses, ["Hostname=node-1", "InternalIP=10.0.0.1", "InternalIP=10.0.0.2", "InternalIP=10.0.0.3"]);
    assert_eq!(*fixture.machine().phase(), MachinePhase::Available);
}

/// Shows MC-S2.
#[test]
fn addresses_that_were_told_outlive_a_cloud_that_does_not_show_its_new_vm_yet() {
    let mut fixture = MachineFixture::new();
    fixture.joins = false;
    fixture.reached = [(Call::Create, "10.0.0.1"), (Call::Initialize, "10.0.0.2")].into();
    while !fixture.diary.iter().any(|step| step.contains("initialize")) {
        fixture.reconcile();
    }
    fixture.failures = vec![Code::NotFound];
    fixture.settle();
    let addresses: Vec<_> = fixture.machine().status.addresses.iter().map(|a| a.address.as_str()).collect();
    assert_eq!(addresses, ["node-1", "10.0.0.1", "10.0.0.2"]);
    assert_eq!((fixture.phase(), fixture.created), (&MachinePhase::Available, 1));
}

/// Shows MC-S2.
#[test]
fn with_a_target_cluster_addresses_are_left_to_the_node_and_nothing_more_is_asked() {
    let mut fixture = MachineFixture::new();
    fixture.reached = [(Call::Create, "10.0.0.1"), (Call::Initialize, "10.0.0.2")].into();
    fixture.settle();
    assert!(fixture.machine().status.addresses.is_empty());
    assert_eq!(fixture.diary.iter().filter(|step| step.contains("look up")).count(), 1);
}

/// Shows MC-W73.
#[test]
fn a_provider_that_nobody_serves_is_told_and_no_cloud_is_asked() {
    let mut fixture = MachineFixture::new();
    fixture.driver = DriverState::Missing("no driver serves \"mars\"; this process has virtual".into());
    fixture.settle();
    assert_eq!((fixture.phase(), fixture.created), (&MachinePhase::New, 0));
    assert!(fixture.text().contains("no driver serves \"mars\""), "{}", fixture.text());
    assert_eq!(fixture.told, ["DriverNotFound"]);
    assert!(!fixture.diary.iter().any(|step| step.contains("ask the cloud")), "{:?}", fixture.diary);
    fixture.driver = DriverState::Served;
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Pending);
}
