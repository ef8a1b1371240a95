//! What becomes of pods that are sent away, and of the budgets that hold them back.

use serde_json::json;

use crate::world::{World, budget, set};

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_of_a_replica_set_comes_back_elsewhere() {
    let world = World::with_nodes(&["n1", "n2"]).await;
    world.make(&set("ReplicaSet", "web", 2, &json!({})));
    world.pass(3).await;
    assert_eq!(world.counts(&["n1", "n2"]), [1, 1]);
    world.cordon("n1").await;
    let evicted = world.ready()["n1"][0].clone();
    world.evict(&evicted).await.unwrap();
    world.pass(5).await;
    assert!(world.pod(&evicted).is_none());
    assert_eq!(world.counts(&["n1", "n2"]), [0, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_budget_opens_again_when_the_replacement_is_ready() {
    let world = World::with_nodes(&["n1", "n2"]).await;
    world.make(&set("ReplicaSet", "web", 2, &json!({})));
    world.make(&budget("web", &json!({ "minAvailable": 1 })));
    world.pass(3).await;
    let status = world.budget("web");
    assert_eq!(
        (&status["expectedPods"], &status["desiredHealthy"], &status["currentHealthy"], &status["disruptionsAllowed"]),
        (&json!(2), &json!(1), &json!(2), &json!(1))
    );
    assert_eq!(status["conditions"][0]["reason"], "SufficientPods");

    let names: Vec<String> = world.ready().into_values().flatten().collect();
    world.evict(&names[0]).await.unwrap();
    let refused = world.evict(&names[1]).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 429), "{refused:?}");

    world.pass(5).await;
    assert_eq!(world.budget("web")["disruptionsAllowed"], 1);
    assert_eq!(world.budget("web").get("disruptedPods").filter(|pods| **pods != json!({})), None);
    world.evict(&names[1]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_budget_by_share_follows_what_the_deployment_wants() {
    let world = World::with_nodes(&["n1", "n2"]).await;
    world.make(&set("Deployment", "web", 4, &json!({})));
    world.make(&budget("web", &json!({ "maxUnavailable": "25%" })));
    world.pass(5).await;
    assert_eq!(
        (&world.budget("web")["expectedPods"], &world.budget("web")["disruptionsAllowed"]),
        (&json!(4), &json!(1))
    );
    world.merge("deployments", "web", &json!({ "spec": { "replicas": 8 } })).await;
    world.pass(5).await;
    let status = world.budget("web");
    assert_eq!(
        (&status["expectedPods"], &status["desiredHealthy"], &status["disruptionsAllowed"]),
        (&json!(8), &json!(6), &json!(2))
    );
}

#[tokio::test(start_paused = true)]
async fn a_budget_whose_owners_nobody_knows_allows_nothing_and_says_so() {
    let world = World::with_nodes(&["n1"]).await;
    world.make(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "p", "namespace": "default", "labels": { "app": "odd" }, "ownerReferences": [
            { "apiVersion": "example.com/v1", "kind": "Odd", "name": "o", "uid": "u", "controller": true }] },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    }));
    world.make(&budget("odd", &json!({ "maxUnavailable": 1 })));
    world.pass(3).await;
    let said = &world.budget("odd")["conditions"][0];
    assert_eq!(
        (&said["reason"], &said["message"]),
        (&json!("SyncFailed"), &json!("found no controllers for pod \"p\""))
    );
    assert_eq!(world.budget("odd")["disruptionsAllowed"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_waits_for_the_old_pod_to_be_gone() {
    let world = World::with_nodes(&["n1", "n2"]).await;
    let mut db = set("StatefulSet", "db", 2, &json!({}));
    db["spec"]["template"]["metadata"]["annotations"] = json!({ virtual_cloud::node_life::RUNDOWN_ANNOTATION: "20s" });
    world.make(&db);
    world.pass(5).await;
    let uid = world.pod("db-1").unwrap()["metadata"]["uid"].clone();
    world.evict("db-1").await.unwrap();
    world.pass(15).await;
    let leaving = world.pod("db-1").unwrap();
    assert_eq!(leaving["metadata"]["uid"], uid, "its name is taken until it is gone");
    assert!(leaving["metadata"]["deletionTimestamp"].is_string());
    world.pass(10).await;
    let back = world.pod("db-1").unwrap();
    assert_ne!(back["metadata"]["uid"], uid);
    assert_eq!(world.ready().into_values().flatten().count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_grows_and_shrinks_one_by_one() {
    let world = World::with_nodes(&["n1", "n2"]).await;
    world.make(&set("StatefulSet", "db", 3, &json!({})));
    world.pass(5).await;
    assert!(["db-0", "db-1", "db-2"].into_iter().all(|name| world.pod(name).is_some()));
    world.merge("statefulsets", "db", &json!({ "spec": { "replicas": 1 } })).await;
    world.pass(5).await;
    let names: Vec<_> = world.pods().iter().map(|pod| pod["metadata"]["name"].clone()).collect();
    assert_eq!(names, [json!("db-0")]);
    let gone: Vec<_> = world
        .server
        .changes("pods", 0)
        .unwrap()
        .into_iter()
        .filter(|change| change.kind == apiserver::ChangeKind::Removed)
        .map(|change| change.after["metadata"]["name"].clone())
        .collect();
    assert_eq!(gone, [json!("db-2"), json!("db-1")], "highest first");
}
