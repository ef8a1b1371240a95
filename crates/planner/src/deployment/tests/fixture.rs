//! The environment of a MachineDeployment: an API server that merges patches, a MachineSet controller, Machines that
//! become Running, Nodes that are updated, and a clock. It contains no logic of MachineDeployments.

use std::collections::{BTreeMap, BTreeSet};

use api::view::NodeView;
use api::{Machine, MachineDeployment, MachinePhase, MachineSet, Object, names};
use jiff::{SignedDuration, Timestamp};
use json_patch::merge;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::*;

pub(super) const BEGIN: &str = "2026-01-01T00:00:00Z";

#[derive(Clone)]
pub(super) struct DeploymentFixture {
    pub(super) deployment: MachineDeployment,
    pub(super) sets: BTreeMap<String, MachineSet>,
    pub(super) machines: BTreeMap<String, Machine>,
    pub(super) nodes: BTreeMap<String, NodeView>,
    pub(super) policy: Policy,
    pub(super) has_target_cluster: bool,
    pub(super) now: Timestamp,
    pub(super) events: Vec<String>,
    pub(super) diary: Vec<String>,
    /// Classes whose Machines never become Running.
    pub(super) broken: BTreeSet<String>,
    /// When the status was written last.
    pub(super) reported: Option<Timestamp>,
    /// Number of Machines by class that are not in the cache.
    pub(super) unseen: BTreeMap<String, usize>,
    created: usize,
    version: u64,
}

pub(super) fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(super) fn rolling(surge: impl Into<Value>, unavailable: impl Into<Value>) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge.into(), "maxUnavailable": unavailable.into() } })
}

pub(super) fn in_place(orchestration: &str, surge: i32, unavailable: i32) -> Value {
    let block = json!({ "maxSurge": surge, "maxUnavailable": unavailable, "orchestrationType": orchestration });
    json!({ "type": "InPlaceUpdate", "inPlaceUpdate": block })
}

impl DeploymentFixture {
    pub(super) fn new(replicas: i32, strategy: &Value) -> Self {
        let deployment = json!({
            "metadata": { "name": "md", "namespace": "ns", "uid": "u-md", "resourceVersion": "1", "generation": 1, "creationTimestamp": BEGIN },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": { "name": "md" } },
                "strategy": strategy,
                "template": {
                    "metadata": { "labels": { "name": "md" } },
                    "spec": { "class": { "kind": "MachineClass", "name": "small" } },
                },
            },
        });
        Self {
            deployment: read(deployment),
            sets: BTreeMap::new(),
            machines: BTreeMap::new(),
            nodes: BTreeMap::new(),
            policy: Policy::default(),
            has_target_cluster: true,
            now: BEGIN.parse().unwrap(),
            events: Vec::new(),
            diary: Vec::new(),
            broken: BTreeSet::new(),
            created: 0,
            version: 1,
            reported: None,
            unseen: BTreeMap::new(),
        }
    }

    /// All Machines are Running and nothing is left to do.
    pub(super) fn settled(replicas: i32, strategy: &Value) -> Self {
        let mut fixture = Self::new(replicas, strategy);
        fixture.settle();
        fixture.events.clear();
        fixture.diary.clear();
        fixture
    }

    pub(super) fn observe<R>(&self, input: impl FnOnce(&Observed<'_>) -> R) -> R {
        let sets: Vec<SeenSet<'_>> = self
            .sets
            .values()
            .map(|set| SeenSet { set, machines: self.machines_of(set).collect(), unseen: self.unseen_of(set) })
            .collect();
        let names_in_use = self.sets.keys().cloned().collect();
        let named = machines_named(&self.deployment)
            .into_iter()
            .map(|name| {
                let found = self.machines.get(&name).map_or(Named::NotFound, Named::Found);
                (name, found)
            })
            .collect();
        input(&Observed {
            deployment: &self.deployment,
            sets: &sets,
            names_in_use: &names_in_use,
            undecodable_sets: &[],
            named: &named,
            has_target_cluster: self.has_target_cluster,
            policy: &self.policy,
            reported: self.reported,
            now: self.now,
        })
    }

    pub(super) fn machines_of<'a>(&'a self, set: &MachineSet) -> impl Iterator<Item = SeenMachine<'a>> {
        let uid = set.uid();
        self.machines
            .values()
            .filter(move |machine| machine.controller_owner().is_some_and(|owner| owner.uid == uid.as_str()))
            .map(|machine| SeenMachine {
                machine,
                node: machine.node_name().and_then(|name| self.nodes.get(name.as_str())),
            })
    }

    fn unseen_of(&self, set: &MachineSet) -> usize {
        self.unseen.get(&set.spec.template.spec.class.name).copied().unwrap_or_default()
    }

    pub(super) fn plan(&self) -> Plan {
        self.observe(plan)
    }

    /// Plans and executes all steps.
    pub(super) fn reconcile(&mut self) -> Plan {
        let plan = self.plan();
        self.apply(&plan.steps);
        plan
    }

    pub(super) fn apply(&mut self, steps: &[Step]) {
        for step in steps {
            self.diary.push(step.to_string());
            self.carry_out(step);
        }
    }

    fn carry_out(&mut self, step: &Step) {
        match step {
            Step::LookUpMachines(_) => {}
            Step::Deployment(edit) => {
                let mut after = self.patched(&self.deployment.clone(), &edit.changes);
                if after.spec != self.deployment.spec {
                    after.metadata.generation += 1;
                }
                self.deployment = after;
            }
            Step::Status(edit) => {
                self.deployment = self.patched(&self.deployment.clone(), &edit.changes);
                assert_eq!(self.deployment.status, *edit.status, "the patch results in the status");
            }
            Step::CreateSet(new) => {
                let mut set: MachineSet = read(new.to_json());
                let name = set.name().to_owned();
                set.metadata.uid = format!("u-{name}-{}", self.version).into();
                set.metadata.generation = 1;
                set.metadata.resource_version = self.bump();
                set.metadata.creation_timestamp = Some(self.now.into());
                assert!(self.sets.insert(name, set).is_none(), "the name of a new set is free");
            }
            Step::Set(edit) => {
                let before = self.sets[&edit.name].clone();
                assert_eq!(before.uid(), edit.uid);
                let mut after = self.patched(&before, &edit.changes);
                if after.spec != before.spec {
                    after.metadata.generation += 1;
                }
                self.sets.insert(edit.name.clone(), after);
            }
            Step::DeleteSet { name, .. } => {
                let now = self.now;
                let set = self.sets.get_mut(name).unwrap();
                set.metadata.deletion_timestamp = Some(now.into());
            }
            Step::Machine(MachineEdit { patch, .. }) => {
                let before = self.machines[patch.name.as_str()].clone();
                let after = self.patched(&before, &patch.patch.to_json());
                self.machines.insert(patch.name.to_string(), after);
            }
            Step::Node(write) => {
                let before = self.nodes[&write.name].clone();
                let guard = write.taints.as_ref().map(|_| before.resource_version());
                assert_eq!(
                    write.resource_version.as_deref(),
                    guard,
                    "the version is a precondition only of complete lists"
                );
                let after = self.patched(&before, &write.object_patch().unwrap());
                self.nodes.insert(write.name.clone(), after);
            }
            Step::EmitEvent(event) => self.events.push(format!("{}: {}", event.reason, event.message)),
        }
    }

    fn bump(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn patched<T: Serialize + DeserializeOwned>(&mut self, object: &T, changes: &Value) -> T {
        let mut value = serde_json::to_value(object).unwrap();
        merge(&mut value, changes);
        value["metadata"]["resourceVersion"] = json!(self.bump());
        read(value)
    }

    /// Another user changes the MachineDeployment.
    pub(super) fn edit(&mut self, change: impl FnOnce(&mut MachineDeployment)) {
        change(&mut self.deployment);
        self.deployment.metadata.generation += 1;
        self.deployment.metadata.resource_version = self.bump();
    }

    pub(super) fn use_class(&mut self, class: &str) {
        self.edit(|deployment| deployment.spec.template.spec.class.name = class.to_owned());
    }

    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        self.deployment.metadata.annotations.insert(key, value);
    }

    pub(super) fn later(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    /// The MachineSet of this class.
    pub(super) fn set_of(&self, class: &str) -> &MachineSet {
        self.sets.values().find(|set| set.spec.template.spec.class.name == class).unwrap()
    }

    pub(super) fn size_of(&self, class: &str) -> i32 {
        self.set_of(class).spec.replicas
    }

    /// What the MachineSet controller does: it keeps the replicas, replaces Failed Machines and writes the counts.
    pub(super) fn run_sets(&mut self) {
        let names: Vec<String> = self.sets.keys().cloned().collect();
        for name in names {
            self.run_set(&name);
        }
    }

    pub(super) fn run_set(&mut self, name: &str) {
        let set = self.sets[name].clone();
        let disabled = set.label(names::labels::SCALE_UP_DISABLED).is_some();
        let wanted = if set.is_deleting() { 0 } else { usize::try_from(set.spec.replicas).unwrap() };
        let live: Vec<Machine> =
            self.machines_of(&set).map(|seen| seen.machine.clone()).filter(|m| !m.is_deleting()).collect();
        if live.len() < wanted && !disabled {
            for _ in live.len()..wanted {
                self.make_machine(&set);
            }
        } else {
            let moved = |m: &&Machine| m.label(names::labels::UPDATE_RESULT).is_none();
            let mut victims: Vec<&Machine> = live.iter().filter(moved).collect();
            victims.sort_by_key(|m| {
                (
                    self.is_preserved(m),
                    m.annotation(names::annotations::PRIORITY) != Some("1"),
                    *m.phase() == MachinePhase::Running,
                    m.name().to_owned(),
                )
            });
            let surplus = if set.is_deleting() { live.len() } else { victims.len().saturating_sub(wanted) };
            let chosen: Vec<String> = victims.iter().take(surplus).map(|m| m.name().to_owned()).collect();
            let failed = live.iter().filter(|m| *m.phase() == MachinePhase::Failed && !self.is_preserved(m));
            let failed = failed.map(|m| m.name().to_owned());
            for name in chosen.into_iter().chain(failed).collect::<BTreeSet<_>>() {
                self.delete_machine(&name);
            }
        }
        let all: Vec<Machine> = self.machines_of(&set).map(|seen| seen.machine.clone()).collect();
        if set.is_deleting() && all.is_empty() {
            self.sets.remove(name);
            return;
        }
        let count = |keep: fn(&&Machine) -> bool| i32::try_from(all.iter().filter(keep).count()).unwrap();
        let kept =
            |m: &&Machine| *m.phase() == MachinePhase::Failed && m.status.current_status.preserve_expiry_time.is_some();
        let set = self.sets.get_mut(name).unwrap();
        set.status.replicas = count(|_| true);
        set.status.fully_labeled_replicas = count(|_| true);
        set.status.ready_replicas = count(|m| *m.phase() == MachinePhase::Running);
        set.status.available_replicas = set.status.ready_replicas;
        set.status.preserved_failed_replicas = count(kept);
        set.status.observed_generation = set.metadata.generation;
    }

    /// A Machine has failed and is preserved for four days, the default of `--machine-preserve-timeout`.
    pub(super) fn preserve(&mut self, name: &str) {
        let until = self.now.checked_add(SignedDuration::from_hours(96)).unwrap();
        let current = &mut self.machines.get_mut(name).unwrap().status.current_status;
        current.phase = MachinePhase::Failed;
        current.preserve_expiry_time = Some(api::Time::from(until));
    }

    /// Whether a Machine has failed and is preserved now.
    pub(super) fn is_preserved(&self, machine: &Machine) -> bool {
        let current = &machine.status.current_status;
        let kept = current.preserve_expiry_time.is_some_and(|until| until.timestamp() > self.now);
        kept && current.phase == MachinePhase::Failed && !machine.is_deleting()
    }

    /// The preserved Failed Machines.
    pub(super) fn preserved(&self) -> Vec<&str> {
        self.machines.values().filter(|m| self.is_preserved(m)).map(Object::name).collect()
    }

    fn make_machine(&mut self, set: &MachineSet) {
        self.created += 1;
        let name = format!("{}-{:04}", set.name(), self.created);
        let mut machine = Machine { spec: set.spec.template.spec.clone(), ..Machine::default() };
        machine.metadata.name = name.clone();
        machine.metadata.namespace = "ns".into();
        machine.metadata.uid = format!("u-{name}").into();
        machine.metadata.resource_version = self.bump();
        machine.metadata.labels = set.spec.template.metadata.labels.clone().unwrap_or_default();
        machine.metadata.owner_references = vec![api::OwnerReference {
            api_version: names::API_VERSION.into(),
            kind: "MachineSet".into(),
            name: set.name().into(),
            uid: set.uid(),
            controller: Some(true),
            block_owner_deletion: Some(true),
            ..api::OwnerReference::default()
        }];
        machine.status.current_status.phase = MachinePhase::Pending;
        self.machines.insert(name, machine);
    }

    pub(super) fn delete_machine(&mut self, name: &str) {
        let now = self.now;
        let machine = self.machines.get_mut(name).unwrap();
        machine.metadata.deletion_timestamp = Some(now.into());
        machine.status.current_status.phase = MachinePhase::Terminating;
    }

    /// What the machine controller, the cloud and the node agent do: one step for each Machine.
    pub(super) fn run_machines(&mut self) {
        let names: Vec<String> = self.machines.keys().cloned().collect();
        for name in names {
            self.run_machine(&name);
        }
    }

    pub(super) fn run_machine(&mut self, name: &str) {
        let machine = self.machines[name].clone();
        if machine.is_deleting() {
            self.machines.remove(name);
            self.nodes.remove(name);
            return;
        }
        if !self.is_preserved(&machine) {
            let current = &mut self.machines.get_mut(name).unwrap().status.current_status;
            current.preserve_expiry_time = None; // expired or recovered
        }
        match machine.phase() {
            MachinePhase::Pending if !self.broken.contains(&machine.spec.class.name) => self.join(name),
            MachinePhase::InPlaceUpdating => self.finish_update(name, "successful"),
            MachinePhase::InPlaceUpdateSuccessful => self.set_phase(name, MachinePhase::Running),
            _ => self.begin_update(name),
        }
    }

    pub(super) fn set_phase(&mut self, name: &str, phase: MachinePhase) {
        self.machines.get_mut(name).unwrap().status.current_status.phase = phase;
    }

    fn join(&mut self, name: &str) {
        let node = json!({ "metadata": { "name": name, "uid": format!("u-node-{name}"), "resourceVersion": self.bump(), "finalizers": [names::finalizers::NODE] } });
        self.nodes.insert(name.to_owned(), read(node));
        let machine = self.machines.get_mut(name).unwrap();
        machine.metadata.labels.insert(names::labels::NODE, name);
        machine.status.current_status.phase = MachinePhase::Running;
    }

    /// A selected Node is drained.
    fn begin_update(&mut self, name: &str) {
        let node = self.nodes.get_mut(name);
        let selected = |node: &NodeView| {
            node.label(names::labels::SELECTED_FOR_UPDATE).is_some()
                && node.label(names::labels::UPDATE_RESULT).is_none()
        };
        if let Some(node) = node.filter(|node| selected(node)) {
            node.spec.unschedulable = true;
            self.set_phase(name, MachinePhase::InPlaceUpdating);
        }
    }

    pub(super) fn finish_update(&mut self, name: &str, result: &str) {
        let reason = if result == "successful" { "UpdateSuccessful" } else { "UpdateFailed" };
        let phase = if result == "successful" {
            MachinePhase::InPlaceUpdateSuccessful
        } else {
            MachinePhase::InPlaceUpdateFailed
        };
        let condition: api::NodeCondition =
            read(json!({ "type": "InPlaceUpdate", "status": "True", "reason": reason }));
        let node = self.nodes.get_mut(name).unwrap();
        node.metadata.labels.insert(names::labels::UPDATE_RESULT, result);
        node.status.conditions = vec![condition.clone()];
        let machine = self.machines.get_mut(name).unwrap();
        machine.status.conditions = vec![condition];
        machine.status.current_status.phase = phase;
    }

    /// Runs all controllers until nothing is left to do. Returns the number of reconciles.
    pub(super) fn settle(&mut self) -> usize {
        for round in 0..150 {
            let plan = self.reconcile();
            let before = (self.sets.clone(), self.machines.clone());
            self.run_sets();
            self.run_machines();
            self.run_sets();
            self.later(1);
            if plan.steps.is_empty() && before == (self.sets.clone(), self.machines.clone()) {
                return round;
            }
        }
        panic!("it does not converge; the last steps were {:#?}", self.diary.iter().rev().take(12).collect::<Vec<_>>());
    }

    pub(super) fn live(&self) -> i32 {
        i32::try_from(self.machines.values().filter(|m| !m.is_deleting()).count()).unwrap()
    }

    pub(super) fn running_of(&self, class: &str) -> usize {
        let running = |m: &&Machine| *m.phase() == MachinePhase::Running && m.spec.class.name == class;
        self.machines.values().filter(running).count()
    }

    pub(super) fn condition(&self, kind: &str) -> Option<(String, String)> {
        let found = self.deployment.status.conditions.iter().find(|condition| condition.kind == kind)?;
        Some((found.status.to_string(), found.reason.clone()))
    }
}
