//! Where pods go.

use serde_json::json;

use crate::simulated_cluster::{SimulatedCluster, condition, set};

/// Shows STN-2.
#[tokio::test(start_paused = true)]
async fn replica_set_pods_are_spread_over_schedulable_nodes() {
    let cluster = SimulatedCluster::with_nodes(&["n1", "n2", "n3"]).await;
    cluster.cordon("n2").await;
    cluster.make(&set("ReplicaSet", "web", 4, &json!({})));
    cluster.pass(3).await;
    assert_eq!(cluster.counts(&["n1", "n2", "n3"]), [2, 0, 2]);
    assert_eq!(cluster.taints("n2"), ["node.kubernetes.io/unschedulable:NoSchedule"]);
    let status = &cluster.server.object("replicasets.apps", "default", "web").unwrap()["status"];
    assert_eq!(
        (&status["replicas"], &status["readyReplicas"], &status["availableReplicas"]),
        (&json!(4), &json!(4), &json!(4))
    );
}

/// Shows STN-2.
#[tokio::test(start_paused = true)]
async fn unschedulable_pod_reports_why_and_is_bound_once_it_fits() {
    let cluster = SimulatedCluster::with_nodes(&["n1"]).await;
    cluster.cordon("n1").await;
    cluster.make(&set("ReplicaSet", "web", 1, &json!({})));
    cluster.pass(3).await;
    let scheduled = condition(&cluster.pods()[0], "PodScheduled");
    assert_eq!((&scheduled["status"], &scheduled["reason"]), (&json!("False"), &json!("Unschedulable")));
    assert_eq!(
        scheduled["message"],
        "0/1 nodes are available: 1 node(s) were unschedulable. no new claims to deallocate, \
         preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        "as reported by kube-scheduler 1.36"
    );
    cluster.add_node("n2", "a").await;
    cluster.pass(3).await;
    assert_eq!(cluster.counts(&["n1", "n2"]), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn when_room_is_short_the_important_pod_gets_it() {
    let cluster = SimulatedCluster::with_nodes(&["n1"]).await;
    cluster.cordon("n1").await;
    cluster.make(&json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "high" }, "value": 1000,
    }));
    cluster.make(&set("ReplicaSet", "many", 5, &json!({})));
    cluster.make(&set("ReplicaSet", "vip", 1, &json!({ "priorityClassName": "high" })));
    cluster.pass(3).await;
    cluster.patch_node("n1", json!({ "spec": { "unschedulable": null } })).await;
    cluster.pass(3).await;
    let ready = cluster.ready();
    assert_eq!(ready["n1"].len(), 5, "the node has room for five");
    assert!(ready["n1"].iter().any(|name| name.starts_with("vip-")));
}

#[tokio::test(start_paused = true)]
async fn every_node_gets_a_daemon_pod_even_cordoned_or_later_ones() {
    let cluster = SimulatedCluster::with_nodes(&["n1", "n2"]).await;
    cluster.cordon("n1").await;
    cluster.make(&set("DaemonSet", "agent", 0, &json!({})));
    cluster.pass(3).await;
    assert_eq!(cluster.counts(&["n1", "n2"]), [1, 1]);
    cluster.add_node("n3", "a").await;
    cluster.pass(5).await;
    assert_eq!(cluster.counts(&["n1", "n2", "n3"]), [1, 1, 1]);
    let status = &cluster.server.object("daemonsets.apps", "default", "agent").unwrap()["status"];
    assert_eq!((&status["desiredNumberScheduled"], &status["numberReady"]), (&json!(3), &json!(3)));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_rolls_to_its_new_template() {
    let cluster = SimulatedCluster::with_nodes(&["n1", "n2"]).await;
    let mut deployment = set("Deployment", "web", 4, &json!({}));
    cluster.make(&deployment);
    cluster.pass(5).await;
    assert_eq!(cluster.counts(&["n1", "n2"]), [2, 2]);
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "new".into();
    cluster.merge("deployments", "web", &json!({ "spec": { "template": deployment["spec"]["template"] } })).await;
    cluster.pass(20).await;
    let images: Vec<_> = cluster.pods().iter().map(|pod| pod["spec"]["containers"][0]["image"].clone()).collect();
    assert_eq!(images, [json!("new"), json!("new"), json!("new"), json!("new")]);
    let deployment = cluster.server.object("deployments.apps", "default", "web").unwrap();
    assert_eq!(condition(&deployment, "Available")["status"], "True");
    assert_eq!(condition(&deployment, "Progressing")["reason"], "NewReplicaSetAvailable");
    assert_eq!(cluster.server.objects("replicasets.apps").len(), 2);
}

/// Shows STN-6.
#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_is_left_alone() {
    let cluster = SimulatedCluster::with_nodes(&["n1", "n2"]).await;
    cluster.make(&set("Deployment", "web", 2, &json!({})));
    cluster.make(&set("StatefulSet", "db", 2, &json!({})));
    cluster.make(&set("DaemonSet", "agent", 0, &json!({})));
    cluster.pass(60).await;
    cluster.server.forget_requests();
    cluster.pass(600).await;
    let writes: Vec<_> = cluster
        .server
        .requests()
        .into_iter()
        .map(|entry| entry.tally)
        .filter(|tally| {
            tally.user_agent.starts_with("kube-controllers") && !matches!(tally.verb.as_str(), "watch" | "list")
        })
        .collect();
    assert!(writes.is_empty(), "{writes:?}");
}
