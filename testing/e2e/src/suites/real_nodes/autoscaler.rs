//! Simulates the cluster-autoscaler with real pods: one update of the MachineDeployment for each of its decisions.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::cluster::{Cluster, is_ready, text};

/// Annotation with the Machines to delete, each with the time of the decision.
const TRIGGER: &str = "node.machine.sapcloud.io/trigger-deletion-by-mcm";
/// Annotation with the time of the last scaling.
const CHANGED: &str = "machine.sapcloud.io/last-deployment-replica-change-by-scaler-time";

/// One more pod than machines, with anti-affinity: the size is raised, and the pod runs.
pub(super) async fn grows(cluster: &Cluster, machines: usize) -> anyhow::Result<()> {
    let wanted = machines + 1;
    cluster.test_bed()?.apply("crowd", &crowd(wanted))?;
    cluster
        .until(|| {
            let (running, waiting) = cluster.crowd()?;
            ensure!((running, waiting) == (machines, 1), "{running} pods are ready and {waiting} are pending");
            Ok(())
        })
        .await?;
    cluster.scale(u32::try_from(wanted)?)?;
    cluster
        .until(|| {
            cluster.ready(wanted)?;
            let (running, waiting) = cluster.crowd()?;
            ensure!((running, waiting) == (wanted, 0), "{running} pods are ready and {waiting} are pending");
            Ok(())
        })
        .await
}

/// Size and Machine name in one update, followed by a cordon: the named Machine is deleted instead of the first in the
/// deletion order, and the annotation entry is removed.
pub(super) async fn shrinks(cluster: &Cluster, machines: usize) -> anyhow::Result<()> {
    cluster.test_bed()?.kubectl(&["delete", "deployment", "crowd", "--wait=false"])?;
    let before = cluster.homes()?;
    // Not the newest Machine, which would be the first in the deletion order.
    let named = before.first().context("no machine exists")?.clone();
    #[allow(clippy::disallowed_methods, reason = "the autoscaler uses its own clock")]
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let annotations = json!({ TRIGGER: format!("{named}~{now}"), CHANGED: now });
    let patch = json!({ "metadata": { "annotations": annotations }, "spec": { "replicas": machines } }).to_string();
    let arguments = ["patch", "machinedeployment", &cluster.pool, "--type=merge", "--patch", &patch];
    cluster.test_bed()?.kubectl(&arguments)?;
    cluster.test_bed()?.kubectl(&["cordon", &named])?;
    let left: BTreeSet<String> = before.into_iter().filter(|machine| *machine != named).collect();
    cluster
        .until(|| {
            cluster.ready(machines)?;
            let (homes, pools) = (cluster.homes()?, cluster.list("machinedeployments")?);
            ensure!(homes == left, "the machines are {homes:?} instead of {left:?}");
            let entry = pools.iter().filter_map(|pool| pool.pointer("/metadata/annotations")?.get(TRIGGER)).count();
            ensure!(entry == 0, "the entry of a deleted machine still exists");
            Ok(())
        })
        .await
}

fn crowd(replicas: usize) -> Value {
    let labels = json!({ "app": "crowd" });
    let apart = json!([{ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": labels } }]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "crowd" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": labels }, "template": {
            "metadata": { "labels": labels },
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": apart } },
                "containers": [{
                    "name": "crowd", "image": "millwright.local/busybox:1", "imagePullPolicy": "Never", "command": ["sleep", "1000000"],
                }],
            },
        } },
    })
}

impl Cluster {
    /// Returns the numbers of ready and of pending pods.
    fn crowd(&self) -> anyhow::Result<(usize, usize)> {
        let pods = self.list("pods")?;
        let ours: Vec<&Value> = pods.iter().filter(|pod| text(pod, "/metadata/labels/app") == "crowd").collect();
        let waiting = ours.iter().filter(|pod| text(pod, "/spec/nodeName").is_empty()).count();
        Ok((ours.iter().filter(|pod| is_ready(pod)).count(), waiting))
    }
}
