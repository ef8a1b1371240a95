//! A deployment, its sets whole, and their machines as numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use api::{Machine, MachineDeployment, MachinePhase, MachineSet, Object};
use jiff::Timestamp;
use json_patch::merge;
use planner::Policy;
use planner::deployment::{Observed, Plan, SeenMachine, SeenSet, Step, TargetCluster, plan};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Action, Bounds, News};
use crate::search::fingerprint;

/// Machines of one set, by what becomes of them.
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

    /// One of these begins to go.
    fn delete(&mut self, goes: Goes) {
        let Self { pending, running, failed, deleting } = self;
        let from = match goes {
            Goes::Failed => failed,
            Goes::Pending => pending,
            Goes::Running => running,
        };
        *from -= 1;
        *deleting += 1;
    }

    fn all(self) -> i32 {
        self.living() + i32::from(self.deleting)
    }
}

/// What a set deletes first.
#[derive(Clone, Copy, Debug)]
enum Goes {
    Failed,
    Pending,
    Running,
}

/// A set.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) object: MachineSet,
    /// As they are.
    pub(super) machines: Machines,
    /// As the cache shows them.
    pub(super) shown: Machines,
    /// How many were asked for that the cache does not show yet.
    pub(super) expected: u8,
    /// How many were deleted that the cache shows as living.
    going: u8,
    /// How many have failed since the set was counted.
    pub(super) uncounted: u8,
    digest: u64,
}

/// Everything.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) deployment: MachineDeployment,
    pub(super) sets: BTreeMap<String, Set>,
    pub(super) left: Left,
    /// What the deployment would do now.
    pub(super) steps: Rc<[Step]>,
    news: News,
    digest: u64,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Left {
    pub(super) classes: u8,
    pub(super) scales: u8,
    pub(super) failures: u8,
    pub(super) crashes: u8,
}

/// Objects are told apart by what is in them. Nothing in them counts how often they were written.
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.digest.hash(hasher);
        for (name, set) in &self.sets {
            (name, set.digest, set.machines, set.shown, set.expected, set.going, set.uncounted).hash(hasher);
        }
        self.left.hash(hasher);
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

    /// Whether its controller has a machine to make or to delete. It reads the cache that the deployment reads: it deletes none before
    /// all that it has made are shown, makes none before all that it has deleted are, and knows of no failure that is not.
    pub(super) fn has_work(&self) -> bool {
        self.has_to_make() || (self.expected == 0 && self.goes().is_some())
    }

    fn has_to_make(&self) -> bool {
        self.going == 0 && self.machines.living() < self.wanted()
    }

    /// How the machine that goes next looks.
    fn goes(&self) -> Option<Goes> {
        let Machines { pending, running, .. } = self.machines;
        let too_many = self.machines.living() > self.wanted();
        if self.machines.failed.min(self.shown.failed) > 0 {
            Some(Goes::Failed)
        } else if too_many && pending > 0 {
            Some(Goes::Pending)
        } else {
            (too_many && running > 0).then_some(Goes::Running)
        }
    }

    pub(super) fn is_behind(&self) -> bool {
        self.machines != self.shown || self.expected > 0 || self.going > 0
    }

    pub(super) fn counts_differ(&self) -> bool {
        let status = &self.object.status;
        (status.replicas, status.available_replicas) != (self.machines.all(), self.machines.running.into())
    }

    fn run(&mut self) {
        if self.has_to_make() {
            self.machines.pending += 1;
            self.expected += 1;
            return;
        }
        let Some(goes) = self.goes() else { return };
        self.machines.delete(goes);
        self.going += 1;
    }

    pub(super) fn show(&mut self) {
        self.shown = self.machines;
        (self.expected, self.going) = (0, 0);
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
        let Bounds { classes, scales, failures, crashes, news, .. } = bounds;
        let deployment = read(deployment).unwrap_or_default();
        let left = Left { classes, scales, failures, crashes };
        let mut state = Self { digest: 0, deployment, sets: BTreeMap::new(), left, steps: Rc::default(), news };
        state.look(&Policy::default());
        state
    }

    /// Plans for what is seen now, and remembers what it is.
    fn look(&mut self, policy: &Policy) {
        let steps = self.plan(policy).steps.into_iter().filter(|step| !matches!(step, Step::Tell(_)));
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
            target: TargetCluster::None,
            policy,
            reported: None,
            now: now(),
        })
    }

    pub(super) fn happen(&mut self, action: &Action, policy: &Policy) -> Result<(), String> {
        match action {
            Action::Reconcile => self.reconcile(usize::MAX)?,
            Action::ReconcileUntil(steps) => {
                self.left.crashes -= 1;
                self.reconcile(*steps)?;
            }
            Action::RunSet(name) => self.with(name, Set::run),
            Action::Count(name) => self.with(name, Set::count),
            Action::Show(name) => self.with(name, Set::show),
            Action::Join(name) => self.with(name, |set| {
                set.machines.pending -= 1;
                set.machines.running += 1;
            }),
            Action::Fail(name) => {
                self.left.failures -= 1;
                self.with(name, |set| {
                    set.machines.running -= 1;
                    set.machines.failed += 1;
                    set.uncounted += 1;
                });
            }
            Action::Vanish(name) => self.with(name, |set| set.machines.deleting -= 1),
            Action::Class(class) => {
                self.left.classes -= 1;
                self.deployment.spec.template.spec.class.name = format!("class-{class}");
            }
            Action::Scale(replicas) => {
                self.left.scales -= 1;
                self.deployment.spec.replicas = *replicas;
            }
        }
        let gone = |set: &Set| set.object.is_deleting() && set.machines.all() == 0;
        self.sets.retain(|_, set| !gone(set));
        for set in self.sets.values_mut() {
            if self.news != News::Late && set.is_behind() {
                set.show();
            }
            if self.news == News::AtOnce && set.counts_differ() {
                set.count();
            }
        }
        // What becomes of machines is no news for the deployment before it is counted or shown.
        if self.news != News::Late || !matches!(action, Action::Join(_) | Action::Fail(_)) {
            self.look(policy);
        }
        Ok(())
    }

    fn with(&mut self, name: &str, change: impl FnOnce(&mut Set)) {
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
                let set = Set { object, machines, shown: machines, expected: 0, going: 0, uncounted: 0, digest };
                if self.sets.insert(name.clone(), set).is_some() {
                    return Err(format!("set {name} is made twice"));
                }
            }
            Step::Set(edit) => {
                let set = self.sets.get_mut(&edit.name).ok_or("a set that is not there is to be changed")?;
                set.object = patched(&set.object, &edit.changes)?;
                set.digest = digest(&set.object);
            }
            Step::DeleteSet { name, .. } => self.with(name, |set| {
                set.object.metadata.deletion_timestamp = Some(now().into());
                set.digest = digest(&set.object);
            }),
            Step::AskForMachines(_) | Step::Machine(_) | Step::Node(_) | Step::Tell(_) => {}
        }
        Ok(())
    }

    /// Whether it is what was asked for.
    pub(super) fn rests(&self) -> Result<(), String> {
        let class = &self.deployment.spec.template.spec.class.name;
        let mut right = 0;
        for set in self.sets.values() {
            if set.object.spec.template.spec.class.name == *class {
                right += i32::from(set.machines.running);
            } else if set.machines.all() > 0 {
                return Err(format!("rests in the middle of the roll-out: {}", self.told()));
            }
        }
        if right == self.replicas() { Ok(()) } else { Err(format!("rests with {right} machines: {}", self.told())) }
    }

    pub(super) fn told(&self) -> String {
        let spec = &self.deployment.spec;
        let sets = self.sets.values().map(|set| {
            let (class, size) = (&set.object.spec.template.spec.class.name, set.object.spec.replicas);
            let available = set.object.status.available_replicas;
            format!("{class}: size {size}, {available} counted available, {:?}", set.machines)
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
