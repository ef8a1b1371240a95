//! What becomes of pods that are sent away, and of the budgets that hold them back.

use serde_json::json;

use crate::simulated_cluster::{SimulatedCluster, budget, set};

/// Shows STN-1.
#[tokio::test(start_paused = true)]
async fn an_evicted_pod_of_a_replica_set_comes_back_elsewhere() {
    let cluster = SimulatedCluster::with_nodes(&["n1", "n2"]).await;
    cluster.make(&set("ReplicaSet", "web", 2, &json!({})));
    cluster.pass(3).await;
    assert_eq!(cluster.counts(&["n1", "n2"]), [1, 1]);
    cluster.cordon("n1").await;
    let evicted = cluster.ready()["n1"][0].clone();
    cluster.evict(&evicted).await.unwrap();
    cluster.pass(5).await;
    assert!(cluster.pod(&evicted).is_none());
    assert_eq!(cluster.counts(&["n1", "n2"]), [0, 2]);
}

/// Shows STN-3.
#[tokio::test(start_paused = true)]
async fn a_budget_opens_again_when_the_replacement_is_ready() {
    let cluster = SimulatedCluster::with_nodes(&["n1", "n2"]).await;
    cluster.make(&set("ReplicaSet", "web", 2, &json!({})));
    cluster.make(&budget("web", &json!({ "minAvailable": 1 })));
    cluster.pass(3).await;
    let status = cluster.budget("web");
    assert_eq!(
        (&status["expectedPods"], &status["desiredHealthy"], &status["currentHealthy"], &status["disruptionsAllowed"]),
        (&json!(2), &json!(1), &json!(2), &json!(1))
    );
    assert_eq!(status["conditions"][0]["reason"], "SufficientPods");

    let names: Vec<String> = cluster.ready().into_values().flatten().collect();
    cluster.evict(&names[0]).await.unwrap();
    let refused = cluster.evict(&names[1]).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 429), "{refused:?}");

    cluster.pass(5).await;
    assert_eq!(cluster.budget("web")["disruptionsAllowed"], 1);
    assert_eq!(cluster.budget("web").get("disruptedPods").filter(|pods| **pods != json!({})), None);
    cluster.evict(&names[1]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_budget_by_share_follows_what_the_deployment_wants() {
    let cluster = SimulatedCluster::with_nodes(&["n1", "n2"]).await;
    cluster.make(&set("Deployment", "web", 4, &json!({})));
    cluster.make(&budget("web", &json!({ "maxUnavailable": "25%" })));
    cluster.pass(5).await;
    assert_eq!(
        (&cluster.budget("web")["expectedPods"], &cluster.budget("web")["disruptionsAllowed"]),
        (&json!(4), &json!(1))
    );
    cluster.merge("deployments", "web", &json!({ "spec": { "replicas": 8 } })).await;
    cluster.pass(5).await;
    let status = cluster.budget("web");
    assert_eq!(
        (&status["expectedPods"], &status["desiredHealthy"], &status["disruptionsAllowed"]),
        (&json!(8), &json!(6), &json!(2))
    );
}

#[tokio::test(start_paused = true)]
async fn budget_with_unknown_owners_allows_no_disruption() {
    let cluster = SimulatedCluster::with_nodes(&["n1"]).await;
    cluster.make(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "p", "namespace": "default", "labels": { "app": "odd" }, "ownerReferences": [
            { "apiVersion": "example.com/v1", "kind": "Odd", "name": "o", "uid": "u", "controller": true }] },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    }));
    cluster.make(&budget("odd", &json!({ "maxUnavailable": 1 })));
    cluster.pass(3).await;
    let said = &cluster.budget("odd")["conditions"][0];
    assert_eq!(
        (&said["reason"], &said["message"]),
        (&json!("SyncFailed"), &json!("found no controllers for pod \"p\""))
    );
    assert_eq!(cluster.budget("odd")["disruptionsAllowed"], 0);
}

/// Shows STN-1.
#[tokio::test(start_paused = true)]
async fn a_stateful_set_waits_for_the_old_pod_to_be_gone() {
    let cluster = SimulatedCluster::with_nodes(&["n1", "n2"]).await;
    let mut db = set("StatefulSet", "db", 2, &json!({}));
    db["spec"]["template"]["metadata"]["annotations"] = json!({ driver_virtual::node_life::RUNDOWN_ANNOTATION: "20s" });
    cluster.make(&db);
    cluster.pass(5).await;
    let uid = cluster.pod("db-1").unwrap()["metadata"]["uid"].clone();
    cluster.evict("db-1").await.unwrap();
    cluster.pass(15).await;
    let leaving = cluster.pod("db-1").unwrap();
    assert_eq!(leaving["metadata"]["uid"], uid, "its name is taken until it is gone");
    assert!(leaving["metadata"]["deletionTimestamp"].is_string());
    cluster.pass(10).await;
    let back = cluster.pod("db-1").unwrap();
    assert_ne!(back["metadata"]["uid"], uid);
    assert_eq!(cluster.ready().into_values().flatten().count(), 2);
}

/// Shows STN-1.
#[tokio::test(start_paused = true)]
async fn a_stateful_set_grows_and_shrinks_one_by_one() {
    let cluster = SimulatedCluster::with_nodes(&["n1", "n2"]).await;
    cluster.make(&set("StatefulSet", "db", 3, &json!({})));
    cluster.pass(5).await;
    assert!(["db-0", "db-1", "db-2"].into_iter().all(|name| cluster.pod(name).is_some()));
    cluster.merge("statefulsets", "db", &json!({ "spec": { "replicas": 1 } })).await;
    cluster.pass(5).await;
    let names: Vec<_> = cluster.pods().iter().map(|pod| pod["metadata"]["name"].clone()).collect();
    assert_eq!(names, [json!("db-0")]);
    let gone: Vec<_> = cluster
        .server
        .changes("pods", 0)
        .unwrap()
        .into_iter()
        .filter(|change| change.kind == fake_apiserver::ChangeKind::Removed)
        .map(|change| change.after["metadata"]["name"].clone())
        .collect();
    assert_eq!(gone, [json!("db-2"), json!("db-1")], "highest first");
}
