//! Preservation: its request, its duration, and its end.

use std::time::Duration;

use api::names::annotations::{
    LAST_APPLIED_NODE_PRESERVE, PRESERVE, PRESERVED_BEFORE, SCALE_DOWN_DISABLED, SCALE_DOWN_DISABLED_BY_MCM,
};
use api::names::taints;
use api::{MachinePhase, Object};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;
use crate::drain::{Answer, Failure, Persistence, Refusal};

const EXPIRY: Duration = Duration::from_hours(96);

fn wish(fixture: &mut MachineFixture, value: &str) {
    fixture.edit(|m| m["metadata"]["annotations"][PRESERVE] = json!(value));
}

fn wish_on_node(fixture: &mut MachineFixture, value: Option<&str>) {
    fixture.edit_node(|n| match value {
        Some(value) => n["metadata"]["annotations"][PRESERVE] = json!(value),
        None => drop(n["metadata"]["annotations"].as_object_mut().unwrap().remove(PRESERVE)),
    });
}

fn expires(fixture: &MachineFixture) -> Option<jiff::Timestamp> {
    fixture.machine().status.current_status.preserve_expiry_time.map(api::Time::timestamp)
}

fn says(fixture: &MachineFixture) -> (String, String, String) {
    let condition = fixture.node.as_ref().unwrap().condition("Preserved").unwrap();
    (condition.status.to_string(), condition.reason.to_string(), condition.message.to_string())
}

fn said(status: &str, reason: &str, message: &str) -> (String, String, String) {
    (status.into(), reason.into(), message.into())
}

#[test]
fn now_preserves_a_running_machine_until_it_expires() {
    let mut fixture = MachineFixture::running();
    let begin = fixture.now;
    wish(&mut fixture, "now");
    fixture.settle();
    let expiry = facts::later(begin, EXPIRY);
    assert_eq!(expires(&fixture), Some(expiry));
    assert_eq!(
        says(&fixture),
        said("True", "Preserved by user.", "Machine preserved until 2026-01-05 00:00:00 +0000 UTC.")
    );
    let node = fixture.node.as_ref().unwrap();
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED), Some("true"));
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED_BY_MCM), Some("true"));
    assert!(!node.spec.unschedulable && node.spec.taints.is_empty());
    assert_eq!(fixture.emitted, ["Preserved"]);

    let plan = fixture.plan();
    assert_eq!(plan.wake, Wake::By { awaited: Awaited::Change, at: expiry }, "woken at the expiry");
    fixture.now = expiry;
    fixture.settle();
    assert_eq!(expires(&fixture), None);
    assert_eq!(says(&fixture), said("False", "Preservation stopped.", ""));
    let node = fixture.node.as_ref().unwrap();
    assert_eq!((node.annotation(SCALE_DOWN_DISABLED), node.annotation(SCALE_DOWN_DISABLED_BY_MCM)), (None, None));
    assert_eq!(fixture.machine().annotation(PRESERVE), None);
    assert_eq!(fixture.emitted, ["Preserved", "PreservationEnded"]);
    assert_eq!(fixture.plan().because, Reason::Converged);
}

/// Shows MS-R18.
#[rstest]
#[case::by_its_set("auto-preserved")]
#[case::by_a_person("when-failed")]
fn expiry_marks_the_machine_as_preserved_before(#[case] value: &str) {
    let mut fixture = MachineFixture::running();
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Failed"));
    fixture.report(&[("Ready", "False")]);
    wish(&mut fixture, value);
    fixture.settle();
    assert_eq!(fixture.machine().annotation(PRESERVED_BEFORE), None);
    fixture.now = expires(&fixture).unwrap();
    let plan = fixture.plan();
    let patch = plan.steps.iter().find_map(|step| if let Step::Patch(patch) = step { Some(patch) } else { None });
    let said = &patch.unwrap().annotations;
    assert_eq!(said.get(PRESERVE), Some(&None));
    assert_eq!(
        said.get(PRESERVED_BEFORE),
        Some(&Some("true".to_owned())),
        "otherwise the MachineSet would preserve it again"
    );
}

/// Shows MS-R18.
#[test]
fn recovered_machine_can_be_preserved_again() {
    let mut fixture = MachineFixture::running();
    fixture.edit(|m| {
        m["metadata"]["annotations"][PRESERVED_BEFORE] = json!("true");
        m["metadata"]["annotations"][PRESERVE] = json!("auto-preserved");
    });
    fixture.settle();
    let machine = fixture.machine();
    assert_eq!((machine.annotation(PRESERVE), machine.annotation(PRESERVED_BEFORE)), (None, None));
}

#[test]
fn end_of_the_preservation_is_written_last() {
    let mut fixture = MachineFixture::running();
    wish(&mut fixture, "now");
    fixture.settle();
    fixture.wait(EXPIRY);
    let steps = fixture.plan().steps;
    let [Step::PatchNode(_), Step::Patch(_), Step::Status(last), Step::EmitEvent(_)] = steps.as_slice() else {
        panic!("{steps:#?}")
    };
    assert_eq!(last.current_status.as_ref().unwrap().preserve_expiry_time, None);
}

/// Shows MC-W54, MC-W76.
#[test]
fn preservation_starts_in_the_write_of_the_failed_phase() {
    let mut fixture = MachineFixture::running();
    wish(&mut fixture, "when-failed");
    fixture.report(&[("Ready", "False")]);
    fixture.settle();
    assert_eq!((fixture.phase().clone(), expires(&fixture)), (MachinePhase::Unknown, None));
    fixture.wait(Duration::from_mins(11));
    let plan = fixture.plan();
    let Some(Step::Status(write)) = plan.steps.first() else { panic!("{plan:#?}") };
    let current = write.current_status.as_ref().unwrap();
    assert_eq!(current.phase, MachinePhase::Failed);
    assert!(current.preserve_expiry_time.is_some(), "otherwise the MachineSet would replace it");
}

/// Shows MC-W21, MC-W76.
#[rstest]
#[case::user("when-failed")]
#[case::set("auto-preserved")]
fn failed_machine_is_tainted_and_excluded_from_autoscaler(#[case] value: &str) {
    let mut fixture = MachineFixture::running();
    wish(&mut fixture, value);
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Failed"));
    fixture.report(&[("Ready", "False")]);
    fixture.reconcile();
    let node = fixture.node.as_ref().unwrap();
    let taint = &node.spec.taints[0];
    assert_eq!((taint.key.as_str(), taint.effect.to_string()), (taints::PRESERVED, "NoSchedule".to_owned()));
    assert_eq!(taint.time_added.map(api::Time::timestamp), Some(fixture.now));
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED_BY_MCM), Some("true"));
    assert!(!node.spec.unschedulable, "the cordon of a user is kept");
}

#[test]
fn cordon_and_autoscaler_annotation_of_users_are_kept() {
    let mut fixture = MachineFixture::running();
    fixture.edit_node(|n| {
        n["spec"]["unschedulable"] = json!(true);
        n["metadata"]["annotations"][SCALE_DOWN_DISABLED] = json!("true");
    });
    wish(&mut fixture, "now");
    fixture.settle();
    assert_eq!(
        fixture.node.as_ref().unwrap().annotation(SCALE_DOWN_DISABLED_BY_MCM),
        None,
        "not set by the controller"
    );
    wish(&mut fixture, "false");
    fixture.settle();
    let node = fixture.node.as_ref().unwrap();
    assert!(node.spec.unschedulable);
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED), Some("true"));
    assert_eq!(expires(&fixture), None);
    assert_eq!(fixture.machine().annotation(PRESERVE), Some("false"), "kept");
}

/// Shows MC-W51.
#[test]
fn recovery_removes_the_annotation_of_the_set() {
    let mut fixture = MachineFixture::running();
    wish(&mut fixture, "auto-preserved");
    fixture.settle();
    assert_eq!(fixture.machine().annotation(PRESERVE), None);
    assert_eq!(expires(&fixture), None);
    wish(&mut fixture, "when-failed");
    fixture.settle();
    assert_eq!(fixture.machine().annotation(PRESERVE), Some("when-failed"), "the annotation of a user stays");
}

#[test]
fn node_annotation_and_its_removal_have_precedence() {
    let mut fixture = MachineFixture::running();
    wish(&mut fixture, "when-failed");
    wish_on_node(&mut fixture, Some("now"));
    fixture.settle();
    assert!(expires(&fixture).is_some());
    assert_eq!(fixture.machine().annotation(PRESERVE), None);
    assert_eq!(fixture.machine().annotation(LAST_APPLIED_NODE_PRESERVE), Some("now"));

    wish_on_node(&mut fixture, None);
    fixture.settle();
    assert_eq!(expires(&fixture), None, "removed from the Node");
    assert_eq!(fixture.machine().annotation(LAST_APPLIED_NODE_PRESERVE), None);

    wish(&mut fixture, "now");
    fixture.settle();
    assert!(expires(&fixture).is_some(), "the annotation of the Machine takes effect again");
}

/// Shows MC-W52.
#[test]
fn annotation_of_a_lost_node_stays_in_effect() {
    let mut fixture = MachineFixture::running();
    wish_on_node(&mut fixture, Some("now"));
    fixture.settle();
    let expiry = expires(&fixture);
    fixture.node = None;
    fixture.settle();
    assert_eq!((expires(&fixture), expiry.is_some()), (expiry, true));
    wish(&mut fixture, "false");
    fixture.settle();
    assert_eq!(expires(&fixture), None, "the Machine can still be annotated");
}

/// Shows MC-W53.
#[rstest]
#[case::on_the_machine(true)]
#[case::on_the_node(false)]
fn invalid_value_is_reported_and_does_not_delay_expiry(#[case] on_machine: bool) {
    let mut fixture = MachineFixture::running();
    wish_on_node(&mut fixture, Some("now"));
    fixture.settle();
    if on_machine {
        wish(&mut fixture, "nwo");
    } else {
        wish_on_node(&mut fixture, Some("nwo"));
    }
    fixture.settle();
    let plan = fixture.plan();
    assert_eq!(plan.remarks.iter().map(|remark| remark.reason).collect::<Vec<_>>(), ["PreserveValueInvalid"]);
    assert!(expires(&fixture).is_some(), "the earlier annotation stays in effect");
    fixture.now = expires(&fixture).unwrap();
    fixture.settle();
    assert_eq!(expires(&fixture), None);
}

#[test]
fn preservation_does_not_restart_the_health_timeout() {
    let mut fixture = MachineFixture::running();
    fixture.report(&[("Ready", "False")]);
    fixture.settle();
    let since = fixture.machine().status.current_status.last_update_time;
    fixture.wait(Duration::from_mins(5));
    wish(&mut fixture, "now");
    fixture.settle();
    assert!(expires(&fixture).is_some());
    assert_eq!(fixture.machine().status.current_status.last_update_time, since);
    fixture.wait(Duration::from_secs(301));
    fixture.reconcile();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
}

#[test]
fn preserve_timeout_of_the_machine_overrides_the_flag() {
    let mut fixture = MachineFixture::running();
    fixture.edit(|m| m["spec"]["machinePreserveTimeout"] = json!("1h"));
    wish(&mut fixture, "now");
    let begin = fixture.now;
    fixture.settle();
    assert_eq!(expires(&fixture), Some(facts::later(begin, Duration::from_hours(1))));
    fixture.edit(|m| m["spec"]["machinePreserveTimeout"] = json!("9h"));
    fixture.settle();
    assert_eq!(expires(&fixture), Some(facts::later(begin, Duration::from_hours(1))));
}

#[test]
fn machine_is_preserved_without_target_cluster() {
    let mut fixture = MachineFixture::new();
    fixture.joins = false;
    fixture.settle();
    wish(&mut fixture, "now");
    fixture.settle();
    assert!(expires(&fixture).is_some());
    fixture.now = expires(&fixture).unwrap();
    fixture.settle();
    assert_eq!((expires(&fixture), fixture.machine().annotation(PRESERVE)), (None, None));
}

fn fail(fixture: &mut MachineFixture) {
    fixture.report_ready("False");
    fixture.settle();
    fixture.wait(Duration::from_secs(601));
    fixture.reconcile();
    assert_eq!(*fixture.phase(), MachinePhase::Failed);
}

#[rstest]
#[case::user("when-failed", "Preserved by user.")]
#[case::set("auto-preserved", "Preserved by MCM.")]
fn node_of_a_failed_machine_is_drained_and_its_vm_kept(#[case] value: &str, #[case] reason: &str) {
    let mut fixture = MachineFixture::running();
    fixture.add_pod("web-1");
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Failed"));
    fixture.report_ready("False");
    wish(&mut fixture, value);
    fixture.settle();
    assert!(fixture.pods_there.is_empty());
    assert_eq!(fixture.vms, 1);
    let until = "Machine preserved until 2026-01-05 00:00:00 +0000 UTC.";
    assert_eq!(says(&fixture), said("True", reason, &format!("Preserved node drained successfully. {until}")));
    let plan = fixture.plan();
    assert!(plan.steps.is_empty(), "{:#?}", plan.steps);
}

/// Shows MC-W50.
#[test]
fn failed_preservation_drain_is_reported_once_and_retried() {
    let mut fixture = MachineFixture::running();
    fixture.add_pod("web-1");
    fixture.decision =
        Answer::Failed(Failure { text: "no".into(), persistence: Persistence::Permanent, retry_after: None });
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Failed"));
    fixture.report_ready("False");
    wish(&mut fixture, "when-failed");
    fixture.settle();
    let (status, _, message) = says(&fixture);
    assert_eq!(status, "False");
    assert!(message.starts_with("Preserved node could not be drained. Machine preserved until "), "{message}");
    let plan = fixture.plan();
    assert_eq!(plan.remarks.len(), 1, "an Event reports the failure");
    let Wake::By { at, .. } = plan.wake else { panic!("no wake-up") };
    assert!(at < facts::later(fixture.now, Duration::from_mins(5)), "before the expiry");
    fixture.decision = Answer::Accepted;
    fixture.now = at;
    fixture.settle();
    assert_eq!(says(&fixture).0, "True");
    assert!(fixture.pods_there.is_empty());
}

/// Shows MC-W77.
#[test]
fn second_failure_drains_the_node_again() {
    let mut fixture = MachineFixture::running();
    wish(&mut fixture, "now");
    fixture.settle();
    let expiry = expires(&fixture);
    for _ in 0..2 {
        fixture.add_pod("web-1");
        fail(&mut fixture);
        fixture.settle();
        assert!(fixture.pods_there.is_empty(), "{:#?}", fixture.history);
        assert!(says(&fixture).2.starts_with("Preserved node drained successfully."));
        assert_eq!(fixture.node.as_ref().unwrap().spec.taints.len(), 1);

        fixture.edit(|m| m["status"]["lastOperation"]["type"] = json!("HealthCheck"));
        fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Running"));
        fixture.report_ready("True");
        fixture.settle();
        assert_eq!(*fixture.phase(), MachinePhase::Running);
        assert!(says(&fixture).2.starts_with("Machine preserved until"));
        assert!(fixture.node.as_ref().unwrap().spec.taints.is_empty(), "the Machine has recovered");
    }
    assert_eq!(expires(&fixture), expiry);
}

/// Shows MC-W69.
#[test]
fn preservation_drain_counts_from_its_start() {
    let mut fixture = MachineFixture::running();
    fixture.add_pod("web-1");
    fixture.decision = Answer::Refused(Refusal::Budget { retry_after: None });
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Failed"));
    fixture.report(&[("Ready", "True"), ("DiskPressure", "True")]);
    fixture.wait(Duration::from_hours(3));
    wish(&mut fixture, "when-failed");
    fixture.settle();
    assert!(fixture.history.iter().any(|step| step.contains("evict pod")), "{:#?}", fixture.history);
    assert!(!fixture.history.iter().any(|step| step.contains("delete pod")), "the time before does not count");
}
