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
use super::world::World;
use crate::drain::{Answer, Failure, Outlook, Refusal};

const EXPIRY: Duration = Duration::from_hours(96);

fn wish(world: &mut World, value: &str) {
    world.edit(|m| m["metadata"]["annotations"][PRESERVE] = json!(value));
}

fn wish_on_node(world: &mut World, value: Option<&str>) {
    world.edit_node(|n| match value {
        Some(value) => n["metadata"]["annotations"][PRESERVE] = json!(value),
        None => drop(n["metadata"]["annotations"].as_object_mut().unwrap().remove(PRESERVE)),
    });
}

fn expires(world: &World) -> Option<jiff::Timestamp> {
    world.machine().status.current_status.preserve_expiry_time.map(api::Time::timestamp)
}

fn says(world: &World) -> (String, String, String) {
    let condition = world.node.as_ref().unwrap().condition("Preserved").unwrap();
    (condition.status.to_string(), condition.reason.to_string(), condition.message.to_string())
}

fn said(status: &str, reason: &str, message: &str) -> (String, String, String) {
    (status.into(), reason.into(), message.into())
}

#[test]
fn now_preserves_a_running_machine_until_its_time_is_up_and_undoes_all_of_it_then() {
    let mut world = World::running();
    let begin = world.now;
    wish(&mut world, "now");
    world.settle();
    let expiry = facts::later(begin, EXPIRY);
    assert_eq!(expires(&world), Some(expiry));
    assert_eq!(
        says(&world),
        said("True", "Preserved by user.", "Machine preserved until 2026-01-05 00:00:00 +0000 UTC.")
    );
    let node = world.node.as_ref().unwrap();
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED), Some("true"));
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED_BY_US), Some("true"));
    assert!(!node.spec.unschedulable && node.spec.taints.is_empty());
    assert_eq!(world.told, ["Preserved"]);

    let plan = world.plan();
    assert_eq!(plan.wake, Wake::By { awaited: Awaited::Change, at: expiry }, "woken at that very moment");
    world.now = expiry;
    world.settle();
    assert_eq!(expires(&world), None);
    assert_eq!(says(&world), said("False", "Preservation stopped.", ""));
    let node = world.node.as_ref().unwrap();
    assert_eq!((node.annotation(SCALE_DOWN_DISABLED), node.annotation(SCALE_DOWN_DISABLED_BY_US)), (None, None));
    assert_eq!(world.machine().annotation(PRESERVE), None);
    assert_eq!(world.told, ["Preserved", "PreservationEnded"]);
    assert_eq!(world.plan().because, Reason::Converged);
}

#[rstest]
#[case::by_its_set("auto-preserved")]
#[case::by_a_person("when-failed")]
fn when_its_time_is_up_a_machine_is_marked_as_preserved_before_in_the_write_that_takes_the_wish_away(
    #[case] value: &str,
) {
    let mut world = World::running();
    world.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Failed"));
    world.report(&[("Ready", "False")]);
    wish(&mut world, value);
    world.settle();
    assert_eq!(world.machine().annotation(PRESERVED_BEFORE), None);
    world.now = expires(&world).unwrap();
    let plan = world.plan();
    let patch = plan.steps.iter().find_map(|step| if let Step::Patch(patch) = step { Some(patch) } else { None });
    let said = &patch.unwrap().annotations;
    assert_eq!(said.get(PRESERVE), Some(&None));
    assert_eq!(said.get(PRESERVED_BEFORE), Some(&Some("true".to_owned())), "or its set would ask for it again");
}

#[test]
fn a_machine_that_has_recovered_may_be_preserved_by_its_set_when_it_fails_anew() {
    let mut world = World::running();
    world.edit(|m| {
        m["metadata"]["annotations"][PRESERVED_BEFORE] = json!("true");
        m["metadata"]["annotations"][PRESERVE] = json!("auto-preserved");
    });
    world.settle();
    let machine = world.machine();
    assert_eq!((machine.annotation(PRESERVE), machine.annotation(PRESERVED_BEFORE)), (None, None));
}

#[test]
fn the_end_is_written_down_last_so_that_whoever_dies_before_is_followed() {
    let mut world = World::running();
    wish(&mut world, "now");
    world.settle();
    world.wait(EXPIRY);
    let steps = world.plan().steps;
    let [Step::PatchNode(_), Step::Patch(_), Step::Status(last), Step::Tell(_)] = steps.as_slice() else {
        panic!("{steps:#?}")
    };
    assert_eq!(last.current_status.as_ref().unwrap().preserve_expiry_time, None);
}

#[test]
fn a_machine_that_fails_is_preserved_in_the_very_write_that_says_so() {
    let mut world = World::running();
    wish(&mut world, "when-failed");
    world.report(&[("Ready", "False")]);
    world.settle();
    assert_eq!((world.phase().clone(), expires(&world)), (MachinePhase::Unknown, None));
    world.wait(Duration::from_mins(11));
    let plan = world.plan();
    let Some(Step::Status(write)) = plan.steps.first() else { panic!("{plan:#?}") };
    let current = write.current_status.as_ref().unwrap();
    assert_eq!(current.phase, MachinePhase::Failed);
    assert!(current.preserve_expiry_time.is_some(), "or its set would replace it in between");
}

#[rstest]
#[case::user("when-failed")]
#[case::set("auto-preserved")]
fn a_failed_machine_is_tainted_and_hidden_from_the_autoscaler(#[case] value: &str) {
    let mut world = World::running();
    wish(&mut world, value);
    world.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Failed"));
    world.report(&[("Ready", "False")]);
    world.reconcile();
    let node = world.node.as_ref().unwrap();
    let taint = &node.spec.taints[0];
    assert_eq!((taint.key.as_str(), taint.effect.to_string()), (taints::PRESERVED, "NoSchedule".to_owned()));
    assert_eq!(taint.time_added.map(api::Time::timestamp), Some(world.now));
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED_BY_US), Some("true"));
    assert!(!node.spec.unschedulable, "a cordon belongs to whoever set it");
}

#[test]
fn a_users_cordon_and_a_users_word_to_the_autoscaler_are_left_alone() {
    let mut world = World::running();
    world.edit_node(|n| {
        n["spec"]["unschedulable"] = json!(true);
        n["metadata"]["annotations"][SCALE_DOWN_DISABLED] = json!("true");
    });
    wish(&mut world, "now");
    world.settle();
    assert_eq!(world.node.as_ref().unwrap().annotation(SCALE_DOWN_DISABLED_BY_US), None, "it is not ours to claim");
    wish(&mut world, "false");
    world.settle();
    let node = world.node.as_ref().unwrap();
    assert!(node.spec.unschedulable);
    assert_eq!(node.annotation(SCALE_DOWN_DISABLED), Some("true"));
    assert_eq!(expires(&world), None);
    assert_eq!(world.machine().annotation(PRESERVE), Some("false"), "it may count again");
}

#[test]
fn a_machine_that_recovers_loses_the_wish_of_its_set_even_if_nobody_had_acted_on_it() {
    let mut world = World::running();
    wish(&mut world, "auto-preserved");
    world.settle();
    assert_eq!(world.machine().annotation(PRESERVE), None);
    assert_eq!(expires(&world), None);
    wish(&mut world, "when-failed");
    world.settle();
    assert_eq!(world.machine().annotation(PRESERVE), Some("when-failed"), "but a user's wish stays for the next time");
}

#[test]
fn once_the_node_has_spoken_it_decides_and_its_silence_counts() {
    let mut world = World::running();
    wish(&mut world, "when-failed");
    wish_on_node(&mut world, Some("now"));
    world.settle();
    assert!(expires(&world).is_some());
    assert_eq!(world.machine().annotation(PRESERVE), None);
    assert_eq!(world.machine().annotation(LAST_APPLIED_NODE_PRESERVE), Some("now"));

    wish_on_node(&mut world, None);
    world.settle();
    assert_eq!(expires(&world), None, "it was taken from the node");
    assert_eq!(world.machine().annotation(LAST_APPLIED_NODE_PRESERVE), None);

    wish(&mut world, "now");
    world.settle();
    assert!(expires(&world).is_some(), "the machine's own wish counts again");
}

#[test]
fn what_a_lost_node_had_wished_goes_on_counting() {
    let mut world = World::running();
    wish_on_node(&mut world, Some("now"));
    world.settle();
    let expiry = expires(&world);
    world.node = None;
    world.settle();
    assert_eq!((expires(&world), expiry.is_some()), (expiry, true));
    wish(&mut world, "false");
    world.settle();
    assert_eq!(expires(&world), None, "and its machine can still be told otherwise");
}

#[rstest]
#[case::on_the_machine(true)]
#[case::on_the_node(false)]
fn nonsense_is_remarked_on_and_holds_up_no_expiry(#[case] on_machine: bool) {
    let mut world = World::running();
    wish_on_node(&mut world, Some("now"));
    world.settle();
    if on_machine {
        wish(&mut world, "nwo");
    } else {
        wish_on_node(&mut world, Some("nwo"));
    }
    world.settle();
    let plan = world.plan();
    assert_eq!(plan.remarks.iter().map(|remark| remark.reason).collect::<Vec<_>>(), ["PreserveValueInvalid"]);
    assert!(expires(&world).is_some(), "what was said before still stands");
    world.now = expires(&world).unwrap();
    world.settle();
    assert_eq!(expires(&world), None);
}

#[test]
fn preservation_starts_no_health_timeout_anew() {
    let mut world = World::running();
    world.report(&[("Ready", "False")]);
    world.settle();
    let since = world.machine().status.current_status.last_update_time;
    world.wait(Duration::from_mins(5));
    wish(&mut world, "now");
    world.settle();
    assert!(expires(&world).is_some());
    assert_eq!(world.machine().status.current_status.last_update_time, since);
    world.wait(Duration::from_secs(301));
    world.reconcile();
    assert_eq!(*world.phase(), MachinePhase::Failed);
}

#[test]
fn its_own_timeout_beats_the_flag_and_a_later_change_moves_nothing() {
    let mut world = World::running();
    world.edit(|m| m["spec"]["machinePreserveTimeout"] = json!("1h"));
    wish(&mut world, "now");
    let begin = world.now;
    world.settle();
    assert_eq!(expires(&world), Some(facts::later(begin, Duration::from_hours(1))));
    world.edit(|m| m["spec"]["machinePreserveTimeout"] = json!("9h"));
    world.settle();
    assert_eq!(expires(&world), Some(facts::later(begin, Duration::from_hours(1))));
}

#[test]
fn a_machine_without_a_target_cluster_is_preserved_too() {
    let mut world = World::new();
    world.joins = false;
    world.settle();
    wish(&mut world, "now");
    world.settle();
    assert!(expires(&world).is_some());
    world.now = expires(&world).unwrap();
    world.settle();
    assert_eq!((expires(&world), world.machine().annotation(PRESERVE)), (None, None));
}

fn fail(world: &mut World) {
    world.report_ready("False");
    world.settle();
    world.wait(Duration::from_secs(601));
    world.reconcile();
    assert_eq!(*world.phase(), MachinePhase::Failed);
}

#[rstest]
#[case::user("when-failed", "Preserved by user.")]
#[case::set("auto-preserved", "Preserved by MCM.")]
fn the_node_of_a_failed_machine_is_emptied_and_its_vm_kept(#[case] value: &str, #[case] reason: &str) {
    let mut world = World::running();
    world.add_pod("web-1");
    world.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Failed"));
    world.report_ready("False");
    wish(&mut world, value);
    world.settle();
    assert!(world.pods_there.is_empty());
    assert_eq!(world.vms, 1);
    let until = "Machine preserved until 2026-01-05 00:00:00 +0000 UTC.";
    assert_eq!(says(&world), said("True", reason, &format!("Preserved node drained successfully. {until}")));
    let plan = world.plan();
    assert!(plan.steps.is_empty(), "{:#?}", plan.steps);
}

#[test]
fn a_preservation_drain_that_fails_is_told_and_tried_again() {
    let mut world = World::running();
    world.add_pod("web-1");
    world.decision = Answer::Failed(Failure { text: "no".into(), outlook: Outlook::Lasting, retry_after: None });
    world.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Failed"));
    world.report_ready("False");
    wish(&mut world, "when-failed");
    world.settle();
    let (status, _, message) = says(&world);
    assert_eq!(status, "False");
    assert!(message.starts_with("Preserved node could not be drained. Machine preserved until "), "{message}");
    let plan = world.plan();
    assert_eq!(plan.remarks.len(), 1, "and people are told why");
    let Wake::By { at, .. } = plan.wake else { panic!("it must wake itself") };
    assert!(at < facts::later(world.now, Duration::from_mins(5)), "long before its time is up");
    world.decision = Answer::Accepted;
    world.now = at;
    world.settle();
    assert_eq!(says(&world).0, "True");
    assert!(world.pods_there.is_empty());
}

#[test]
fn a_machine_that_fails_a_second_time_is_drained_a_second_time() {
    let mut world = World::running();
    wish(&mut world, "now");
    world.settle();
    let expiry = expires(&world);
    for _ in 0..2 {
        world.add_pod("web-1");
        fail(&mut world);
        world.settle();
        assert!(world.pods_there.is_empty(), "{:#?}", world.diary);
        assert!(says(&world).2.starts_with("Preserved node drained successfully."));
        assert_eq!(world.node.as_ref().unwrap().spec.taints.len(), 1);

        world.edit(|m| m["status"]["lastOperation"]["type"] = json!("HealthCheck"));
        world.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Running"));
        world.report_ready("True");
        world.settle();
        assert_eq!(*world.phase(), MachinePhase::Running);
        assert!(says(&world).2.starts_with("Machine preserved until"));
        assert!(world.node.as_ref().unwrap().spec.taints.is_empty(), "it has recovered");
    }
    assert_eq!(expires(&world), expiry);
}

#[test]
fn a_preservation_drain_counts_from_when_preservation_began() {
    let mut world = World::running();
    world.add_pod("web-1");
    world.decision = Answer::Refused(Refusal::Budget { retry_after: None });
    world.edit(|m| m["status"]["currentStatus"]["phase"] = json!("Failed"));
    world.report(&[("Ready", "True"), ("DiskPressure", "True")]);
    world.wait(Duration::from_hours(3));
    wish(&mut world, "when-failed");
    world.settle();
    assert!(world.diary.iter().any(|step| step.contains("evict pod")), "{:#?}", world.diary);
    assert!(!world.diary.iter().any(|step| step.contains("delete pod")), "the hours before count for nothing");
}
