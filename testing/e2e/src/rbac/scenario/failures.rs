//! Machines that fall ill, and what is left of machines that somebody has torn out.

use serde_json::{Value, json};

use super::super::trial_cluster::{name, text};
use super::Scenario;

impl Scenario<'_> {
    /// A node says that it is ill: its machine is marked Failed and replaced.
    pub(super) async fn fall_ill(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let (machine, node) = (cluster.some("ill").await?, cluster.node_of("ill").await?);
        let condition = json!({ "type": "KernelDeadlock", "status": "True", "reason": "Stuck", "message": "it hangs" });
        cluster.say_of_node(&node, &condition).await?;
        cluster
            .until("another one has taken its place", async || {
                let running = cluster.running("ill", "small").await?;
                Ok(running.len() == 1 && running.iter().all(|other| other != name(&machine)))
            })
            .await?;
        cluster.until_settled("ill", "small", 1).await
    }

    /// Somebody takes a machine's finalizers away and deletes it: its VM and its node are nobody's now.
    pub(super) async fn lose_a_machine(&self) -> anyhow::Result<()> {
        let (cluster, stray) = (&self.cluster, self.cluster.named("stray"));
        cluster.patch("machines", &stray, &json!({ "metadata": { "finalizers": null } })).await?;
        cluster.delete("machines", &stray).await
    }

    /// The VM is collected when it has been nobody's for long enough, and our finalizer does not hold the node.
    pub(super) async fn collect_what_is_lost(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        cluster.until("the VM is collected", async || cluster.was_told("OrphanVMDeleted").await).await?;
        let is_lost = |node: &Value| text(node, "/metadata/labels/pool") == "stray";
        for node in cluster.list("nodes").await?.iter().filter(|node| is_lost(node)) {
            cluster.delete("nodes", name(node)).await?;
        }
        cluster.until("its node is gone", async || Ok(!cluster.list("nodes").await?.iter().any(is_lost))).await
    }
}
