//! What people and the autoscaler do, carried out.

use api::names::{annotations, labels};
use api::{Machine, MachineDeployment};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams};
use runtime::client::Api;
use serde_json::{Value, json};

use super::environment::Environment;
use super::history::{Act, Pick, Preserve};
use super::objects::{CLASSES, NAMESPACE, node_template, pool_name};
use crate::oracle::{DEPLOYMENTS, MACHINES};

impl Environment {
    /// Does it. What is refused is not done: a machine may be gone before it is annotated.
    pub(super) async fn act(&self, act: Act) {
        match act {
            Act::Scale { pool, replicas } => self.patch_pool(pool, json!({ "spec": { "replicas": replicas } })).await,
            Act::ScaleBy { pool, by } => {
                let object = self.server.object(DEPLOYMENTS, NAMESPACE, &pool_name(pool));
                let replicas = object.as_ref().and_then(|object| object.pointer("/spec/replicas")?.as_i64());
                let replicas = (replicas.unwrap_or_default() + i64::from(by)).max(0);
                self.patch_pool(pool, json!({ "spec": { "replicas": replicas } })).await;
            }
            Act::Roll { pool } => self.give_class(pool, 1).await,
            Act::RollBack { pool } => self.give_class(pool, CLASSES.len() - 1).await,
            Act::Pause { pool } => self.patch_pool(pool, json!({ "spec": { "paused": true } })).await,
            Act::Resume { pool } => self.patch_pool(pool, json!({ "spec": { "paused": null } })).await,
            Act::Delete { pick } => self.delete_machine(pick).await,
            Act::ForceDelete { pick } => {
                let forced = json!({ "metadata": { "labels": { labels::FORCE_DELETION: "true" } } });
                if let Some(machine) = self.machine(pick) {
                    self.patch_machine(&machine, &forced).await;
                    self.delete_machine(pick).await;
                }
            }
            Act::Prioritize { pick, priority } => {
                let priority = priority.to_string();
                self.annotate_machine(pick, json!({ annotations::PRIORITY: priority })).await;
            }
            Act::Preserve { pick, value } => {
                let value = match value {
                    Preserve::Now => "now",
                    Preserve::WhenFailed => "when-failed",
                    Preserve::No => "false",
                };
                self.annotate_machine(pick, json!({ annotations::PRESERVE: value })).await;
            }
            Act::ScaleDownByName { pick } => self.scale_down_by_name(pick).await,
            Act::Cordon { pick } => self.patch_node(pick, json!({ "spec": { "unschedulable": true } })).await,
            Act::Uncordon { pick } => self.patch_node(pick, json!({ "spec": { "unschedulable": null } })).await,
            Act::Abandon { pick } => {
                let Some(machine) = self.machine(pick) else { return };
                self.delete_machine(pick).await;
                self.patch_machine(&machine, &json!({ "metadata": { "finalizers": null } })).await;
            }
            Act::EditTemplate { pool, version } => {
                let template = node_template(version);
                // Without what an earlier version has: a merge would keep it.
                let none = json!({ "spec": { "template": { "spec": { "nodeTemplate": null } } } });
                self.patch_pool(pool, none).await;
                let change = json!({ "spec": { "template": { "spec": { "nodeTemplate": template } } } });
                self.patch_pool(pool, change).await;
            }
            Act::DeleteNode { pick } => {
                if let Some(node) = self.pick("nodes", pick) {
                    let nodes: Api<Node> = Api::all(self.operator.clone());
                    drop(nodes.delete(&node, &DeleteParams::default()).await);
                }
            }
        }
    }

    /// Ends everything that somebody would end some time: pools that are paused, nodes that are cordoned.
    pub(super) async fn tidy_up(&self, pools: usize) {
        for pool in 0..pools {
            self.patch_pool(pool, json!({ "spec": { "paused": null } })).await;
        }
    }

    /// One of the objects of a kind, in the order of their names.
    fn pick(&self, kind: &str, pick: Pick) -> Option<String> {
        let objects = self.server.objects(kind);
        let chosen = objects.get(usize::from(pick).checked_rem(objects.len())?)?;
        chosen.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned)
    }

    pub(super) fn machine(&self, pick: Pick) -> Option<String> {
        self.pick(MACHINES, pick)
    }

    async fn patch_pool(&self, pool: usize, change: Value) {
        let pools: Api<MachineDeployment> = Api::namespaced(self.operator.clone(), NAMESPACE);
        drop(pools.patch(&pool_name(pool), &PatchParams::default(), &Patch::Merge(change)).await);
    }

    async fn patch_machine(&self, name: &str, change: &Value) {
        let machines: Api<Machine> = Api::namespaced(self.operator.clone(), NAMESPACE);
        drop(machines.patch(name, &PatchParams::default(), &Patch::Merge(change)).await);
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

    async fn patch_node(&self, pick: Pick, change: Value) {
        if let Some(node) = self.pick("nodes", pick) {
            let nodes: Api<Node> = Api::all(self.operator.clone());
            drop(nodes.patch(&node, &PatchParams::default(), &Patch::Merge(change)).await);
        }
    }

    /// Gives a pool the class so many places after its own.
    async fn give_class(&self, pool: usize, places: usize) {
        let Some(object) = self.server.object(DEPLOYMENTS, NAMESPACE, &pool_name(pool)) else { return };
        let class = object.pointer("/spec/template/spec/class/name").and_then(Value::as_str).unwrap_or_default();
        let place = CLASSES.iter().position(|name| *name == class).unwrap_or_default();
        if let Some(class) = CLASSES.get((place + places) % CLASSES.len()) {
            let change = json!({ "spec": { "template": { "spec": { "class": { "name": class } } } } });
            self.patch_pool(pool, change).await;
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
        let change = json!({
            "metadata": { "annotations": {
                annotations::TRIGGER_DELETION: format!("{name}~{now}"),
                annotations::LAST_REPLICA_CHANGE_BY_SCALER: now,
            } },
            "spec": { "replicas": replicas - 1 },
        });
        let pools: Api<MachineDeployment> = Api::namespaced(self.operator.clone(), NAMESPACE);
        drop(pools.patch(pool, &PatchParams::default(), &Patch::Merge(change)).await);
    }
}
