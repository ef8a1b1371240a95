//! Whose a machine is, and whose a set.

use super::super::objects::{Strategy, annotated, deployment, labelled, machine, machine_set, of_size};
use super::super::world::{is_owned, name, text};
use super::Scenario;
use serde_json::{Value, json};

impl Scenario<'_> {
    /// A machine that nobody owns is adopted by a set, and the set by a deployment.
    pub(super) async fn adopt(&self) -> anyhow::Result<()> {
        let world = &self.world;
        world.make(vec![machine(&world.named("solo"), "solo", "small")]).await?;
        world.until_settled("solo", "small", 1).await?;
        world.make(vec![machine_set("solo", 1)]).await?;
        world.until("it has an owner", async || Ok(world.of("machines", "solo").await?.iter().all(is_owned))).await?;
        world.make(vec![deployment("solo", 1, Strategy::Rolling)]).await?;
        world.until("its set has one", async || Ok(world.of("machinesets", "solo").await?.iter().any(is_owned))).await
    }

    /// A machine that is no longer meant is let go by its set, and a set by its deployment.
    pub(super) async fn release(&self) -> anyhow::Result<()> {
        let world = &self.world;
        let leaving = world.some("spare").await?;
        world.patch("machines", name(&leaving), &labelled("name", "free")).await?;
        world
            .until("it is nobody's", async || {
                let free = world.of("machines", "free").await?;
                Ok(!free.is_empty() && !free.iter().any(is_owned))
            })
            .await?;
        world.until_settled("spare", "small", 1).await?;
        world.delete("machines", name(&leaving)).await?;
        // Adopted first, so that it can be let go.
        world.make(vec![deployment("spare", 1, Strategy::Rolling)]).await?;
        let sets = async || world.list("machinesets").await;
        let is_spare = |set: &&Value| name(set) == "spare";
        world.until("the set has an owner", async || Ok(sets().await?.iter().filter(is_spare).all(is_owned))).await?;
        world.patch("machinesets", "spare", &labelled("name", "free")).await?;
        world.until("the set is nobody's", async || Ok(!sets().await?.iter().filter(is_spare).any(is_owned))).await?;
        world.delete("machinesets", "spare").await
    }

    /// A template reaches the node; a machine is preserved; somebody deletes a Node; and a deployment is scaled up and down and up
    /// again, which is told in the same words.
    pub(super) async fn wish_and_scale(&self) -> anyhow::Result<()> {
        let world = &self.world;
        let (solo, node) = (name(&world.some("solo").await?).to_owned(), world.node_of("solo").await?);
        let more = json!({ "metadata": { "labels": { "more": "yes" } } });
        let change = json!({ "spec": { "template": { "spec": { "nodeTemplate": more } } } });
        world.patch("machinedeployments", "solo", &change).await?;
        world
            .until("the node has the new label", async || {
                let node = world.get("nodes", &node).await?.unwrap_or_default();
                Ok(text(&node, "/metadata/labels/more") == "yes")
            })
            .await?;
        let preserve = "node.machine.sapcloud.io/preserve";
        let is_preserved = async || {
            let machine = world.get("machines", &solo).await?.unwrap_or_default();
            anyhow::Ok(!text(&machine, "/status/currentStatus/preserveExpiryTime").is_empty())
        };
        world.patch("machines", &solo, &annotated(preserve, "now")).await?;
        world.until("it is preserved", is_preserved).await?;
        world.patch("machines", &solo, &annotated(preserve, Value::Null)).await?;
        world.until("it is not preserved any more", async || Ok(!is_preserved().await?)).await?;
        world.delete("nodes", &node).await?;
        world
            .until("another one has taken its place", async || {
                let running = world.running("solo", "small").await?;
                Ok(running.len() == 1 && running.iter().all(|other| *other != solo))
            })
            .await?;
        for replicas in [2, 1, 2, 1] {
            world.patch("machinedeployments", "solo", &of_size(replicas)).await?;
            world
                .until("its set has that size", async || {
                    let sets = world.of("machinesets", "solo").await?;
                    Ok(sets.iter().any(|set| set.pointer("/spec/replicas") == Some(&json!(replicas))))
                })
                .await?;
        }
        world.until_settled("solo", "small", 1).await
    }
}
