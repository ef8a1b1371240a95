//! Access of the administrator to the namespace of one trial.
//!
//! Many flows poll several times per second, so requests use HTTP through one proxy instead of a kubectl process each.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::web::{Answer, Proxy};

/// Timeout of every wait; long enough for a busy host.
const TIMEOUT: Duration = Duration::from_mins(3);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A namespace with Machines, and the cluster that their Nodes join.
pub(super) struct TrialCluster<'a> {
    pub(super) proxy: &'a Proxy,
    pub(super) namespace: &'static str,
    /// Suffix of the names of cluster-scoped objects.
    pub(super) trial: &'static str,
}

impl TrialCluster<'_> {
    /// Waits until a condition holds.
    pub(super) async fn until(&self, what: &str, holds: impl AsyncFn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let begin = Instant::now();
        while !holds().await? {
            if begin.elapsed() > TIMEOUT {
                let said: Vec<String> = self
                    .list("machines")
                    .await?
                    .iter()
                    .map(|m| format!("{}: {}", name(m), text(m, "/status/lastOperation/description")))
                    .collect();
                bail!("timed out after {} s waiting until {what}: {said:?}", TIMEOUT.as_secs());
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Returns the name of a Machine that the scenario creates. All namespaces share the Nodes, which have the names of
    /// the Machines.
    pub(super) fn named(&self, name: &str) -> String {
        format!("{name}-{}", self.trial)
    }

    /// Returns the objects of this pool.
    pub(super) async fn of(&self, plural: &str, pool: &str) -> anyhow::Result<Vec<Value>> {
        let all = self.list(plural).await?;
        Ok(all.into_iter().filter(|object| text(object, "/metadata/labels/name") == pool).collect())
    }

    /// Returns the names of the running Machines of a pool that are of this class and not being deleted.
    pub(super) async fn running(&self, pool: &str, class: &str) -> anyhow::Result<Vec<String>> {
        let runs = |m: &&Value| {
            text(m, "/status/currentStatus/phase") == "Running"
                && text(m, "/spec/class/name") == class
                && m.pointer("/metadata/deletionTimestamp").is_none()
        };
        Ok(self.of("machines", pool).await?.iter().filter(runs).map(|m| name(m).to_owned()).collect())
    }

    /// Waits until a pool has this number of Machines of this class, all running, and no others.
    pub(super) async fn until_settled(&self, pool: &str, class: &str, number: usize) -> anyhow::Result<()> {
        self.until(&format!("pool {pool} has settled"), async || {
            Ok(self.running(pool, class).await?.len() == number && self.of("machines", pool).await?.len() == number)
        })
        .await
    }

    /// Returns a Machine of a pool.
    pub(super) async fn some(&self, pool: &str) -> anyhow::Result<Value> {
        self.of("machines", pool).await?.into_iter().next().with_context(|| format!("{pool} has no machine"))
    }

    /// Returns the Node of a Machine of a pool.
    pub(super) async fn node_of(&self, pool: &str) -> anyhow::Result<String> {
        let node = text(&self.some(pool).await?, "/metadata/labels/node").to_owned();
        ensure!(!node.is_empty(), "no Machine of {pool} has a Node");
        Ok(node)
    }

    /// Returns whether an Event with this reason exists.
    pub(super) async fn has_event(&self, reason: &str) -> anyhow::Result<bool> {
        Ok(self.list("events").await?.iter().any(|event| text(event, "/reason") == reason))
    }

    /// Creates objects.
    pub(super) async fn make(&self, objects: Vec<Value>) -> anyhow::Result<()> {
        for object in objects {
            let object = self.placed(object);
            let plural = format!("{}s", text(&object, "/kind").to_lowercase()).replace("sss", "sses");
            well(&self.proxy.send("POST", &self.path(&plural), &object).await?, "create", &object)?;
        }
        Ok(())
    }

    /// Patches an object.
    pub(super) async fn patch(&self, plural: &str, name: &str, change: &Value) -> anyhow::Result<()> {
        let path = format!("{}/{name}", self.path(plural));
        well(&self.proxy.send("PATCH", &path, change).await?, "patch", change)
    }

    /// Sets a condition of a Node.
    pub(super) async fn set_node_condition(&self, node: &str, condition: &Value) -> anyhow::Result<()> {
        let change = json!({ "status": { "conditions": [condition] } });
        let path = format!("{}/{node}/status", self.path("nodes"));
        well(&self.proxy.merge_by_keys(&path, &change).await?, "patch", &change)
    }

    /// Deletes an object, if it exists.
    pub(super) async fn delete(&self, plural: &str, name: &str) -> anyhow::Result<()> {
        let path = format!("{}/{name}", self.path(plural));
        let grace = if plural == "pods" { json!({ "gracePeriodSeconds": 0 }) } else { json!({}) };
        let answer = self.proxy.send("DELETE", &path, &grace).await?;
        if answer.status == 404 { Ok(()) } else { well(&answer, "delete", &json!(path)) }
    }

    /// Deletes all objects of a kind.
    pub(super) async fn delete_all(&self, plural: &str) -> anyhow::Result<()> {
        for object in self.list(plural).await? {
            self.delete(plural, name(&object)).await?;
        }
        Ok(())
    }

    pub(super) async fn list(&self, plural: &str) -> anyhow::Result<Vec<Value>> {
        let answer = self.proxy.get(&self.path(plural)).await?;
        ensure!(answer.is_well(), "failed to list {plural}: {}", answer.message());
        let list: Value = serde_json::from_str(&answer.body)?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Returns an object, if it exists.
    pub(super) async fn get(&self, plural: &str, name: &str) -> anyhow::Result<Option<Value>> {
        let answer = self.proxy.get(&format!("{}/{name}", self.path(plural))).await?;
        if answer.status == 404 {
            return Ok(None);
        }
        ensure!(answer.is_well(), "failed to get {plural} {name}: {}", answer.message());
        Ok(Some(serde_json::from_str(&answer.body)?))
    }

    fn path(&self, plural: &str) -> String {
        let group = match plural {
            "machines" | "machinesets" | "machinedeployments" | "machineclasses" => "apis/machine.sapcloud.io/v1alpha1",
            "poddisruptionbudgets" => "apis/policy/v1",
            "volumeattachments" => "apis/storage.k8s.io/v1",
            _ => "api/v1",
        };
        match plural {
            "nodes" | "persistentvolumes" | "volumeattachments" => format!("/{group}/{plural}"),
            _ => format!("/{group}/namespaces/{}/{plural}", self.namespace),
        }
    }

    /// Adds the namespace, if the object is namespaced.
    fn placed(&self, mut object: Value) -> Value {
        let has_place = text(&object, "/kind") != "PersistentVolume";
        if let Some(metadata) = object.get_mut("metadata").filter(|_| has_place) {
            merge(metadata, json!({ "namespace": self.namespace }));
        }
        if let Some(reference) = object.pointer_mut("/secretRef") {
            merge(reference, json!({ "namespace": self.namespace }));
        }
        object
    }
}

fn well(answer: &Answer, verb: &str, what: &Value) -> anyhow::Result<()> {
    ensure!(answer.is_well(), "failed to {verb} {what}: {}", answer.message());
    Ok(())
}

/// Returns the string at this path, or an empty one.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(super) fn is_owned(object: &Value) -> bool {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).is_some_and(|owners| !owners.is_empty())
}

/// Returns the reason of the condition of this type.
pub(super) fn reason<'a>(object: &'a Value, kind: &str) -> &'a str {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let condition = conditions.into_iter().flatten().find(|condition| text(condition, "/type") == kind);
    condition.map(|condition| text(condition, "/reason")).unwrap_or_default()
}

pub(super) fn merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}
