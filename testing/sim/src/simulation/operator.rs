//! Carries out the changes of users and of the autoscaler.

use api::names::{annotations, labels};
use api::{Machine, MachineDeployment};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams};
use runtime::client::Api;
use serde_json::{Value, json};

use super::environment::Environment;
use super::history::{Change, Pick, Preserve};
use super::objects::{CLASSES, NAMESPACE, node_template, pool_name};
use crate::oracle::{DEPLOYMENTS, MACHINES};

impl Environment {
    /// Sends the requests of a change. Errors are ignored: the object may be gone.
    pub(super) async fn apply(&self, change: Change) {
        match change {
            Change::Scale { pool, replicas } => {
                self.patch_pool(pool, json!({ "spec": { "replicas": replicas } })).await;
            }
            Change::ScaleBy { pool, by } => {
                let object = self.server.object(DEPLOYMENTS, NAMESPACE, &pool_name(pool));
                let replicas = object.as_ref().and_then(|object| object.pointer("/spec/replicas")?.as_i64());
                let replicas = (replicas.unwrap_or_default() + i64::from(by)).max(0);
                self.patch_pool(pool, json!({ "spec": { "replicas": replicas } })).await;
            }
            Change::Roll { pool } => self.set_class(pool, 1).await,
            Change::RollBack { pool } => self.set_class(pool, CLASSES.len() - 1).await,
            Change::Pause { pool } => self.patch_pool(pool, json!({ "spec": { "paused": true } })).await,
            Change::Resume { pool } => self.patch_pool(pool, json!({ "spec": { "paused": null } })).await,
            Change::Delete { pick } => self.delete_machine(pick).await,
            Change::ForceDelete { pick } => {
                let forced = json!({ "metadata": { "labels": { labels::FORCE_DELETION: "true" } } });
                if let Some(machine) = self.machine(pick) {
                    self.patch_machine(&machine, &forced).await;
                    self.delete_machine(pick).await;
                }
            }
            Change::Prioritize { pick, priority } => {
                let priority = priority.to_string();
                self.annotate_machine(pick, json!({ annotations::PRIORITY: priority })).await;
            }
            Change::Preserve { pick, value } => {
                let value = match value {
                    Preserve::Now => "now",
                    Preserve::WhenFailed => "when-failed",
                    Preserve::No => "false",
                };
                self.annotate_machine(pick, json!({ annotations::PRESERVE: value })).await;
            }
            Change::ScaleDownByName { pick } => self.scale_down_by_name(pick).await,
            Change::Cordon { pick } => self.patch_node(pick, json!({ "spec": { "unschedulable": true } })).await,
            Change::Uncordon { pick } => self.patch_node(pick, json!({ "spec": { "unschedulable": null } })).await,
            Change::Abandon { pick } => {
                let Some(machine) = self.machine(pick) else { return };
                self.delete_machine(pick).await;
                self.patch_machine(&machine, &json!({ "metadata": { "finalizers": null } })).await;
            }
            Change::EditTemplate { pool, version } => {
                let template = node_template(version);
                // Removes the fields of the earlier version first: a merge patch would keep them.
                let none = json!({ "spec": { "template": { "spec": { "nodeTemplate": null } } } });
                self.patch_pool(pool, none).await;
                let patch = json!({ "spec": { "template": { "spec": { "nodeTemplate": template } } } });
                self.patch_pool(pool, patch).await;
            }
            Change::DeleteNode { pick } => {
                if let Some(node) = self.pick("nodes", pick) {
                    let nodes: Api<Node> = Api::all(self.operator.clone());
                    drop(nodes.delete(&node, &DeleteParams::default()).await);
                }
            }
        }
    }

    /// Resumes all paused pools.
    pub(super) async fn resume_pools(&self, pools: usize) {
        for pool in 0..pools {
            self.patch_pool(pool, json!({ "spec": { "paused": null } })).await;
        }
    }

    /// Picks an object of a kind. The objects are sorted by name.
    fn pick(&self, kind: &str, pick: Pick) -> Option<String> {
        let objects = self.server.objects(kind);
        let chosen = objects.get(usize::from(pick).checked_rem(objects.len())?)?;
        chosen.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned)
    }

    pub(super) fn machine(&self, pick: Pick) -> Option<String> {
        self.pick(MACHINES, pick)
    }

    async fn patch_pool(&self, pool: usize, patch: Value) {
        let pools: Api<MachineDeployment> = Api::namespaced(self.operator.clone(), NAMESPACE);
        drop(pools.patch(&pool_name(pool), &PatchParams::default(), &Patch::Merge(patch)).await);
    }

    async fn patch_machine(&self, name: &str, patch: &Value) {
        let machines: Api<Machine> = Api::namespaced(self.operator.clone(), NAMESPACE);
        drop(machines.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await);
    }

    async fn annotate_machine(&self, pick: Pick, annotations: Value) {
        if let Some(machine) = self.machine(pick) {
            self.patch_machine(&machine, &json!({ "metadata": { "annotations": annotations } })).await;
        }
    }

    async fn delete_machine(&self, pick: Pick) {
        if let Some(machine) = self.machine(pick) {
            let machines: Api<Machine> = Api::namespaced(self.operator.clone(), NAMESPACE);
            drop(machines.delete(&machine, &DeleteParams::default()).await);
        }
    }

    async fn patch_node(&self, pick: Pick, patch: Value) {
        if let Some(node) = self.pick("nodes", pick) {
            let nodes: Api<Node> = Api::all(self.operator.clone());
            drop(nodes.patch(&node, &PatchParams::default(), &Patch::Merge(patch)).await);
        }
    }

    /// Sets the class of a pool to the one that follows at this offset in [`CLASSES`].
    async fn set_class(&self, pool: usize, offset: usize) {
        let Some(object) = self.server.object(DEPLOYMENTS, NAMESPACE, &pool_name(pool)) else { return };
        let class = object.pointer("/spec/template/spec/class/name").and_then(Value::as_str).unwrap_or_default();
        let index = CLASSES.iter().position(|name| *name == class).unwrap_or_default();
        if let Some(class) = CLASSES.get((index + offset) % CLASSES.len()) {
            let patch = json!({ "spec": { "template": { "spec": { "class": { "name": class } } } } });
            self.patch_pool(pool, patch).await;
        }
    }

    async fn scale_down_by_name(&self, pick: Pick) {
        let Some(name) = self.machine(pick) else { return };
        let Some(machine) = self.server.object(MACHINES, NAMESPACE, &name) else { return };
        let pool = machine.pointer("/metadata/labels/name").and_then(Value::as_str).unwrap_or_default();
        let Some(object) = self.server.object(DEPLOYMENTS, NAMESPACE, pool) else { return };
        let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
        if replicas == 0 || machine.pointer("/metadata/deletionTimestamp").is_some() {
            return;
        }
        let now = format!("{:.0}", self.clock.now());
        let patch = json!({
            "metadata": { "annotations": {
                annotations::TRIGGER_DELETION: format!("{name}~{now}"),
                annotations::LAST_REPLICA_CHANGE_BY_SCALER: now,
            } },
            "spec": { "replicas": replicas - 1 },
        });
        let pools: Api<MachineDeployment> = Api::namespaced(self.operator.clone(), NAMESPACE);
        drop(pools.patch(pool, &PatchParams::default(), &Patch::Merge(patch)).await);
    }
}
