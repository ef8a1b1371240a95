//! Checks that a Machine with a healthy Node is left unchanged.
//!
//! A controller that cannot observe a Node does not know its state. It must neither treat a Node that it cannot observe
//! as missing, nor trust an old observation.

use jiff::SignedDuration;

use super::machines::Machine;
use super::{Invariant, MACHINES, Oracle, Write, text};

/// Time after which a recovery of a Node must be known. A watch may lag for a minute and a half. A controller that
/// cannot reach an API server detects that within two minutes and must then stop acting on its cache.
const DETECTION_TIME: SignedDuration = SignedDuration::from_mins(5);

/// Checks a write that marks a Machine Failed that ran: its Node must not be healthy.
pub(super) fn failure(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let (before, after) = (phase(write.before?), phase(write.after?));
    if after != "Failed" || !["Running", "Unknown"].contains(&before) {
        return None;
    }
    let node = &oracle.machines.known.get(write.name)?.node;
    let was_seen = oracle.nodes.was_always_healthy(node, oracle.shown.oldest("nodes", oracle.now));
    let is_old =
        oracle.nodes.healthy_since(node).is_some_and(|since| oracle.now.duration_since(since) > DETECTION_TIME);
    (was_seen || is_old).then(|| {
        let message =
            format!("machine {} was {before} and is marked Failed, but its node {node} is healthy", write.name);
        (Invariant::HealthyNode, message)
    })
}

fn phase(machine: &serde_json::Value) -> &str {
    text(machine, "/status/currentStatus/phase")
}

/// Checks the deletion of a part (`what`) of a Machine: the Machine must be about to be deleted or replaced. Nodes
/// without a Machine are not checked here.
pub(super) fn removal(oracle: &Oracle, node: &str, message: &str) -> Option<(Invariant, String)> {
    let (name, machine) = oracle.machines.known.iter().find(|(_, machine)| machine.node == node && !node.is_empty())?;
    (!may_be_drained(oracle, machine)).then(|| {
        let phase = machine.phase.now().map_or("", String::as_str);
        let message = format!("{message} of machine {name} ({phase}) is deleted without a reason");
        (Invariant::HealthyNode, message)
    })
}

/// Whether a Machine may be drained: it is being deleted, is Failed, or is selected for an in-place update.
fn may_be_drained(oracle: &Oracle, machine: &Machine) -> bool {
    let seen = oracle.shown.oldest(MACHINES, oracle.now);
    machine.deleting.since(seen).any(|deleting| *deleting)
        || machine.phase.since(seen).any(|phase| phase == "Failed")
        || oracle.nodes.since(&machine.node, oracle.shown.oldest("nodes", oracle.now)).any(|state| state.is_selected)
}
