//! What a deletion may conclude from a Node that nobody has seen.

use std::time::Duration;

use api::MachinePhase;
use fake_apiserver::faults::{After, Verb};
use kube::api::{Patch, PatchParams};
use rstest::rstest;
use serde_json::json;

use crate::test_cluster::{CONTROLLER, Process, TestCluster, class};

const MINUTE: Duration = Duration::from_mins(1);

/// A machine whose Node has joined while our watch of Nodes said nothing.
async fn joined_unseen(seed: u64) -> (TestCluster, Process) {
    let cluster = TestCluster::new(seed);
    cluster.server.faults().on(Verb::Watch).of("nodes").by_agent(CONTROLLER).stall_watch(After::Time(Duration::ZERO));
    let process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("its node joins", |w| w.node("m-0").is_some()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.phase("m-0"), Some(MachinePhase::Pending), "nobody has noticed");
    (cluster, process)
}

/// A machine whose VM runs and will never join.
async fn never_joined(seed: u64) -> (TestCluster, Process) {
    let cluster = TestCluster::new(seed);
    let spec = json!({ "createLatency": "2s", "bootLatency": "30s", "deleteLatency": "5s", "join": "never" });
    cluster.server.insert(&class("hermit", &spec)).unwrap();
    let process = cluster.start();
    cluster.create_of_class("m-0", "hermit").await;
    cluster.until("its VM is written down", |w| w.phase("m-0") == Some(MachinePhase::Pending)).await;
    (cluster, process)
}

fn lookups(cluster: &TestCluster) -> Vec<String> {
    cluster.requests().into_iter().filter(|request| request.starts_with("get nodes m-0")).collect()
}

/// Shows MC-D6a.
#[tokio::test(start_paused = true)]
async fn a_node_that_joined_while_nobody_was_told_is_emptied_and_goes_with_its_machine() {
    let (cluster, _process) = joined_unseen(1).await;
    cluster.server.forget_requests();
    cluster.delete("m-0").await;
    cluster.until("it is gone", |w| w.machine("m-0").is_none()).await;
    assert!(cluster.cloud.vms().is_empty());
    assert!(cluster.node("m-0").is_none(), "its Node was left behind");
    assert_eq!(lookups(&cluster), ["get nodes m-0 -> 200"]);
    let requests = cluster.requests();
    let cordoned = requests.iter().position(|request| request.starts_with("patch nodes m-0")).expect("it was cordoned");
    let deleted = requests.iter().position(|request| request.starts_with("delete nodes m-0")).expect("it was deleted");
    assert!(cordoned < deleted, "{requests:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joins_between_the_drain_and_the_end_of_its_vm_is_not_left_behind() {
    let cluster = TestCluster::new(2);
    let slow =
        json!({ "createLatency": "2s", "bootLatency": "30s", "deleteLatency": "60s", "join": { "after": "10s" } });
    cluster.server.insert(&class("slow", &slow)).unwrap();
    cluster.server.faults().on(Verb::Watch).of("nodes").by_agent(CONTROLLER).stall_watch(After::Time(Duration::ZERO));
    let _process = cluster.start();
    cluster.create_of_class("m-0", "slow").await;
    cluster.until("its VM is written down", |w| w.phase("m-0") == Some(MachinePhase::Pending)).await;
    cluster.delete("m-0").await;
    cluster
        .until("its VM is being deleted", |w| {
            w.machine("m-0").is_some_and(|m| m.status.last_operation.description.ends_with("Initiate VM deletion"))
        })
        .await;
    assert!(cluster.node("m-0").is_none());
    // Its kubelet was faster than the cloud.
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "m-0" } });
    cluster.server.insert(&node).unwrap();
    cluster.until("it is gone", |w| w.machine("m-0").is_none()).await;
    assert!(cluster.node("m-0").is_none(), "its Node was left behind");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_joined_goes_after_two_questions() {
    let (cluster, _process) = never_joined(3).await;
    cluster.server.forget_requests();
    cluster.delete("m-0").await;
    cluster.until("it is gone", |w| w.machine("m-0").is_none()).await;
    assert_eq!(lookups(&cluster), ["get nodes m-0 -> 404", "get nodes m-0 -> 404"]);
    let down = cluster.requests();
    assert!(down.len() <= 10, "budget: 10 requests for a machine to go: {down:#?}");
}

/// Shows MC-D6a.
#[tokio::test(start_paused = true)]
async fn who_may_not_ask_lets_the_machine_go_and_says_that_its_node_may_be_left() {
    let (cluster, _process) = never_joined(4).await;
    cluster.server.faults().on(Verb::Get).of("nodes").by_agent(CONTROLLER).forbid();
    cluster.delete("m-0").await;
    cluster.until("it is gone", |w| w.machine("m-0").is_none()).await;
    assert_eq!(lookups(&cluster).len(), 2, "a refusal is an answer");
    tokio::time::sleep(MINUTE).await;
    assert_eq!(cluster.told("NodeMayBeLeft").len(), 1);
}

/// Shows MC-D6a.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_cannot_say_is_asked_again_for_as_long_as_a_drain_may_take() {
    let (mut cluster, process) = never_joined(5).await;
    process.kill().await;
    cluster.policy.drain.timeout = 10 * MINUTE;
    cluster.server.faults().on(Verb::Get).of("nodes").named("m-0").by_agent(CONTROLLER).fail();
    let _process = cluster.start();
    cluster.delete("m-0").await;
    let text = |w: &TestCluster| w.machine("m-0").map(|m| m.status.last_operation.description).unwrap_or_default();
    cluster.until("it says what it waits for", |w| text(w).contains("Retrieval of Node Object \"m-0\" failed")).await;
    tokio::time::sleep(5 * MINUTE).await;
    assert!(cluster.machine("m-0").is_some());
    let asked = lookups(&cluster).len();
    assert!((20..=80).contains(&asked), "every few seconds: {asked}");
    cluster.until("its VM goes all the same", |w| w.cloud.vms().is_empty()).await;
    cluster.until("and so does it", |w| w.machine("m-0").is_none()).await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(cluster.told("NodeMayBeLeft").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn force_does_not_wait_for_an_api_server_that_cannot_say() {
    let (cluster, _process) = never_joined(6).await;
    cluster.server.faults().on(Verb::Get).of("nodes").named("m-0").by_agent(CONTROLLER).fail();
    let force = json!({ "metadata": { "labels": { "force-deletion": "true" } } });
    cluster.machines().patch("m-0", &PatchParams::default(), &Patch::Merge(&force)).await.unwrap();
    let begin = cluster.clock.now();
    cluster.delete("m-0").await;
    cluster.until("it is gone", |w| w.machine("m-0").is_none()).await;
    let took = cluster.clock.now().duration_since(begin);
    assert!(took.as_secs() < 90, "{took}");
}

/// Shows MC-D6b.
#[rstest]
#[case::on_its_cordon(Verb::Patch)]
#[case::on_its_deletion(Verb::Delete)]
#[tokio::test(start_paused = true)]
async fn a_conflict_is_no_proof_that_a_node_is_gone(#[case] verb: Verb) {
    let cluster = TestCluster::new(7);
    let _process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("it runs", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let rule = cluster.server.faults().on(verb).of("nodes").by_agent(CONTROLLER).once().conflict();
    cluster.delete("m-0").await;
    cluster.until("it is gone", |w| w.machine("m-0").is_none()).await;
    assert_eq!(cluster.server.faults().times_fired(rule), 1);
    assert!(cluster.node("m-0").is_none(), "its Node was left behind");
}
