//! DrainView the node of a machine that stays.

use std::time::Duration;

use api::MachinePhase;
use api::names::annotations::PRESERVE;
use api::names::labels::{CANDIDATE_FOR_UPDATE, SELECTED_FOR_UPDATE};
use serde_json::json;

use super::super::*;
use super::world::{Webhook, World};
use crate::drain::{Answer, Failure, Outlook};

fn refusal() -> Answer {
    Answer::Failed(Failure { text: "no".into(), outlook: Outlook::Lasting, retry_after: None })
}

/// A machine that failed and is to be preserved, with a pod on its node.
fn preserved() -> World {
    let mut world = World::running();
    world.add_pod("web-1");
    world.edit(|m| {
        m["metadata"]["annotations"][PRESERVE] = json!("when-failed");
        m["status"]["currentStatus"]["phase"] = json!("Failed");
        m["status"]["currentStatus"]["lastUpdateTime"] = json!(super::world::BEGIN);
    });
    world.report(&[("Ready", "False")]);
    world
}

/// What the node says of its preservation.
fn says(world: &World) -> (String, String) {
    let condition = world.node.as_ref().unwrap().condition("Preserved").unwrap();
    (condition.status.to_string(), condition.message.to_string())
}

#[test]
fn a_preserved_machine_s_node_is_emptied_once_and_says_so() {
    let mut world = preserved();
    world.settle();
    assert!(world.pods_there.is_empty(), "{:#?}", world.diary);
    let (status, message) = says(&world);
    assert_eq!(status, "True");
    assert!(message.starts_with("Preserved node drained successfully. Machine preserved until "), "{message}");
    assert!(!world.node.as_ref().unwrap().spec.unschedulable, "a taint keeps pods away, not a cordon");
    assert_eq!(world.plan().drain, DrainNeed::Over, "nothing is watched any more");
}

#[test]
fn a_preservation_drain_that_fails_says_so_and_is_tried_again() {
    let mut world = preserved();
    world.decision = refusal();
    world.settle();
    let (status, message) = says(&world);
    assert_eq!(status, "False");
    assert!(message.starts_with("Preserved node could not be drained. Machine preserved until "), "{message}");
    assert_eq!(world.plan().drain, DrainNeed::Going);
    world.decision = Answer::Accepted;
    world.wait(Duration::from_secs(6));
    world.settle();
    assert_eq!(says(&world).0, "True", "{:#?}", world.diary);
}

#[test]
fn a_node_is_emptied_before_it_is_said_to_be_ready_for_its_update() {
    let mut world = World::running();
    world.add_pod("web-1");
    world.edit_node(|n| {
        n["metadata"]["labels"][CANDIDATE_FOR_UPDATE] = json!("true");
        n["metadata"]["labels"][SELECTED_FOR_UPDATE] = json!("true");
    });
    world.decision = refusal();
    world.settle();
    let reason = |world: &World| world.node.as_ref().unwrap().condition("InPlaceUpdate").unwrap().reason.to_string();
    assert_eq!(reason(&world), "SelectedForUpdate");
    let text = "Drain failed due to - error when evicting pod \"web-1\": no scheduled on node node-1. Will retry in next sync. \
                Initiate node drain";
    assert_eq!(world.text(), text);
    world.decision = Answer::Accepted;
    world.wait(Duration::from_secs(6));
    world.settle();
    assert!(world.pods_there.is_empty());
    assert_eq!(reason(&world), "ReadyForUpdate");
    assert_eq!(*world.phase(), MachinePhase::InPlaceUpdating);
}

#[test]
fn a_cordon_for_an_update_that_a_webhook_reverts_is_told_and_backed_off_from_and_force_passes_it() {
    let mut world = World::running();
    world.add_pod("web-1");
    world.webhook = Webhook::RevertsSpec;
    world.edit_node(|n| {
        n["metadata"]["labels"][CANDIDATE_FOR_UPDATE] = json!("true");
        n["metadata"]["labels"][SELECTED_FOR_UPDATE] = json!("true");
    });
    world.settle();
    let text = format!("Drain failed due to - {NOT_KEPT}. Will retry in next sync. Initiate node drain");
    assert_eq!((world.text(), world.pods_there.len()), (text.as_str(), 1));
    assert_eq!(world.told, ["InPlaceUpdateFailed"]);
    assert!(matches!(world.plan().wake, Wake::By { awaited: Awaited::Retry, .. }));
    assert_eq!(world.plan().drain, DrainNeed::Going, "what was learned is kept");
    world.diary.clear();
    world.wait(Duration::from_secs(6));
    world.settle();
    assert_eq!(world.diary.iter().filter(|step| step.contains("cordon")).count(), 1, "{:#?}", world.diary);
    world.edit(|m| m["metadata"]["labels"]["force-drain"] = json!("True"));
    world.settle();
    assert!(world.pods_there.is_empty(), "{:#?}", world.diary);
    assert_eq!(*world.phase(), MachinePhase::InPlaceUpdating);
}

#[test]
fn a_taint_of_a_preserved_node_that_a_webhook_reverts_is_told_and_backed_off_from_and_force_passes_it() {
    let mut world = preserved();
    // Not ready for a moment only: a node that has been for long is emptied by force anyway.
    world.edit_node(|n| n["status"]["conditions"][0]["lastTransitionTime"] = json!(super::world::BEGIN));
    world.webhook = Webhook::RevertsSpec;
    world.settle();
    let (status, message) = says(&world);
    assert_eq!((status.as_str(), world.pods_there.len()), ("False", 1));
    assert!(message.starts_with("Preserved node could not be drained. Machine preserved until "), "{message}");
    let remarks = world.plan().remarks;
    assert!(remarks.iter().any(|remark| remark.message.contains(NOT_KEPT)), "{remarks:?}");
    world.diary.clear();
    world.wait(Duration::from_secs(6));
    world.settle();
    assert!(world.diary.len() < 5, "{:#?}", world.diary);
    world.edit(|m| m["metadata"]["labels"]["force-drain"] = json!("True"));
    world.settle();
    assert!(world.pods_there.is_empty(), "{:#?}", world.diary);
    assert_eq!(says(&world).0, "True");
}
