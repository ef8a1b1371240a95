//! Creation of VMs.

use std::time::Duration;

use api::{Code, MachinePhase};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;

/// Shows THR-2.
#[test]
fn machine_is_created_in_this_order() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    assert_eq!(
        fixture.history,
        [
            "add the finalizer",
            "call the driver to look up the VM",
            "call the driver to create the VM",
            "record VM vm:///m-1",
            "emit Event VMCreated",
            "call the driver to initialize the VM",
            "set the phase to Pending",
        ]
    );
    assert_eq!(fixture.plan().because, Reason::NodeNotRegistered("node-1".into()));
}

#[test]
fn vm_of_a_lost_response_is_adopted() {
    let mut fixture = MachineFixture::new();
    fixture.vms = 1; // an earlier process created it and stopped before it was recorded
    fixture.settle();
    assert_eq!(fixture.created, 0);
    assert_eq!(fixture.machine().spec.provider_id, "vm:///m-1");
    assert_eq!(*fixture.machine().phase(), MachinePhase::Pending);
}

#[test]
fn machine_is_available_without_target_cluster() {
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
fn failed_machine_creates_no_further_vm() {
    let mut fixture = MachineFixture::new().with_status("Failed", "");
    fixture.settle();
    assert_eq!(fixture.created, 0);
    assert_eq!(fixture.history, ["add the finalizer"]);
}

#[test]
fn existing_priority_is_kept() {
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
fn creation_is_retried_after_a_backoff_by_code(#[case] code: Code, #[case] seconds: u64) {
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
fn driver_is_queried_before_creation_is_retried() {
    let mut fixture = MachineFixture::new();
    fixture.failures = vec![Code::DeadlineExceeded, Code::NotFound];
    fixture.settle();
    fixture.history.clear();
    fixture.wait(Duration::from_secs(5));
    fixture.reconcile();
    assert_eq!(fixture.history, ["call the driver to look up the VM"]);
}

/// Shows MC-W10.
#[test]
fn failure_after_the_creation_timeout_is_final() {
    let mut fixture = MachineFixture::new();
    fixture.failures = vec![Code::Internal, Code::NotFound];
    fixture.wait(Duration::from_secs(20 * 60 + 1));
    fixture.settle();
    assert_eq!(*fixture.machine().phase(), MachinePhase::Failed);
    assert_eq!(fixture.plan().because, Reason::AwaitsReplacement);
}

/// Shows MC-W2.
#[test]
fn same_failure_is_written_again_after_half_an_hour() {
    let mut fixture = MachineFixture::new();
    fixture.policy.creation_timeout = Duration::from_hours(24);
    let mut writes = 0;
    for _ in 0..100 {
        fixture.failures = vec![Code::Unavailable];
        fixture.history.clear();
        fixture.settle();
        writes += fixture.history.iter().filter(|step| step.starts_with("set the phase")).count();
        fixture.wait(Duration::from_secs(30));
    }
    assert_eq!(writes, 2, "50 minutes of the same failure: once at the beginning, once after 30 minutes");
}

/// Shows THR-7.
#[rstest]
#[case::absent(Presence::Absent, "MachineClass \"c\" does not exist")]
#[case::unreadable(Presence::Undecodable(()), "MachineClass \"c\" exists but cannot be decoded")]
fn machine_reports_and_awaits_its_missing_class(#[case] class: Presence<api::MachineClass>, #[case] sentence: &str) {
    let mut fixture = MachineFixture::new();
    let good = std::mem::replace(&mut fixture.class, class);
    fixture.settle();
    assert_eq!(fixture.machine().status.last_operation.description, sentence);
    assert_eq!(
        fixture.emitted,
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
    assert!(text.len() <= api::texts::LONGEST_TEXT, "{}", text.len());
    fixture.history.clear();
    fixture.settle();
    assert_eq!(fixture.history, [""; 0], "the same text is not written again");
}

/// Shows THR-7.
#[test]
fn invalid_spec_is_reported_with_its_field() {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| m["spec"]["class"]["name"] = json!(""));
    fixture.settle();
    assert!(fixture.machine().status.last_operation.description.contains("spec.class.name: Required value"));
    assert_eq!(fixture.emitted, ["Invalid"]);
    assert_eq!(fixture.created, 0);
}

#[test]
fn nothing_is_planned_during_a_driver_call() {
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
fn vm_without_node_name_fails_and_its_id_is_recorded() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.vm = answer(&fixture, "p", "", "the node name is too long");
    assert_eq!(fixture.plan().because, Reason::VmUnnamed);
    fixture.reconcile();
    fixture.reconcile();
    assert_eq!(fixture.machine().spec.provider_id, "p", "the deletion needs the ID");
    assert_eq!(fixture.machine().status.last_operation.error_code, "Internal");
    assert!(fixture.text().contains("the node name is too long"), "{}", fixture.text());
    assert!(fixture.messages.iter().any(|said| said.contains("the node name is too long")), "{:?}", fixture.messages);
}

/// Shows LIM-15.
#[test]
fn vm_without_id_fails_and_is_deleted_by_machine_name() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.vms = 1;
    fixture.vm = answer(&fixture, "", "node-1", "the provider id holds control characters");
    fixture.reconcile();
    assert!(fixture.machine().spec.provider_id.is_empty());
    assert!(fixture.text().contains("the provider id holds control characters"), "{}", fixture.text());
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.vms == 0, "{:?}", fixture.history);
}

/// Shows LIM-15.
#[test]
fn machine_with_unusable_vm_fails_at_creation_timeout() {
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
    assert!(fixture.machine.is_none() && fixture.vms == 0, "{:?}", fixture.history);
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
fn recorded_vm_is_trusted_when_the_driver_reports_none() {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| {
        m["spec"]["providerID"] = json!("vm:///m-1");
        m["metadata"]["labels"] = json!({ "node": "node-1" });
    });
    fixture.settle();
    assert_eq!(fixture.created, 0, "drivers report new VMs late, and a second VM would be worse");
    assert_eq!(*fixture.machine().phase(), MachinePhase::Pending);
}

/// Shows MC-W8.
#[rstest]
#[case::pending(vec![], MachinePhase::Pending)]
#[case::refused(vec![Code::Internal, Code::NotFound], MachinePhase::CrashLoopBackOff)]
fn preservation_expiry_survives_status_writes_until_deletion(#[case] failures: Vec<Code>, #[case] phase: MachinePhase) {
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
fn failed_create_keeps_the_last_known_state(#[case] code: Code) {
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
fn failed_initialization_is_retried_and_keeps_known_state(#[case] code: Code) {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| m["status"]["lastKnownState"] = json!("step 2"));
    for _ in 0..4 {
        fixture.reconcile();
    }
    assert_eq!(fixture.history.last().unwrap(), "emit Event VMCreated");
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

/// Shows LIM-19.
#[test]
fn next_attempt_is_reported_only_when_it_is_certain() {
    let mut fixture = MachineFixture::new();
    fixture.failures = vec![Code::ResourceExhausted, Code::NotFound];
    fixture.settle();
    assert!(
        !fixture.messages[0].contains("next attempt at"),
        "any machine of the class may try: {:?}",
        fixture.messages
    );

    let mut fixture = MachineFixture::new();
    fixture.now = super::super::facts::later(fixture.now, Duration::from_mins(18));
    fixture.failures = vec![Code::InvalidArgument, Code::NotFound];
    fixture.settle();
    let outlook = "the Machine is marked Failed at 00:20:00 UTC, when its creation timeout has passed";
    assert_eq!(fixture.messages, [format!("CreateMachine failed: InvalidArgument: no luck; {outlook}")]);
}

/// Shows LIM-18.
#[test]
fn uncached_class_is_awaited() {
    let mut fixture = MachineFixture::new();
    fixture.class = Presence::Absent;
    fixture.class_looked_for = LookedFor::NotYet;
    fixture.settle();
    assert_eq!((fixture.emitted.len(), fixture.text()), (0, ""), "the class may exist");
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_some(), "a VM of that class may exist");
    fixture.class_looked_for = LookedFor::Yes;
    fixture.settle();
    assert!(fixture.machine.is_none(), "no VM can exist");
}

/// Shows MC-W44, LIM-19.
#[test]
fn event_of_a_failure_names_method_error_and_next_attempt() {
    let mut fixture = MachineFixture::new();
    fixture.failures = vec![Code::InvalidArgument, Code::NotFound];
    fixture.settle();
    let outlook = "next attempt at 00:03:00 UTC, or when its MachineClass or Secret changes";
    assert_eq!(fixture.messages, [format!("CreateMachine failed: InvalidArgument: no luck; {outlook}")]);
    fixture.failures = vec![Code::InvalidArgument, Code::NotFound];
    fixture.wait(Duration::from_mins(3));
    fixture.settle();
    assert_eq!(fixture.messages.len(), 1, "the same failure is reported once");
}

/// Shows MC-H7.
#[test]
fn failing_creation_is_marked_failed_at_its_deadline() {
    let mut fixture = MachineFixture::new();
    fixture.policy.creation_timeout = Duration::from_mins(12);
    fixture.failures = vec![Code::ResourceExhausted, Code::NotFound, Code::ResourceExhausted, Code::NotFound];
    fixture.settle();
    fixture.wait(Duration::from_mins(10));
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::CrashLoopBackOff);
    let Wake::By { awaited: Awaited::Retry, at } = fixture.plan().wake else { panic!("no wake-up") };
    assert_eq!(
        at,
        super::super::facts::later(super::fixture::BEGIN.parse().unwrap(), Duration::from_secs(12 * 60 + 1))
    );
    fixture.now = at;
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
    assert_eq!(fixture.machine().status.last_operation.error_code, "ResourceExhausted");
    assert!(fixture.messages.last().unwrap().ends_with("its creation timeout has passed"), "{:?}", fixture.messages);
    assert_eq!(fixture.created, 0);
    assert_eq!(fixture.plan().because, Reason::AwaitsReplacement);
}

#[test]
fn restarted_process_marks_a_failing_creation_failed() {
    let mut fixture = MachineFixture::new();
    fixture.failures = vec![Code::Unavailable, Code::NotFound];
    fixture.settle();
    fixture.vm = VmState::Unknown;
    fixture.wait(Duration::from_mins(21));
    fixture.settle();
    assert_eq!((fixture.phase(), fixture.created), (&MachinePhase::Failed, 0));
    assert_eq!(fixture.machine().status.last_operation.error_code, "Unavailable");
}

#[test]
fn machine_older_than_its_timeout_still_gets_a_vm() {
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
fn response_without_name_is_queried_again() {
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
    let Wake::By { awaited: Awaited::Retry, at } = fixture.plan().wake else { panic!("no wake-up") };
    fixture.now = at;
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Pending);
}

/// Shows MC-W11.
#[test]
fn known_state_of_a_created_vm_needs_no_separate_write() {
    let mut fixture = MachineFixture::new();
    fixture.note = Some("disk 7".into());
    fixture.settle();
    assert_eq!(fixture.machine().status.last_known_state, "disk 7");
    let writes = fixture.history.iter().filter(|step| step.starts_with("set ") || step.starts_with("record ")).count();
    assert_eq!(writes, 2, "{:?}", fixture.history);
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
fn vm_with_a_stale_node_is_deleted_and_not_replaced(#[case] provider_id: &str) {
    let mut fixture = MachineFixture::new();
    fixture.namesake = Some(node_of_another(provider_id));
    fixture.settle();
    assert_eq!((fixture.phase(), fixture.text()), (&MachinePhase::Failed, "VM using old node obj"));
    assert_eq!((fixture.created, fixture.vms), (1, 0));
    assert_eq!(fixture.emitted, ["GivenUp"]);
    assert!(fixture.machine().spec.provider_id.is_empty() && fixture.machine().node_name().is_none());

    fixture.vm = VmState::Unknown; // a restarted process
    fixture.settle();
    assert_eq!((fixture.created, fixture.plan().because), (1, Reason::AwaitsReplacement));
}

/// Shows MC-W66.
#[test]
fn vm_is_kept_when_its_node_precedes_the_response() {
    let mut fixture = MachineFixture::new();
    fixture.namesake = Some(node_of_another("vm:///somewhere/m-1"));
    fixture.settle();
    assert_eq!((fixture.phase(), fixture.vms), (&MachinePhase::Pending, 1));
}

/// Shows MC-W66.
#[test]
fn next_process_deletes_the_vm_with_a_stale_node() {
    let mut fixture = MachineFixture::new();
    fixture.namesake = Some(node_of_another(""));
    while fixture.vms == 0 {
        fixture.reconcile();
    }
    fixture.failures = vec![Code::Unavailable];
    fixture.reconcile();
    assert_eq!((fixture.phase(), fixture.vms), (&MachinePhase::Failed, 1));
    fixture.vm = VmState::Unknown;
    fixture.settle();
    assert_eq!((fixture.created, fixture.vms), (1, 0));
}

/// Shows MC-H2.
#[test]
fn machine_with_failing_creation_joins_with_a_healthy_node() {
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
fn nothing_is_created_while_frozen() {
    let mut fixture = MachineFixture::new();
    fixture.connectivity = Connectivity::Frozen;
    fixture.settle();
    assert_eq!(fixture.history, ["add the finalizer"]);
    assert_eq!(fixture.plan().because, Reason::Frozen);
    fixture.connectivity = Connectivity::Connected;
    fixture.settle();
    assert_eq!(fixture.created, 1);
}

/// Shows MC-W56.
#[test]
fn old_node_label_is_harmless_without_target_cluster() {
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
fn initial_node_label_is_replaced_by_the_name_of_the_vm() {
    let mut fixture = MachineFixture::new();
    fixture.edit(|m| m["metadata"]["labels"]["node"] = json!("node-of-another"));
    fixture.settle();
    assert_eq!(fixture.machine().node_name().unwrap(), "node-1", "{:#?}", fixture.history);
    assert_eq!(*fixture.phase(), MachinePhase::Pending);
}

/// Shows MC-S1.
#[test]
fn later_change_of_the_node_label_is_kept() {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.edit(|m| {
        m["metadata"]["labels"]["node"] = json!("node-2");
        m["status"]["currentStatus"]["phase"] = json!("CrashLoopBackOff");
    });
    fixture.vm = VmState::Unknown;
    fixture.settle();
    assert_eq!(fixture.machine().node_name().unwrap(), "node-2");
}

/// Shows MC-S1.
#[test]
fn failing_creation_does_not_join_by_a_foreign_node() {
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
fn addresses_of_all_responses_are_kept_without_cluster() {
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
fn addresses_are_kept_when_the_driver_reports_no_vm() {
    let mut fixture = MachineFixture::new();
    fixture.joins = false;
    fixture.reached = [(Call::Create, "10.0.0.1"), (Call::Initialize, "10.0.0.2")].into();
    while !fixture.history.iter().any(|step| step.contains("initialize")) {
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
fn addresses_are_not_queried_with_a_target_cluster() {
    let mut fixture = MachineFixture::new();
    fixture.reached = [(Call::Create, "10.0.0.1"), (Call::Initialize, "10.0.0.2")].into();
    fixture.settle();
    assert!(fixture.machine().status.addresses.is_empty());
    assert_eq!(fixture.history.iter().filter(|step| step.contains("look up")).count(), 1);
}

/// Shows MC-W73.
#[test]
fn provider_without_driver_is_reported_without_a_call() {
    let mut fixture = MachineFixture::new();
    fixture.driver = DriverState::Missing("no driver serves \"mars\"; this process has virtual".into());
    fixture.settle();
    assert_eq!((fixture.phase(), fixture.created), (&MachinePhase::New, 0));
    assert!(fixture.text().contains("no driver serves \"mars\""), "{}", fixture.text());
    assert_eq!(fixture.emitted, ["DriverNotFound"]);
    assert!(!fixture.history.iter().any(|step| step.contains("call the driver")), "{:?}", fixture.history);
    fixture.driver = DriverState::Served;
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Pending);
}
