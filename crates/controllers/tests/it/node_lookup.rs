//! Deletion of Machines whose Node the cache does not show.

use std::time::Duration;

use api::MachinePhase;
use fake_apiserver::faults::{After, Verb};
use kube::api::{Patch, PatchParams};
use rstest::rstest;
use serde_json::json;

use crate::test_cluster::{CONTROLLER, Process, TestCluster, class};

const MINUTE: Duration = Duration::from_mins(1);

/// Creates a Machine whose Node joins while the watch of Nodes is delayed.
async fn joined_unseen(seed: u64) -> (TestCluster, Process) {
    let cluster = TestCluster::new(seed);
    cluster.server.faults().on(Verb::Watch).of("nodes").by_agent(CONTROLLER).stall_watch(After::Time(Duration::ZERO));
    let process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("its Node joins", |w| w.node("m-0").is_some()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.phase("m-0"), Some(MachinePhase::Pending), "the cache does not show the Node");
    (cluster, process)
}

/// Creates a Machine whose VM runs and never joins.
async fn never_joined(seed: u64) -> (TestCluster, Process) {
    let cluster = TestCluster::new(seed);
    let spec = json!({ "createLatency": "2s", "bootLatency": "30s", "deleteLatency": "5s", "join": "never" });
    cluster.server.insert(&class("hermit", &spec)).unwrap();
    let process = cluster.start();
    cluster.create_of_class("m-0", "hermit").await;
    cluster.until("its VM is recorded", |w| w.phase("m-0") == Some(MachinePhase::Pending)).await;
    (cluster, process)
}

fn lookups(cluster: &TestCluster) -> Vec<String> {
    cluster.requests().into_iter().filter(|request| request.starts_with("get nodes m-0")).collect()
}

/// Shows MC-D6a.
#[tokio::test(start_paused = true)]
async fn node_that_the_cache_missed_is_drained_and_deleted() {
    let (cluster, _process) = joined_unseen(1).await;
    cluster.server.forget_requests();
    cluster.delete("m-0").await;
    cluster.until("it is deleted", |w| w.machine("m-0").is_none()).await;
    assert!(cluster.cloud.vms().is_empty());
    assert!(cluster.node("m-0").is_none(), "its Node is deleted");
    assert_eq!(lookups(&cluster), ["get nodes m-0 -> 200"]);
    let requests = cluster.requests();
    let cordoned =
        requests.iter().position(|request| request.starts_with("patch nodes m-0")).expect("the Node is cordoned");
    let deleted =
        requests.iter().position(|request| request.starts_with("delete nodes m-0")).expect("the Node is deleted");
    assert!(cordoned < deleted, "{requests:#?}");
}

#[tokio::test(start_paused = true)]
async fn node_that_joins_after_the_drain_is_deleted() {
    let cluster = TestCluster::new(2);
    let slow =
        json!({ "createLatency": "2s", "bootLatency": "30s", "deleteLatency": "60s", "join": { "after": "10s" } });
    cluster.server.insert(&class("slow", &slow)).unwrap();
    cluster.server.faults().on(Verb::Watch).of("nodes").by_agent(CONTROLLER).stall_watch(After::Time(Duration::ZERO));
    let _process = cluster.start();
    cluster.create_of_class("m-0", "slow").await;
    cluster.until("its VM is recorded", |w| w.phase("m-0") == Some(MachinePhase::Pending)).await;
    cluster.delete("m-0").await;
    cluster
        .until("its VM is being deleted", |w| {
            w.machine("m-0").is_some_and(|m| m.status.last_operation.description.ends_with("Initiate VM deletion"))
        })
        .await;
    assert!(cluster.node("m-0").is_none());
    // The kubelet registers before the VM is deleted.
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "m-0" } });
    cluster.server.insert(&node).unwrap();
    cluster.until("it is deleted", |w| w.machine("m-0").is_none()).await;
    assert!(cluster.node("m-0").is_none(), "its Node is deleted");
}

#[tokio::test(start_paused = true)]
async fn machine_that_never_joined_is_deleted_after_two_reads() {
    let (cluster, _process) = never_joined(3).await;
    cluster.server.forget_requests();
    cluster.delete("m-0").await;
    cluster.until("it is deleted", |w| w.machine("m-0").is_none()).await;
    assert_eq!(lookups(&cluster), ["get nodes m-0 -> 404", "get nodes m-0 -> 404"]);
    let down = cluster.requests();
    assert!(down.len() <= 10, "budget: 10 requests to delete a Machine: {down:#?}");
}

/// Shows MC-D6a.
#[tokio::test(start_paused = true)]
async fn forbidden_node_read_is_reported_and_deletion_continues() {
    let (cluster, _process) = never_joined(4).await;
    cluster.server.faults().on(Verb::Get).of("nodes").by_agent(CONTROLLER).forbid();
    cluster.delete("m-0").await;
    cluster.until("it is deleted", |w| w.machine("m-0").is_none()).await;
    assert_eq!(lookups(&cluster).len(), 2, "a rejected read is not repeated");
    tokio::time::sleep(MINUTE).await;
    assert_eq!(cluster.event_messages("NodeMayBeLeft").len(), 1);
}

/// Shows MC-D6a.
#[tokio::test(start_paused = true)]
async fn failed_node_read_is_retried_until_the_drain_timeout() {
    let (mut cluster, process) = never_joined(5).await;
    process.kill().await;
    cluster.policy.drain.timeout = 10 * MINUTE;
    cluster.server.faults().on(Verb::Get).of("nodes").named("m-0").by_agent(CONTROLLER).fail();
    let _process = cluster.start();
    cluster.delete("m-0").await;
    let text = |w: &TestCluster| w.machine("m-0").map(|m| m.status.last_operation.description).unwrap_or_default();
    cluster.until("the reason is reported", |w| text(w).contains("Retrieval of Node Object \"m-0\" failed")).await;
    tokio::time::sleep(5 * MINUTE).await;
    assert!(cluster.machine("m-0").is_some());
    let asked = lookups(&cluster).len();
    assert!((20..=80).contains(&asked), "the read is retried every few seconds: {asked}");
    cluster.until("its VM is deleted", |w| w.cloud.vms().is_empty()).await;
    cluster.until("the Machine is deleted", |w| w.machine("m-0").is_none()).await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(cluster.event_messages("NodeMayBeLeft").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn forced_deletion_does_not_wait_for_the_node_read() {
    let (cluster, _process) = never_joined(6).await;
    cluster.server.faults().on(Verb::Get).of("nodes").named("m-0").by_agent(CONTROLLER).fail();
    let force = json!({ "metadata": { "labels": { "force-deletion": "true" } } });
    cluster.machines().patch("m-0", &PatchParams::default(), &Patch::Merge(&force)).await.unwrap();
    let begin = cluster.clock.now();
    cluster.delete("m-0").await;
    cluster.until("it is deleted", |w| w.machine("m-0").is_none()).await;
    let took = cluster.clock.now().duration_since(begin);
    assert!(took.as_secs() < 90, "{took}");
}

/// Shows MC-D6b.
#[rstest]
#[case::on_its_cordon(Verb::Patch)]
#[case::on_its_deletion(Verb::Delete)]
#[tokio::test(start_paused = true)]
async fn conflict_does_not_mean_that_the_node_is_gone(#[case] verb: Verb) {
    let cluster = TestCluster::new(7);
    let _process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let rule = cluster.server.faults().on(verb).of("nodes").by_agent(CONTROLLER).once().conflict();
    cluster.delete("m-0").await;
    cluster.until("it is deleted", |w| w.machine("m-0").is_none()).await;
    assert_eq!(cluster.server.faults().times_fired(rule), 1);
    assert!(cluster.node("m-0").is_none(), "its Node is deleted");
}
