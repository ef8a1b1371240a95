//! What the cluster-autoscaler writes, and what becomes of real pods. It is played by us: one update of the deployment for each of its decisions.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::cluster::{Cluster, is_ready, text};

/// Names machines that are to go, each with the time at which that was decided.
const TRIGGER: &str = "node.machine.sapcloud.io/trigger-deletion-by-mcm";
/// When the size was last changed.
const CHANGED: &str = "machine.sapcloud.io/last-deployment-replica-change-by-scaler-time";

/// One more pod than there are machines, each on a machine of its own: the autoscaler raises the size, and the pod runs.
pub(super) async fn grows(cluster: &Cluster, machines: usize) -> anyhow::Result<()> {
    let wanted = machines + 1;
    cluster.test_bed()?.apply("crowd", &crowd(wanted))?;
    cluster
        .until(|| {
            let (running, waiting) = cluster.crowd()?;
            ensure!((running, waiting) == (machines, 1), "{running} pods of the crowd run and {waiting} wait");
            Ok(())
        })
        .await?;
    cluster.scale(u32::try_from(wanted)?)?;
    cluster
        .until(|| {
            cluster.ready(wanted)?;
            let (running, waiting) = cluster.crowd()?;
            ensure!((running, waiting) == (wanted, 0), "{running} pods of the crowd run and {waiting} wait");
            Ok(())
        })
        .await
}

/// Size and name in one update, and then a cordon: that machine goes, whatever else a smaller set would have chosen, and the entry is removed.
pub(super) async fn shrinks(cluster: &Cluster, machines: usize) -> anyhow::Result<()> {
    cluster.test_bed()?.kubectl(&["delete", "deployment", "crowd", "--wait=false"])?;
    let before = cluster.homes()?;
    // The oldest name and not the machine that came last, which a set would rather delete.
    let named = before.first().context("there is no machine")?.clone();
    #[allow(clippy::disallowed_methods, reason = "the autoscaler has a clock of its own")]
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
            ensure!(homes == left, "there are {homes:?} instead of {left:?}");
            let entry = pools.iter().filter_map(|pool| pool.pointer("/metadata/annotations")?.get(TRIGGER)).count();
            ensure!(entry == 0, "the entry of a machine that is gone is still there");
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
    /// How many pods of the crowd run, and how many wait for a node.
    fn crowd(&self) -> anyhow::Result<(usize, usize)> {
        let pods = self.list("pods")?;
        let ours: Vec<&Value> = pods.iter().filter(|pod| text(pod, "/metadata/labels/app") == "crowd").collect();
        let waiting = ours.iter().filter(|pod| text(pod, "/spec/nodeName").is_empty()).count();
        Ok((ours.iter().filter(|pod| is_ready(pod)).count(), waiting))
    }
}
