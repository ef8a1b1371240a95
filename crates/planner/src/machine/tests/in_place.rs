//! In-place updates: labels, condition, phase.

use std::sync::Arc;

use api::MachinePhase;
use api::names::annotations::UPDATE_FAILED_REASON;
use api::names::conditions::in_place::TYPE;
use api::names::labels::{CANDIDATE_FOR_UPDATE, SELECTED_FOR_UPDATE, UPDATE_RESULT};
use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::fixture::MachineFixture;
use crate::drain::{Answer, Refusal, Watched};

const CANDIDATE: (&str, &str) = ("CandidateForUpdate", "Node is a candidate for in-place update");
const SELECTED: (&str, &str) = ("SelectedForUpdate", "Node is selected for in-place update");
const READY: (&str, &str) = ("ReadyForUpdate", "Node is ready for in-place update");
const SUCCESSFUL: (&str, &str) = ("UpdateSuccessful", "Node in-place update successful");
const FAILED: (&str, &str) = ("UpdateFailed", "Node in-place update failed: disk full");

/// Returns a Running Machine whose Node has the reason `reason` and these labels (`c`andidate, `s`elected, `+` or `-`
/// for its result).
fn fixture(reason: &str, labels: &str) -> MachineFixture {
    let mut fixture = MachineFixture::running();
    fixture.edit_node(|n| {
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
    fixture
}

fn condition(reason: &str) -> Option<Value> {
    (!reason.is_empty()).then(|| {
        json!({
            "type": TYPE, "status": "True", "reason": reason, "message": format!("said before: {reason}"),
            "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        })
    })
}

/// Returns the condition after the first reconcile.
fn written(fixture: &MachineFixture) -> Option<(String, String)> {
    fixture.plan().steps.iter().find_map(|step| match step {
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
#[case::success_is_reported("UpdateSuccessful", "cs+", None)]
#[case::failure_is_reported("UpdateFailed", "cs-", None)]
#[case::no_longer_a_candidate("ReadyForUpdate", "s+", None)]
fn labels_advance_the_condition(#[case] reason: &str, #[case] labels: &str, #[case] said: Option<(&str, &str)>) {
    let fixture = fixture(reason, labels);
    let said = said.map(|(reason, message)| (reason.to_owned(), message.to_owned()));
    assert_eq!(written(&fixture), said);
}

#[test]
fn selected_node_is_cordoned_with_its_condition() {
    let fixture = fixture("", "cs");
    let plan = fixture.plan();
    let [Step::PatchNode(write)] = plan.steps.as_slice() else { panic!("{plan:#?}") };
    assert_eq!(write.scheduling, Some(crate::node::Scheduling::Cordoned));
    assert_eq!(plan.wake, Wake::Again);
}

/// Shows MC-W15.
#[test]
fn result_is_written_to_the_machine_before_the_node() {
    let mut fixture = fixture("ReadyForUpdate", "cs+");
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!("InPlaceUpdating"));
    let plan = fixture.plan();
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
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::Running);
    let copied = fixture.machine().status.conditions.iter().find(|c| &*c.kind == TYPE).unwrap();
    assert_eq!(&*copied.reason, "UpdateSuccessful", "the manager reads the copy on the Machine");
    assert!(fixture.plan().steps.is_empty());
}

/// A PodDisruptionBudget that covers the pod of [`MachineFixture::add_pod`] and never allows an eviction.
fn shut_budget(fixture: &mut MachineFixture) {
    fixture.decision = Answer::Refused(Refusal::Budget { retry_after: None });
    fixture.settle();
    let budget = json!({
        "metadata": { "name": "b", "namespace": "shop", "generation": 1, "resourceVersion": "1" },
        "spec": { "selector": { "matchLabels": { "app": "web" } } },
        "status": { "observedGeneration": 1, "expectedPods": 2, "currentHealthy": 2, "desiredHealthy": 2 },
    });
    fixture.drain_view.budgets = Watched::Seen(vec![Arc::new(serde_json::from_value(budget).unwrap())]);
    fixture.settle();
}

/// Shows MC-W15.
#[test]
fn drained_node_is_ready_only_after_its_machine() {
    let mut fixture = fixture("", "cs");
    fixture.add_pod("web-1");
    fixture.settle();
    let place = |what: &str| fixture.history.iter().position(|step| step.contains(what)).expect(what);
    assert!(place("cordon") < place("watch the pods"));
    assert!(place("evict pod shop/web-1") < place("set the phase to InPlaceUpdating"));
    assert!(place("set the phase to InPlaceUpdating") < place("ReadyForUpdate"));
    assert_eq!(*fixture.phase(), MachinePhase::InPlaceUpdating);
    assert_eq!(fixture.text(), "Machine m-1 is undergoing an in-place update");
    assert_eq!(fixture.emitted, ["ReadyForUpdate"]);
    assert_eq!(fixture.vms, 1);
    assert!(fixture.plan().steps.is_empty(), "waiting for the node agent");
}

/// Shows MC-W15.
#[test]
fn restarted_process_continues_the_update() {
    let mut fixture = fixture("SelectedForUpdate", "cs");
    fixture.edit_node(|n| n["spec"]["unschedulable"] = json!(true));
    fixture.edit(|m| m["status"]["currentStatus"]["phase"] = json!("InPlaceUpdating"));
    fixture.settle();
    assert!(!fixture.history.iter().any(|step| step.contains("phase")), "that was written: {:#?}", fixture.history);
    let node = fixture.node.as_ref().unwrap();
    assert_eq!(&*node.condition(TYPE).unwrap().reason, "ReadyForUpdate");
}

#[test]
fn failed_drain_is_reported_with_the_text_of_mcm() {
    let mut fixture = fixture("", "cs");
    fixture.add_pod("web-1");
    shut_budget(&mut fixture);
    assert_eq!(*fixture.phase(), MachinePhase::Running);
    let operation = &fixture.machine().status.last_operation;
    assert_eq!((operation.kind.to_string(), operation.state.to_string()), ("DrainNode".into(), "Processing".into()));
    assert_eq!(
        operation.description,
        "Drain failed due to - error while evicting pod \"web-1\": pod disruption budget shop/b is misconfigured and \
         requires zero voluntary evictions. Will retry in next sync. Initiate node drain"
    );
    assert_eq!(fixture.emitted, ["InPlaceUpdateFailed"]);
}

#[rstest]
#[case::success("+", MachinePhase::Running, "UpdateSuccessful")]
#[case::failure("-", MachinePhase::InPlaceUpdateFailed, "UpdateFailed")]
fn update_runs_from_label_to_result(#[case] result: &str, #[case] phase: MachinePhase, #[case] reason: &str) {
    let mut fixture = fixture("", "cs");
    fixture.add_pod("web-1");
    fixture.settle();
    let result = if result == "+" { "successful" } else { "failed" };
    fixture.edit_node(|n| n["metadata"]["labels"][UPDATE_RESULT] = json!(result));
    fixture.settle();
    assert_eq!(*fixture.phase(), phase);
    let copied = fixture.machine().status.conditions.iter().find(|c| &*c.kind == TYPE).unwrap();
    assert_eq!(&*copied.reason, reason, "the manager reads the copy on the Machine");
    assert!(fixture.node.as_ref().unwrap().spec.unschedulable, "the manager uncordons it");
    assert!(fixture.plan().steps.is_empty());
}

#[test]
fn update_fails_at_its_timeout_without_a_result() {
    let mut fixture = fixture("", "cs");
    fixture.settle();
    let Wake::By { at, .. } = fixture.plan().wake else { panic!("no wake-up") };
    fixture.now = at;
    fixture.settle();
    assert_eq!(*fixture.phase(), MachinePhase::InPlaceUpdateFailed);
    assert_eq!(fixture.text(), "Machine m-1 failed to in-place update in 20m0s minutes.");
}
