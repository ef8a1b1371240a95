//! Nothing is taken from a machine that is well.
//!
//! A controller that cannot see a Node does not know how it is. It must not take what it cannot see for what is not there, nor what it
//! saw once for what is.

use jiff::SignedDuration;

use super::machines::Machine;
use super::{Invariant, MACHINES, Oracle, Write, text};

/// For how long a Node may be well unseen: a watch may be late for a minute and a half, and whoever cannot reach an API server for longer
/// finds that out within two minutes and must not go on as if nothing had changed.
const UNSEEN: SignedDuration = SignedDuration::from_mins(5);

/// What is wrong with a phase that we write: a machine that ran has failed, and its Node is well.
pub(super) fn failure(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let (before, after) = (phase(write.before?), phase(write.after?));
    if after != "Failed" || !["Running", "Unknown"].contains(&before) {
        return None;
    }
    let node = &oracle.machines.known.get(write.name)?.node;
    let was_seen = oracle.nodes.was_always_well(node, oracle.shown.oldest("nodes", oracle.now));
    let is_old = oracle.nodes.well_since(node).is_some_and(|since| oracle.now.duration_since(since) > UNSEEN);
    (was_seen || is_old).then(|| {
        let what = format!("machine {} was {before} and is marked Failed, and its node {node} is well", write.name);
        (Invariant::Blind, what)
    })
}

fn phase(machine: &serde_json::Value) -> &str {
    text(machine, "/status/currentStatus/phase")
}

/// What is wrong with something that we take from a node (`what`): its machine is to stay as it is. A node without a machine is judged
/// by nobody here.
pub(super) fn taken(oracle: &Oracle, node: &str, what: &str) -> Option<(Invariant, String)> {
    let (name, machine) = oracle.machines.known.iter().find(|(_, machine)| machine.node == node && !node.is_empty())?;
    (!may_be_drained(oracle, machine)).then(|| {
        let phase = machine.phase.now().map_or("", String::as_str);
        let what = format!("{what} of machine {name} ({phase}) is made to go, and nothing asks for that");
        (Invariant::Blind, what)
    })
}

/// Whether a machine may lose its pods: it is being deleted, it has failed, or it is to be updated in place.
fn may_be_drained(oracle: &Oracle, machine: &Machine) -> bool {
    let seen = oracle.shown.oldest(MACHINES, oracle.now);
    machine.goes.since(seen).any(|goes| *goes)
        || machine.phase.since(seen).any(|phase| phase == "Failed")
        || oracle.nodes.since(&machine.node, oracle.shown.oldest("nodes", oracle.now)).any(|state| state.is_selected)
}
