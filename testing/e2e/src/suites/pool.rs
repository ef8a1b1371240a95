//! Ten machines, with kube-apiserver, the virtual cloud and the controller as processes. The controller is killed
//! repeatedly while the machines are created. The cloud creates a second VM if a create call is repeated, so duplicates
//! are detected.

use std::time::Duration;

use anyhow::{bail, ensure};
use control_plane::Binaries;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::fixture::with_a_cloud;
use super::kubelet_words::Recording;
use super::report::Report;
use crate::test_bed::{Process, TestBed};

const MACHINES: usize = 10;
const KILLS: u64 = 6;
const TIMEOUT: Duration = Duration::from_mins(2);

/// Runs the suite.
pub(super) async fn run(binaries: Binaries) -> anyhow::Result<Report> {
    with_a_cloud("pool", binaries, play).await
}

async fn play(test_bed: &TestBed<'_>, report: &mut Report) -> anyhow::Result<()> {
    let recording = Recording::start(test_bed)?;
    test_bed.apply("pool", &pool())?;
    let coming_up = async {
        for death in 0..KILLS {
            let controller = start_controller(test_bed, death)?;
            sleep(Duration::from_millis(700 + 450 * death)).await;
            controller.kill()?;
        }
        Ok(())
    };
    report.case("the controller is killed while ten machines are created", coming_up).await;
    let controller = start_controller(test_bed, KILLS)?;
    report
        .case(
            "all ten machines run, each with its own Node",
            until(test_bed, "all machines are running", |all| all.len() == MACHINES && all.iter().all(is_running)),
        )
        .await;
    report.case("each machine has its own VM", async { distinct_vms(test_bed) }).await;
    let as_real_ones = async {
        recording.nodes_joined()?;
        test_bed.apply("pod", &pod(test_bed)?)?;
        test_bed.kubectl(&["wait", "--for=condition=Ready", "--timeout=60s", "pod/one"])?;
        test_bed.kubectl(&["delete", "pod", "one", "--timeout=60s"])?;
        recording.pods_came_and_went().await
    };
    report.case("simulated kubelets report the same as real ones", as_real_ones).await;
    test_bed.kubectl(&["delete", "machines", "--all", "--wait=false"])?;
    sleep(Duration::from_millis(400)).await;
    controller.kill()?;
    let controller = start_controller(test_bed, KILLS + 1)?;
    report
        .case(
            "after another kill, all ten machines are deleted",
            until(test_bed, "all machines are deleted", <[Value]>::is_empty),
        )
        .await;
    report.case("the controller stops on SIGTERM and releases its lease", async { controller.terminate() }).await;
    let cleanly = async {
        let nodes = test_bed.kubectl(&["get", "nodes", "--output=name"])?;
        ensure!(nodes.trim().is_empty(), "Nodes still exist: {nodes}");
        Ok(())
    };
    report.case("all Nodes are deleted", cleanly).await;
    Ok(())
}

fn pool() -> Value {
    let group = "machine.sapcloud.io/v1alpha1";
    let mut items = vec![
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cloud" }, "stringData": { "userData": "#cloud-config" } }),
        json!({
            "apiVersion": group, "kind": "MachineClass", "metadata": { "name": "small" }, "provider": "virtual",
            "providerSpec": { "createLatency": "600ms", "bootLatency": "1s", "deleteLatency": "300ms", "join": { "after": "300ms" } },
            "secretRef": { "name": "cloud", "namespace": "default" },
        }),
    ];
    items.extend((0..MACHINES).map(|n| {
        json!({
            "apiVersion": group, "kind": "Machine", "metadata": { "name": format!("pool-{n}") },
            "spec": { "class": { "kind": "MachineClass", "name": "small" } },
        })
    }));
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// Returns a pod on one of the Nodes.
fn pod(test_bed: &TestBed<'_>) -> anyhow::Result<Value> {
    let node = test_bed.kubectl(&["get", "nodes", "--output=jsonpath={.items[0].metadata.name}"])?;
    Ok(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "one" },
        "spec": { "nodeName": node, "containers": [{ "name": "one", "image": "one" }] },
    }))
}

fn is_running(machine: &Value) -> bool {
    machine.pointer("/status/currentStatus/phase").and_then(Value::as_str) == Some("Running")
}

fn start_controller(test_bed: &TestBed<'_>, nth: u64) -> anyhow::Result<Process> {
    let lease = [
        "--leader-elect-lease-duration=1500ms",
        "--leader-elect-renew-deadline=1s",
        "--leader-elect-retry-period=300ms",
    ];
    test_bed.start_controller(&format!("controller-{nth}"), "cloud", &lease, &[])
}

async fn until(test_bed: &TestBed<'_>, what: &str, holds: impl Fn(&[Value]) -> bool) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        let machines = test_bed.list("machines")?;
        if holds(&machines) {
            return Ok(());
        }
        if begin.elapsed() > TIMEOUT {
            let statuses: Vec<_> = machines.iter().map(|machine| machine.get("status")).collect();
            bail!("timed out after {} s waiting until {what}: {statuses:?}", TIMEOUT.as_secs());
        }
        sleep(Duration::from_millis(300)).await;
    }
}

fn distinct_vms(test_bed: &TestBed<'_>) -> anyhow::Result<()> {
    let machines = test_bed.list("machines")?;
    let mut ids: Vec<_> = machines.iter().filter_map(|machine| machine.pointer("/spec/providerID")?.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    ensure!(ids.len() == MACHINES, "{} VMs for {MACHINES} machines: {ids:?}", ids.len());
    Ok(())
}
