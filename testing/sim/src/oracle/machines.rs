//! State of Machines, MachineSets and MachineDeployments, and checks of new Machines.

use std::collections::{BTreeMap, BTreeSet};

use api::names::{annotations, labels};
use jiff::Timestamp;
use serde_json::Value;

use super::history::History;
use super::order::Rank;
use super::owned::Owned;
use super::rollouts::desired_replicas;
use super::status::{Counts, counts};
use super::{Author, DEPLOYMENTS, Invariant, MACHINES, Oracle, SETS, Write, is_deleting, number, owner, text};

/// Machines, MachineSets and MachineDeployments.
#[derive(Debug, Default)]
pub(super) struct Machines {
    /// Existing Machines.
    pub(super) known: BTreeMap<String, Machine>,
    pub(super) sets: BTreeMap<String, Set>,
    pub(super) deployments: BTreeMap<String, Deployment>,
    /// Nodes that are not being deleted, and since when they exist.
    nodes: BTreeMap<String, Timestamp>,
    /// Nodes that other clients deleted.
    pub(super) deleted_nodes: BTreeSet<String>,
    /// Time of the removal of the last Machine of a name.
    pub(super) gone: BTreeMap<String, Timestamp>,
    /// The last removed Machine of each name.
    pub(super) departed: BTreeMap<String, Departed>,
    /// Machines that were lost in a restore of the API server.
    pub(super) forgotten: BTreeMap<String, Forgotten>,
}

/// A removed Machine.
#[derive(Debug)]
pub(super) struct Departed {
    pub(super) machine: Machine,
    pub(super) revision: u64,
}

/// A Machine that was lost in a restore.
#[derive(Debug)]
pub(super) struct Forgotten {
    pub(super) set: String,
    pub(super) revision: u64,
}

/// A Machine.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) set: String,
    pub(super) node: String,
    pub(super) phase: History<String>,
    pub(super) rank: History<Rank>,
    /// Whether it is being deleted.
    pub(super) deleting: History<bool>,
    pub(super) deleted: Option<Deleted>,
    pub(super) class: String,
    pub(super) is_marked: bool,
    /// Whether it is annotated to be preserved, now or after a failure.
    pub(super) preserve_requested: bool,
    pub(super) is_forced: bool,
    /// Whether it counts as being created, replaced or deleted.
    pub(super) in_progress: Owned,
    /// Time since which it is Running.
    running_since: Option<Timestamp>,
}

/// Start of the deletion of a Machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deleted {
    pub(super) revision: u64,
    pub(super) at: Timestamp,
    pub(super) by: Author,
}

/// A MachineSet. It is kept after its removal.
#[derive(Debug, Default)]
pub(super) struct Set {
    pub(super) deployment: String,
    pub(super) specs: History<SetSpec>,
    /// Counts of its status.
    pub(super) counts: History<Counts>,
    /// The last replicas of its MachineDeployment that were written to its annotation.
    pub(super) desired_replicas: Option<i64>,
}

/// The relevant spec of a MachineSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetSpec {
    pub(super) replicas: i64,
    pub(super) is_frozen: bool,
    pub(super) deleting: bool,
}

/// A MachineDeployment. It is kept after its removal.
#[derive(Debug, Default)]
pub(super) struct Deployment {
    /// Replicas plus maxSurge.
    pub(super) max_machines: History<i64>,
    pub(super) replicas: History<i64>,
    pub(super) paused: History<bool>,
    pub(super) strategy: String,
    /// maxUnavailable.
    pub(super) unavailable: i64,
    pub(super) deleting: bool,
    pub(super) desired: Option<Desired>,
}

impl Deployment {
    /// Whether its strategy is RollingUpdate.
    pub(super) fn is_rolling(&self) -> bool {
        self.strategy == "RollingUpdate"
    }
}

/// The state that a MachineDeployment should reach.
#[derive(Debug)]
pub(super) struct Desired {
    pub(super) replicas: i64,
    pub(super) class: String,
    /// Whether it is paused or frozen, or updates in place, which waits for node agents and users.
    pub(super) is_blocked: bool,
}

impl Desired {
    fn of(deployment: &Value) -> Self {
        Self {
            replicas: number(deployment, "/spec/replicas"),
            class: text(deployment, "/spec/template/spec/class/name").to_owned(),
            is_blocked: deployment.pointer("/spec/paused") == Some(&Value::Bool(true))
                || label(deployment, labels::FREEZE) == labels::FREEZE_VALUE
                || text(deployment, "/spec/strategy/type") == "InPlaceUpdate",
        }
    }
}

impl Machines {
    pub(super) fn note(&mut self, write: &Write<'_>, now: Timestamp) {
        match write.kind {
            MACHINES => self.note_machine(write, now),
            SETS => {
                let Some(object) = write.after.or(write.before) else { return };
                let set = self.sets.entry(write.name.to_owned()).or_default();
                owner(object).clone_into(&mut set.deployment);
                set.counts.set(write.revision, counts(object));
                set.desired_replicas = desired_replicas(object);
                let is_frozen = label(object, labels::FREEZE) == labels::FREEZE_VALUE;
                let deleting = write.after.is_none_or(is_deleting);
                set.specs
                    .set(write.revision, SetSpec { replicas: number(object, "/spec/replicas"), is_frozen, deleting });
            }
            DEPLOYMENTS => {
                let Some(object) = write.after.or(write.before) else { return };
                let deployment = self.deployments.entry(write.name.to_owned()).or_default();
                let surge = number(object, "/spec/strategy/rollingUpdate/maxSurge");
                deployment.max_machines.set(write.revision, number(object, "/spec/replicas") + surge);
                deployment.replicas.set(write.revision, number(object, "/spec/replicas"));
                deployment.paused.set(write.revision, object.pointer("/spec/paused") == Some(&Value::Bool(true)));
                text(object, "/spec/strategy/type").clone_into(&mut deployment.strategy);
                let in_place = number(object, "/spec/strategy/inPlaceUpdate/maxUnavailable");
                deployment.unavailable = in_place.max(number(object, "/spec/strategy/rollingUpdate/maxUnavailable"));
                deployment.desired = Some(Desired::of(object));
                deployment.deleting = write.after.is_none_or(is_deleting);
            }
            "nodes" if write.after.is_none_or(is_deleting) => {
                self.nodes.remove(write.name);
                if write.by == Author::Others {
                    self.deleted_nodes.insert(write.name.to_owned());
                }
            }
            "nodes" => drop(self.nodes.entry(write.name.to_owned()).or_insert(now)),
            _ => {}
        }
    }

    fn note_machine(&mut self, write: &Write<'_>, now: Timestamp) {
        let Some(object) = write.after else {
            self.gone.insert(write.name.to_owned(), now);
            if let Some((name, machine)) = self.known.remove_entry(write.name) {
                self.departed.insert(name, Departed { machine, revision: write.revision });
            }
            return;
        };
        let machine = self.known.entry(write.name.to_owned()).or_default();
        owner(object).clone_into(&mut machine.set);
        label(object, labels::NODE).clone_into(&mut machine.node);
        let phase = text(object, "/status/currentStatus/phase");
        machine.phase.set(write.revision, phase.to_owned());
        let is_settled = ["Running", "Unknown"].contains(&phase) && !is_deleting(object);
        let is_preserved = Rank::of(object).is_preserved() && !is_deleting(object);
        machine.in_progress.set(write.revision, !is_settled && !is_preserved, write.writer);
        machine.running_since = (phase == "Running").then(|| machine.running_since.unwrap_or(now));
        machine.rank.set(write.revision, Rank::of(object));
        machine.deleting.set(write.revision, is_deleting(object));
        machine.is_forced = labels::is_true(label(object, labels::FORCE_DELETION)) == Some(true);
        text(object, "/spec/class/name").clone_into(&mut machine.class);
        machine.preserve_requested = !annotation(object, annotations::PRESERVE).is_empty()
            || object.pointer("/status/currentStatus/preserveExpiryTime").is_some_and(|at| !at.is_null());
        machine.is_marked = annotation(object, annotations::PRIORITY) == annotations::PRIORITY_DELETE_FIRST
            && !annotation(object, annotations::MARKED_FOR_DELETION_TIME).is_empty();
        if is_deleting(object) && machine.deleted.is_none() {
            // Only an object of a restored copy was deleted before this write.
            let at = text(object, "/metadata/deletionTimestamp").parse().ok().filter(|_| write.before.is_none());
            machine.deleted = Some(Deleted { revision: write.revision, at: at.unwrap_or(now), by: write.by });
        }
    }

    /// Records a restore of the API server to a copy with these Machines and MachineSets. Their objects are recorded
    /// afterwards.
    pub(super) fn forget(&mut self, machines: &BTreeSet<&str>, sets: &BTreeSet<&str>, revision: u64, now: Timestamp) {
        for (name, machine) in std::mem::take(&mut self.known) {
            if machines.contains(name.as_str()) {
                // The last delivered state counts until another one is delivered.
                let Machine { phase, rank, deleting, in_progress, .. } = machine;
                self.known.insert(name, Machine { phase, rank, deleting, in_progress, ..Machine::default() });
            } else {
                self.gone.insert(name.clone(), now);
                self.forgotten.insert(name.clone(), Forgotten { set: machine.set.clone(), revision });
                self.departed.insert(name, Departed { machine, revision });
            }
        }
        for (_, set) in self.sets.iter_mut().filter(|(name, _)| !sets.contains(name.as_str())) {
            set.specs.set(revision, SetSpec { replicas: 0, is_frozen: false, deleting: true });
            set.counts.set(revision, Counts::default());
        }
        self.nodes.clear();
    }

    /// Returns the Node that a removed Machine would leave behind. A Node that joined after the start of the deletion
    /// may be unknown to the controllers.
    pub(super) fn node_left_by(&self, machine: &str) -> Option<&str> {
        let machine = self.known.get(machine)?;
        let since = self.nodes.get(&machine.node)?;
        machine.deleted.is_some_and(|deleted| *since < deleted.at).then_some(machine.node.as_str())
    }

    /// Returns the Machines of a MachineSet that are not being deleted.
    pub(super) fn living_of_set<'a>(&'a self, set: &'a str) -> impl Iterator<Item = (&'a String, &'a Machine)> {
        self.known.iter().filter(move |(_, machine)| machine.set == set && machine.deleted.is_none())
    }

    /// Returns the Machines of a MachineDeployment, including those being deleted.
    pub(super) fn of_deployment<'a>(&'a self, deployment: &'a str) -> impl Iterator<Item = (&'a String, &'a Machine)> {
        let is_of =
            move |machine: &Machine| self.sets.get(&machine.set).is_some_and(|set| set.deployment == deployment);
        self.known.iter().filter(move |(_, machine)| !deployment.is_empty() && is_of(machine))
    }

    /// Returns the Machines that belonged to a MachineSet in any state since this revision.
    pub(super) fn shown_of_set<'a>(&'a self, set: &'a str, seen: u64) -> impl Iterator<Item = &'a Machine> {
        let departed = self.departed.values().filter(move |departed| departed.revision > seen);
        let all = self.known.values().chain(departed.map(|departed| &departed.machine));
        all.filter(move |machine| machine.rank.since(seen).any(|rank| rank.is_of(set)))
    }

    /// Returns the Machines that are Running or gone, and since when.
    pub(super) fn settled(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        let running = self.known.iter().filter(|(_, machine)| machine.deleted.is_none());
        let running = running.filter_map(|(name, machine)| Some((name.as_str(), machine.running_since?)));
        let gone = self.gone.iter().filter(|(name, _)| !self.known.contains_key(*name));
        running.chain(gone.map(|(name, at)| (name.as_str(), *at)))
    }

    fn living_of_deployment(&self, deployment: &str) -> usize {
        let sets = self.sets.iter().filter(|(_, set)| set.deployment == deployment);
        sets.map(|(name, _)| self.living_of_set(name).count()).sum()
    }
}

pub(super) fn label<'a>(object: &'a Value, name: &str) -> &'a str {
    let value = object.pointer("/metadata/labels").and_then(|labels| labels.get(name));
    value.and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    let value = object.pointer("/metadata/annotations").and_then(|annotations| annotations.get(name));
    value.and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Checks the creation of a Machine.
pub(super) fn creation(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let machines = &oracle.machines;
    let name = owner(write.after?);
    let set = machines.sets.get(name)?;
    let specs: Vec<&SetSpec> = set.specs.since(oracle.shown.oldest(SETS, oracle.now)).collect();
    if !specs.is_empty() && specs.iter().all(|spec| spec.is_frozen) {
        return Some((Invariant::Frozen, format!("machine {} is created, but its set {name} is frozen", write.name)));
    }
    let max = specs.iter().map(|spec| spec.replicas).max()?;
    let living = count(machines.living_of_set(name).count()) + 1;
    if living > max {
        let message = format!("machine {} is number {living} of set {name} with {max} replicas", write.name);
        return Some((Invariant::SetLimit, message));
    }
    let deployment = machines.deployments.get(&set.deployment)?;
    // A MachineSet keeps its replicas until they are changed, even if they exceed the new limit meanwhile, and acts on
    // the last delivered state. So the limits since the last change of its replicas count.
    let given = set.specs.changed_at(oracle.shown.oldest(SETS, oracle.now));
    let seen = oracle.shown.oldest(DEPLOYMENTS, oracle.now).min(given);
    let max = deployment.max_machines.since(seen).max()?;
    let living = count(machines.living_of_deployment(&set.deployment)) + 1;
    (living > *max).then(|| {
        let message =
            format!("machine {} is number {living} of deployment {}, which allows {max}", write.name, set.deployment);
        (Invariant::Surge, message)
    })
}
