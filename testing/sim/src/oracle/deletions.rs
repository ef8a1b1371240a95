//! Who may be deleted.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::machines::{Machine, Machines, Wish, count};
use super::{Invariant, MACHINES, Oracle, SETS, Write, order};

/// What is wrong with a machine that we delete: nothing asks for it to go.
pub(super) fn of_machine(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let machines = &oracle.machines;
    let machine = machines.known.get(write.name)?;
    let seen = oracle.shown.oldest(MACHINES, oracle.now);
    let has_failed = machine.phase.since(seen).any(|phase| phase == "Failed");
    if has_failed || machine.is_marked || machines.deleted_nodes.contains(&machine.node) {
        return None;
    }
    let set = machines.sets.get(&machine.set)?;
    if machines.deployments.get(&set.deployment).is_some_and(|deployment| deployment.goes) {
        return None;
    }
    let wishes: Vec<&Wish> = set.wishes.since(oracle.shown_to_delete(write.name)).collect();
    if wishes.iter().any(|wish| wish.goes) {
        return None;
    }
    let least = wishes.iter().map(|wish| wish.replicas).min()?;
    let living = counted(machines, &machine.set, seen);
    if living > least {
        return out_of_turn(oracle, write.name, machine, living - least);
    }
    let phase = machine.phase.now().map_or("", String::as_str);
    let what = format!(
        "machine {} ({phase}) is deleted, and its set {} has {living} and wants {least}",
        write.name, machine.set
    );
    Some((Invariant::AskedToGo, what))
}

/// What the controllers had been shown of sets when they sent the request to delete a machine. They look at the set before each request.
#[derive(Debug, Default)]
pub(super) struct Requested(BTreeMap<String, u64>);

/// For how long a look at the cache counts.
const LOOK: SignedDuration = SignedDuration::from_secs(1);

impl Oracle {
    /// The controllers send a request to delete this machine.
    pub fn delete_sent(&mut self, now: Timestamp, machine: &str) {
        self.now = now;
        let shown = self.shown.within(SETS, now, LOOK);
        self.requested.0.insert(machine.to_owned(), shown);
    }

    /// The oldest revision of sets on which the deletion of a machine may have been decided.
    fn shown_to_delete(&self, machine: &str) -> u64 {
        self.requested.0.get(machine).copied().unwrap_or_else(|| self.shown.oldest(SETS, self.now))
    }
}

/// What is wrong with a machine that goes because its set has `surplus` too many: others should go before it.
fn out_of_turn(oracle: &Oracle, name: &str, machine: &Machine, surplus: i64) -> Option<(Invariant, String)> {
    let seen = oracle.shown.oldest(MACHINES, oracle.now);
    let unpreserved = order::unpreserved(&oracle.machines, machine, seen);
    if count(unpreserved.len()) >= surplus {
        let what = format!("preserved machine {name} is deleted as one of {surplus} too many, before {unpreserved:?}");
        return Some((Invariant::PreservedLast, what));
    }
    let before: Vec<&str> = order::before(&oracle.machines, machine, seen).collect();
    (count(before.len()) >= surplus).then(|| {
        let what = format!("machine {name} is deleted as one of {surplus} too many, and should go after {before:?}");
        (Invariant::Order, what)
    })
}

/// The machines that the controllers may take for living: what somebody else deleted and nobody has shown them cannot be known.
fn counted(machines: &Machines, set: &str, seen: u64) -> i64 {
    let may_count =
        |machine: &Machine| machine.deleted.is_none_or(|deleted| !deleted.by.is_ours() && deleted.revision > seen);
    let counted = machines.known.values().filter(|machine| machine.set == set && may_count(machine)).count();
    // Nobody has shown them either that a machine is gone that somebody else took away, or that one was forgotten.
    let taken = machines.departed.iter().filter(|(name, gone)| {
        let is_of = gone.machine.set == set && !machines.forgotten.contains_key(*name);
        is_of && gone.revision > seen && may_count(&gone.machine)
    });
    let forgotten = machines.forgotten.values().filter(|machine| machine.set == set && machine.revision > seen);
    count(counted + taken.count() + forgotten.count())
}

/// What is wrong with a set that we delete: machines would go with it.
pub(super) fn of_set(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let machines = &oracle.machines;
    let set = machines.sets.get(write.name)?;
    if machines.deployments.get(&set.deployment).is_none_or(|deployment| deployment.goes) {
        return None;
    }
    let living = machines.living_of_set(write.name).count();
    let replicas = set.wishes.now().map_or(0, |wish| wish.replicas);
    (living > 0 || replicas > 0).then(|| {
        let what = format!("set {} is deleted with {living} machines, {replicas} wanted", write.name);
        (Invariant::SetInUse, what)
    })
}
