//! Who may be deleted.

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
    let wishes: Vec<&Wish> = set.wishes.since(oracle.shown.oldest(SETS, oracle.now)).collect();
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

/// What is wrong with a machine that goes because its set has `surplus` too many: others should go before it.
fn out_of_turn(oracle: &Oracle, name: &str, machine: &Machine, surplus: i64) -> Option<(Invariant, String)> {
    let before: Vec<&str> =
        order::before(&oracle.machines, machine, oracle.shown.oldest(MACHINES, oracle.now)).collect();
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
