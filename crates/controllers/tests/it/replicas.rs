//! Two replicas with one lease: at most one of them acts.

use std::time::Duration;

use api::MachinePhase;
use controllers::state::ClusterState;
use jiff::Timestamp;
use rstest::rstest;

use crate::test_cluster::TestCluster;

/// Returns the times of all writes of a replica, except those of its lease.
fn effects(cluster: &TestCluster, agent: &str) -> Vec<Timestamp> {
    cluster
        .server
        .requests()
        .into_iter()
        .filter(|entry| entry.tally.user_agent.starts_with(agent) && entry.tally.resource != "leases")
        .filter(|entry| ["create", "update", "patch", "delete"].contains(&entry.tally.verb.as_str()))
        .map(|entry| entry.at)
        .collect()
}

/// Shows LEA-2, LEA-12.
#[rstest]
#[tokio::test(start_paused = true)]
async fn disconnected_leader_stops_before_the_next_one_starts(#[values(1, 2, 3, 4)] seed: u64) {
    let cluster = TestCluster::new(seed);
    let _first = cluster.start_replica("replica-a");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let _second = cluster.start_replica("replica-b");
    for n in 0..20 {
        cluster.create(&format!("m-{n}")).await;
    }
    tokio::time::sleep(Duration::from_secs(7)).await;
    // All requests of replica-a to the API server fail. Its driver calls continue.
    cluster.server.faults().on_any().by_agent("replica-a").disconnect();
    cluster
        .until("the other replica has started all of them", |w| {
            (0..20).all(|n| w.phase(&format!("m-{n}")) == Some(MachinePhase::Running))
        })
        .await;

    let (a, b) = (effects(&cluster, "replica-a"), effects(&cluster, "replica-b"));
    assert!(!a.is_empty() && !b.is_empty());
    assert!(a.iter().max() < b.iter().min(), "a until {:?}, b from {:?}", a.iter().max(), b.iter().min());
    for n in 0..20 {
        assert!(cluster.cloud.vms_of(&format!("m-{n}")).len() <= 1, "two VMs for m-{n}: {:#?}", cluster.cloud.calls());
    }
}

/// Shows QUE-11.
#[tokio::test(start_paused = true)]
async fn standby_queues_stay_empty_and_a_new_leader_sees_everything() {
    let cluster = TestCluster::new(9);
    let leader = cluster.start_replica("replica-a");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let standby = cluster.start_replica("replica-b");
    for round in 0..3 {
        let names: Vec<_> = (0..5).map(|n| format!("m-{round}-{n}")).collect();
        for name in &names {
            cluster.create(name).await;
        }
        cluster.until("all are Running", |w| names.iter().all(|n| w.phase(n) == Some(MachinePhase::Running))).await;
        for name in &names {
            cluster.delete(name).await;
        }
        cluster.until("all are deleted", |w| names.iter().all(|n| w.machine(n).is_none())).await;
    }
    for queue in ClusterState::of(&standby.cluster).queues {
        assert_eq!((queue.ready.len(), queue.waiting.len()), (0, 0), "{queue:?}");
    }
    cluster.create("m-last").await;
    leader.kill().await;
    cluster.until("the standby is the leader", |w| w.phase("m-last") == Some(MachinePhase::Running)).await;
}
