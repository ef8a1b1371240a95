//! Number of requests of a rollout. It depends on the number of replaced Machines, not on the duration.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{Machine, MachineDeployment, MachinePhase, MachineSet, Object};
use fake_apiserver::faults::Verb;
use kube::api::{Patch, PatchParams, PostParams};
use rstest::rstest;
use runtime::client::Api;
use serde_json::json;

use crate::test_cluster::{CONTROLLER, NAMESPACE, TestCluster, class};

const SIZE: usize = 30;

fn deployments(cluster: &TestCluster) -> Api<MachineDeployment> {
    Api::namespaced(cluster.client("person"), NAMESPACE)
}

async fn edit(cluster: &TestCluster, change: serde_json::Value) {
    deployments(cluster).patch("pool", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
}

fn deployment(cluster: &TestCluster) -> MachineDeployment {
    let object = cluster.server.object("machinedeployments.machine.sapcloud.io", NAMESPACE, "pool").unwrap();
    serde_json::from_value((*object).clone()).unwrap()
}

fn machines(cluster: &TestCluster) -> Vec<Machine> {
    let all = cluster.server.objects("machines.machine.sapcloud.io");
    all.iter().map(|machine| serde_json::from_value((**machine).clone()).unwrap()).collect()
}

fn is_complete(cluster: &TestCluster, class: &str) -> bool {
    let all = machines(cluster);
    let runs = |machine: &Machine| *machine.phase() == MachinePhase::Running && machine.spec.class.name == class;
    let progressing =
        deployment(cluster).status.conditions.into_iter().find(|condition| condition.kind == "Progressing");
    all.len() == SIZE
        && all.iter().all(runs)
        && progressing.is_some_and(|condition| condition.reason == "NewMachineSetAvailable")
}

/// Creates the pool of `cargo xtask counts`, on an API server whose writes take up to `latency`.
async fn pool(seed: u64, latency: Duration) -> TestCluster {
    let cluster = TestCluster::new(seed);
    let quick = json!({ "createLatency": "300ms", "bootLatency": "500ms", "deleteLatency": "300ms", "join": { "after": "200ms" } });
    for name in ["one", "two"] {
        cluster.server.insert(&class(name, &quick)).unwrap();
    }
    if !latency.is_zero() {
        cluster.server.faults().on(Verb::WRITES).by_agent(CONTROLLER).delay_between(Duration::from_millis(1), latency);
    }
    let deployment = json!({
        "metadata": { "name": "pool" },
        "spec": {
            "replicas": SIZE,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "10%", "maxUnavailable": "10%" } },
            "selector": { "matchLabels": { "name": "pool" } },
            "template": {
                "metadata": { "labels": { "name": "pool" } },
                "spec": { "class": { "kind": "MachineClass", "name": "one" } },
            },
        },
    });
    deployments(&cluster).create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
    cluster
}

/// Returns the number of requests of each kind.
fn tally(cluster: &TestCluster) -> BTreeMap<String, usize> {
    let mut tally = BTreeMap::new();
    for request in cluster.requests() {
        let what: Vec<&str> = request.split(' ').take(2).collect();
        *tally.entry(what.join(" ")).or_default() += 1;
    }
    tally
}

fn of(tally: &BTreeMap<String, usize>, what: &str) -> usize {
    tally.get(what).copied().unwrap_or_default()
}

fn sets(cluster: &TestCluster) -> Vec<MachineSet> {
    let all = cluster.server.objects("machinesets.machine.sapcloud.io");
    all.iter().map(|set| serde_json::from_value((**set).clone()).unwrap()).collect()
}

/// Checks that all statuses are correct.
fn assert_statuses_are_correct(cluster: &TestCluster) {
    let said = deployment(cluster);
    let status = &said.status;
    assert_eq!((status.replicas, status.updated_replicas, status.ready_replicas), (30, 30, 30));
    assert_eq!((status.available_replicas, status.unavailable_replicas), (30, 0));
    assert_eq!(status.observed_generation, said.metadata.generation);
    for set in sets(cluster) {
        let wanted = set.spec.replicas;
        let status = &set.status;
        let counts = [status.replicas, status.fully_labeled_replicas, status.ready_replicas, status.available_replicas];
        assert_eq!(counts, [wanted; 4], "{}", set.name());
        assert_eq!(status.observed_generation, set.metadata.generation, "{}", set.name());
    }
}

/// Shows MD-D15.
#[rstest]
#[case::idle(Duration::ZERO, 0)]
#[case::busy(Duration::from_millis(150), 0)]
// With a high latency, the kubelet's second write may conflict with the first write of the controller, which is repeated.
#[case::very_busy(Duration::from_millis(600), 20)]
#[tokio::test(start_paused = true)]
async fn rollout_request_count_does_not_depend_on_latency(#[case] latency: Duration, #[case] repeated: usize) {
    let cluster = pool(1, latency).await;
    let _process = cluster.start();
    cluster.until("all are Running", |w| is_complete(w, "one")).await;
    let up = tally(&cluster);
    assert!(up.values().sum::<usize>() <= SIZE * 6 + repeated, "up: {up:#?}");
    tokio::time::sleep(Duration::from_secs(30)).await;
    cluster.server.forget_requests();
    edit(&cluster, json!({ "spec": { "template": { "spec": { "class": { "name": "two" } } } } })).await;
    cluster.until("all are replaced", |w| is_complete(w, "two")).await;
    tokio::time::sleep(latency * 4 + Duration::from_secs(1)).await;
    assert_statuses_are_correct(&cluster);
    let rolled = tally(&cluster);
    let statuses = of(&rolled, "patch machinesets/status") + of(&rolled, "patch machinedeployments/status");
    // On a very slow server a rollout takes smaller steps: it counts Machines as they become available, not the counts of the sets.
    assert!(statuses <= SIZE + repeated / 10, "{statuses} status writes: {rolled:#?}");
    assert!(of(&rolled, "patch nodes") <= SIZE * 5 + repeated, "{rolled:#?}");
    assert!(rolled.values().sum::<usize>() <= SIZE * 19 + repeated, "rolled: {rolled:#?}");
    cluster.server.forget_requests();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(cluster.requests(), Vec::<String>::new(), "no requests follow");
    edit(&cluster, json!({ "spec": { "replicas": 0 } })).await;
    cluster.until("all are deleted", |w| machines(w).is_empty()).await;
    let down = tally(&cluster);
    assert!(down.values().sum::<usize>() <= SIZE * 10, "down: {down:#?}");
}

/// Status writes of counts are delayed. The rollout does not wait for them.
/// Shows MS-R16.
#[tokio::test(start_paused = true)]
async fn rollout_does_not_wait_for_delayed_status_writes() {
    let cluster = pool(1, Duration::ZERO).await;
    let _process = cluster.start();
    cluster.until("all are Running", |w| is_complete(w, "one")).await;
    let begin = cluster.clock.now();
    edit(&cluster, json!({ "spec": { "template": { "spec": { "class": { "name": "two" } } } } })).await;
    cluster.until("all are replaced", |w| is_complete(w, "two")).await;
    let took = cluster.clock.now().duration_since(begin);
    // Five rounds of six Machines. A Machine needs 1.33 s to start and 0.33 s to be deleted.
    assert!(took.as_millis() <= 8_500, "took {took}");
}

/// Shows MS-R16.
#[tokio::test(start_paused = true)]
async fn stuck_deletion_does_not_delay_the_counts() {
    let cluster = pool(1, Duration::ZERO).await;
    let _process = cluster.start();
    cluster.until("all are Running", |w| is_complete(w, "one")).await;
    let stuck = machines(&cluster).swap_remove(7);
    let mut finalizers = stuck.metadata.finalizers.clone();
    finalizers.push("example.org/held".into());
    let hold = json!({ "metadata": { "finalizers": finalizers } });
    cluster.machines().patch(stuck.name(), &PatchParams::default(), &Patch::Merge(&hold)).await.unwrap();
    cluster.delete(stuck.name()).await;
    cluster
        .until("it is replaced", |w| {
            let all = machines(w);
            all.len() == SIZE + 1 && all.iter().filter(|m| *m.phase() == MachinePhase::Running).count() == SIZE
        })
        .await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let status = sets(&cluster).swap_remove(0).status;
    assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (31, 30, 30));
    let status = deployment(&cluster).status;
    assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (31, 30, 30));
}
