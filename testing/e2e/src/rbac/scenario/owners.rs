//! Adoption and release of Machines and MachineSets.

use super::super::objects::{Strategy, annotated, deployment, labelled, machine, machine_set, of_size};
use super::super::trial_cluster::{is_owned, name, text};
use super::Scenario;
use serde_json::{Value, json};

impl Scenario<'_> {
    /// A MachineSet adopts a Machine without an owner, and a MachineDeployment adopts the MachineSet.
    pub(super) async fn adopt(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        cluster.make(vec![machine(&cluster.named("solo"), "solo", "small")]).await?;
        cluster.until_settled("solo", "small", 1).await?;
        cluster.make(vec![machine_set("solo", 1)]).await?;
        cluster
            .until("the Machine has an owner", async || Ok(cluster.of("machines", "solo").await?.iter().all(is_owned)))
            .await?;
        cluster.make(vec![deployment("solo", 1, Strategy::Rolling)]).await?;
        cluster
            .until("the MachineSet has an owner", async || {
                Ok(cluster.of("machinesets", "solo").await?.iter().any(is_owned))
            })
            .await
    }

    /// A MachineSet releases a Machine that does not match its selector any more, and a MachineDeployment releases a
    /// MachineSet.
    pub(super) async fn release(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let leaving = cluster.some("spare").await?;
        cluster.patch("machines", name(&leaving), &labelled("name", "free")).await?;
        cluster
            .until("the Machine has no owner", async || {
                let free = cluster.of("machines", "free").await?;
                Ok(!free.is_empty() && !free.iter().any(is_owned))
            })
            .await?;
        cluster.until_settled("spare", "small", 1).await?;
        cluster.delete("machines", name(&leaving)).await?;
        // Adopted first, so that it can be released.
        cluster.make(vec![deployment("spare", 1, Strategy::Rolling)]).await?;
        let sets = async || cluster.list("machinesets").await;
        let is_spare = |set: &&Value| name(set) == "spare";
        cluster
            .until("the MachineSet has an owner", async || Ok(sets().await?.iter().filter(is_spare).all(is_owned)))
            .await?;
        cluster.patch("machinesets", "spare", &labelled("name", "free")).await?;
        cluster
            .until("the MachineSet has no owner", async || Ok(!sets().await?.iter().filter(is_spare).any(is_owned)))
            .await?;
        cluster.delete("machinesets", "spare").await
    }

    /// A template is applied to the Node; a Machine is preserved; a Node is deleted by a user; and a MachineDeployment
    /// is scaled repeatedly, which results in equal Events.
    pub(super) async fn preserve_and_scale(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let (solo, node) = (name(&cluster.some("solo").await?).to_owned(), cluster.node_of("solo").await?);
        let more = json!({ "metadata": { "labels": { "more": "yes" } } });
        let change = json!({ "spec": { "template": { "spec": { "nodeTemplate": more } } } });
        cluster.patch("machinedeployments", "solo", &change).await?;
        cluster
            .until("the Node has the new label", async || {
                let node = cluster.get("nodes", &node).await?.unwrap_or_default();
                Ok(text(&node, "/metadata/labels/more") == "yes")
            })
            .await?;
        let preserve = "node.machine.sapcloud.io/preserve";
        let is_preserved = async || {
            let machine = cluster.get("machines", &solo).await?.unwrap_or_default();
            anyhow::Ok(!text(&machine, "/status/currentStatus/preserveExpiryTime").is_empty())
        };
        cluster.patch("machines", &solo, &annotated(preserve, "now")).await?;
        cluster.until("the Machine is preserved", is_preserved).await?;
        cluster.patch("machines", &solo, &annotated(preserve, Value::Null)).await?;
        cluster.until("the Machine is no longer preserved", async || Ok(!is_preserved().await?)).await?;
        cluster.delete("nodes", &node).await?;
        cluster
            .until("another Machine has replaced it", async || {
                let running = cluster.running("solo", "small").await?;
                Ok(running.len() == 1 && running.iter().all(|other| *other != solo))
            })
            .await?;
        for replicas in [2, 1, 2, 1] {
            cluster.patch("machinedeployments", "solo", &of_size(replicas)).await?;
            cluster
                .until("the MachineSet has this size", async || {
                    let sets = cluster.of("machinesets", "solo").await?;
                    Ok(sets.iter().any(|set| set.pointer("/spec/replicas") == Some(&json!(replicas))))
                })
                .await?;
        }
        cluster.until_settled("solo", "small", 1).await
    }
}
