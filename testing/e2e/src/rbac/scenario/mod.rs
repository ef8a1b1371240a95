//! A scenario that needs every permission.
//!
//! The scenario acts as an administrator; the programs have identities of their own. It has three parts: pools are
//! created; objects are changed while no controller runs; and after the restart all other flows run in parallel, each
//! in a separate pool.

mod budgets;
mod failures;
mod numbers;
mod owners;
mod updates;

use serde_json::{Value, json};

use super::objects::{Strategy, account, class, deployment, machine, machine_set, user_data};
use super::programs::Programs;
use super::trial_cluster::{TrialCluster, merge, name, text};

/// A scenario in one namespace.
pub(super) struct Scenario<'a> {
    pub(super) cluster: TrialCluster<'a>,
}

impl Scenario<'_> {
    /// The first part: each Machine gets a bootstrap token, each Node a template.
    pub(super) async fn create_pools(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        // Events of another trial may exist.
        cluster.delete_all("events").await?;
        let (small, other, slow) = (class("small", "300ms"), class("other", "300ms"), class("slow", "5s"));
        cluster.make(vec![account(cluster.trial), user_data(), small, other, slow]).await?;
        cluster.make(vec![without_history(deployment("fleet", 2, Strategy::Rolling))]).await?;
        let one = |name, strategy| deployment(name, 1, strategy);
        cluster
            .make(vec![
                one("crowd", Strategy::Rolling),
                one("back", Strategy::Rolling),
                one("again", Strategy::Recreate),
                one("auto", Strategy::InPlace("Auto")),
                one("manual", Strategy::InPlace("Manual")),
                with_short_health_timeout(one("ill", Strategy::Rolling)),
                machine_set("spare", 1),
                machine(&cluster.named("stray"), "stray", "small"),
            ])
            .await?;
        tokio::try_join!(self.adopt(), async {
            cluster.until_settled("fleet", "small", 2).await?;
            for pool in ["crowd", "back", "again", "auto", "manual", "ill", "spare", "stray"] {
                cluster.until_settled(pool, "small", 1).await?;
            }
            Ok(())
        })?;
        // After a restart, the controller must look up the token of this Machine.
        cluster.make(vec![machine(&cluster.named("late"), "late", "slow")]).await?;
        cluster
            .until("Machine late has a VM", async || {
                let late = cluster.of("machines", "late").await?;
                Ok(late.iter().any(|machine| !text(machine, "/spec/providerID").is_empty()))
            })
            .await
    }

    /// Between the parts: no controller is running.
    pub(super) async fn change_without_controllers(&self) -> anyhow::Result<()> {
        self.create_surplus(0).await?;
        self.orphan_a_vm().await
    }

    /// The second part.
    pub(super) async fn run_all(&self, programs: &Programs) -> anyhow::Result<()> {
        tokio::try_join!(
            self.roll_past_a_budget(),
            self.force(),
            self.freeze_and_unfreeze(programs),
            self.pause_and_roll_back(),
            self.recreate(),
            self.update_in_place("auto"),
            self.update_in_place("manual"),
            self.report_unhealthy(),
            self.delete_orphans(),
            self.preserve_and_scale(),
            self.release(),
        )
        .map(drop)
    }

    /// Deletes everything. Finalizers protect objects that are in use.
    pub(super) async fn go(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let ours = ["machinedeployments", "machinesets", "machines", "machineclasses", "secrets"];
        let (users, used) = ours.split_at(3);
        for plural in users {
            cluster.delete_all(plural).await?;
        }
        // A MachineClass gets its finalizer when a Machine that uses it is observed. That must happen before the class
        // is deleted.
        cluster
            .until("the MachineClasses of all Machines have finalizers", async || self.are_classes_held().await)
            .await?;
        for plural in used.iter().chain(&["pods", "persistentvolumeclaims", "persistentvolumes"]) {
            cluster.delete_all(plural).await?;
        }
        for plural in ours.iter().chain(&["nodes", "persistentvolumeclaims", "persistentvolumes"]) {
            cluster
                .until(&format!("all {plural} are deleted"), async || Ok(cluster.list(plural).await?.is_empty()))
                .await?;
        }
        Ok(())
    }

    async fn are_classes_held(&self) -> anyhow::Result<bool> {
        let (classes, machines) = (self.cluster.list("machineclasses").await?, self.cluster.list("machines").await?);
        let is_held = |machine: &Value| {
            let class = classes.iter().find(|class| name(class) == text(machine, "/spec/class/name"));
            class.is_some_and(|class| class.pointer("/metadata/finalizers").is_some())
        };
        Ok(machines.iter().all(is_held))
    }

    /// Returns a pod of this trial.
    fn pod(&self, name: &str, node: &str) -> Value {
        super::objects::pod(name, node, self.cluster.trial)
    }

    async fn is_ready(&self, pod: &str) -> anyhow::Result<bool> {
        let Some(pod) = self.cluster.get("pods", pod).await? else { return Ok(false) };
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        Ok(conditions.into_iter().flatten().any(|c| text(c, "/type") == "Ready" && text(c, "/status") == "True"))
    }

    async fn has_disk(&self, node: &str) -> anyhow::Result<bool> {
        let node = self.cluster.get("nodes", node).await?.unwrap_or_default();
        Ok(node.pointer("/status/volumesAttached").and_then(Value::as_array).is_some_and(|all| !all.is_empty()))
    }

    async fn is_there(&self, plural: &str, wanted: &str) -> anyhow::Result<bool> {
        Ok(self.cluster.list(plural).await?.iter().any(|object| name(object) == wanted))
    }
}

/// Keeps no old MachineSets.
fn without_history(mut deployment: Value) -> Value {
    if let Some(spec) = deployment.get_mut("spec") {
        merge(spec, json!({ "revisionHistoryLimit": 0 }));
    }
    deployment
}

/// Sets a short health timeout.
fn with_short_health_timeout(mut deployment: Value) -> Value {
    if let Some(spec) = deployment.pointer_mut("/spec/template/spec") {
        merge(spec, json!({ "healthTimeout": "2s" }));
    }
    deployment
}
