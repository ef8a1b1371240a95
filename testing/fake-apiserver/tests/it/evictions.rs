//! Evictions, where a real cluster's controllers would not let a test look.

use fake_apiserver::Server;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{EvictParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::{START, client, refusal, server};

fn pods(server: &Server) -> Api<Pod> {
    Api::namespaced(client(server), "default")
}

fn budgets(server: &Server) -> Api<PodDisruptionBudget> {
    Api::namespaced(client(server), "default")
}

async fn running(server: &Server, name: &str) {
    let pod = json!({
        "metadata": { "name": name, "labels": { "app": "a" } },
        "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] },
    });
    pods(server).create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let status = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    pods(server).patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

async fn budget(server: &Server, status: &Value) {
    let budget = json!({ "metadata": { "name": "b" }, "spec": { "minAvailable": 1, "selector": {} } });
    budgets(server).create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    told(server, status).await;
}

async fn told(server: &Server, status: &Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    budgets(server).patch_status("b", &PatchParams::default(), &patch).await.unwrap();
}

/// Shows KIN-2.
#[tokio::test(start_paused = true)]
async fn a_budget_that_nobody_has_looked_at_asks_for_patience() {
    let server = server();
    running(&server, "p").await;
    budget(&server, &json!({ "observedGeneration": 0, "disruptionsAllowed": 5 })).await;
    let body = json!({ "metadata": { "name": "p" } }).to_string();
    let request =
        http::Request::post("/api/v1/namespaces/default/pods/p/eviction").body(body.into_bytes().into()).unwrap();
    let response = client(&server).send(request).await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "10");
    let (_, _, message) = refusal(pods(&server).evict("p", &EvictParams::default()).await);
    assert_eq!(message, "Cannot evict pod as it would violate the pod's disruption budget.");
}

/// Shows KIN-2.
#[tokio::test(start_paused = true)]
async fn a_budget_that_is_spent_says_nothing_of_when_to_come_back() {
    let server = server();
    running(&server, "p").await;
    budget(&server, &json!({ "observedGeneration": 1, "disruptionsAllowed": 0 })).await;
    let body = json!({ "metadata": { "name": "p" } }).to_string();
    let request =
        http::Request::post("/api/v1/namespaces/default/pods/p/eviction").body(body.into_bytes().into()).unwrap();
    let response = client(&server).send(request).await.unwrap();
    assert_eq!(response.status(), 429);
    assert!(response.headers().get("retry-after").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_written_into_the_budget_before_the_pod_goes() {
    let server = server();
    running(&server, "p").await;
    running(&server, "q").await;
    budget(
        &server,
        &json!({ "observedGeneration": 1, "disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 1 }),
    )
    .await;
    let before = server.revision();
    pods(&server).evict("p", &EvictParams::default()).await.unwrap();
    let status = budgets(&server).get("b").await.unwrap().status.unwrap();
    assert_eq!(status.disruptions_allowed, Some(1));
    assert_eq!(serde_json::to_value(&status.disrupted_pods).unwrap(), json!({ "p": START }));
    assert!(status.conditions.is_none());
    let spent = server.changes("poddisruptionbudgets.policy", before).unwrap()[0].revision;
    assert!(server.changes("pods", before).unwrap().iter().all(|change| change.revision > spent));

    pods(&server).evict("q", &EvictParams::default()).await.unwrap();
    let conditions = budgets(&server).get("b").await.unwrap().status.unwrap().conditions.unwrap();
    assert_eq!((conditions[0].type_.as_str(), conditions[0].status.as_str()), ("DisruptionAllowed", "False"));
    assert_eq!(conditions[0].reason, "InsufficientPods");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_makes_no_sense_forbids() {
    let server = server();
    running(&server, "p").await;
    budget(&server, &json!({ "observedGeneration": 1, "disruptionsAllowed": -1 })).await;
    let (code, reason, message) = refusal(pods(&server).evict("p", &EvictParams::default()).await);
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    assert_eq!(message, "poddisruptionbudget.policy \"b\" is forbidden: pdb disruptions allowed is negative");
}

#[tokio::test(start_paused = true)]
async fn an_unready_pod_that_is_let_go_costs_the_budget_nothing() {
    let server = server();
    running(&server, "p").await;
    let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    pods(&server).patch_status("p", &PatchParams::default(), &Patch::Merge(unready)).await.unwrap();
    budget(
        &server,
        &json!({ "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1 }),
    )
    .await;
    pods(&server).evict("p", &EvictParams::default()).await.unwrap();
    assert_eq!(budgets(&server).get("b").await.unwrap().status.unwrap().disruptions_allowed, Some(1));
}
