//! Drains: a PodDisruptionBudget that blocks a pod, and volumes that move or are detached.

use anyhow::Context;
use serde_json::{Value, json};

use super::super::objects::{Disk, annotated, budget, database, labelled, of_class, volume};
use super::super::trial_cluster::{merge, name, text};
use super::Scenario;

impl Scenario<'_> {
    /// The MachineDeployment is rolled to another MachineClass. A PodDisruptionBudget blocks a pod until the budget is
    /// deleted, and a volume moves.
    pub(super) async fn roll_past_a_budget(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let node = cluster.node_of("fleet").await?;
        let disk = Disk { volume: format!("{}-rolled", cluster.trial), claim: "rolled" };
        cluster.make(vec![self.pod("web", &node), budget("web")]).await?;
        self.run_with_disk(self.pod("db", &node), &disk).await?;
        cluster
            .until("the pods are Ready", async || Ok(self.is_ready("web").await? && self.is_ready("db").await?))
            .await?;
        cluster.until("the volume is attached", async || self.has_disk(&node).await).await?;
        cluster
            .until("the PodDisruptionBudget has a status", async || {
                let budget = cluster.get("poddisruptionbudgets", "web").await?;
                Ok(budget.unwrap_or_default().pointer("/status/currentHealthy") == Some(&json!(1)))
            })
            .await?;
        cluster.patch("machinedeployments", "fleet", &of_class("other")).await?;
        cluster.until("the PodDisruptionBudget blocks the drain", async || Ok(self.held().await?.is_some())).await?;
        cluster.until("the other pod is evicted", async || Ok(!self.is_there("pods", "db").await?)).await?;
        self.report_repeatedly().await?;
        cluster.delete("poddisruptionbudgets", "web").await?;
        // The autoscaler names a Machine that does not exist.
        let args = "node.machine.sapcloud.io/trigger-deletion-by-mcm";
        cluster.patch("machinedeployments", "fleet", &annotated(args, "missing")).await?;
        cluster.until_settled("fleet", "other", 2).await?;
        cluster
            .until("the annotation and the old MachineSet are removed", async || {
                let fleet = cluster.get("machinedeployments", "fleet").await?.unwrap_or_default();
                let has_wish = fleet.pointer("/metadata/annotations").is_some_and(|all| all.get(args).is_some());
                Ok(!has_wish && cluster.of("machinesets", "fleet").await?.len() == 1)
            })
            .await
    }

    /// If the status text is overwritten, the controller writes it again, and repeated Events are patched.
    async fn report_repeatedly(&self) -> anyhow::Result<()> {
        for _ in 0..2 {
            self.cluster
                .until("the status names the PodDisruptionBudget", async || Ok(self.held().await?.is_some()))
                .await?;
            let machine = self.held().await?.context("no Machine is blocked")?;
            let change = json!({ "status": { "lastOperation": { "description": "nothing" } } });
            self.cluster.patch("machines", &format!("{}/status", name(&machine)), &change).await?;
        }
        self.cluster
            .until("the status names the PodDisruptionBudget again", async || Ok(self.held().await?.is_some()))
            .await
    }

    /// Returns the Machine whose status names a PodDisruptionBudget.
    async fn held(&self) -> anyhow::Result<Option<Value>> {
        let fleet = self.cluster.of("machines", "fleet").await?;
        Ok(fleet.into_iter().find(|m| text(m, "/status/lastOperation/description").to_lowercase().contains("budget")))
    }

    /// A Machine is deleted with force-deletion while a volume is still attached.
    pub(super) async fn force(&self) -> anyhow::Result<()> {
        let (cluster, late) = (&self.cluster, self.cluster.named("late"));
        cluster.until_settled("late", "slow", 1).await?;
        let node = cluster.node_of("late").await?;
        let disk = Disk { volume: format!("{}-forced", cluster.trial), claim: "forced" };
        // A pod with a finalizer whose containers cannot be stopped keeps its volume attached, so that a
        // VolumeAttachment remains.
        let mut pod = self.pod("held", &node);
        if let Some(metadata) = pod.get_mut("metadata") {
            let annotations = json!({ "virtual.millwright.dev/rundown": "never" });
            merge(metadata, json!({ "finalizers": ["millwright.dev/held"], "annotations": annotations }));
        }
        self.run_with_disk(pod, &disk).await?;
        cluster.until("the pod is Ready", async || self.is_ready("held").await).await?;
        cluster.until("the volume is attached", async || self.has_disk(&node).await).await?;
        cluster.patch("machines", &late, &labelled("force-deletion", "True")).await?;
        cluster.delete("machines", &late).await?;
        cluster
            .until("the VolumeAttachment is being deleted", async || Ok(!self.has_live_attachment(&node).await?))
            .await?;
        cluster.patch("pods", "held", &json!({ "metadata": { "finalizers": null } })).await?;
        cluster.until("Machine late is deleted", async || Ok(cluster.of("machines", "late").await?.is_empty())).await
    }

    /// Creates a pod with a volume. The PersistentVolume is created first, because a claim without one is retried only
    /// after 15 s.
    async fn run_with_disk(&self, pod: Value, disk: &Disk) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        cluster.make(vec![volume(disk)]).await?;
        cluster
            .until("the volume is available", async || {
                let volume = cluster.get("persistentvolumes", &disk.volume).await?.unwrap_or_default();
                Ok(text(&volume, "/status/phase") == "Available")
            })
            .await?;
        cluster.make(database(pod, disk)).await
    }

    async fn has_live_attachment(&self, node: &str) -> anyhow::Result<bool> {
        let live = |a: &Value| text(a, "/spec/nodeName") == node && a.pointer("/metadata/deletionTimestamp").is_none();
        Ok(self.cluster.list("volumeattachments").await?.iter().any(live))
    }
}
