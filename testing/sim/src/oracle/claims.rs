//! What is said in a status is so, or was when it was looked at.

use serde_json::Value;

use super::machines::{Set, count, label};
use super::{Invariant, MACHINES, Oracle, SETS, Write, number, text};

/// How many machines a status speaks of: all, those that are ready, and those that are available.
pub(super) type Counts = [i64; 3];

const FIELDS: [&str; 3] = ["replicas", "readyReplicas", "availableReplicas"];

/// What an object's status says.
pub(super) fn counts(object: &Value) -> Counts {
    FIELDS.map(|field| number(object, &format!("/status/{field}")))
}

/// What is wrong with a phase that we write: a machine runs, and its Node does not.
pub(super) fn of_machine(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let (before, after) = (write.before?, write.after?);
    let runs = |machine: &Value| text(machine, "/status/currentStatus/phase") == "Running";
    if runs(before) || !runs(after) {
        return None;
    }
    let node = label(after, api::names::labels::NODE);
    let was_well = oracle.nodes.since(node, oracle.shown.oldest("nodes", oracle.now)).any(|state| state.is_well);
    (!was_well).then(|| {
        let what = format!("machine {} is said to run, and its node {node:?} is not well", write.name);
        (Invariant::Claims, what)
    })
}

/// What is wrong with the counts of a set that we write.
pub(super) fn of_set(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let most = machines_of(oracle, write.name);
    exceeded(write, most)
}

/// What is wrong with the counts of a deployment that we write. It adds up what its sets say, or would say if it were written already.
pub(super) fn of_deployment(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let seen = oracle.shown.oldest(SETS, oracle.now);
    let sets = oracle.machines.sets.iter().filter(|(_, set)| set.deployment == write.name);
    let most = sets.fold([0; 3], |most, (name, set): (&String, &Set)| {
        let of_set = set.counts.since(seen).fold(machines_of(oracle, name), |a, b| zip(a, *b, i64::max));
        zip(most, of_set, |a, b| a + b)
    });
    exceeded(write, most)
}

/// Each number of one with the same of the other.
fn zip(one: Counts, other: Counts, with: impl Fn(i64, i64) -> i64) -> Counts {
    std::array::from_fn(|field| {
        let of = |counts: &Counts| counts.get(field).copied().unwrap_or_default();
        with(of(&one), of(&other))
    })
}

/// What grows with a write beyond what there was.
fn exceeded(write: &Write<'_>, most: Counts) -> Option<(Invariant, String)> {
    let (before, after) = (counts(write.before?), counts(write.after?));
    let numbers = before.into_iter().zip(after).zip(most);
    let (field, (said, most)) = FIELDS.into_iter().zip(numbers).find_map(|(field, ((before, after), most))| {
        (after > before && after > most).then_some((field, (after, most)))
    })?;
    let what = format!("{} {} says {field} {said}, and there were no more than {most}", write.kind, write.name);
    Some((Invariant::Claims, what))
}

/// The machines that a set had in any state since what was shown.
fn machines_of(oracle: &Oracle, set: &str) -> Counts {
    let seen = oracle.shown.oldest(MACHINES, oracle.now);
    let (mut all, mut running) = (0, 0);
    for machine in oracle.machines.shown_of_set(set, seen) {
        all += 1;
        running +=
            usize::from(machine.phase.since(seen).any(|phase| ["Running", "Available"].contains(&phase.as_str())));
    }
    [count(all), count(running), count(running)]
}
