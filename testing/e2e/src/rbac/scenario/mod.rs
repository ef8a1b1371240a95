//! A life in which everything happens that needs a permission.
//!
//! It looks at the world as an administrator; the programs whose permissions are tried have identities of their own. It has three acts:
//! pools come up; while nobody is in charge, things are done that nobody sees; and under the next in charge everything else
//! happens, each flow in a pool of its own and all at the same time.

mod budgets;
mod failures;
mod numbers;
mod owners;
mod updates;

use serde_json::{Value, json};

use super::objects::{Strategy, account, class, deployment, machine, machine_set, user_data};
use super::programs::Programs;
use super::trial_cluster::{TrialCluster, merge, name, text};

/// A life in one namespace.
pub(super) struct Scenario<'a> {
    pub(super) cluster: TrialCluster<'a>,
}

impl Scenario<'_> {
    /// The first act. Each machine gets a token, each node a template.
    pub(super) async fn come_up(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        // Another trial may have told something here.
        cluster.delete_all("events").await?;
        let (small, other, slow) = (class("small", "300ms"), class("other", "300ms"), class("slow", "5s"));
        cluster.make(vec![account(cluster.trial), user_data(), small, other, slow]).await?;
        cluster.make(vec![with_short_memory(deployment("fleet", 2, Strategy::Rolling))]).await?;
        let one = |name, strategy| deployment(name, 1, strategy);
        cluster
            .make(vec![
                one("crowd", Strategy::Rolling),
                one("back", Strategy::Rolling),
                one("again", Strategy::Recreate),
                one("auto", Strategy::InPlace("Auto")),
                one("manual", Strategy::InPlace("Manual")),
                impatient(one("ill", Strategy::Rolling)),
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
        // Whoever takes over now has to look its token up.
        cluster.make(vec![machine(&cluster.named("late"), "late", "slow")]).await?;
        cluster
            .until("the late one has a VM", async || {
                let late = cluster.of("machines", "late").await?;
                Ok(late.iter().any(|machine| !text(machine, "/spec/providerID").is_empty()))
            })
            .await
    }

    /// Between the acts: nobody is in charge.
    pub(super) async fn meddle(&self) -> anyhow::Result<()> {
        self.make_a_crowd(0).await?;
        self.lose_a_machine().await
    }

    /// The second act.
    pub(super) async fn unfold(&self, programs: &Programs) -> anyhow::Result<()> {
        tokio::try_join!(
            self.roll_past_a_budget(),
            self.force(),
            self.freeze_and_thaw(programs),
            self.pause_and_roll_back(),
            self.recreate(),
            self.update_in_place("auto"),
            self.update_in_place("manual"),
            self.fall_ill(),
            self.collect_what_is_lost(),
            self.wish_and_scale(),
            self.release(),
        )
        .map(drop)
    }

    /// Everything goes. What is still needed is kept by its finalizer.
    pub(super) async fn go(&self) -> anyhow::Result<()> {
        let cluster = &self.cluster;
        let ours = ["machinedeployments", "machinesets", "machines", "machineclasses", "secrets"];
        let (users, used) = ours.split_at(3);
        for plural in users {
            cluster.delete_all(plural).await?;
        }
        // A class is held from when its first machine was seen. One that was made a moment ago has to be seen before its class goes.
        cluster.until("the classes of all machines are held", async || self.are_classes_held().await).await?;
        for plural in used.iter().chain(&["pods", "persistentvolumeclaims", "persistentvolumes"]) {
            cluster.delete_all(plural).await?;
        }
        for plural in ours.iter().chain(&["nodes", "persistentvolumeclaims", "persistentvolumes"]) {
            cluster
                .until(&format!("no {plural} are left"), async || Ok(cluster.list(plural).await?.is_empty()))
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

    /// A pod of this trial.
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

/// Keeps no old sets.
fn with_short_memory(mut deployment: Value) -> Value {
    if let Some(spec) = deployment.get_mut("spec") {
        merge(spec, json!({ "revisionHistoryLimit": 0 }));
    }
    deployment
}

/// Gives a machine up soon.
fn impatient(mut deployment: Value) -> Value {
    if let Some(spec) = deployment.pointer_mut("/spec/template/spec") {
        merge(spec, json!({ "healthTimeout": "2s" }));
    }
    deployment
}
