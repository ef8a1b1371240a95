//! What a machine's life costs. That it works at all is shown by the scenarios, on both API servers.

use std::time::Duration;

use api::MachinePhase;

use crate::test_cluster::TestCluster;

/// Shows THR-6, MC-W20, MC-W35.
#[tokio::test(start_paused = true)]
async fn a_life_costs_a_handful_of_requests_and_no_conflict() {
    let cluster = TestCluster::new(2);
    let _process = cluster.start();
    cluster.create("m-0").await; // its class and Secret are secured and read once for all its machines
    cluster.until("the first one runs", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    cluster.server.forget_requests();
    cluster.create("m-1").await;
    cluster.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    let up = cluster.requests();
    assert!(up.len() <= 6, "budget: 8 requests for a machine to come up, bootstrap token included: {up:#?}");

    cluster.server.forget_requests();
    cluster.delete("m-1").await;
    cluster.until("it is gone", |w| w.machine("m-1").is_none()).await;
    let down = cluster.requests();
    assert!(down.len() <= 8, "budget: 10 requests for a machine to go: {down:#?}");
    assert!(
        !down.iter().any(|request| request.starts_with("get")),
        "its Node was seen, so nobody asks for it: {down:#?}"
    );
    assert!(
        up.iter().chain(&down).all(|request| request.ends_with("200") || request.ends_with("201")),
        "{up:#?} {down:#?}"
    );
}

/// Shows THR-6, MC-W24, MC-W37, MC-W68.
#[tokio::test(start_paused = true)]
async fn a_steady_hour_with_heartbeats_costs_no_request_at_all() {
    let cluster = TestCluster::new(3);
    let process = cluster.start();
    cluster.create("m-1").await;
    cluster.until("it runs", |w| w.phase("m-1") == Some(MachinePhase::Running)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    cluster.server.forget_requests();
    let heartbeats = || cluster.node("m-1").unwrap()["status"]["conditions"][0]["lastHeartbeatTime"].clone();
    let before = heartbeats();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_ne!(heartbeats(), before, "the kubelet must have written in the meantime");
    assert_eq!(cluster.requests(), Vec::<String>::new());
    assert!(process.cluster.machine_controller().queue().is_empty());
}

/// Shows MC-W6, MC-W23.
#[tokio::test(start_paused = true)]
async fn a_hundred_machines_come_up_beside_each_other() {
    let cluster = TestCluster::new(4);
    let _process = cluster.start();
    for n in 0..100 {
        cluster.create(&format!("m-{n}")).await;
    }
    let begin = cluster.clock.now();
    cluster.until("all run", |w| (0..100).all(|n| w.phase(&format!("m-{n}")) == Some(MachinePhase::Running))).await;
    let took = cluster.clock.now().duration_since(begin);
    assert_eq!(cluster.cloud.vms().len(), 100);
    // 40 s are the cloud's own; ten calls of 2 s each at a time make 20 s more. Nothing waits for a poll.
    assert!(took.as_secs() <= 62, "took {took}");
}
