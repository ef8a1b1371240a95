//! Nodes that are emptied: a budget that holds a pod, and disks that move or are let go.

use anyhow::Context;
use serde_json::{Value, json};

use super::super::objects::{Disk, annotated, budget, database, labelled, of_class, volume};
use super::super::trial_cluster::{merge, name, text};
use super::Scenario;

impl Scenario<'_> {
    /// The pool rolls to another class: a budget holds a pod until it is taken away, and a disk moves.
    pub(super) async fn roll_past_a_budget(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let node = cluster.node_of("fleet").await?;
        let disk = Disk { volume: format!("{}-rolled", cluster.trial), claim: "rolled" };
        cluster.make(vec![self.pod("web", &node), budget("web")]).await?;
        self.run_with_disk(self.pod("db", &node), &disk).await?;
        cluster
            .until("the pods are ready", async || Ok(self.is_ready("web").await? && self.is_ready("db").await?))
            .await?;
        cluster.until("the disk is attached", async || self.has_disk(&node).await).await?;
        cluster
            .until("the budget has been counted", async || {
                let budget = cluster.get("poddisruptionbudgets", "web").await?;
                Ok(budget.unwrap_or_default().pointer("/status/currentHealthy") == Some(&json!(1)))
            })
            .await?;
        cluster.patch("machinedeployments", "fleet", &of_class("other")).await?;
        cluster.until("the budget holds the drain", async || Ok(self.held().await?.is_some())).await?;
        cluster.until("only that pod is left", async || Ok(!self.is_there("pods", "db").await?)).await?;
        self.make_it_say_so_again().await?;
        cluster.delete("poddisruptionbudgets", "web").await?;
        // The autoscaler names one that does not exist.
        let args = "node.machine.sapcloud.io/trigger-deletion-by-mcm";
        cluster.patch("machinedeployments", "fleet", &annotated(args, "nobody")).await?;
        cluster.until_settled("fleet", "other", 2).await?;
        cluster
            .until("the request and the old set are gone", async || {
                let fleet = cluster.get("machinedeployments", "fleet").await?.unwrap_or_default();
                let has_wish = fleet.pointer("/metadata/annotations").is_some_and(|all| all.get(args).is_some());
                Ok(!has_wish && cluster.of("machinesets", "fleet").await?.len() == 1)
            })
            .await
    }

    /// Whoever finds that its words were taken away says them again, and an Event that is told again is patched.
    async fn make_it_say_so_again(&self) -> anyhow::Result<()> {
        for _ in 0..2 {
            self.cluster.until("it says what holds it", async || Ok(self.held().await?.is_some())).await?;
            let machine = self.held().await?.context("nobody is held")?;
            let change = json!({ "status": { "lastOperation": { "description": "nothing" } } });
            self.cluster.patch("machines", &format!("{}/status", name(&machine)), &change).await?;
        }
        self.cluster.until("it has said so again", async || Ok(self.held().await?.is_some())).await
    }

    /// The machine that says that a budget holds it.
    async fn held(&self) -> anyhow::Result<Option<Value>> {
        let fleet = self.cluster.of("machines", "fleet").await?;
        Ok(fleet.into_iter().find(|m| text(m, "/status/lastOperation/description").contains("budget")))
    }

    /// A machine goes by force, with a disk still attached.
    pub(super) async fn force(&self) -> anyhow::Result<()> {
        let (cluster, late) = (&self.cluster, self.cluster.named("late"));
        cluster.until_settled("late", "slow", 1).await?;
        let node = cluster.node_of("late").await?;
        let disk = Disk { volume: format!("{}-forced", cluster.trial), claim: "forced" };
        // A pod that a finalizer holds and whose containers cannot be ended keeps its disk, so that there is something left to detach.
        let mut pod = self.pod("held", &node);
        if let Some(metadata) = pod.get_mut("metadata") {
            let annotations = json!({ "virtual.millwright.dev/rundown": "never" });
            merge(metadata, json!({ "finalizers": ["millwright.dev/held"], "annotations": annotations }));
        }
        self.run_with_disk(pod, &disk).await?;
        cluster.until("the pod is ready", async || self.is_ready("held").await).await?;
        cluster.until("the disk is attached", async || self.has_disk(&node).await).await?;
        cluster.patch("machines", &late, &labelled("force-deletion", "True")).await?;
        cluster.delete("machines", &late).await?;
        cluster.until("the attachment is on its way", async || Ok(!self.has_live_attachment(&node).await?)).await?;
        cluster.patch("pods", "held", &json!({ "metadata": { "finalizers": null } })).await?;
        cluster.until("the late one is gone", async || Ok(cluster.of("machines", "late").await?.is_empty())).await
    }

    /// A pod with a disk. A claim that comes before its volume is known is looked at again after a quarter of a minute only.
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
