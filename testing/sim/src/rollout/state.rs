//! State of the model: a MachineDeployment and its MachineSets as objects, and their Machines as numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use api::{Machine, MachineDeployment, MachinePhase, MachineSet, Object};
use jiff::Timestamp;
use json_patch::merge;
use planner::Policy;
use planner::deployment::{Observed, Plan, SeenMachine, SeenSet, Step, plan};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Action, Bounds, CacheLag};
use crate::search::fingerprint;

/// Numbers of Machines of one MachineSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Machines {
    pub(super) pending: u8,
    pub(super) running: u8,
    pub(super) failed: u8,
    pub(super) deleting: u8,
}

impl Machines {
    pub(super) fn living(self) -> i32 {
        i32::from(self.pending) + i32::from(self.running) + i32::from(self.failed)
    }

    /// Starts the deletion of one of these Machines.
    fn delete(&mut self, next_deletion: Deletion) {
        let Self { pending, running, failed, deleting } = self;
        let from = match next_deletion {
            Deletion::Failed => failed,
            Deletion::Pending => pending,
            Deletion::Running => running,
        };
        *from -= 1;
        *deleting += 1;
    }

    fn all(self) -> i32 {
        self.living() + i32::from(self.deleting)
    }
}

/// The Machine that a MachineSet deletes next.
#[derive(Clone, Copy, Debug)]
enum Deletion {
    Failed,
    Pending,
    Running,
}

/// A MachineSet.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) object: MachineSet,
    /// Current Machines.
    pub(super) machines: Machines,
    /// Machines in the cache.
    pub(super) shown: Machines,
    /// Number of creates that the cache does not show yet.
    pub(super) expected: u8,
    /// Number of deletes that the cache does not show yet.
    deletes_not_shown: u8,
    /// Number of Machines that have failed since the last count.
    pub(super) uncounted: u8,
    digest: u64,
}

/// State of the model.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) deployment: MachineDeployment,
    pub(super) sets: BTreeMap<String, Set>,
    pub(super) remaining: Remaining,
    /// Steps that the MachineDeployment would carry out now.
    pub(super) steps: Rc<[Step]>,
    lag: CacheLag,
    digest: u64,
}

/// Remaining steps of each kind.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Remaining {
    pub(super) classes: u8,
    pub(super) scales: u8,
    pub(super) failures: u8,
    pub(super) crashes: u8,
}

/// Objects are compared by their content. They contain no number of writes.
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.digest.hash(hasher);
        for (name, set) in &self.sets {
            (name, set.digest, set.machines, set.shown, set.expected, set.deletes_not_shown, set.uncounted)
                .hash(hasher);
        }
        self.remaining.hash(hasher);
    }
}

fn digest(object: &impl Serialize) -> u64 {
    fingerprint(&serde_json::to_string(object).unwrap_or_default())
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap_or_default()
}

impl Set {
    fn wanted(&self) -> i32 {
        if self.object.is_deleting() { 0 } else { self.object.spec.replicas }
    }

    /// Whether its controller has a Machine to create or to delete. It uses the same cache as the MachineDeployment: it
    /// deletes none before the cache shows all creates, creates none before the cache shows all deletes, and knows only
    /// failures that the cache shows.
    pub(super) fn has_work(&self) -> bool {
        self.has_to_create() || (self.expected == 0 && self.next_deletion().is_some())
    }

    fn has_to_create(&self) -> bool {
        self.deletes_not_shown == 0 && self.machines.living() < self.wanted()
    }

    /// Returns the kind of Machine to delete next.
    fn next_deletion(&self) -> Option<Deletion> {
        let Machines { pending, running, .. } = self.machines;
        let too_many = self.machines.living() > self.wanted();
        if self.machines.failed.min(self.shown.failed) > 0 {
            Some(Deletion::Failed)
        } else if too_many && pending > 0 {
            Some(Deletion::Pending)
        } else {
            (too_many && running > 0).then_some(Deletion::Running)
        }
    }

    pub(super) fn is_behind(&self) -> bool {
        self.machines != self.shown || self.expected > 0 || self.deletes_not_shown > 0
    }

    pub(super) fn counts_differ(&self) -> bool {
        let status = &self.object.status;
        (status.replicas, status.available_replicas) != (self.machines.all(), self.machines.running.into())
    }

    fn run(&mut self) {
        if self.has_to_create() {
            self.machines.pending += 1;
            self.expected += 1;
            return;
        }
        let Some(next_deletion) = self.next_deletion() else { return };
        self.machines.delete(next_deletion);
        self.deletes_not_shown += 1;
    }

    pub(super) fn show(&mut self) {
        self.shown = self.machines;
        (self.expected, self.deletes_not_shown) = (0, 0);
    }

    fn count(&mut self) {
        self.uncounted = 0;
        let status = &mut self.object.status;
        status.replicas = self.machines.all();
        status.fully_labeled_replicas = status.replicas;
        status.ready_replicas = self.machines.running.into();
        status.available_replicas = status.ready_replicas;
        status.observed_generation = self.object.metadata.generation;
        self.digest = digest(&self.object);
    }

    fn objects(&self) -> Vec<Machine> {
        let Machines { pending, running, failed, deleting } = self.shown;
        let phases = [
            (MachinePhase::Pending, pending),
            (MachinePhase::Running, running),
            (MachinePhase::Failed, failed),
            (MachinePhase::Terminating, deleting),
        ];
        let each = phases.into_iter().flat_map(|(phase, count)| (0..count).map(move |_| phase.clone()));
        let machine = |(n, phase): (usize, MachinePhase)| {
            let mut machine = Machine { spec: self.object.spec.template.spec.clone(), ..Machine::default() };
            let name = format!("{}-{n}", self.object.name());
            machine.metadata.uid = name.clone().into();
            machine.metadata.name = name;
            machine.metadata.labels = self.object.spec.template.metadata.labels.clone().unwrap_or_default();
            machine.metadata.deletion_timestamp = (phase == MachinePhase::Terminating).then(|| now().into());
            machine.status.current_status.phase = phase;
            machine
        };
        each.enumerate().map(machine).collect()
    }
}

impl State {
    pub(super) fn new(bounds: Bounds) -> Self {
        let deployment = json!({
            "metadata": {
                "name": "md", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 1,
                "creationTimestamp": now().to_string(),
            },
            "spec": {
                "replicas": bounds.replicas,
                "selector": { "matchLabels": { "name": "md" } },
                "strategy": { "type": "RollingUpdate", "rollingUpdate": {
                    "maxSurge": bounds.surge, "maxUnavailable": bounds.unavailable,
                } },
                "template": {
                    "metadata": { "labels": { "name": "md" } },
                    "spec": { "class": { "kind": "MachineClass", "name": "class-0" } },
                },
            },
        });
        let Bounds { classes, scales, failures, crashes, lag, .. } = bounds;
        let deployment = read(deployment).unwrap_or_default();
        let remaining = Remaining { classes, scales, failures, crashes };
        let mut state = Self { digest: 0, deployment, sets: BTreeMap::new(), remaining, steps: Rc::default(), lag };
        state.update_plan(&Policy::default());
        state
    }

    /// Plans for the observed state.
    fn update_plan(&mut self, policy: &Policy) {
        let steps = self.plan(policy).steps.into_iter().filter(|step| !matches!(step, Step::EmitEvent(_)));
        self.steps = steps.collect();
        self.digest = digest(&self.deployment);
    }

    pub(super) fn replicas(&self) -> i32 {
        self.deployment.spec.replicas
    }

    fn plan(&self, policy: &Policy) -> Plan {
        let machines: Vec<Vec<Machine>> = self.sets.values().map(Set::objects).collect();
        let mut sets: Vec<SeenSet<'_>> = Vec::with_capacity(self.sets.len());
        for (set, machines) in self.sets.values().zip(&machines) {
            let machines = machines.iter().map(|machine| SeenMachine { machine, node: None }).collect();
            sets.push(SeenSet { set: &set.object, machines, unseen: set.expected.into() });
        }
        let names_in_use: BTreeSet<String> = self.sets.keys().cloned().collect();
        plan(&Observed {
            deployment: &self.deployment,
            sets: &sets,
            names_in_use: &names_in_use,
            undecodable_sets: &[],
            named: &BTreeMap::new(),
            has_target_cluster: false,
            policy,
            reported: None,
            now: now(),
        })
    }

    pub(super) fn apply(&mut self, action: &Action, policy: &Policy) -> Result<(), String> {
        match action {
            Action::Reconcile => self.reconcile(usize::MAX)?,
            Action::ReconcileUntil(steps) => {
                self.remaining.crashes -= 1;
                self.reconcile(*steps)?;
            }
            Action::RunSet(name) => self.update_set(name, Set::run),
            Action::Count(name) => self.update_set(name, Set::count),
            Action::Show(name) => self.update_set(name, Set::show),
            Action::Join(name) => self.update_set(name, |set| {
                set.machines.pending -= 1;
                set.machines.running += 1;
            }),
            Action::Fail(name) => {
                self.remaining.failures -= 1;
                self.update_set(name, |set| {
                    set.machines.running -= 1;
                    set.machines.failed += 1;
                    set.uncounted += 1;
                });
            }
            Action::Remove(name) => self.update_set(name, |set| set.machines.deleting -= 1),
            Action::Class(class) => {
                self.remaining.classes -= 1;
                self.deployment.spec.template.spec.class.name = format!("class-{class}");
            }
            Action::Scale(replicas) => {
                self.remaining.scales -= 1;
                self.deployment.spec.replicas = *replicas;
            }
        }
        let gone = |set: &Set| set.object.is_deleting() && set.machines.all() == 0;
        self.sets.retain(|_, set| !gone(set));
        for set in self.sets.values_mut() {
            if self.lag != CacheLag::CacheAndCounts && set.is_behind() {
                set.show();
            }
            if self.lag == CacheLag::None && set.counts_differ() {
                set.count();
            }
        }
        // A change of a Machine does not change the plan before it is counted or shown.
        if self.lag != CacheLag::CacheAndCounts || !matches!(action, Action::Join(_) | Action::Fail(_)) {
            self.update_plan(policy);
        }
        Ok(())
    }

    fn update_set(&mut self, name: &str, change: impl FnOnce(&mut Set)) {
        if let Some(set) = self.sets.get_mut(name) {
            change(set);
        }
    }

    fn reconcile(&mut self, until: usize) -> Result<(), String> {
        let steps = self.steps.clone();
        steps.iter().take(until).try_for_each(|step| self.carry_out(step))
    }

    fn carry_out(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Deployment(edit) => self.deployment = patched(&self.deployment, &edit.changes)?,
            Step::Status(edit) => self.deployment = patched(&self.deployment, &edit.changes)?,
            Step::CreateSet(new) => {
                let mut object: MachineSet = read(new.to_json())?;
                let name = object.name().to_owned();
                object.metadata.uid = name.clone().into();
                object.metadata.generation = 1;
                object.metadata.resource_version = "1".into();
                object.metadata.creation_timestamp = Some(now().into());
                let (digest, machines) = (digest(&object), Machines::default());
                let set =
                    Set { object, machines, shown: machines, expected: 0, deletes_not_shown: 0, uncounted: 0, digest };
                if self.sets.insert(name.clone(), set).is_some() {
                    return Err(format!("set {name} is created twice"));
                }
            }
            Step::Set(edit) => {
                let set = self.sets.get_mut(&edit.name).ok_or("the planner changes a set that does not exist")?;
                set.object = patched(&set.object, &edit.changes)?;
                set.digest = digest(&set.object);
            }
            Step::DeleteSet { name, .. } => self.update_set(name, |set| {
                set.object.metadata.deletion_timestamp = Some(now().into());
                set.digest = digest(&set.object);
            }),
            Step::LookUpMachines(_) | Step::Machine(_) | Step::Node(_) | Step::EmitEvent(_) => {}
        }
        Ok(())
    }

    /// Checks that the state matches the spec.
    pub(super) fn check_settled(&self) -> Result<(), String> {
        let class = &self.deployment.spec.template.spec.class.name;
        let mut right = 0;
        for set in self.sets.values() {
            if set.object.spec.template.spec.class.name == *class {
                right += i32::from(set.machines.running);
            } else if set.machines.all() > 0 {
                return Err(format!("converged during the rollout: {}", self.describe()));
            }
        }
        if right == self.replicas() {
            Ok(())
        } else {
            Err(format!("converged with {right} machines: {}", self.describe()))
        }
    }

    pub(super) fn describe(&self) -> String {
        let spec = &self.deployment.spec;
        let sets = self.sets.values().map(|set| {
            let (class, size) = (&set.object.spec.template.spec.class.name, set.object.spec.replicas);
            let available = set.object.status.available_replicas;
            format!("{class}: {size} replicas, {available} available in the status, {:?}", set.machines)
        });
        let sets: Vec<String> = sets.collect();
        format!("{} of {} wanted; {}", spec.replicas, spec.template.spec.class.name, sets.join("; "))
    }
}

fn patched<T: Serialize + DeserializeOwned>(object: &T, changes: &Value) -> Result<T, String> {
    let mut value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    merge(&mut value, changes);
    read(value)
}
