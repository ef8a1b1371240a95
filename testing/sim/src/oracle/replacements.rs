//! Checks how many Machines of a MachineDeployment are replaced at the same time.

use super::machines::annotation;
use super::{Invariant, MACHINES, Oracle, Write, text};

/// Checks a write that marks an unhealthy Machine Failed: the limit must not be reached.
pub(super) fn failure(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let phase = |machine| text(machine, "/status/currentStatus/phase");
    let (before, after) = (write.before?, write.after?);
    if phase(before) != "Unknown" || phase(after) != "Failed" {
        return None;
    }
    let machines = &oracle.machines;
    let deployment = &machines.sets.get(&machines.known.get(write.name)?.set)?.deployment;
    let has_own_limit = !annotation(after, api::names::annotations::MAX_REPLACEMENTS).is_empty();
    if deployment.is_empty() || has_own_limit {
        return None;
    }
    let seen = oracle.shown.oldest(MACHINES, oracle.now);
    let others = machines.of_deployment(deployment).filter(|(name, machine)| {
        *name != write.name && machine.in_progress.is_known(seen, write.writer, oracle.is_clear())
    });
    let others: Vec<&String> = others.map(|(name, _)| name).collect();
    (others.len() >= oracle.limits.replacements).then(|| {
        let message = format!(
            "machine {} is marked Failed while {others:?} of deployment {deployment} are in progress",
            write.name
        );
        (Invariant::Replacements, message)
    })
}
