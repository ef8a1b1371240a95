//! Number of requests of a Machine's lifecycle. The scenarios show that it works, on both API servers.

use std::time::Duration;

use api::MachinePhase;

use crate::test_cluster::TestCluster;

/// Shows THR-6, MC-W20, MC-W35.
#[tokio::test(start_paused = true)]
async fn machine_lifecycle_stays_within_the_request_budget() {
    let cluster = TestCluster::new(2);
    let _process = cluster.start();
    cluster.create("m-0").await; // the finalizers of the MachineClass and the Secret are added, and the Secret is read, once for all Machines
    cluster.until("the first one is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    cluster.server.forget_requests();
    cluster.create("m-1").await;
    cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    let up = cluster.requests();
    assert!(up.len() <= 6, "budget: 8 requests to create a Machine, including the bootstrap token: {up:#?}");

    cluster.server.forget_requests();
    cluster.delete("m-1").await;
    cluster.until("it is deleted", |w| w.machine("m-1").is_none()).await;
    let down = cluster.requests();
    assert!(down.len() <= 8, "budget: 10 requests to delete a Machine: {down:#?}");
    assert!(
        !down.iter().any(|request| request.starts_with("get")),
        "the cache shows its Node, so it is not read: {down:#?}"
    );
    assert!(
        up.iter().chain(&down).all(|request| request.ends_with("200") || request.ends_with("201")),
        "{up:#?} {down:#?}"
    );
}

/// Shows THR-6, MC-W24, MC-W37, MC-W68.
#[tokio::test(start_paused = true)]
async fn heartbeats_cause_no_requests() {
    let cluster = TestCluster::new(3);
    let process = cluster.start();
    cluster.create("m-1").await;
    cluster.until("it is Running", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    cluster.server.forget_requests();
    let heartbeats = || cluster.node("m-1").unwrap()["status"]["conditions"][0]["lastHeartbeatTime"].clone();
    let before = heartbeats();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_ne!(heartbeats(), before, "the kubelet has sent heartbeats");
    assert_eq!(cluster.requests(), Vec::<String>::new());
    assert!(process.cluster.machine_controller().queue().is_empty());
}

/// Shows MC-W6, MC-W23.
#[tokio::test(start_paused = true)]
async fn one_hundred_machines_are_created_concurrently() {
    let cluster = TestCluster::new(4);
    let _process = cluster.start();
    for n in 0..100 {
        cluster.create(&format!("m-{n}")).await;
    }
    let begin = cluster.clock.now();
    cluster
        .until("all are Running", |w| (0..100).all(|n| w.phase(&format!("m-{n}")) == Some(MachinePhase::Running)))
        .await;
    let took = cluster.clock.now().duration_since(begin);
    assert_eq!(cluster.cloud.vms().len(), 100);
    // 40 s of the cloud, and 20 s because ten calls of 2 s run at a time. There is no polling.
    assert!(took.as_secs() <= 62, "took {took}");
}
