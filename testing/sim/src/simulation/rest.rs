//! Whether everything is as it was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::names::{annotations, labels, taints};
use serde_json::Value;

use super::environment::{Environment, unowned_limit};
use super::objects::{NAMESPACE, TEMPLATE_PREFIX, pool_name};
use super::versions::misread;
use crate::oracle::{DEPLOYMENTS, Invariant, MACHINES, SETS};

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn has_annotation(object: &Value, key: &str) -> bool {
    object.pointer("/metadata/annotations").is_some_and(|all| all.get(key).is_some())
}

/// Why there is no rest.
pub(super) struct Unrest {
    /// What does not hold.
    pub(super) invariant: Invariant,
    /// What is missing.
    pub(super) what: String,
}

impl Unrest {
    fn of(invariant: Invariant) -> impl FnOnce(String) -> Self {
        move |what| Self { invariant, what }
    }
}

impl Environment {
    /// What is still missing.
    pub(super) fn unrest(&self, pools: usize) -> Result<(), Unrest> {
        self.is_as_asked_for(pools).map_err(Unrest::of(Invariant::Converges))?;
        let machines = self.server.objects(MACHINES);
        for machine in machines.iter().filter(|machine| text(machine, "/status/currentStatus/phase") == "Running") {
            // A Node is called like its Machine here.
            let Some(node) = self.server.object("nodes", "", text(machine, "/metadata/name")) else { continue };
            self.is_handed_back(machine, &node).map_err(Unrest::of(Invariant::Leftovers))?;
            self.has_template(machine, &node).map_err(Unrest::of(Invariant::Template))?;
        }
        Ok(())
    }

    /// Whether a Node has nothing more of a drain, a rollout or an update.
    fn is_handed_back(&self, machine: &Value, node: &Value) -> Result<(), String> {
        let name = text(node, "/metadata/name");
        if self.judged.oracle.lock().is_cordoned_by_us(name) {
            return Err(format!("node {name} is cordoned, and not by people"));
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

    /// Whether a Node has what the template of its pool says, and nothing of another version.
    fn has_template(&self, machine: &Value, node: &Value) -> Result<(), String> {
        let Some(pool) = self.server.object(DEPLOYMENTS, NAMESPACE, text(machine, "/metadata/labels/name")) else {
            return Ok(());
        };
        let template = pool.pointer("/spec/template/spec/nodeTemplate").unwrap_or(&Value::Null);
        let name = text(node, "/metadata/name");
        for field in ["/metadata/labels", "/metadata/annotations"] {
            if entries(node, field) != entries(template, field) {
                return Err(format!("node {name} has other {field} than its node template"));
            }
        }
        let of = |object| taints(object).into_iter().map(|taint| text(taint, "/key")).filter(|key| is_of_template(key));
        if !of(node).eq(of(template)) {
            return Err(format!("node {name} has other taints than its node template"));
        }
        Ok(())
    }

    /// Whether there are the machines, VMs and Nodes that were asked for.
    fn is_as_asked_for(&self, pools: usize) -> Result<(), String> {
        let machines = self.server.objects(MACHINES);
        for machine in &machines {
            let (name, phase) = (text(machine, "/metadata/name"), text(machine, "/status/currentStatus/phase"));
            if machine.pointer("/metadata/deletionTimestamp").is_some() {
                let says = text(machine, "/status/lastOperation/description");
                return Err(format!("machine {name} is being deleted: {says}"));
            }
            if phase != "Running" && !is_kept(machine) {
                return Err(format!(
                    "machine {name} is {phase}: {}",
                    text(machine, "/status/lastOperation/description")
                ));
            }
        }
        for pool in 0..pools {
            self.pool_unrest(pool, &machines)?;
        }
        let name = |object: &Arc<Value>| text(object, "/metadata/name").to_owned();
        let nodes = self.server.objects("nodes");
        // A Node that has lost its Machine is let go of, and marked, when it has had the time to be linked to one.
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
        // A roll-out waits for a create whose answer was lost as long as its machine may still come, and its Nodes are kept until then.
        // Where machines are to be preserved Nodes are kept for good: theirs, and all of a pool in which one has failed.
        let preserves = machines.iter().chain(&nodes).any(|object| has_annotation(object, annotations::PRESERVE));
        let is_kept_from_autoscaler =
            |node: &&Arc<Value>| has_annotation(node, annotations::SCALE_DOWN_DISABLED_BY_US) && has_machine(node);
        if let Some(node) = nodes.iter().find(is_kept_from_autoscaler).filter(|_| !preserves) {
            return Err(format!("node {} is kept from the autoscaler until a roll-out is over", name(node)));
        }
        let nodes: BTreeSet<String> = nodes.iter().map(name).collect();
        // What is left of a machine that somebody keeps is his affair.
        let (kept, machines): (Vec<_>, Vec<_>) = machines.iter().partition(|machine| is_kept(machine));
        let (kept, machines): (BTreeSet<String>, BTreeSet<String>) =
            (kept.into_iter().map(name).collect(), machines.into_iter().map(name).collect());
        let vms = self.cloud.vms();
        let mut vms: Vec<&str> = vms.iter().map(|vm| vm.machine.as_ref().map_or("", |name| name.as_str())).collect();
        let oracle = self.judged.oracle.lock();
        // Whoever began after the API server had been put back cannot know that a VM is not an orphan, and collects it.
        let may_collect = self.clock.now().duration_since(self.last_start) < unowned_limit();
        if let Some(vm) = vms.iter().find(|vm| may_collect && oracle.is_forgotten(vm)) {
            return Err(format!("the VM of {vm}, which was forgotten, may still be collected"));
        }
        vms.retain(|vm| !kept.contains(*vm) && !oracle.is_forgotten(vm));
        drop(oracle);
        if vms.len() != machines.len() || vms.iter().any(|vm| !machines.contains(*vm)) {
            return Err(format!("there are VMs of {vms:?} and machines {machines:?}"));
        }
        // A Node without a VM and without a Machine is nobody's but the cloud controller manager's, which is not simulated.
        let left = |node: &&String| !kept.contains(*node) && (machines.contains(*node) || vms.contains(&node.as_str()));
        let nodes: BTreeSet<String> = nodes.iter().filter(left).cloned().collect();
        if nodes != machines {
            return Err(format!("there are nodes {nodes:?} and machines {machines:?}"));
        }
        Ok(())
    }

    /// The class that a machine is of. One that was updated in place keeps the name of its own, as with MCM; what it is of now is said by
    /// the set that it has moved to.
    fn class(&self, pool: &Value, machine: &Value) -> String {
        if text(pool, "/spec/strategy/type") != "InPlaceUpdate" {
            return text(machine, "/spec/class/name").to_owned();
        }
        let set = self.server.object(SETS, NAMESPACE, text(machine, "/metadata/ownerReferences/0/name"));
        set.map(|set| text(&set, "/spec/template/spec/class/name").to_owned()).unwrap_or_default()
    }

    fn pool_unrest(&self, pool: usize, machines: &[Arc<Value>]) -> Result<(), String> {
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
            if let Some(wrong) = misread(set) {
                return Err(format!("set {}: {wrong}", text(set, "/metadata/name")));
            }
            if is_frozen(set) {
                return Err(format!("set {} is frozen", text(set, "/metadata/name")));
            }
            if replicas != if is_new { wanted } else { 0 } {
                return Err(format!("set {} wants {replicas} machines", text(set, "/metadata/name")));
            }
        }
        if let Some(wrong) = misread(&object) {
            return Err(format!("{name}: {wrong}"));
        }
        if is_frozen(&object) {
            return Err(format!("{name} is frozen, and has no more machines than it may have"));
        }
        let seen = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
        if seen != object.pointer("/metadata/generation").and_then(Value::as_i64) {
            return Err(format!("{name} has not been looked at since it was changed"));
        }
        let counted = object.pointer("/status/replicas").and_then(Value::as_u64).unwrap_or_default();
        if counted != wanted {
            return Err(format!("the status of {name} says {counted} of {wanted}"));
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

/// The entries of a map that come from node templates.
fn entries<'a>(object: &'a Value, pointer: &str) -> BTreeMap<&'a str, &'a Value> {
    let map = object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    map.map(|(key, value)| (key.as_str(), value)).filter(|(key, _)| is_of_template(key)).collect()
}

/// Whether a pool or a set has been stopped because it had too many machines.
fn is_frozen(object: &Value) -> bool {
    let mut conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let says = conditions.any(|condition| condition.get("type") == Some(&Value::from("Frozen")));
    says || object.pointer("/metadata/labels").is_some_and(|all| all.get(labels::FREEZE).is_some())
}

/// Whether a machine that failed is there because somebody wants to look at it.
fn is_kept(machine: &Value) -> bool {
    let wish = machine.pointer("/metadata/annotations").and_then(|all| all.get(annotations::PRESERVE));
    let wish = wish.and_then(Value::as_str).unwrap_or_default();
    text(machine, "/status/currentStatus/phase") == "Failed" && ["now", "when-failed"].contains(&wish)
}
