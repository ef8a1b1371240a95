//! The watchdog must not report a problem that a restart would not fix.

use std::time::Duration;

use api::MachinePhase;
use driver_virtual::{Fault, Script};
use planner::machine::Connectivity;

use crate::test_cluster::{CONTROLLER, Process, TestCluster};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// Checks the health every minute, like a kubelet.
async fn stays_healthy(process: &Process, lasting: Duration) {
    for _ in 0..lasting.as_secs() / MINUTE.as_secs() {
        tokio::time::sleep(MINUTE).await;
        assert_eq!(process.cluster.tasks().watchdog().stuck(), []);
    }
}

fn sever(cluster: &TestCluster, lasting: Duration) {
    let until = cluster.clock.now() + jiff::SignedDuration::try_from(lasting).unwrap();
    cluster.server.faults().on_any().by_agent(CONTROLLER).until(until).disconnect();
}

/// Shows HTT-2.
#[tokio::test(start_paused = true)]
async fn watchdog_passes_while_frozen_or_disconnected() {
    let cluster = TestCluster::new(1);
    let process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    sever(&cluster, 6 * HOUR);
    cluster.create("m-1").await;
    cluster.delete("m-0").await;
    stays_healthy(&process, HOUR).await;
    assert_eq!(process.cluster.connectivity().now(), Connectivity::Frozen);
    stays_healthy(&process, 6 * HOUR).await;
    cluster.until("the next operation completes", |w| w.machine("m-0").is_none()).await;
    assert_eq!(process.cluster.tasks().watchdog().stuck(), []);
}

/// Shows HTT-2.
#[tokio::test(start_paused = true)]
async fn watchdog_passes_while_the_api_server_hangs() {
    let cluster = TestCluster::new(2);
    let process = cluster.start();
    cluster.create("m-0").await;
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    let until = cluster.clock.now() + jiff::SignedDuration::from_hours(3);
    cluster.server.faults().on_any().by_agent(CONTROLLER).until(until).delay(24 * HOUR);
    cluster.delete("m-0").await;
    stays_healthy(&process, 3 * HOUR).await;
}

/// Shows HTT-2.
#[tokio::test(start_paused = true)]
async fn watchdog_passes_for_standby_and_idle_leader() {
    let cluster = TestCluster::new(3);
    let leader = cluster.start_replica("first");
    cluster.create("m-0").await;
    cluster.until("it is Running", |w| w.phase("m-0") == Some(MachinePhase::Running)).await;
    let standby = cluster.start_replica("second");
    for _ in 0..2 {
        tokio::time::sleep(HOUR).await;
        assert_eq!(leader.cluster.tasks().watchdog().stuck(), []);
        assert_eq!(standby.cluster.tasks().watchdog().stuck(), []);
    }
}

/// Shows HTT-2.
#[tokio::test(start_paused = true)]
async fn watchdog_passes_while_the_driver_hangs() {
    let cluster = TestCluster::new(4);
    cluster.cloud.inject(Script::always(Fault::Hang));
    let process = cluster.start();
    cluster.create("m-0").await;
    stays_healthy(&process, 4 * HOUR).await;
}
