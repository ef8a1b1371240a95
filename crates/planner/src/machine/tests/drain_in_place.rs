//! Drains of Nodes whose Machine stays.

use std::time::Duration;

use api::MachinePhase;
use api::names::annotations::PRESERVE;
use api::names::labels::{CANDIDATE_FOR_UPDATE, SELECTED_FOR_UPDATE};
use serde_json::json;

use super::super::*;
use super::fixture::{MachineFixture, Webhook};
use crate::drain::{Answer, Failure, Persistence};

fn refusal() -> Answer {
    Answer::Failed(Failure { text: "no".into(), persistence: Persistence::Permanent, retry_after: None })
}

/// Returns a Failed Machine that is to be preserved, with a pod on its Node.
fn preserved() -> MachineFixture {
    let mut fixture = MachineFixture::running();
    fixture.add_pod("web-1");
    fixture.edit(|m| {
        m["metadata"]["annotations"][PRESERVE] = json!("when-failed");
        m["status"]["currentStatus"]["phase"] = json!("Failed");
        m["status"]["currentStatus"]["lastUpdateTime"] = json!(super::fixture::BEGIN);
    });
    fixture.report(&[("Ready", "False")]);
    fixture
}

/// Returns the preservation condition of the Node.
fn says(fixture: &MachineFixture) -> (String, String) {
    let condition = fixture.node.as_ref().unwrap().condition("Preserved").unwrap();
    (condition.status.to_string(), condition.message.to_string())
}

#[test]
fn node_of_a_preserved_machine_is_drained_once() {
    let mut fixture = preserved();
    fixture.settle();
    assert!(fixture.pods_there.is_empty(), "{:#?}", fixture.history);
    let (status, message) = says(&fixture);
    assert_eq!(status, "True");
    assert!(message.starts_with("Preserved node drained successfully. Machine preserved until "), "{message}");
    assert!(!fixture.node.as_ref().unwrap().spec.unschedulable, "a taint keeps pods away, not a cordon");
    assert_eq!(fixture.plan().drain, DrainNeed::NotNeeded, "the drain state is not needed any more");
}

/// Shows DR-Q17, MC-W50.
#[test]
fn failed_preservation_drain_is_reported_and_retried() {
    let mut fixture = preserved();
    fixture.decision = refusal();
    fixture.settle();
    let (status, message) = says(&fixture);
    assert_eq!(status, "False");
    assert!(message.starts_with("Preserved node could not be drained. Machine preserved until "), "{message}");
    assert_eq!(fixture.plan().drain, DrainNeed::InProgress);
    fixture.decision = Answer::Accepted;
    fixture.wait(Duration::from_secs(6));
    fixture.settle();
    assert_eq!(says(&fixture).0, "True", "{:#?}", fixture.history);
}

#[test]
fn node_is_drained_before_it_is_ready_for_update() {
    let mut fixture = MachineFixture::running();
    fixture.add_pod("web-1");
    fixture.edit_node(|n| {
        n["metadata"]["labels"][CANDIDATE_FOR_UPDATE] = json!("true");
        n["metadata"]["labels"][SELECTED_FOR_UPDATE] = json!("true");
    });
    fixture.decision = refusal();
    fixture.settle();
    let reason = |fixture: &MachineFixture| {
        fixture.node.as_ref().unwrap().condition("InPlaceUpdate").unwrap().reason.to_string()
    };
    assert_eq!(reason(&fixture), "SelectedForUpdate");
    let text = "Drain failed due to - error when evicting pod \"web-1\": no scheduled on node node-1. Will retry in next sync. \
                Initiate node drain";
    assert_eq!(fixture.text(), text);
    fixture.decision = Answer::Accepted;
    fixture.wait(Duration::from_secs(6));
    fixture.settle();
    assert!(fixture.pods_there.is_empty());
    assert_eq!(reason(&fixture), "ReadyForUpdate");
    assert_eq!(*fixture.phase(), MachinePhase::InPlaceUpdating);
}

/// Shows MC-S3.
#[test]
fn reverted_cordon_delays_an_update_until_force() {
    let mut fixture = MachineFixture::running();
    fixture.add_pod("web-1");
    fixture.webhook = Webhook::RevertsSpec;
    fixture.edit_node(|n| {
        n["metadata"]["labels"][CANDIDATE_FOR_UPDATE] = json!("true");
        n["metadata"]["labels"][SELECTED_FOR_UPDATE] = json!("true");
    });
    fixture.settle();
    let text = format!("Drain failed due to - {NOT_KEPT}. Will retry in next sync. Initiate node drain");
    assert_eq!((fixture.text(), fixture.pods_there.len()), (text.as_str(), 1));
    assert_eq!(fixture.emitted, ["InPlaceUpdateFailed"]);
    assert!(matches!(fixture.plan().wake, Wake::By { awaited: Awaited::Retry, .. }));
    assert_eq!(fixture.plan().drain, DrainNeed::InProgress, "the drain state is kept");
    fixture.history.clear();
    fixture.wait(Duration::from_secs(6));
    fixture.settle();
    assert_eq!(fixture.history.iter().filter(|step| step.contains("cordon")).count(), 1, "{:#?}", fixture.history);
    fixture.edit(|m| m["metadata"]["labels"]["force-drain"] = json!("True"));
    fixture.settle();
    assert!(fixture.pods_there.is_empty(), "{:#?}", fixture.history);
    assert_eq!(*fixture.phase(), MachinePhase::InPlaceUpdating);
}

/// Shows MC-S3.
#[test]
fn reverted_taint_delays_a_preservation_drain_until_force() {
    let mut fixture = preserved();
    // Not ready only for a moment: after a longer time the drain is forced anyway.
    fixture.edit_node(|n| n["status"]["conditions"][0]["lastTransitionTime"] = json!(super::fixture::BEGIN));
    fixture.webhook = Webhook::RevertsSpec;
    fixture.settle();
    let (status, message) = says(&fixture);
    assert_eq!((status.as_str(), fixture.pods_there.len()), ("False", 1));
    assert!(message.starts_with("Preserved node could not be drained. Machine preserved until "), "{message}");
    let remarks = fixture.plan().remarks;
    assert!(remarks.iter().any(|remark| remark.message.contains(NOT_KEPT)), "{remarks:?}");
    fixture.history.clear();
    fixture.wait(Duration::from_secs(6));
    fixture.settle();
    assert!(fixture.history.len() < 5, "{:#?}", fixture.history);
    fixture.edit(|m| m["metadata"]["labels"]["force-drain"] = json!("True"));
    fixture.settle();
    assert!(fixture.pods_there.is_empty(), "{:#?}", fixture.history);
    assert_eq!(says(&fixture).0, "True");
}
