//! Checks whether the cluster has converged to its spec.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::names::{annotations, labels, taints};
use serde_json::Value;

use super::environment::{Environment, orphan_limit};
use super::objects::{NAMESPACE, TEMPLATE_PREFIX, pool_name};
use super::versions::version_error;
use crate::oracle::{DEPLOYMENTS, Invariant, MACHINES, SETS};

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn has_annotation(object: &Value, key: &str) -> bool {
    object.pointer("/metadata/annotations").is_some_and(|all| all.get(key).is_some())
}

/// Why the cluster has not converged.
pub(super) struct NotConverged {
    /// The invariant that does not hold.
    pub(super) invariant: Invariant,
    /// Description.
    pub(super) message: String,
}

impl NotConverged {
    fn of(invariant: Invariant) -> impl FnOnce(String) -> Self {
        move |message| Self { invariant, message }
    }
}

impl Environment {
    /// Checks that the cluster has converged.
    pub(super) fn check_converged(&self, pools: usize) -> Result<(), NotConverged> {
        self.check_objects(pools).map_err(NotConverged::of(Invariant::Converges))?;
        let machines = self.server.objects(MACHINES);
        for machine in machines.iter().filter(|machine| text(machine, "/status/currentStatus/phase") == "Running") {
            // A Node has the name of its Machine here.
            let Some(node) = self.server.object("nodes", "", text(machine, "/metadata/name")) else { continue };
            self.check_leftovers(machine, &node).map_err(NotConverged::of(Invariant::Leftovers))?;
            self.check_node_template(machine, &node).map_err(NotConverged::of(Invariant::Template))?;
        }
        Ok(())
    }

    /// Checks that a Node has no cordon, taint or label of a drain, a rollout or an update.
    fn check_leftovers(&self, machine: &Value, node: &Value) -> Result<(), String> {
        let name = text(node, "/metadata/name");
        if self.observer.oracle.lock().is_cordoned_by_us(name) {
            return Err(format!("node {name} is cordoned by the controllers"));
        }
        let is_preserved = [machine, node].iter().any(|object| has_annotation(object, annotations::PRESERVE));
        let keys = taints(node).into_iter().map(|taint| text(taint, "/key"));
        let left = |key: &str| key == taints::PREFER_NO_SCHEDULE || (key == taints::PRESERVED && !is_preserved);
        if let Some(key) = keys.into_iter().find(|key| left(key)) {
            return Err(format!("node {name} has the taint {key}"));
        }
        let update = [labels::CANDIDATE_FOR_UPDATE, labels::SELECTED_FOR_UPDATE, labels::UPDATE_RESULT];
        let own = node.pointer("/metadata/labels");
        if let Some(key) = update.iter().find(|key| own.is_some_and(|all| all.get(**key).is_some())) {
            return Err(format!("node {name} has the label {key}"));
        }
        Ok(())
    }

    /// Checks that a Node has exactly the labels, annotations and taints of the node template of its pool.
    fn check_node_template(&self, machine: &Value, node: &Value) -> Result<(), String> {
        let Some(pool) = self.server.object(DEPLOYMENTS, NAMESPACE, text(machine, "/metadata/labels/name")) else {
            return Ok(());
        };
        let template = pool.pointer("/spec/template/spec/nodeTemplate").unwrap_or(&Value::Null);
        let name = text(node, "/metadata/name");
        for field in ["/metadata/labels", "/metadata/annotations"] {
            if entries(node, field) != entries(template, field) {
                return Err(format!("{field} of node {name} differ from its node template"));
            }
        }
        let of = |object| taints(object).into_iter().map(|taint| text(taint, "/key")).filter(|key| is_of_template(key));
        if !of(node).eq(of(template)) {
            return Err(format!("taints of node {name} differ from its node template"));
        }
        Ok(())
    }

    /// Checks that exactly the Machines, VMs and Nodes of the specs exist.
    fn check_objects(&self, pools: usize) -> Result<(), String> {
        let machines = self.server.objects(MACHINES);
        for machine in &machines {
            let (name, phase) = (text(machine, "/metadata/name"), text(machine, "/status/currentStatus/phase"));
            if machine.pointer("/metadata/deletionTimestamp").is_some() {
                let description = text(machine, "/status/lastOperation/description");
                return Err(format!("machine {name} is being deleted: {description}"));
            }
            if phase != "Running" && !is_preserved(machine) {
                return Err(format!(
                    "machine {name} is {phase}: {}",
                    text(machine, "/status/lastOperation/description")
                ));
            }
        }
        for pool in 0..pools {
            self.check_pool(pool, &machines)?;
        }
        let name = |object: &Arc<Value>| text(object, "/metadata/name").to_owned();
        let nodes = self.server.objects("nodes");
        // A Node without a Machine is released and marked after some time in which it could be linked to a Machine.
        let has_machine = |node: &&Arc<Value>| machines.iter().any(|machine| name(machine) == name(node));
        let is_marked = |node: &&Arc<Value>| has_annotation(node, annotations::NOT_MANAGED);
        if let Some(node) = nodes.iter().find(|node| !has_machine(node) && !is_marked(node)) {
            return Err(format!("node {} has no machine and is not marked", name(node)));
        }
        let is_selected = |node: &&Arc<Value>| {
            node.pointer("/metadata/labels").is_some_and(|all| all.get(labels::SELECTED_FOR_UPDATE).is_some())
        };
        if let Some(node) = nodes.iter().find(is_selected) {
            return Err(format!("node {} is being updated in place", name(node)));
        }
        // A rollout waits for a create whose response was lost, as long as its Machine may still be created, and keeps
        // the autoscaler from its Nodes until then. Preserved Machines keep the autoscaler from their Nodes, and a
        // failed one from all Nodes of its pool.
        let is_preserving = machines.iter().chain(&nodes).any(|object| has_annotation(object, annotations::PRESERVE));
        let has_scale_down_disabled =
            |node: &&Arc<Value>| has_annotation(node, annotations::SCALE_DOWN_DISABLED_BY_MCM) && has_machine(node);
        if let Some(node) = nodes.iter().find(has_scale_down_disabled).filter(|_| !is_preserving) {
            return Err(format!("node {} has scale-down disabled for a rollout", name(node)));
        }
        let nodes: BTreeSet<String> = nodes.iter().map(name).collect();
        // A preserved failed Machine may lack its VM and its Node.
        let (preserved, machines): (Vec<_>, Vec<_>) = machines.iter().partition(|machine| is_preserved(machine));
        let (preserved, machines): (BTreeSet<String>, BTreeSet<String>) =
            (preserved.into_iter().map(name).collect(), machines.into_iter().map(name).collect());
        let vms = self.cloud.vms();
        let mut vms: Vec<&str> = vms.iter().map(|vm| vm.machine.as_ref().map_or("", |name| name.as_str())).collect();
        let oracle = self.observer.oracle.lock();
        // A process that started after a restore of the API server cannot know that a VM is no orphan, and deletes it.
        let may_delete_orphans = self.clock.now().duration_since(self.last_start) < orphan_limit();
        if let Some(vm) = vms.iter().find(|vm| may_delete_orphans && oracle.is_forgotten(vm)) {
            return Err(format!("the VM of {vm}, which the restored copy lacks, may still be deleted as an orphan"));
        }
        vms.retain(|vm| !preserved.contains(*vm) && !oracle.is_forgotten(vm));
        drop(oracle);
        if vms.len() != machines.len() || vms.iter().any(|vm| !machines.contains(*vm)) {
            return Err(format!("VMs exist for {vms:?}, machines are {machines:?}"));
        }
        // Nodes without a VM and a Machine are deleted by the cloud controller manager, which is not simulated.
        let left =
            |node: &&String| !preserved.contains(*node) && (machines.contains(*node) || vms.contains(&node.as_str()));
        let nodes: BTreeSet<String> = nodes.iter().filter(left).cloned().collect();
        if nodes != machines {
            return Err(format!("nodes are {nodes:?}, machines are {machines:?}"));
        }
        Ok(())
    }

    /// Returns the class of a Machine. A Machine that was updated in place keeps the name of its old class, as in MCM;
    /// its MachineSet has the current one.
    fn class(&self, pool: &Value, machine: &Value) -> String {
        if text(pool, "/spec/strategy/type") != "InPlaceUpdate" {
            return text(machine, "/spec/class/name").to_owned();
        }
        let set = self.server.object(SETS, NAMESPACE, text(machine, "/metadata/ownerReferences/0/name"));
        set.map(|set| text(&set, "/spec/template/spec/class/name").to_owned()).unwrap_or_default()
    }

    fn check_pool(&self, pool: usize, machines: &[Arc<Value>]) -> Result<(), String> {
        let name = pool_name(pool);
        let object = self.server.object(DEPLOYMENTS, NAMESPACE, &name).ok_or_else(|| format!("{name} is gone"))?;
        let class = text(&object, "/spec/template/spec/class/name");
        let wanted = object.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or_default();
        let of_pool: Vec<_> =
            machines.iter().filter(|machine| text(machine, "/metadata/labels/name") == name).collect();
        if let Some(machine) = of_pool.iter().find(|machine| self.class(&object, machine) != class) {
            return Err(format!("machine {} is not of {class}", text(machine, "/metadata/name")));
        }
        if of_pool.len() as u64 != wanted {
            return Err(format!("{name} has {} machines of {wanted}", of_pool.len()));
        }
        for set in self.server.objects(SETS).iter().filter(|set| text(set, "/metadata/labels/name") == name) {
            let is_new = text(set, "/spec/template/spec/class/name") == class;
            let replicas = set.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or_default();
            if let Some(wrong) = version_error(set) {
                return Err(format!("set {}: {wrong}", text(set, "/metadata/name")));
            }
            if is_frozen(set) {
                return Err(format!("set {} is frozen", text(set, "/metadata/name")));
            }
            if replicas != if is_new { wanted } else { 0 } {
                return Err(format!("set {} has {replicas} replicas in its spec", text(set, "/metadata/name")));
            }
        }
        if let Some(wrong) = version_error(&object) {
            return Err(format!("{name}: {wrong}"));
        }
        if is_frozen(&object) {
            return Err(format!("{name} is frozen without too many machines"));
        }
        let seen = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
        if seen != object.pointer("/metadata/generation").and_then(Value::as_i64) {
            return Err(format!("the last generation of {name} was not observed"));
        }
        let counted = object.pointer("/status/replicas").and_then(Value::as_u64).unwrap_or_default();
        if counted != wanted {
            return Err(format!("the status of {name} has {counted} replicas of {wanted}"));
        }
        Ok(())
    }
}

fn taints(object: &Value) -> Vec<&Value> {
    object.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten().collect()
}

fn is_of_template(key: &str) -> bool {
    key.starts_with(TEMPLATE_PREFIX)
}

/// Returns the entries of a map that come from node templates.
fn entries<'a>(object: &'a Value, pointer: &str) -> BTreeMap<&'a str, &'a Value> {
    let map = object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    map.map(|(key, value)| (key.as_str(), value)).filter(|(key, _)| is_of_template(key)).collect()
}

/// Whether a pool or a MachineSet is frozen because it had too many Machines.
fn is_frozen(object: &Value) -> bool {
    let mut conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let description = conditions.any(|condition| condition.get("type") == Some(&Value::from("Frozen")));
    description || object.pointer("/metadata/labels").is_some_and(|all| all.get(labels::FREEZE).is_some())
}

/// Whether a failed Machine is preserved.
fn is_preserved(machine: &Value) -> bool {
    let value = machine.pointer("/metadata/annotations").and_then(|all| all.get(annotations::PRESERVE));
    let value = value.and_then(Value::as_str).unwrap_or_default();
    text(machine, "/status/currentStatus/phase") == "Failed" && ["now", "when-failed"].contains(&value)
}
