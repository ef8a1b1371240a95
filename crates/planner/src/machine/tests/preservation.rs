//! Preserving a machine: who wishes it, for how long, and what is undone afterwards.

use std::time::Duration;

use api::names::annotations::{
    LAST_APPLIED_NODE_PRESERVE, PRESERVE, PRESERVED_BEFORE, SCALE_DOWN_DISABLED, SCALE_DOWN_DISABLED_BY_US,
};
use api::names::taints;
use api::{MachinePhase, Object};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;
use crate::drain::{Answer, Failure, Outlook, Refusal};

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
fn now_preserves_a_running_machine_until_its_time_is_up_and_undoes_all_of_it_then() {
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
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED_BY_US), Some("true"));
    assert!(!node.spec.unschedulable && node.spec.taints.is_empty());
    assert_eq!(fixture.told, ["Preserved"]);

    let plan = fixture.plan();
    assert_eq!(plan.wake, Wake::By { awaited: Awaited::Change, at: expiry }, "woken at that very moment");
    fixture.now = expiry;
    fixture.settle();
    assert_eq!(expires(&fixture), None);
    assert_eq!(says(&fixture), said("False", "Preservation stopped.", ""));
    let node = fixture.node.as_ref().unwrap();
    assert_eq!((node.annotation(SCALE_DOWN_DISABLED), node.annotation(SCALE_DOWN_DISABLED_BY_US)), (None, None));
    assert_eq!(fixture.machine().annotation(PRESERVE), None);
    assert_eq!(fixture.told, ["Preserved", "PreservationEnded"]);
    assert_eq!(fixture.plan().because, Reason::Converged);
}

/// Shows MS-R18.
#[rstest]
#[case::by_its_set("auto-preserved")]
#[case::by_a_person("when-failed")]
fn when_its_time_is_up_a_machine_is_marked_as_preserved_before_in_the_write_that_takes_the_wish_away(
    #[case] value: &str,
) {
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
    assert_eq!(said.get(PRESERVED_BEFORE), Some(&Some("true".to_owned())), "or its set would ask for it again");
}

/// Shows MS-R18.
#[test]
fn a_machine_that_has_recovered_may_be_preserved_by_its_set_when_it_fails_anew() {
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
fn the_end_is_written_down_last_so_that_whoever_dies_before_is_followed() {
    let mut fixture = MachineFixture::running();
    wish(&mut fixture, "now");
    fixture.settle();
    fixture.wait(EXPIRY);
    let steps = fixture.plan().steps;
    let [Step::PatchNode(_), Step::Patch(_), Step::Status(last), Step::Tell(_)] = steps.as_slice() else {
        panic!("{steps:#?}")
    };
    assert_eq!(last.current_status.as_ref().unwrap().preserve_expiry_time, None);
}

/// Shows MC-W54, MC-W76.
#[test]
fn a_machine_that_fails_is_preserved_in_the_very_write_that_says_so() {
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
    assert!(current.preserve_expiry_time.is_some(), "or its set would replace it in between");
}

/// Shows MC-W21, MC-W76.
#[rstest]
#[case::user("when-failed")]
#[case::set("auto-preserved")]
fn a_failed_machine_is_tainted_and_hidden_from_the_autoscaler(#[case] value: &str) {
    let mut fixture = MachineFixture::running();
    wish(&mut fixture, value);
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Failed"));
    fixture.report(&[("Ready", "False")]);
    fixture.reconcile();
    let node = fixture.node.as_ref().unwrap();
    let taint = &node.spec.taints[0];
    assert_eq!((taint.key.as_str(), taint.effect.to_string()), (taints::PRESERVED, "NoSchedule".to_owned()));
    assert_eq!(taint.time_added.map(api::Time::timestamp), Some(fixture.now));
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED_BY_US), Some("true"));
    assert!(!node.spec.unschedulable, "a cordon belongs to whoever set it");
}

#[test]
fn a_users_cordon_and_a_users_word_to_the_autoscaler_are_left_alone() {
    let mut fixture = MachineFixture::running();
    fixture.edit_node(|n| {
        n["spec"]["unschedulable"] = json!(true);
        n["metadata"]["annotations"][SCALE_DOWN_DISABLED] = json!("true");
    });
    wish(&mut fixture, "now");
    fixture.settle();
    assert_eq!(fixture.node.as_ref().unwrap().annotation(SCALE_DOWN_DISABLED_BY_US), None, "it is not ours to claim");
    wish(&mut fixture, "false");
    fixture.settle();
    let node = fixture.node.as_ref().unwrap();
    assert!(node.spec.unschedulable);
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED), Some("true"));
    assert_eq!(expires(&fixture), None);
    assert_eq!(fixture.machine().annotation(PRESERVE), Some("false"), "it may count again");
}

/// Shows MC-W51.
#[test]
fn a_machine_that_recovers_loses_the_wish_of_its_set_even_if_nobody_had_acted_on_it() {
    let mut fixture = MachineFixture::running();
    wish(&mut fixture, "auto-preserved");
    fixture.settle();
    assert_eq!(fixture.machine().annotation(PRESERVE), None);
    assert_eq!(expires(&fixture), None);
    wish(&mut fixture, "when-failed");
    fixture.settle();
    assert_eq!(
        fixture.machine().annotation(PRESERVE),
        Some("when-failed"),
        "but a user's wish stays for the next time"
    );
}

#[test]
fn once_the_node_has_spoken_it_decides_and_its_silence_counts() {
    let mut fixture = MachineFixture::running();
    wish(&mut fixture, "when-failed");
    wish_on_node(&mut fixture, Some("now"));
    fixture.settle();
    assert!(expires(&fixture).is_some());
    assert_eq!(fixture.machine().annotation(PRESERVE), None);
    assert_eq!(fixture.machine().annotation(LAST_APPLIED_NODE_PRESERVE), Some("now"));

    wish_on_node(&mut fixture, None);
    fixture.settle();
    assert_eq!(expires(&fixture), None, "it was taken from the node");
    assert_eq!(fixture.machine().annotation(LAST_APPLIED_NODE_PRESERVE), None);

    wish(&mut fixture, "now");
    fixture.settle();
    assert!(expires(&fixture).is_some(), "the machine's own wish counts again");
}

/// Shows MC-W52.
#[test]
fn what_a_lost_node_had_wished_goes_on_counting() {
    let mut fixture = MachineFixture::running();
    wish_on_node(&mut fixture, Some("now"));
    fixture.settle();
    let expiry = expires(&fixture);
    fixture.node = None;
    fixture.settle();
    assert_eq!((expires(&fixture), expiry.is_some()), (expiry, true));
    wish(&mut fixture, "false");
    fixture.settle();
    assert_eq!(expires(&fixture), None, "and its machine can still be told otherwise");
}

/// Shows MC-W53.
#[rstest]
#[case::on_the_machine(true)]
#[case::on_the_node(false)]
fn nonsense_is_remarked_on_and_holds_up_no_expiry(#[case] on_machine: bool) {
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
    assert!(expires(&fixture).is_some(), "what was said before still stands");
    fixture.now = expires(&fixture).unwrap();
    fixture.settle();
    assert_eq!(expires(&fixture), None);
}

#[test]
fn preservation_starts_no_health_timeout_anew() {
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
fn its_own_timeout_beats_the_flag_and_a_later_change_moves_nothing() {
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
fn a_machine_without_a_target_cluster_is_preserved_too() {
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
fn the_node_of_a_failed_machine_is_emptied_and_its_vm_kept(#[case] value: &str, #[case] reason: &str) {
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
fn a_preservation_drain_that_fails_is_told_and_tried_again() {
    let mut fixture = MachineFixture::running();
    fixture.add_pod("web-1");
    fixture.decision = Answer::Failed(Failure { text: "no".into(), outlook: Outlook::Lasting, retry_after: None });
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Failed"));
    fixture.report_ready("False");
    wish(&mut fixture, "when-failed");
    fixture.settle();
    let (status, _, message) = says(&fixture);
    assert_eq!(status, "False");
    assert!(message.starts_with("Preserved node could not be drained. Machine preserved until "), "{message}");
    let plan = fixture.plan();
    assert_eq!(plan.remarks.len(), 1, "and people are told why");
    let Wake::By { at, .. } = plan.wake else { panic!("it must wake itself") };
    assert!(at < facts::later(fixture.now, Duration::from_mins(5)), "long before its time is up");
    fixture.decision = Answer::Accepted;
    fixture.now = at;
    fixture.settle();
    assert_eq!(says(&fixture).0, "True");
    assert!(fixture.pods_there.is_empty());
}

/// Shows MC-W77.
#[test]
fn a_machine_that_fails_a_second_time_is_drained_a_second_time() {
    let mut fixture = MachineFixture::running();
    wish(&mut fixture, "now");
    fixture.settle();
    let expiry = expires(&fixture);
    for _ in 0..2 {
        fixture.add_pod("web-1");
        fail(&mut fixture);
        fixture.settle();
        assert!(fixture.pods_there.is_empty(), "{:#?}", fixture.diary);
        assert!(says(&fixture).2.starts_with("Preserved node drained successfully."));
        assert_eq!(fixture.node.as_ref().unwrap().spec.taints.len(), 1);

        fixture.edit(|m| m["status"]["lastOperation"]["type"] = json!("HealthCheck"));
        fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Running"));
        fixture.report_ready("True");
        fixture.settle();
        assert_eq!(*fixture.phase(), MachinePhase::Running);
        assert!(says(&fixture).2.starts_with("Machine preserved until"));
        assert!(fixture.node.as_ref().unwrap().spec.taints.is_empty(), "it has recovered");
    }
    assert_eq!(expires(&fixture), expiry);
}

/// Shows MC-W69.
#[test]
fn a_preservation_drain_counts_from_when_preservation_began() {
    let mut fixture = MachineFixture::running();
    fixture.add_pod("web-1");
    fixture.decision = Answer::Refused(Refusal::Budget { retry_after: None });
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Failed"));
    fixture.report(&[("Ready", "True"), ("DiskPressure", "True")]);
    fixture.wait(Duration::from_hours(3));
    wish(&mut fixture, "when-failed");
    fixture.settle();
    assert!(fixture.diary.iter().any(|step| step.contains("evict pod")), "{:#?}", fixture.diary);
    assert!(!fixture.diary.iter().any(|step| step.contains("delete pod")), "the hours before count for nothing");
}
