//! A virtual machine: it boots from its seed and joins, and is tested with a clock jump and a full disk, which need a
//! separate kernel.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::report::Report;
use super::cluster::{Cluster, Lease, is_ready, text};
use super::leftovers;

/// Longer than the node monitor grace period plus the health timeout.
const WATCHED: Duration = Duration::from_secs(40);

/// One hour ahead.
const JUMP: &str = "busybox date -s @$(($(busybox date +%s) + 3600))";
/// All free space except for less than the kubelet's eviction threshold.
const FILL: &str = "free=$(busybox df -k /host | busybox awk 'NR == 2 { print $4 }'); busybox fallocate -l $(((free - 8192) * 1024)) /host/fill";

/// All cases, in order.
pub(super) const CASES: [&str; 7] = [
    "a virtual machine boots from its seed, and its kubelet joins",
    "a pod runs on it",
    "a machine with a clock jump of one hour is kept",
    "a machine with a full disk is replaced",
    "scaling to zero drains it and powers it off",
    "the controllers stop on SIGTERM",
    "no process, mount, link or file remains",
];

pub(super) async fn play(cluster: &Cluster, report: &mut Report) -> anyhow::Result<()> {
    let before = leftovers::list(&cluster.pool)?;
    let controllers = cluster.start_controllers("virtual-machines", Lease::Long)?;
    cluster.apply_pool("virtual", 1)?;
    let [joined, ran, jumped, filled, went, ended, left] = CASES;
    if report.case(joined, joins(cluster)).await.is_some() {
        report.case(ran, runs(cluster)).await;
        report.case(jumped, jumps(cluster)).await;
        report.case(filled, fills(cluster)).await;
    }
    report.case(went, goes(cluster)).await;
    report.case(ended, async { controllers.terminate() }).await;
    report.case(left, async { cluster.leaves_nothing(&before) }).await;
    Ok(())
}

#[allow(clippy::print_stdout, reason = "a suite prints its measurements")]
async fn joins(cluster: &Cluster) -> anyhow::Result<()> {
    let begin = Instant::now();
    let nodes = cluster.until(|| cluster.ready(1)).await?;
    println!("        {nodes:?} after {} ms", begin.elapsed().as_millis());
    Ok(())
}

async fn runs(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.apply_web(1, 0)?;
    cluster.until(|| cluster.serving(1)).await.map(drop)
}

async fn jumps(cluster: &Cluster) -> anyhow::Result<()> {
    let machines = cluster.homes()?;
    cluster.in_the_machine("clock", JUMP).await?;
    let begin = Instant::now();
    while begin.elapsed() < WATCHED {
        cluster.ready(1).context("after the clock jump")?;
        sleep(Duration::from_secs(1)).await;
    }
    ensure!(cluster.homes()? == machines, "{machines:?} became {:?}", cluster.homes()?);
    cluster.test_bed()?.kubectl(&["delete", "pod", "clock", "--wait=false"]).map(drop)
}

async fn fills(cluster: &Cluster) -> anyhow::Result<()> {
    let machines = cluster.homes()?;
    cluster.in_the_machine("disk", FILL).await?;
    cluster
        .until(|| {
            let nodes = cluster.list("nodes")?;
            let pressed = nodes.iter().any(has_disk_pressure);
            ensure!(pressed, "the Node does not report DiskPressure");
            Ok(())
        })
        .await?;
    cluster
        .until(|| {
            let left: Vec<String> = cluster.homes()?.intersection(&machines).cloned().collect();
            ensure!(left.is_empty(), "{left:?} still exist");
            cluster.ready(1)?;
            let pods = cluster.list("pods")?;
            let web = pods.iter().filter(|pod| text(pod, "/metadata/labels/app") == "web" && is_ready(pod)).count();
            ensure!(web == 1, "{web} pods are ready");
            Ok(())
        })
        .await
}

async fn goes(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.scale(0)?;
    cluster
        .until(|| {
            let (machines, nodes, homes) = (cluster.list("machines")?, cluster.list("nodes")?, cluster.homes()?);
            ensure!(
                machines.is_empty() && nodes.is_empty() && homes.is_empty(),
                "{} machines, {} nodes and {homes:?} still exist",
                machines.len(),
                nodes.len()
            );
            Ok(())
        })
        .await
}

fn has_disk_pressure(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|one| text(one, "/type") == "DiskPressure" && text(one, "/status") == "True")
}

impl Cluster {
    /// Runs a shell command in a privileged pod with the machine's root at `/host`, and waits until it has succeeded.
    async fn in_the_machine(&self, pod: &str, line: &str) -> anyhow::Result<()> {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": pod },
            "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                "volumes": [{ "name": "host", "hostPath": { "path": "/" } }],
                "containers": [{
                    "name": pod, "image": "millwright.local/busybox:1", "imagePullPolicy": "Never", "command": ["sh", "-c", line],
                    "securityContext": { "privileged": true }, "volumeMounts": [{ "name": "host", "mountPath": "/host" }],
                }],
            },
        });
        self.test_bed()?.apply(pod, &object)?;
        self.until(|| {
            let pods = self.list("pods")?;
            let found = pods.iter().find(|one| text(one, "/metadata/name") == pod).context("the pod does not exist")?;
            let phase = text(found, "/status/phase");
            ensure!(phase == "Succeeded", "the pod {pod} is {phase}");
            Ok(())
        })
        .await
    }
}
