//! Updating in place: labels, condition, phase.

use std::sync::Arc;

use api::MachinePhase;
use api::names::annotations::UPDATE_FAILED_REASON;
use api::names::conditions::in_place::TYPE;
use api::names::labels::{CANDIDATE_FOR_UPDATE, SELECTED_FOR_UPDATE, UPDATE_RESULT};
use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::world::World;
use crate::drain::{Answer, Refusal, Watched};

const CANDIDATE: (&str, &str) = ("CandidateForUpdate", "Node is a candidate for in-place update");
const SELECTED: (&str, &str) = ("SelectedForUpdate", "Node is selected for in-place update");
const READY: (&str, &str) = ("ReadyForUpdate", "Node is ready for in-place update");
const SUCCESSFUL: (&str, &str) = ("UpdateSuccessful", "Node in-place update successful");
const FAILED: (&str, &str) = ("UpdateFailed", "Node in-place update failed: disk full");

/// A running machine whose node says `reason`, with these labels (`c`andidate, `s`elected, `+` or `-` for its result).
fn world(reason: &str, labels: &str) -> World {
    let mut world = World::running();
    world.edit_node(|n| {
        for label in labels.chars() {
            let (key, value) = match label {
                'c' => (CANDIDATE_FOR_UPDATE, "true"),
                's' => (SELECTED_FOR_UPDATE, "true"),
                '+' => (UPDATE_RESULT, "successful"),
                _ => (UPDATE_RESULT, "failed"),
            };
            n["metadata"]["labels"][key] = json!(value);
        }
        n["metadata"]["annotations"][UPDATE_FAILED_REASON] = json!("disk full");
        n["status"]["conditions"].as_array_mut().unwrap().extend(condition(reason));
    });
    world
}

fn condition(reason: &str) -> Option<Value> {
    (!reason.is_empty()).then(|| {
        json!({
            "type": TYPE, "status": "True", "reason": reason, "message": format!("said before: {reason}"),
            "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        })
    })
}

/// What the first reconcile writes into the condition.
fn written(world: &World) -> Option<(String, String)> {
    world.plan().steps.iter().find_map(|step| match step {
        Step::PatchNode(write) => write.conditions.get(TYPE).map(|c| (c.reason.to_string(), c.message.to_string())),
        _ => None,
    })
}

#[rstest]
#[case::nothing_asked("", "", None)]
#[case::candidate("", "c", Some(CANDIDATE))]
#[case::candidate_and_selected_at_once("", "cs", Some(SELECTED))]
#[case::candidate_again_after_an_update("UpdateSuccessful", "c", Some(CANDIDATE))]
#[case::selected("CandidateForUpdate", "cs", Some(SELECTED))]
#[case::selected_without_being_a_candidate("CandidateForUpdate", "s", None)]
#[case::selected_again_after_an_update("UpdateSuccessful", "cs", Some(SELECTED))]
#[case::drained_before_an_old_result_counts("SelectedForUpdate", "cs+", None)]
#[case::drained_by_the_reference("DrainSuccessful", "cs", Some(READY))]
#[case::waits_for_the_agent("ReadyForUpdate", "cs", None)]
#[case::succeeded("ReadyForUpdate", "cs+", Some(SUCCESSFUL))]
#[case::failed("ReadyForUpdate", "cs-", Some(FAILED))]
#[case::succeeded_in_the_end("UpdateFailed", "cs+", Some(SUCCESSFUL))]
#[case::succeeded_and_said_so("UpdateSuccessful", "cs+", None)]
#[case::failed_and_said_so("UpdateFailed", "cs-", None)]
#[case::no_longer_a_candidate("ReadyForUpdate", "s+", None)]
fn labels_lead_the_condition_on(#[case] reason: &str, #[case] labels: &str, #[case] said: Option<(&str, &str)>) {
    let world = world(reason, labels);
    let said = said.map(|(reason, message)| (reason.to_owned(), message.to_owned()));
    assert_eq!(written(&world), said);
}

#[test]
fn a_selected_node_is_cordoned_in_the_write_that_says_so() {
    let world = world("", "cs");
    let plan = world.plan();
    let [Step::PatchNode(write)] = plan.steps.as_slice() else { panic!("{plan:#?}") };
    assert_eq!(write.scheduling, Some(crate::node::Scheduling::Cordoned));
    assert_eq!(plan.wake, Wake::Again);
}

#[test]
fn a_result_is_the_machine_s_phase_before_it_is_the_node_s_condition() {
    let mut world = world("ReadyForUpdate", "cs+");
    world.edit(|m| m["status"]["currentStatus"]["phase"] = json!("InPlaceUpdating"));
    let plan = world.plan();
    let order: Vec<&str> = plan
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Status(_) => Some("machine"),
            Step::PatchNode(_) => Some("node"),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["machine", "node"]);
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::Running);
    let copied = world.machine().status.conditions.iter().find(|c| &*c.kind == TYPE).unwrap();
    assert_eq!(&*copied.reason, "UpdateSuccessful", "the manager reads the machine's copy");
    assert!(world.plan().steps.is_empty());
}

/// A budget that covers the pod of [`World::add_pod`] and never opens.
fn shut_budget(world: &mut World) {
    world.decision = Answer::Refused(Refusal::Budget { retry_after: None });
    world.settle();
    let budget = json!({
        "metadata": { "name": "b", "namespace": "shop", "generation": 1, "resourceVersion": "1" },
        "spec": { "selector": { "matchLabels": { "app": "web" } } },
        "status": { "observedGeneration": 1, "expectedPods": 2, "currentHealthy": 2, "desiredHealthy": 2 },
    });
    world.drain_view.budgets = Watched::Seen(vec![Arc::new(serde_json::from_value(budget).unwrap())]);
    world.settle();
}

#[test]
fn a_drained_node_is_ready_only_after_its_machine_says_so() {
    let mut world = world("", "cs");
    world.add_pod("web-1");
    world.settle();
    let place = |what: &str| world.diary.iter().position(|step| step.contains(what)).expect(what);
    assert!(place("cordon") < place("watch the pods"));
    assert!(place("evict pod shop/web-1") < place("set its phase to InPlaceUpdating"));
    assert!(place("set its phase to InPlaceUpdating") < place("ReadyForUpdate"));
    assert_eq!(*world.phase(), MachinePhase::InPlaceUpdating);
    assert_eq!(world.text(), "Machine m-1 is undergoing an in-place update");
    assert_eq!(world.told, ["ReadyForUpdate"]);
    assert_eq!(world.vms, 1);
    assert!(world.plan().steps.is_empty(), "now the agent has its turn");
}

#[test]
fn whoever_dies_in_between_is_followed() {
    let mut world = world("SelectedForUpdate", "cs");
    world.edit_node(|n| n["spec"]["unschedulable"] = json!(true));
    world.edit(|m| m["status"]["currentStatus"]["phase"] = json!("InPlaceUpdating"));
    world.settle();
    assert!(!world.diary.iter().any(|step| step.contains("phase")), "that was written: {:#?}", world.diary);
    let node = world.node.as_ref().unwrap();
    assert_eq!(&*node.condition(TYPE).unwrap().reason, "ReadyForUpdate");
}

#[test]
fn a_drain_that_does_not_get_on_is_told_in_the_reference_s_words_and_the_phase_stays() {
    let mut world = world("", "cs");
    world.add_pod("web-1");
    shut_budget(&mut world);
    assert_eq!(*world.phase(), MachinePhase::Running);
    let operation = &world.machine().status.last_operation;
    assert_eq!((operation.kind.to_string(), operation.state.to_string()), ("DrainNode".into(), "Processing".into()));
    assert_eq!(
        operation.description,
        "Drain failed due to - error while evicting pod \"web-1\": pod disruption budget shop/b is misconfigured and \
         requires zero voluntary evictions. Will retry in next sync. Initiate node drain"
    );
    assert_eq!(world.told, ["InPlaceUpdateFailed"]);
}

#[rstest]
#[case::success("+", MachinePhase::Running, "UpdateSuccessful")]
#[case::failure("-", MachinePhase::InPlaceUpdateFailed, "UpdateFailed")]
fn an_update_from_its_label_to_its_result(#[case] result: &str, #[case] phase: MachinePhase, #[case] reason: &str) {
    let mut world = world("", "cs");
    world.add_pod("web-1");
    world.settle();
    let result = if result == "+" { "successful" } else { "failed" };
    world.edit_node(|n| n["metadata"]["labels"][UPDATE_RESULT] = json!(result));
    world.settle();
    assert_eq!(*world.phase(), phase);
    let copied = world.machine().status.conditions.iter().find(|c| &*c.kind == TYPE).unwrap();
    assert_eq!(&*copied.reason, reason, "the manager reads the machine's copy");
    assert!(world.node.as_ref().unwrap().spec.unschedulable, "the manager uncordons it");
    assert!(world.plan().steps.is_empty());
}

#[test]
fn an_agent_that_never_answers_makes_the_update_fail_when_its_time_is_up() {
    let mut world = world("", "cs");
    world.settle();
    let Wake::By { at, .. } = world.plan().wake else { panic!("it must wake itself") };
    world.now = at;
    world.settle();
    assert_eq!(*world.phase(), MachinePhase::InPlaceUpdateFailed);
    assert_eq!(world.text(), "Machine m-1 failed to in-place update in 20m0s minutes.");
}
