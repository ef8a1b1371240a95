//! Nodes that die, and what becomes of their pods.

use kube_controllers::{KubeControllers, Part};
use serde_json::json;

use crate::world::{World, condition, set};

#[tokio::test(start_paused = true)]
async fn a_dead_nodes_pods_are_evicted_after_their_patience_and_collected_with_the_node() {
    let world = World::with_nodes(&["n1", "n2"]).await;
    world.make(&set("ReplicaSet", "web", 2, &json!({})));
    world.pass(3).await;
    let lost = world.ready()["n1"][0].clone();
    world.cloud.kill(&world.vm("n1").id);

    world.pass(60).await;
    assert_eq!(condition(&world.node("n1"), "Ready")["status"], "Unknown");
    assert_eq!(
        world.taints("n1"),
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    let pod = world.pod(&lost).unwrap();
    assert_eq!(condition(&pod, "Ready")["status"], "False", "nobody can vouch for it");
    assert!(pod["metadata"].get("deletionTimestamp").is_none(), "it tolerates five minutes");
    assert_eq!(world.counts(&["n1", "n2"]), [0, 1]);

    world.pass(300).await;
    let pod = world.pod(&lost).unwrap();
    assert!(pod["metadata"]["deletionTimestamp"].is_string(), "evicted, but nobody is there to end it");
    assert_eq!(condition(&pod, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    assert_eq!(world.counts(&["n1", "n2"]), [0, 2], "and replaced");

    world.delete_node("n1").await;
    world.pass(35).await;
    assert!(world.pod(&lost).is_some(), "a node may come back");
    world.pass(10).await;
    assert!(world.pod(&lost).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_in_time_keeps_its_pods_and_loses_its_taints() {
    let world = World::with_nodes(&["n1"]).await;
    world.make(&set("ReplicaSet", "web", 1, &json!({})));
    world.pass(3).await;
    let pod = world.ready()["n1"][0].clone();
    let vm = world.vm("n1").id;
    world.cloud.hang(&vm);
    world.pass(100).await;
    assert_eq!(world.counts(&["n1"]), [0]);
    world.cloud.revive(&vm);
    world.pass(15).await;
    assert_eq!(world.ready()["n1"], [pod]);
    assert!(world.taints("n1").is_empty());
    world.pass(600).await;
    assert_eq!(world.counts(&["n1"]), [1], "nothing is left of its being counted out");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_under_its_name_within_the_quarantine_keeps_its_pods() {
    let world = World::with_nodes(&["n1"]).await;
    world.make(&set("ReplicaSet", "web", 1, &json!({})));
    world.pass(3).await;
    let pod = world.ready()["n1"][0].clone();
    let before = world.node("n1");
    world.delete_node("n1").await;
    world.pass(30).await;
    let mut again = before.clone();
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        again["metadata"].as_object_mut().unwrap().remove(field);
    }
    world.make(&again);
    world.pass(60).await;
    assert!(world.pod(&pod).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_nobody_tolerates_sends_pods_away_at_once() {
    let world = World::with_nodes(&["n1", "n2"]).await;
    world.make(&set("ReplicaSet", "web", 2, &json!({})));
    world.pass(3).await;
    assert_eq!(world.counts(&["n1", "n2"]), [1, 1], "somebody is there to be sent away, and somebody to stay");
    let (sent_away, stays) = (world.ready()["n1"][0].clone(), world.ready()["n2"][0].clone());
    world.patch_node("n1", json!({ "spec": { "taints": [{ "key": "repair", "effect": "NoExecute" }] } })).await;
    world.pass(1).await;
    if let Some(pod) = world.pod(&sent_away) {
        assert!(pod["metadata"]["deletionTimestamp"].is_string(), "not asked to go at once: {pod:#?}");
        assert_eq!(condition(&pod, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    }
    world.pass(4).await;
    assert_eq!(world.counts(&["n1", "n2"]), [0, 2]);
    assert!(world.ready()["n2"].contains(&stays), "who was elsewhere is left alone: {:?}", world.ready());
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_not_played_is_not_missed_by_the_others() {
    let world = World::played_by(KubeControllers::default().without(Part::Taints), &["n1"]).await;
    world.cordon("n1").await;
    world.pass(3).await;
    assert!(world.taints("n1").is_empty());
    world.make(&set("ReplicaSet", "web", 1, &json!({})));
    world.pass(3).await;
    assert_eq!(world.counts(&["n1"]), [0], "the scheduler sees for itself that the node is cordoned");
}
