//! More machines than anybody can have meant, and machines that are asked to go by name.

use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::objects::{annotated, of_size};
use super::super::programs::Programs;
use super::super::required_steps::is_done;
use super::super::trial_cluster::{merge, name, reason, text};
use super::Scenario;

/// When a script concludes that its machines were deleted again, and how often it tries.
const STUBBORN: Duration = Duration::from_secs(15);
const ATTEMPTS: usize = 8;

/// What the manager says of a request to thaw that it gives to a set.
const HAND_DOWN: &str = "copy the unfreeze annotation";

impl Scenario<'_> {
    /// Somebody's script makes machines for a set.
    pub(super) async fn make_a_crowd(&self, attempt: usize) -> anyhow::Result<()> {
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

    /// The set is frozen, with its deployment, and thaws by itself when the crowd is gone, or when somebody says so. Then the
    /// autoscaler asks for a machine by its name.
    pub(super) async fn freeze_and_thaw(&self, programs: &Programs) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let is_done =
            |required_step: &str| anyhow::Ok(programs.said()?.iter().any(|said| is_done(said, required_step)));
        let is_frozen = || anyhow::Ok(is_done("=\"freeze MachineSet")? && is_done("=\"freeze MachineDeployment")?);
        // A set that is very quick has deleted them before anybody counted; the script does not give up.
        for attempt in 1..=ATTEMPTS {
            let begin = Instant::now();
            while begin.elapsed() < STUBBORN && !is_frozen()? {
                sleep(Duration::from_millis(200)).await;
            }
            if is_frozen()? {
                break;
            }
            self.make_a_crowd(attempt).await?;
        }
        ensure!(is_frozen()?, "however many machines were made, nobody froze their set and its deployment");
        cluster.until_settled("crowd", "small", 1).await?;
        let is_free =
            |object: &Value| text(object, "/metadata/labels/freeze").is_empty() && reason(object, "Frozen").is_empty();
        cluster
            .until("the crowd has thawed", async || {
                let owner = cluster.get("machinedeployments", "crowd").await?.unwrap_or_default();
                Ok(is_free(&owner) && cluster.of("machinesets", "crowd").await?.iter().all(is_free))
            })
            .await?;
        // A deployment's reconcile copies annotations to its set, too; if it was quicker, there was nothing to hand down.
        for _ in 1..=ATTEMPTS {
            self.ask_to_thaw().await?;
            if is_done(HAND_DOWN)? {
                break;
            }
        }
        ensure!(is_done(HAND_DOWN)?, "however often it was asked for, nobody handed the request to thaw down to a set");
        cluster.patch("machinedeployments", "crowd", &of_size(2)).await?;
        cluster.until_settled("crowd", "small", 2).await?;
        let chosen = cluster.some("crowd").await?;
        let mut args = annotated("node.machine.sapcloud.io/trigger-deletion-by-mcm", name(&chosen));
        merge(&mut args, of_size(1));
        cluster.patch("machinedeployments", "crowd", &args).await?;
        cluster.until("the chosen one is gone", async || Ok(!self.is_there("machines", name(&chosen)).await?)).await?;
        cluster.until_settled("crowd", "small", 1).await
    }

    /// Somebody says that the deployment is to thaw, and it is granted to it and to its sets.
    async fn ask_to_thaw(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let unfreeze = "safety.machine.sapcloud.io/unfreeze";
        cluster.patch("machinedeployments", "crowd", &annotated(unfreeze, "True")).await?;
        let asks =
            |object: &Value| object.pointer("/metadata/annotations").is_some_and(|all| all.get(unfreeze).is_some());
        cluster
            .until("the request was granted", async || {
                let owner = cluster.get("machinedeployments", "crowd").await?.unwrap_or_default();
                let sets = cluster.of("machinesets", "crowd").await?;
                Ok(!asks(&owner) && !sets.iter().any(asks))
            })
            .await
    }
}
