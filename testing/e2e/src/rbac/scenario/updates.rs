//! Rollouts without a blocked drain: rollback, Recreate and in-place.

use serde_json::{Value, json};

use super::super::objects::{labelled, of_class, of_size};
use super::super::trial_cluster::{name, reason, text};
use super::Scenario;

impl Scenario<'_> {
    /// A paused MachineDeployment is scaled and does not roll; then it rolls, and is rolled back.
    pub(super) async fn pause_and_roll_back(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let change = async |change: &Value| cluster.patch("machinedeployments", "back", change).await;
        change(&json!({ "spec": { "paused": true } })).await?;
        change(&of_class("other")).await?;
        change(&of_size(2)).await?;
        cluster.until_settled("back", "small", 2).await?;
        change(&json!({ "spec": { "paused": false, "replicas": 1 } })).await?;
        cluster.until_settled("back", "other", 1).await?;
        change(&json!({ "spec": { "rollbackTo": { "revision": 0 } } })).await?;
        cluster.until_settled("back", "small", 1).await
    }

    /// The old Machine is deleted before the new one is created.
    pub(super) async fn recreate(&self) -> anyhow::Result<()> {
        self.cluster.patch("machinedeployments", "again", &of_class("other")).await?;
        self.cluster.until_settled("again", "other", 1).await
    }

    /// A Machine is kept and its Node is updated by a simulated node agent.
    pub(super) async fn update_in_place(&self, pool: &str) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let (machine, node) = (cluster.some(pool).await?, cluster.node_of(pool).await?);
        let node_now = async || anyhow::Ok(cluster.get("nodes", &node).await?.unwrap_or_default());
        let has_label = |object: &Value, label: &str| {
            let key = format!("node.machine.sapcloud.io/{label}");
            object.pointer("/metadata/labels").is_some_and(|labels| labels.get(&key).is_some())
        };
        cluster.patch("machinedeployments", pool, &of_class("other")).await?;
        if pool == "manual" {
            cluster
                .until("the Node is a candidate", async || Ok(has_label(&node_now().await?, "candidate-for-update")))
                .await?;
            cluster.patch("nodes", &node, &labelled("node.machine.sapcloud.io/selected-for-update", "true")).await?;
        }
        cluster
            .until("the Node is ready for the update", async || {
                Ok(reason(&node_now().await?, "InPlaceUpdate") == "ReadyForUpdate")
            })
            .await?;
        cluster.patch("nodes", &node, &labelled("node.machine.sapcloud.io/update-result", "successful")).await?;
        cluster
            .until("the Machine has moved to the new MachineSet", async || {
                let sets = cluster.of("machinesets", pool).await?;
                let new = sets.iter().find(|set| text(set, "/spec/template/spec/class/name") == "other");
                let is_there = new.and_then(|set| set.pointer("/status/availableReplicas")) == Some(&json!(1));
                Ok(is_there && cluster.of("machines", pool).await?.iter().map(name).eq([name(&machine)]))
            })
            .await?;
        cluster
            .until("the Node is in service again", async || {
                let node = node_now().await?;
                let is_cordoned = node.pointer("/spec/unschedulable") == Some(&json!(true));
                Ok(!is_cordoned
                    && !["candidate", "selected"].iter().any(|l| has_label(&node, &format!("{l}-for-update"))))
            })
            .await
    }
}
