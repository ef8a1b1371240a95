//! Unhealthy Machines, and the remains of Machines whose finalizers were removed.

use serde_json::{Value, json};

use super::super::trial_cluster::{name, text};
use super::Scenario;

impl Scenario<'_> {
    /// A Node reports a bad condition: its Machine is marked Failed and replaced.
    pub(super) async fn report_unhealthy(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let (machine, node) = (cluster.some("ill").await?, cluster.node_of("ill").await?);
        let condition = json!({ "type": "KernelDeadlock", "status": "True", "reason": "Stuck", "message": "it hangs" });
        cluster.set_node_condition(&node, &condition).await?;
        cluster
            .until("another Machine has replaced it", async || {
                let running = cluster.running("ill", "small").await?;
                Ok(running.len() == 1 && running.iter().all(|other| other != name(&machine)))
            })
            .await?;
        cluster.until_settled("ill", "small", 1).await
    }

    /// Removes a Machine's finalizers and deletes it. Its VM and its Node remain.
    pub(super) async fn orphan_a_vm(&self) -> anyhow::Result<()> {
        let (cluster, stray) = (&self.cluster, self.cluster.named("stray"));
        cluster.patch("machines", &stray, &json!({ "metadata": { "finalizers": null } })).await?;
        cluster.delete("machines", &stray).await
    }

    /// The orphan VM is deleted after the timeout, and the finalizer does not block the deletion of the Node.
    pub(super) async fn delete_orphans(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        cluster.until("the orphan VM is deleted", async || cluster.has_event("OrphanVMDeleted").await).await?;
        let is_lost = |node: &Value| text(node, "/metadata/labels/pool") == "stray";
        for node in cluster.list("nodes").await?.iter().filter(|node| is_lost(node)) {
            cluster.delete("nodes", name(node)).await?;
        }
        cluster.until("its Node is deleted", async || Ok(!cluster.list("nodes").await?.iter().any(is_lost))).await
    }
}
