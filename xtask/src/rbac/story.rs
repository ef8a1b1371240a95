//! A life in which everything happens that needs a permission.
//!
//! It looks at the world as an administrator; the programs whose permissions are tried have identities of their own.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::objects::{Disk, class, database, deployment, machine, machine_set, pod, user_data};
use crate::desk::Desk;

/// For everything that takes a moment on an idle machine and longer on a busy one.
const PATIENCE: Duration = Duration::from_mins(3);
const GLANCE: Duration = Duration::from_millis(250);

/// A namespace in which machines live.
pub(super) struct Story<'a> {
    pub(super) desk: &'a Desk<'a>,
    pub(super) namespace: String,
    /// Volumes are called after it: one that was used once is not given out again.
    pub(super) trial: &'static str,
}

impl Story<'_> {
    /// What everything stands on.
    pub(super) fn furnish(&self) -> anyhow::Result<()> {
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "web" } });
        let (small, other, slow) = (class("small", "300ms"), class("other", "300ms"), class("slow", "4s"));
        self.apply("ground", vec![account, user_data(), small, other, slow])
    }

    /// A pool comes up, with a token for each machine and a template on each node.
    pub(super) async fn come_up(&self) -> anyhow::Result<()> {
        self.apply("fleet", vec![deployment("fleet", 2, "small")])?;
        self.until("the fleet runs", || Ok(self.running("fleet", "small")?.len() == 2)).await
    }

    /// A machine whose VM is there and whose node is not yet; whoever takes over now has to look its token up.
    pub(super) async fn begin_late(&self) -> anyhow::Result<()> {
        self.apply("late", vec![machine("late", "late", "slow")])?;
        self.until("the late one has a VM", || {
            Ok(self
                .machines()?
                .iter()
                .any(|m| name(m) == self.named("late") && !text(m, "/spec/providerID").is_empty()))
        })
        .await
    }

    /// It runs.
    pub(super) async fn end_late(&self) -> anyhow::Result<()> {
        self.until("the late one runs", || Ok(self.running("late", "slow")?.len() == 1)).await
    }

    /// A machine that nobody owns is adopted by a set, and the set by a deployment.
    pub(super) async fn adopt(&self) -> anyhow::Result<()> {
        self.apply("orphan", vec![machine("solo", "solo", "small")])?;
        self.until("the orphan runs", || Ok(self.running("solo", "small")?.len() == 1)).await?;
        self.apply("solo-set", vec![machine_set("solo", 1, "small")])?;
        self.until("it has an owner", || Ok(self.of("machines", "solo")?.iter().all(is_owned))).await?;
        self.apply("solo", vec![deployment("solo", 1, "small")])?;
        self.until("its set has one", || Ok(self.of("machinesets", "solo")?.iter().any(is_owned))).await
    }

    /// The pool rolls to another class: a budget holds a pod until it is taken away, and a disk moves.
    pub(super) async fn roll(&self) -> anyhow::Result<()> {
        let node = self.node_of("fleet")?;
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
        });
        let disk = Disk { volume: format!("{}-rolled", self.trial), claim: "rolled" };
        let mut objects = vec![pod("web", &node), budget];
        objects.extend(database("db", &node, &disk));
        self.apply("workload", objects)?;
        self.until("the pods are ready", || Ok(["web", "db"].iter().all(|pod| self.is_ready(pod)))).await?;
        self.until("the disk is attached", || self.has_disk(&node)).await?;
        self.until("the budget has been counted", || {
            Ok(self.get("poddisruptionbudget", "web")?.pointer("/status/currentHealthy") == Some(&json!(1)))
        })
        .await?;
        let change = r#"{"spec":{"template":{"spec":{"class":{"name":"other"}}}}}"#;
        self.kubectl(&["patch", "machinedeployment", "fleet", "--type=merge", "--patch", change])?;
        self.until("the budget holds the drain", || {
            Ok(self
                .of("machines", "fleet")?
                .iter()
                .any(|m| text(m, "/status/lastOperation/description").contains("budget")))
        })
        .await?;
        self.until("only that pod is left", || Ok(!self.list("pods")?.iter().any(|pod| name(pod) == "db"))).await?;
        self.make_it_say_so_again().await?;
        self.kubectl(&["delete", "poddisruptionbudget", "web"])?;
        self.until("the fleet has rolled", || {
            Ok(self.running("fleet", "other")?.len() == 2 && self.of("machines", "fleet")?.len() == 2)
        })
        .await
    }

    /// Whoever finds that its words were taken away says them again, and an Event that is told again is patched.
    async fn make_it_say_so_again(&self) -> anyhow::Result<()> {
        let is_held = |m: &Value| text(m, "/status/lastOperation/description").contains("budget");
        for _ in 0..2 {
            let held = || Ok::<_, anyhow::Error>(self.of("machines", "fleet")?.into_iter().find(|m| is_held(m)));
            self.until("it says what holds it", || Ok(held()?.is_some())).await?;
            let machine = held()?.context("nobody is held")?;
            let change = r#"{"status":{"lastOperation":{"description":"nothing"}}}"#;
            let status = ["--subresource=status", "--type=merge", "--patch", change];
            self.kubectl(&[["patch", "machine", name(&machine)].as_slice(), &status].concat())?;
        }
        self.until("it has said so again", || Ok(self.of("machines", "fleet")?.iter().any(is_held))).await
    }

    /// A deployment is scaled up and down and up again, which is told in the same words.
    pub(super) async fn scale(&self) -> anyhow::Result<()> {
        for replicas in [2, 1, 2, 1] {
            let change = json!({ "spec": { "replicas": replicas } }).to_string();
            self.kubectl(&["patch", "machinedeployment", "solo", "--type=merge", "--patch", &change])?;
            self.until("its set has that size", || {
                Ok(self
                    .of("machinesets", "solo")?
                    .iter()
                    .any(|set| set.pointer("/spec/replicas") == Some(&json!(replicas))))
            })
            .await?;
        }
        Ok(())
    }

    /// A machine goes by force, with a disk still attached.
    pub(super) async fn force(&self) -> anyhow::Result<()> {
        let (name, node) = (self.named("late"), self.node_of("late")?);
        let disk = Disk { volume: format!("{}-forced", self.trial), claim: "forced" };
        // A pod that a finalizer holds keeps its disk, so that there is something left to detach.
        let mut objects = database("held", &node, &disk);
        if let Some(metadata) = objects.last_mut().and_then(|pod| pod.pointer_mut("/metadata")) {
            merge(metadata, json!({ "finalizers": ["millwright.dev/held"] }));
        }
        self.apply("held", objects)?;
        self.until("the pod is ready", || Ok(self.is_ready("held"))).await?;
        self.until("the disk is attached", || self.has_disk(&node)).await?;
        self.kubectl(&["label", "machine", &name, "force-deletion=True"])?;
        self.kubectl(&["delete", "machine", &name, "--wait=false"])?;
        self.until("the attachment is on its way", || Ok(!self.has_live_attachment(&node)?)).await?;
        self.kubectl(&["patch", "pod", "held", "--type=merge", "--patch", r#"{"metadata":{"finalizers":null}}"#])?;
        self.until("the late one is gone", || Ok(self.of("machines", "late")?.is_empty())).await
    }

    /// A machine is preserved; the autoscaler names one that does not exist; somebody deletes a Node.
    pub(super) async fn wish(&self) -> anyhow::Result<()> {
        let (machine, node) = (self.some("solo")?, self.node_of("solo")?);
        self.kubectl(&["annotate", "machine", &machine, "node.machine.sapcloud.io/preserve=now"])?;
        self.until("it is preserved", || {
            let status = self.get("machine", &machine)?;
            Ok(!text(&status, "/status/currentStatus/preserveExpiryTime").is_empty())
        })
        .await?;
        self.kubectl(&["annotate", "machine", &machine, "node.machine.sapcloud.io/preserve-"])?;
        let wish = "node.machine.sapcloud.io/trigger-deletion-by-mcm=nobody";
        self.kubectl(&["annotate", "machinedeployment", "fleet", wish])?;
        self.kubectl(&["delete", "node", &node, "--wait=false"])?;
        self.until("another one has taken its place", || {
            let running = self.running("solo", "small")?;
            Ok(running.len() == 1 && running.iter().all(|other| *other != machine))
        })
        .await
    }

    /// Everything goes.
    pub(super) async fn go(&self) -> anyhow::Result<()> {
        let none = r#"{"spec":{"replicas":0}}"#;
        for name in ["fleet", "solo"] {
            self.kubectl(&["patch", "machinedeployment", name, "--type=merge", "--patch", none])?;
        }
        self.until("no machine is left", || Ok(self.machines()?.is_empty())).await?;
        self.kubectl(&["delete", "machinedeployments,machinesets", "--all", "--wait=false"])?;
        self.until("no set is left", || Ok(self.list("machinesets")?.is_empty())).await?;
        self.until("no node is left", || Ok(self.list("nodes")?.is_empty())).await?;
        self.kubectl(&[
            "delete",
            "pods,persistentvolumeclaims",
            "--all",
            "--wait=false",
            "--grace-period=0",
            "--force",
        ])?;
        self.kubectl(&["delete", "machineclasses", "--all", "--wait=false"])?;
        self.until("no claim is left", || Ok(self.list("persistentvolumeclaims")?.is_empty())).await?;
        self.until("no class is left", || Ok(self.list("machineclasses")?.is_empty())).await
    }

    /// Waits until something holds.
    pub(super) async fn until(&self, what: &str, holds: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let begin = Instant::now();
        while !holds()? {
            if begin.elapsed() > PATIENCE {
                let said: Vec<String> = self
                    .machines()?
                    .iter()
                    .map(|m| format!("{}: {}", name(m), text(m, "/status/lastOperation/description")))
                    .collect();
                bail!("waited {} s in vain until {what}: {said:?}", PATIENCE.as_secs());
            }
            sleep(GLANCE).await;
        }
        Ok(())
    }

    fn named(&self, name: &str) -> String {
        format!("{name}-{}", self.namespace)
    }

    fn machines(&self) -> anyhow::Result<Vec<Value>> {
        self.list("machines")
    }

    /// Objects of the pool of this name.
    fn of(&self, plural: &str, pool: &str) -> anyhow::Result<Vec<Value>> {
        let all = self.list(plural)?;
        Ok(all.into_iter().filter(|object| text(object, "/metadata/labels/name") == pool).collect())
    }

    /// The names of the machines of a pool that run and stay, of this class.
    fn running(&self, pool: &str, class: &str) -> anyhow::Result<Vec<String>> {
        let runs = |m: &&Value| {
            text(m, "/status/currentStatus/phase") == "Running"
                && text(m, "/spec/class/name") == class
                && m.pointer("/metadata/deletionTimestamp").is_none()
        };
        Ok(self.of("machines", pool)?.iter().filter(runs).map(|m| name(m).to_owned()).collect())
    }

    fn some(&self, pool: &str) -> anyhow::Result<String> {
        self.of("machines", pool)?.first().map(|m| name(m).to_owned()).with_context(|| format!("{pool} has no machine"))
    }

    fn node_of(&self, pool: &str) -> anyhow::Result<String> {
        let machines = self.of("machines", pool)?;
        let node = machines.first().map(|m| text(m, "/metadata/labels/node").to_owned());
        node.filter(|node| !node.is_empty()).with_context(|| format!("no machine of {pool} has a node"))
    }

    fn is_ready(&self, pod: &str) -> bool {
        let Ok(pod) = self.get("pod", pod) else { return false };
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|c| text(c, "/type") == "Ready" && text(c, "/status") == "True")
    }

    fn has_disk(&self, node: &str) -> anyhow::Result<bool> {
        let node = self.get("node", node)?;
        Ok(node.pointer("/status/volumesAttached").and_then(Value::as_array).is_some_and(|all| !all.is_empty()))
    }

    fn has_live_attachment(&self, node: &str) -> anyhow::Result<bool> {
        let live = |a: &&Value| text(a, "/spec/nodeName") == node && a.pointer("/metadata/deletionTimestamp").is_none();
        Ok(self.list("volumeattachments")?.iter().any(|a| live(&a)))
    }

    fn apply(&self, file: &str, items: Vec<Value>) -> anyhow::Result<()> {
        let items: Vec<Value> = items.into_iter().map(|item| self.placed(item)).collect();
        self.desk.apply(&self.named(file), &json!({ "apiVersion": "v1", "kind": "List", "items": items }))
    }

    /// In this namespace; and a machine is called after it, because nodes are called after machines and all namespaces share them.
    fn placed(&self, mut object: Value) -> Value {
        let (kind, own) = (text(&object, "/kind").to_owned(), name(&object).to_owned());
        if let Some(metadata) = object.get_mut("metadata") {
            match kind.as_str() {
                "PersistentVolume" => {}
                "Machine" => merge(metadata, json!({ "namespace": self.namespace, "name": self.named(&own) })),
                _ => merge(metadata, json!({ "namespace": self.namespace })),
            }
        }
        if let Some(reference) = object.pointer_mut("/secretRef") {
            merge(reference, json!({ "namespace": self.namespace }));
        }
        object
    }

    fn list(&self, plural: &str) -> anyhow::Result<Vec<Value>> {
        let list: Value = serde_json::from_str(&self.kubectl(&["get", plural, "--output=json"])?)?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    fn get(&self, kind: &str, name: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.kubectl(&["get", kind, name, "--output=json"])?)?)
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let namespace = format!("--namespace={}", self.namespace);
        self.desk.kubectl(&[&[namespace.as_str()], arguments].concat())
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

fn is_owned(object: &Value) -> bool {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).is_some_and(|owners| !owners.is_empty())
}

fn merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}
