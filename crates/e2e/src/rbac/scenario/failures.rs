//! Machines that fall ill, and what is left of machines that somebody has torn out.

use serde_json::{Value, json};

use super::super::world::{name, text};
use super::Scenario;

impl Scenario<'_> {
    /// A node says that it is ill: its machine is marked Failed and replaced.
    pub(super) async fn fall_ill(&self) -> anyhow::Result<()> {
        let world = &self.world;
        let (machine, node) = (world.some("ill").await?, world.node_of("ill").await?);
        let condition = json!({ "type": "KernelDeadlock", "status": "True", "reason": "Stuck", "message": "it hangs" });
        world.say_of_node(&node, &condition).await?;
        world
            .until("another one has taken its place", async || {
                let running = world.running("ill", "small").await?;
                Ok(running.len() == 1 && running.iter().all(|other| other != name(&machine)))
            })
            .await?;
        world.until_settled("ill", "small", 1).await
    }

    /// Somebody takes a machine's finalizers away and deletes it: its VM and its node are nobody's now.
    pub(super) async fn lose_a_machine(&self) -> anyhow::Result<()> {
        let (world, stray) = (&self.world, self.world.named("stray"));
        world.patch("machines", &stray, &json!({ "metadata": { "finalizers": null } })).await?;
        world.delete("machines", &stray).await
    }

    /// The VM is collected when it has been nobody's for long enough, and our finalizer does not hold the node.
    pub(super) async fn collect_what_is_lost(&self) -> anyhow::Result<()> {
        let world = &self.world;
        world.until("the VM is collected", async || world.was_told("OrphanVMDeleted").await).await?;
        let is_lost = |node: &Value| text(node, "/metadata/labels/pool") == "stray";
        for node in world.list("nodes").await?.iter().filter(|node| is_lost(node)) {
            world.delete("nodes", name(node)).await?;
        }
        world.until("its node is gone", async || Ok(!world.list("nodes").await?.iter().any(is_lost))).await
    }
}
