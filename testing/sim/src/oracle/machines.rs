//! The picture of machines, sets and deployments, and what it says of a new machine.

use std::collections::{BTreeMap, BTreeSet};

use api::names::{annotations, labels};
use jiff::Timestamp;
use serde_json::Value;

use super::claims::{Counts, counts};
use super::history::History;
use super::order::Rank;
use super::owned::Owned;
use super::rollouts::told;
use super::{Author, DEPLOYMENTS, Invariant, MACHINES, Oracle, SETS, Write, is_deleting, number, owner, text};

/// What is known of machines and those above them.
#[derive(Debug, Default)]
pub(super) struct Machines {
    /// The machines that are there.
    pub(super) known: BTreeMap<String, Machine>,
    pub(super) sets: BTreeMap<String, Set>,
    pub(super) deployments: BTreeMap<String, Deployment>,
    /// Nodes that nobody deletes, since when.
    nodes: BTreeMap<String, Timestamp>,
    /// Nodes that somebody deleted.
    pub(super) deleted_nodes: BTreeSet<String>,
    /// When the last machine of a name was gone.
    pub(super) gone: BTreeMap<String, Timestamp>,
    /// The last machine of each name that is gone.
    pub(super) departed: BTreeMap<String, Departed>,
    /// Machines that an API server which was put back no longer knows of.
    pub(super) forgotten: BTreeMap<String, Forgotten>,
}

/// A machine that is gone.
#[derive(Debug)]
pub(super) struct Departed {
    pub(super) machine: Machine,
    pub(super) revision: u64,
}

/// A machine that nobody deleted, and that is gone all the same.
#[derive(Debug)]
pub(super) struct Forgotten {
    pub(super) set: String,
    pub(super) revision: u64,
}

/// A machine.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) set: String,
    pub(super) node: String,
    pub(super) phase: History<String>,
    pub(super) rank: History<Rank>,
    /// Whether it is being deleted.
    pub(super) goes: History<bool>,
    pub(super) deleted: Option<Deleted>,
    pub(super) class: String,
    pub(super) is_marked: bool,
    /// Whether somebody wants it kept, now or when it fails.
    pub(super) is_kept: bool,
    pub(super) is_forced: bool,
    /// Whether it counts as being created, replaced or deleted.
    pub(super) in_progress: Owned,
    /// Since when it has been Running.
    running_since: Option<Timestamp>,
}

/// When and by whom a machine's deletion was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deleted {
    pub(super) revision: u64,
    pub(super) at: Timestamp,
    pub(super) by: Author,
}

/// A set, also when it is gone.
#[derive(Debug, Default)]
pub(super) struct Set {
    pub(super) deployment: String,
    pub(super) wishes: History<Wish>,
    /// What its status says.
    pub(super) counts: History<Counts>,
    /// The number of its MachineDeployment that it was told last.
    pub(super) told: Option<i64>,
}

/// What a set is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) replicas: i64,
    pub(super) is_frozen: bool,
    pub(super) goes: bool,
}

/// A deployment, also when it is gone.
#[derive(Debug, Default)]
pub(super) struct Deployment {
    /// Replicas and surge.
    pub(super) most: History<i64>,
    pub(super) replicas: History<i64>,
    pub(super) paused: History<bool>,
    pub(super) strategy: String,
    /// Its maxUnavailable.
    pub(super) unavailable: i64,
    pub(super) goes: bool,
    pub(super) wanted: Option<Wanted>,
}

impl Deployment {
    /// Whether its machines are replaced one after the other.
    pub(super) fn is_rolling(&self) -> bool {
        self.strategy == "RollingUpdate"
    }
}

/// What a deployment is told.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) replicas: i64,
    pub(super) class: String,
    /// Whether it is paused or frozen, or its machines are updated in place: that waits for the agents on the nodes, and for people.
    pub(super) is_held: bool,
}

impl Wanted {
    fn of(deployment: &Value) -> Self {
        Self {
            replicas: number(deployment, "/spec/replicas"),
            class: text(deployment, "/spec/template/spec/class/name").to_owned(),
            is_held: deployment.pointer("/spec/paused") == Some(&Value::Bool(true))
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
                set.told = told(object);
                let is_frozen = label(object, labels::FREEZE) == labels::FREEZE_VALUE;
                let goes = write.after.is_none_or(is_deleting);
                set.wishes.set(write.revision, Wish { replicas: number(object, "/spec/replicas"), is_frozen, goes });
            }
            DEPLOYMENTS => {
                let Some(object) = write.after.or(write.before) else { return };
                let deployment = self.deployments.entry(write.name.to_owned()).or_default();
                let surge = number(object, "/spec/strategy/rollingUpdate/maxSurge");
                deployment.most.set(write.revision, number(object, "/spec/replicas") + surge);
                deployment.replicas.set(write.revision, number(object, "/spec/replicas"));
                deployment.paused.set(write.revision, object.pointer("/spec/paused") == Some(&Value::Bool(true)));
                text(object, "/spec/strategy/type").clone_into(&mut deployment.strategy);
                let in_place = number(object, "/spec/strategy/inPlaceUpdate/maxUnavailable");
                deployment.unavailable = in_place.max(number(object, "/spec/strategy/rollingUpdate/maxUnavailable"));
                deployment.wanted = Some(Wanted::of(object));
                deployment.goes = write.after.is_none_or(is_deleting);
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
        machine.goes.set(write.revision, is_deleting(object));
        machine.is_forced = labels::is_true(label(object, labels::FORCE_DELETION)) == Some(true);
        text(object, "/spec/class/name").clone_into(&mut machine.class);
        machine.is_kept = !annotation(object, annotations::PRESERVE).is_empty()
            || object.pointer("/status/currentStatus/preserveExpiryTime").is_some_and(|at| !at.is_null());
        machine.is_marked = annotation(object, annotations::PRIORITY) == annotations::PRIORITY_DELETE_FIRST
            && !annotation(object, annotations::MARKED_FOR_DELETION_TIME).is_empty();
        if is_deleting(object) && machine.deleted.is_none() {
            // Only an object of a copy that was put back has been deleted before this.
            let at = text(object, "/metadata/deletionTimestamp").parse().ok().filter(|_| write.before.is_none());
            machine.deleted = Some(Deleted { revision: write.revision, at: at.unwrap_or(now), by: write.by });
        }
    }

    /// The API server was put back to a copy that has these machines and sets. What it says of them follows.
    pub(super) fn forget(&mut self, machines: &BTreeSet<&str>, sets: &BTreeSet<&str>, revision: u64, now: Timestamp) {
        for (name, machine) in std::mem::take(&mut self.known) {
            if machines.contains(name.as_str()) {
                // What was shown last counts until something else is.
                let Machine { phase, rank, goes, in_progress, .. } = machine;
                self.known.insert(name, Machine { phase, rank, goes, in_progress, ..Machine::default() });
            } else {
                self.gone.insert(name.clone(), now);
                self.forgotten.insert(name.clone(), Forgotten { set: machine.set.clone(), revision });
                self.departed.insert(name, Departed { machine, revision });
            }
        }
        for (_, set) in self.sets.iter_mut().filter(|(name, _)| !sets.contains(name.as_str())) {
            set.wishes.set(revision, Wish { replicas: 0, is_frozen: false, goes: true });
            set.counts.set(revision, Counts::default());
        }
        self.nodes.clear();
    }

    /// The Node that would be left behind by a machine. One that joined after the deletion began may not have been known of.
    pub(super) fn node_left_by(&self, machine: &str) -> Option<&str> {
        let machine = self.known.get(machine)?;
        let since = self.nodes.get(&machine.node)?;
        machine.deleted.is_some_and(|deleted| *since < deleted.at).then_some(machine.node.as_str())
    }

    /// The machines of a set that nobody deletes.
    pub(super) fn living_of_set<'a>(&'a self, set: &'a str) -> impl Iterator<Item = (&'a String, &'a Machine)> {
        self.known.iter().filter(move |(_, machine)| machine.set == set && machine.deleted.is_none())
    }

    /// The machines of a deployment, those that are being deleted too.
    pub(super) fn of_deployment<'a>(&'a self, deployment: &'a str) -> impl Iterator<Item = (&'a String, &'a Machine)> {
        let is_of =
            move |machine: &Machine| self.sets.get(&machine.set).is_some_and(|set| set.deployment == deployment);
        self.known.iter().filter(move |(_, machine)| !deployment.is_empty() && is_of(machine))
    }

    /// The machines that a set had in any state since a revision.
    pub(super) fn shown_of_set<'a>(&'a self, set: &'a str, seen: u64) -> impl Iterator<Item = &'a Machine> {
        let departed = self.departed.values().filter(move |departed| departed.revision > seen);
        let all = self.known.values().chain(departed.map(|departed| &departed.machine));
        all.filter(move |machine| machine.rank.since(seen).any(|rank| rank.is_of(set)))
    }

    /// The machines that run or are gone, and since when.
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

/// What is wrong with a machine that we make.
pub(super) fn creation(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let machines = &oracle.machines;
    let name = owner(write.after?);
    let set = machines.sets.get(name)?;
    let wishes: Vec<&Wish> = set.wishes.since(oracle.shown.oldest(SETS, oracle.now)).collect();
    if !wishes.is_empty() && wishes.iter().all(|wish| wish.is_frozen) {
        return Some((Invariant::Frozen, format!("machine {} is made, and its set {name} is frozen", write.name)));
    }
    let most = wishes.iter().map(|wish| wish.replicas).max()?;
    let living = count(machines.living_of_set(name).count()) + 1;
    if living > most {
        let what = format!("machine {} is number {living} of set {name}, which wants {most}", write.name);
        return Some((Invariant::SetLimit, what));
    }
    let deployment = machines.deployments.get(&set.deployment)?;
    // A set keeps the size that it was given until it is given another, and that may be forbidden meanwhile; and it goes by the last one that
    // it was shown. What counts is what was allowed since that one was given.
    let given = set.wishes.changed_at(oracle.shown.oldest(SETS, oracle.now));
    let seen = oracle.shown.oldest(DEPLOYMENTS, oracle.now).min(given);
    let most = deployment.most.since(seen).max()?;
    let living = count(machines.living_of_deployment(&set.deployment)) + 1;
    (living > *most).then(|| {
        let what = format!(
            "machine {} is number {living} of deployment {}, which may have {most}",
            write.name, set.deployment
        );
        (Invariant::Surge, what)
    })
}
