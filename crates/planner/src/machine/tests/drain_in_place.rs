//! DrainView the node of a machine that stays.

use std::time::Duration;

use api::MachinePhase;
use api::names::annotations::PRESERVE;
use api::names::labels::{CANDIDATE_FOR_UPDATE, SELECTED_FOR_UPDATE};
use serde_json::json;

use super::super::*;
use super::fixture::{MachineFixture, Webhook};
use crate::drain::{Answer, Failure, Outlook};

fn refusal() -> Answer {
    Answer::Failed(Failure { text: "no".into(), outlook: Outlook::Lasting, retry_after: None })
}

/// A machine that failed and is to be preserved, with a pod on its node.
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

/// What the node says of its preservation.
fn says(fixture: &MachineFixture) -> (String, String) {
    let condition = fixture.node.as_ref().unwrap().condition("Preserved").unwrap();
    (condition.status.to_string(), condition.message.to_string())
}

#[test]
fn a_preserved_machine_s_node_is_emptied_once_and_says_so() {
    let mut fixture = preserved();
    fixture.settle();
    assert!(fixture.pods_there.is_empty(), "{:#?}", fixture.diary);
    let (status, message) = says(&fixture);
    assert_eq!(status, "True");
    assert!(message.starts_with("Preserved node drained successfully. Machine preserved until "), "{message}");
    assert!(!fixture.node.as_ref().unwrap().spec.unschedulable, "a taint keeps pods away, not a cordon");
    assert_eq!(fixture.plan().drain, DrainNeed::Over, "nothing is watched any more");
}

/// Shows DR-Q17, MC-W50.
#[test]
fn a_preservation_drain_that_fails_says_so_and_is_tried_again() {
    let mut fixture = preserved();
    fixture.decision = refusal();
    fixture.settle();
    let (status, message) = says(&fixture);
    assert_eq!(status, "False");
    assert!(message.starts_with("Preserved node could not be drained. Machine preserved until "), "{message}");
    assert_eq!(fixture.plan().drain, DrainNeed::Going);
    fixture.decision = Answer::Accepted;
    fixture.wait(Duration::from_secs(6));
    fixture.settle();
    assert_eq!(says(&fixture).0, "True", "{:#?}", fixture.diary);
}

#[test]
fn a_node_is_emptied_before_it_is_said_to_be_ready_for_its_update() {
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
fn a_cordon_for_an_update_that_a_webhook_reverts_is_told_and_backed_off_from_and_force_passes_it() {
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
    assert_eq!(fixture.told, ["InPlaceUpdateFailed"]);
    assert!(matches!(fixture.plan().wake, Wake::By { awaited: Awaited::Retry, .. }));
    assert_eq!(fixture.plan().drain, DrainNeed::Going, "what was learned is kept");
    fixture.diary.clear();
    fixture.wait(Duration::from_secs(6));
    fixture.settle();
    assert_eq!(fixture.diary.iter().filter(|step| step.contains("cordon")).count(), 1, "{:#?}", fixture.diary);
    fixture.edit(|m| m["metadata"]["labels"]["force-drain"] = json!("True"));
    fixture.settle();
    assert!(fixture.pods_there.is_empty(), "{:#?}", fixture.diary);
    assert_eq!(*fixture.phase(), MachinePhase::InPlaceUpdating);
}

/// Shows MC-S3.
#[test]
fn a_taint_of_a_preserved_node_that_a_webhook_reverts_is_told_and_backed_off_from_and_force_passes_it() {
    let mut fixture = preserved();
    // Not ready for a moment only: a node that has been for long is emptied by force anyway.
    fixture.edit_node(|n| n["status"]["conditions"][0]["lastTransitionTime"] = json!(super::fixture::BEGIN));
    fixture.webhook = Webhook::RevertsSpec;
    fixture.settle();
    let (status, message) = says(&fixture);
    assert_eq!((status.as_str(), fixture.pods_there.len()), ("False", 1));
    assert!(message.starts_with("Preserved node could not be drained. Machine preserved until "), "{message}");
    let remarks = fixture.plan().remarks;
    assert!(remarks.iter().any(|remark| remark.message.contains(NOT_KEPT)), "{remarks:?}");
    fixture.diary.clear();
    fixture.wait(Duration::from_secs(6));
    fixture.settle();
    assert!(fixture.diary.len() < 5, "{:#?}", fixture.diary);
    fixture.edit(|m| m["metadata"]["labels"]["force-drain"] = json!("True"));
    fixture.settle();
    assert!(fixture.pods_there.is_empty(), "{:#?}", fixture.diary);
    assert_eq!(says(&fixture).0, "True");
}
