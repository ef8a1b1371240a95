//! Nodes that die, and what becomes of their pods.

use fake_kube_controllers::{KubeControllers, Part};
use serde_json::json;

use crate::simulated_cluster::{SimulatedCluster, condition, set};

/// Shows STN-4.
#[tokio::test(start_paused = true)]
async fn pods_of_a_dead_node_are_evicted_and_garbage_collected() {
    let cluster = SimulatedCluster::with_nodes(&["n1", "n2"]).await;
    cluster.make(&set("ReplicaSet", "web", 2, &json!({})));
    cluster.pass(3).await;
    let lost = cluster.ready()["n1"][0].clone();
    cluster.cloud.kill(&cluster.vm("n1").id);

    cluster.pass(60).await;
    assert_eq!(condition(&cluster.node("n1"), "Ready")["status"], "Unknown");
    assert_eq!(
        cluster.taints("n1"),
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    let pod = cluster.pod(&lost).unwrap();
    assert_eq!(condition(&pod, "Ready")["status"], "False", "nothing confirms that the node is off");
    assert!(pod["metadata"].get("deletionTimestamp").is_none(), "it tolerates five minutes");
    assert_eq!(cluster.counts(&["n1", "n2"]), [0, 1]);

    cluster.pass(300).await;
    let pod = cluster.pod(&lost).unwrap();
    assert!(pod["metadata"]["deletionTimestamp"].is_string(), "evicted, but no kubelet ends it");
    assert_eq!(condition(&pod, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    assert_eq!(cluster.counts(&["n1", "n2"]), [0, 2], "and replaced");

    cluster.delete_node("n1").await;
    cluster.pass(35).await;
    assert!(cluster.pod(&lost).is_some(), "a node may come back");
    cluster.pass(10).await;
    assert!(cluster.pod(&lost).is_none());
}

#[tokio::test(start_paused = true)]
async fn node_back_in_time_keeps_its_pods_and_loses_its_taints() {
    let cluster = SimulatedCluster::with_nodes(&["n1"]).await;
    cluster.make(&set("ReplicaSet", "web", 1, &json!({})));
    cluster.pass(3).await;
    let pod = cluster.ready()["n1"][0].clone();
    let vm = cluster.vm("n1").id;
    cluster.cloud.hang(&vm);
    cluster.pass(100).await;
    assert_eq!(cluster.counts(&["n1"]), [0]);
    cluster.cloud.revive(&vm);
    cluster.pass(15).await;
    assert_eq!(cluster.ready()["n1"], [pod]);
    assert!(cluster.taints("n1").is_empty());
    cluster.pass(600).await;
    assert_eq!(cluster.counts(&["n1"]), [1], "nothing is left of its being counted out");
}

#[tokio::test(start_paused = true)]
async fn node_recreated_within_the_quarantine_keeps_its_pods() {
    let cluster = SimulatedCluster::with_nodes(&["n1"]).await;
    cluster.make(&set("ReplicaSet", "web", 1, &json!({})));
    cluster.pass(3).await;
    let pod = cluster.ready()["n1"][0].clone();
    let before = cluster.node("n1");
    cluster.delete_node("n1").await;
    cluster.pass(30).await;
    let mut again = before.clone();
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        again["metadata"].as_object_mut().unwrap().remove(field);
    }
    cluster.make(&again);
    cluster.pass(60).await;
    assert!(cluster.pod(&pod).is_some());
}

#[tokio::test(start_paused = true)]
async fn untolerated_taint_evicts_pods_immediately() {
    let cluster = SimulatedCluster::with_nodes(&["n1", "n2"]).await;
    cluster.make(&set("ReplicaSet", "web", 2, &json!({})));
    cluster.pass(3).await;
    assert_eq!(cluster.counts(&["n1", "n2"]), [1, 1], "some pods must be evicted and some must stay");
    let (sent_away, stays) = (cluster.ready()["n1"][0].clone(), cluster.ready()["n2"][0].clone());
    cluster.patch_node("n1", json!({ "spec": { "taints": [{ "key": "repair", "effect": "NoExecute" }] } })).await;
    cluster.pass(1).await;
    if let Some(pod) = cluster.pod(&sent_away) {
        assert!(pod["metadata"]["deletionTimestamp"].is_string(), "not asked to go at once: {pod:#?}");
        assert_eq!(condition(&pod, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    }
    cluster.pass(4).await;
    assert_eq!(cluster.counts(&["n1", "n2"]), [0, 2]);
    assert!(cluster.ready()["n2"].contains(&stays), "pods on other nodes are kept: {:?}", cluster.ready());
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_not_played_is_not_missed_by_the_others() {
    let cluster = SimulatedCluster::played_by(KubeControllers::default().without(Part::Taints), &["n1"]).await;
    cluster.cordon("n1").await;
    cluster.pass(3).await;
    assert!(cluster.taints("n1").is_empty());
    cluster.make(&set("ReplicaSet", "web", 1, &json!({})));
    cluster.pass(3).await;
    assert_eq!(cluster.counts(&["n1"]), [0], "the scheduler sees for itself that the node is cordoned");
}
