//! Nodes without a Machine are annotated for the cluster autoscaler, and a wrong annotation is removed.

use std::time::Duration;

use api::MachinePhase;
use api::names::{annotations, finalizers};
use fake_apiserver::faults::Verb;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use runtime::client::Api;
use serde_json::json;

use crate::test_cluster::{CONTROLLER, TestCluster};

const MINUTE: Duration = Duration::from_mins(1);

fn insert(cluster: &TestCluster, name: &str) {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "finalizers": [finalizers::NODE, "someone.else/holds"] },
    });
    cluster.server.insert(&node).unwrap();
}

fn is_marked(cluster: &TestCluster, name: &str) -> bool {
    !cluster.node(name).unwrap()["metadata"]["annotations"][annotations::NOT_MANAGED].is_null()
}

/// Shows MC-W75.
#[tokio::test(start_paused = true)]
async fn unmanaged_node_is_annotated_in_one_write() {
    let cluster = TestCluster::new(1);
    let _process = cluster.start();
    insert(&cluster, "stranger");
    tokio::time::sleep(19 * MINUTE).await;
    assert!(!is_marked(&cluster, "stranger"));
    cluster.server.forget_requests();
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(cluster.node("stranger").unwrap()["metadata"]["annotations"][annotations::NOT_MANAGED], "1");
    assert_eq!(cluster.node("stranger").unwrap()["metadata"]["finalizers"], json!(["someone.else/holds"]));
    let writes: Vec<_> = cluster.requests().into_iter().filter(|request| request.contains("nodes")).collect();
    assert_eq!(writes, ["patch nodes stranger -> 200"]);
}

/// Shows MC-W46.
#[tokio::test(start_paused = true)]
async fn failed_write_of_one_node_does_not_block_others() {
    let cluster = TestCluster::new(2);
    cluster.server.faults().on(Verb::Patch).of("nodes").named("a").by_agent(CONTROLLER).fail();
    let _process = cluster.start();
    insert(&cluster, "a");
    insert(&cluster, "b");
    tokio::time::sleep(21 * MINUTE).await;
    assert!(is_marked(&cluster, "b") && !is_marked(&cluster, "a"));
    cluster.server.faults().calm();
    tokio::time::sleep(20 * MINUTE).await;
    assert!(is_marked(&cluster, "a"), "it is tried again");
}

/// Shows MC-W48.
#[tokio::test(start_paused = true)]
async fn wrong_annotation_is_removed_immediately() {
    let cluster = TestCluster::new(3);
    let _process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    let node = cluster.cloud.vms_of("m-0")[0].node_name.to_string();
    let nodes: Api<Node> = Api::all(cluster.client("person"));
    let mark = Patch::Merge(json!({ "metadata": { "annotations": { annotations::NOT_MANAGED: "1" } } }));
    nodes.patch(&node, &PatchParams::default(), &mark).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!is_marked(&cluster, &node));
}

#[tokio::test(start_paused = true)]
async fn no_node_is_annotated_without_synced_machines() {
    let cluster = TestCluster::new(4);
    let process = cluster.start();
    insert(&cluster, "stranger");
    tokio::time::sleep(MINUTE).await;
    let until = cluster.clock.now() + jiff::SignedDuration::from_hours(2);
    cluster.server.faults().on_any().of("machines").by_agent(CONTROLLER).until(until).disconnect();
    tokio::time::sleep(Duration::from_mins(90)).await;
    assert_eq!(process.cluster.connectivity().now(), planner::machine::Connectivity::Frozen);
    assert!(!is_marked(&cluster, "stranger"));
    tokio::time::sleep(2 * 60 * MINUTE).await;
    assert!(is_marked(&cluster, "stranger"));
}
