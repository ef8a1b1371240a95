//! Machines with unhealthy Nodes: they are replaced one at a time per MachineDeployment, without polling.

use std::time::Duration;

use api::names::labels;
use api::{MachinePhase, Object};
use fake_apiserver::faults::Verb;
use kube::api::{Patch, PatchParams};
use planner::replacement_limit::Limit;
use serde_json::json;

use crate::test_cluster::{CONTROLLER, TestCluster};

const MACHINES: usize = 6;

fn name(n: usize) -> String {
    format!("m-{n}")
}

/// Creates a MachineDeployment whose Machines are all Running.
async fn deployment(cluster: &TestCluster) {
    for n in 0..MACHINES {
        cluster.create(&name(n)).await;
        let label = json!({ "metadata": { "labels": { (labels::NAME): "pool" } } });
        cluster.machines().patch(&name(n), &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    }
    cluster.until("all are Running", |w| (0..MACHINES).all(|n| w.phase(&name(n)) == Some(MachinePhase::Running))).await;
}

fn dark(cluster: &TestCluster) {
    for n in 0..MACHINES {
        cluster.cloud.vms_of(&name(n)).iter().for_each(|vm| cluster.cloud.hang(&vm.id));
    }
}

fn in_phase(cluster: &TestCluster, phase: &MachinePhase) -> usize {
    (0..MACHINES).filter(|n| cluster.phase(&name(*n)).as_ref() == Some(phase)).count()
}

/// Shows MC-H9, MC-W59.
#[tokio::test(start_paused = true)]
async fn machines_of_a_lost_zone_are_marked_failed_one_by_one() {
    let cluster = TestCluster::new(1);
    let _process = cluster.start();
    deployment(&cluster).await;
    dark(&cluster);
    cluster.until("all are Unknown", |w| in_phase(w, &MachinePhase::Unknown) == MACHINES).await;
    cluster.until("one is marked Failed", |w| in_phase(w, &MachinePhase::Failed) > 0).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(in_phase(&cluster, &MachinePhase::Failed), 1, "the others wait");

    // In place of its MachineSet.
    let first = (0..MACHINES).find(|n| cluster.phase(&name(*n)) == Some(MachinePhase::Failed)).unwrap();
    cluster.delete(&name(first)).await;
    cluster.until("it is deleted", |w| w.machine(&name(first)).is_none()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(in_phase(&cluster, &MachinePhase::Failed), 1, "an event triggered the next one");
}

/// Shows MC-W67, MC-W71.
#[tokio::test(start_paused = true)]
async fn replacement_limit_holds_while_writes_fail() {
    for seed in 1..=4 {
        let mut cluster = TestCluster::new(seed);
        cluster.policy.max_replacements = Limit::Percent(50);
        let _process = cluster.start();
        deployment(&cluster).await;
        let faults = cluster.server.faults().clone();
        faults.on([Verb::Patch]).by_agent(CONTROLLER).with_probability(0.2).lose_answer();
        faults.on([Verb::Patch]).by_agent(CONTROLLER).with_probability(0.2).fail();
        dark(&cluster);
        cluster.until("half are marked Failed", |w| in_phase(w, &MachinePhase::Failed) == MACHINES / 2).await;
        tokio::time::sleep(Duration::from_mins(30)).await;
        assert_eq!(in_phase(&cluster, &MachinePhase::Failed), MACHINES / 2);
    }
}

/// Shows MC-H3.
#[tokio::test(start_paused = true)]
async fn no_machine_is_marked_failed_when_the_zone_recovers() {
    let cluster = TestCluster::new(3);
    let _process = cluster.start();
    deployment(&cluster).await;
    dark(&cluster);
    cluster.until("all are Unknown", |w| in_phase(w, &MachinePhase::Unknown) == MACHINES).await;
    tokio::time::sleep(Duration::from_mins(9)).await;
    for n in 0..MACHINES {
        cluster.cloud.vms_of(&name(n)).iter().for_each(|vm| cluster.cloud.revive(&vm.id));
    }
    cluster.until("all are Running", |w| in_phase(w, &MachinePhase::Running) == MACHINES).await;
    let machine = cluster.machine(&name(0)).unwrap();
    let expected = format!("Machine {} successfully re-joined the cluster", machine.name());
    assert_eq!(machine.status.last_operation.description, expected);
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(in_phase(&cluster, &MachinePhase::Running), MACHINES);
}
