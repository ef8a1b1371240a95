//! Checks the deletion of Machines and MachineSets.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::machines::{Machine, Machines, SetSpec, count};
use super::{Invariant, MACHINES, Oracle, SETS, Write, order};

/// Checks that the deletion of a Machine has a reason.
pub(super) fn of_machine(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let machines = &oracle.machines;
    let machine = machines.known.get(write.name)?;
    let seen = oracle.shown.oldest(MACHINES, oracle.now);
    let has_failed = machine.phase.since(seen).any(|phase| phase == "Failed");
    if has_failed || machine.is_marked || machines.deleted_nodes.contains(&machine.node) {
        return None;
    }
    let set = machines.sets.get(&machine.set)?;
    if machines.deployments.get(&set.deployment).is_some_and(|deployment| deployment.deleting) {
        return None;
    }
    let specs: Vec<&SetSpec> = set.specs.since(oracle.basis_of_deletion(write.name)).collect();
    if specs.iter().any(|spec| spec.deleting) {
        return None;
    }
    let min = specs.iter().map(|spec| spec.replicas).min()?;
    let living = count_living(machines, &machine.set, seen);
    if living > min {
        return wrong_order(oracle, write.name, machine, living - min);
    }
    let phase = machine.phase.now().map_or("", String::as_str);
    let message = format!(
        "machine {} ({phase}) is deleted, but its set {} has {living} machines and at least {min} replicas",
        write.name, machine.set
    );
    Some((Invariant::UnrequestedDeletion, message))
}

/// For each Machine, the revision of MachineSets that had been delivered when the delete request was sent. The
/// controllers read the MachineSet before each request.
#[derive(Debug, Default)]
pub(super) struct DeleteRequests(BTreeMap<String, u64>);

/// Time for which a read of the cache counts.
const READ_TIME: SignedDuration = SignedDuration::from_secs(1);

impl Oracle {
    /// Records that the controllers send a request to delete this Machine.
    pub fn delete_sent(&mut self, now: Timestamp, machine: &str) {
        self.now = now;
        let shown = self.shown.within(SETS, now, READ_TIME);
        self.requested.0.insert(machine.to_owned(), shown);
    }

    /// Returns the oldest revision of MachineSets on which the deletion of a Machine may have been decided.
    fn basis_of_deletion(&self, machine: &str) -> u64 {
        self.requested.0.get(machine).copied().unwrap_or_else(|| self.shown.oldest(SETS, self.now))
    }
}

/// Checks the order of deletions: `machine` is deleted because its MachineSet has `surplus` too many.
fn wrong_order(oracle: &Oracle, name: &str, machine: &Machine, surplus: i64) -> Option<(Invariant, String)> {
    let seen = oracle.shown.oldest(MACHINES, oracle.now);
    let unpreserved = order::unpreserved(&oracle.machines, machine, seen);
    if count(unpreserved.len()) >= surplus {
        let message =
            format!("preserved machine {name} is deleted as one of {surplus} too many, before {unpreserved:?}");
        return Some((Invariant::PreservedLast, message));
    }
    let before: Vec<&str> = order::ranked_before(&oracle.machines, machine, seen).collect();
    (count(before.len()) >= surplus).then(|| {
        let message = format!(
            "machine {name} is deleted as one of {surplus} too many, before {before:?}, which have a lower priority"
        );
        (Invariant::DeletionOrder, message)
    })
}

/// Counts the Machines that the controllers may regard as existing. Deletions by other clients count only after a watch
/// has delivered them.
fn count_living(machines: &Machines, set: &str, seen: u64) -> i64 {
    let may_count = |machine: &Machine| {
        machine.deleted.is_none_or(|deleted| !deleted.by.is_controller() && deleted.revision > seen)
    };
    let count_living = machines.known.values().filter(|machine| machine.set == set && may_count(machine)).count();
    // The same holds for Machines that other clients removed, and for Machines that were lost in a restore.
    let taken = machines.departed.iter().filter(|(name, gone)| {
        let is_of = gone.machine.set == set && !machines.forgotten.contains_key(*name);
        is_of && gone.revision > seen && may_count(&gone.machine)
    });
    let forgotten = machines.forgotten.values().filter(|machine| machine.set == set && machine.revision > seen);
    count(count_living + taken.count() + forgotten.count())
}

/// Checks that a MachineSet has no Machines and no replicas when it is deleted.
pub(super) fn of_set(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let machines = &oracle.machines;
    let set = machines.sets.get(write.name)?;
    if machines.deployments.get(&set.deployment).is_none_or(|deployment| deployment.deleting) {
        return None;
    }
    let living = machines.living_of_set(write.name).count();
    let replicas = set.specs.now().map_or(0, |spec| spec.replicas);
    (living > 0 || replicas > 0).then(|| {
        let message = format!("set {} is deleted with {living} machines and {replicas} replicas", write.name);
        (Invariant::SetInUse, message)
    })
}
