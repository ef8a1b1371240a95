//! Overshoot of a MachineSet, and deletion of a named Machine.

use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::objects::{annotated, of_size};
use super::super::programs::Programs;
use super::super::required_steps::is_done;
use super::super::trial_cluster::{merge, name, reason, text};
use super::Scenario;

/// Pause between two attempts to create surplus Machines, and the number of attempts.
const ATTEMPT_INTERVAL: Duration = Duration::from_secs(15);
const ATTEMPTS: usize = 8;

/// Log text of the manager when it copies the unfreeze annotation to a MachineSet.
const COPY_UNFREEZE: &str = "copy the unfreeze annotation";

impl Scenario<'_> {
    /// Creates Machines that a MachineSet adopts.
    pub(super) async fn create_surplus(&self, attempt: usize) -> anyhow::Result<()> {
        let model = self.cluster.some("crowd").await?;
        let at = |pointer: &str| model.pointer(pointer).cloned().unwrap_or_default();
        for n in 0..6 {
            let (mut labels, mut spec) = (at("/metadata/labels"), at("/spec"));
            for (object, key) in [(&mut labels, "node"), (&mut spec, "providerID")] {
                object.as_object_mut().and_then(|object| object.remove(key));
            }
            let mut wild =
                super::super::objects::machine(&self.cluster.named(&format!("wild-{attempt}-{n}")), "crowd", "small");
            merge(&mut wild, json!({ "spec": spec }));
            if let Some(metadata) = wild.get_mut("metadata") {
                merge(metadata, json!({ "labels": labels, "ownerReferences": at("/metadata/ownerReferences") }));
            }
            self.cluster.make(vec![wild]).await?;
        }
        Ok(())
    }

    /// The MachineSet and its MachineDeployment are frozen. They are unfrozen when the surplus is deleted, or by the
    /// annotation. Then the autoscaler deletes a named Machine.
    pub(super) async fn freeze_and_unfreeze(&self, programs: &Programs) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let is_done =
            |required_step: &str| anyhow::Ok(programs.said()?.iter().any(|said| is_done(said, required_step)));
        let is_frozen = || anyhow::Ok(is_done("=\"freeze MachineSet")? && is_done("=\"freeze MachineDeployment")?);
        // A fast MachineSet controller may delete the surplus before it is counted, so the attempt is repeated.
        for attempt in 1..=ATTEMPTS {
            let begin = Instant::now();
            while begin.elapsed() < ATTEMPT_INTERVAL && !is_frozen()? {
                sleep(Duration::from_millis(200)).await;
            }
            if is_frozen()? {
                break;
            }
            self.create_surplus(attempt).await?;
        }
        ensure!(is_frozen()?, "the MachineSet and its MachineDeployment were never frozen");
        cluster.until_settled("crowd", "small", 1).await?;
        let is_free =
            |object: &Value| text(object, "/metadata/labels/freeze").is_empty() && reason(object, "Frozen").is_empty();
        cluster
            .until("the pool is unfrozen", async || {
                let owner = cluster.get("machinedeployments", "crowd").await?.unwrap_or_default();
                Ok(is_free(&owner) && cluster.of("machinesets", "crowd").await?.iter().all(is_free))
            })
            .await?;
        // The reconcile of a MachineDeployment copies annotations to its MachineSet too. If it was faster, the safety
        // controller has nothing to copy.
        for _ in 1..=ATTEMPTS {
            self.request_unfreeze().await?;
            if is_done(COPY_UNFREEZE)? {
                break;
            }
        }
        ensure!(is_done(COPY_UNFREEZE)?, "the unfreeze annotation was never copied to a MachineSet");
        cluster.patch("machinedeployments", "crowd", &of_size(2)).await?;
        cluster.until_settled("crowd", "small", 2).await?;
        let chosen = cluster.some("crowd").await?;
        let mut args = annotated("node.machine.sapcloud.io/trigger-deletion-by-mcm", name(&chosen));
        merge(&mut args, of_size(1));
        cluster.patch("machinedeployments", "crowd", &args).await?;
        cluster
            .until("the named Machine is deleted", async || Ok(!self.is_there("machines", name(&chosen)).await?))
            .await?;
        cluster.until_settled("crowd", "small", 1).await
    }

    /// Requests to unfreeze the MachineDeployment, and waits until it and its MachineSets are unfrozen.
    async fn request_unfreeze(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let unfreeze = "safety.machine.sapcloud.io/unfreeze";
        cluster.patch("machinedeployments", "crowd", &annotated(unfreeze, "True")).await?;
        let asks =
            |object: &Value| object.pointer("/metadata/annotations").is_some_and(|all| all.get(unfreeze).is_some());
        cluster
            .until("the unfreeze annotation is removed", async || {
                let owner = cluster.get("machinedeployments", "crowd").await?.unwrap_or_default();
                let sets = cluster.of("machinesets", "crowd").await?;
                Ok(!asks(&owner) && !sets.iter().any(asks))
            })
            .await
    }
}
