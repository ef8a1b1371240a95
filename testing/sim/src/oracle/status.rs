//! Checks that the status of an object was correct when it was decided.

use serde_json::Value;

use super::machines::{Set, count, label};
use super::{Invariant, MACHINES, Oracle, SETS, Write, number, text};

/// Counts of a status: replicas, ready replicas and available replicas.
pub(super) type Counts = [i64; 3];

const FIELDS: [&str; 3] = ["replicas", "readyReplicas", "availableReplicas"];

/// Returns the counts of the status of an object.
pub(super) fn counts(object: &Value) -> Counts {
    FIELDS.map(|field| number(object, &format!("/status/{field}")))
}

/// Checks a write that sets a Machine to Running: its Node must be healthy.
pub(super) fn of_machine(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let (before, after) = (write.before?, write.after?);
    let runs = |machine: &Value| text(machine, "/status/currentStatus/phase") == "Running";
    if runs(before) || !runs(after) {
        return None;
    }
    let node = label(after, api::names::labels::NODE);
    let was_healthy = oracle.nodes.since(node, oracle.shown.oldest("nodes", oracle.now)).any(|state| state.is_healthy);
    (!was_healthy).then(|| {
        let message = format!("machine {} is set to Running, but its node {node:?} is not healthy", write.name);
        (Invariant::StatusCounts, message)
    })
}

/// Checks the counts of a MachineSet.
pub(super) fn of_set(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let max = machines_of(oracle, write.name);
    exceeded(write, max)
}

/// Checks the counts of a MachineDeployment. It adds up the statuses of its MachineSets, including those that are about
/// to be written.
pub(super) fn of_deployment(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let seen = oracle.shown.oldest(SETS, oracle.now);
    let sets = oracle.machines.sets.iter().filter(|(_, set)| set.deployment == write.name);
    let max = sets.fold([0; 3], |max, (name, set): (&String, &Set)| {
        let of_set = set.counts.since(seen).fold(machines_of(oracle, name), |a, b| zip(a, *b, i64::max));
        zip(max, of_set, |a, b| a + b)
    });
    exceeded(write, max)
}

/// Combines the counts of the same field.
fn zip(one: Counts, other: Counts, with: impl Fn(i64, i64) -> i64) -> Counts {
    std::array::from_fn(|field| {
        let of = |counts: &Counts| counts.get(field).copied().unwrap_or_default();
        with(of(&one), of(&other))
    })
}

/// Checks that no count increases beyond `max`.
fn exceeded(write: &Write<'_>, max: Counts) -> Option<(Invariant, String)> {
    let (before, after) = (counts(write.before?), counts(write.after?));
    let numbers = before.into_iter().zip(after).zip(max);
    let (field, (said, max)) = FIELDS
        .into_iter()
        .zip(numbers)
        .find_map(|(field, ((before, after), max))| (after > before && after > max).then_some((field, (after, max))))?;
    let message = format!("{} {} says {field} {said}, and there were no more than {max}", write.kind, write.name);
    Some((Invariant::StatusCounts, message))
}

/// Returns the maximum counts of a MachineSet in any state since the last delivered one.
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
