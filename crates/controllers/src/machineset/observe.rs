//! The input of a MachineSet's plan, read from the caches at one time.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::view::NodeView;
use api::{Machine, MachinePhase, MachineSet, Object, Uid};
use jiff::Timestamp;
use planner::machineset::{ClockTrust, EarlyFailures, Member, NameSeed, Observed, Outstanding, UndecodableMachine};
use runtime::Key;
use runtime::cache::UndecodableObject;

use crate::cluster::Shared;
use crate::indexes::{ORPHAN, ORPHAN_MACHINES};
use crate::manager::Manager;

/// The objects that a plan and its steps borrow.
pub(super) struct SetSnapshot {
    pub(super) set: Arc<MachineSet>,
    machines: Vec<(Arc<Machine>, planner::Presence<Arc<NodeView>>)>,
    undecodable: Vec<UndecodableMachine>,
    outstanding: Outstanding,
    refused: BTreeMap<Uid, Timestamp>,
    early_failures: EarlyFailures,
    clock: ClockTrust,
    name_seed: NameSeed,
    now: Timestamp,
}

pub(super) fn observe(shared: &Shared, manager: &Manager, key: &Key, set: Arc<MachineSet>) -> SetSnapshot {
    let owned = manager.counts.owned(key, &set.uid());
    let outstanding = owned.outstanding;
    let mut machines = owned.decoded;
    let orphans = shared.machines.find(&ORPHAN_MACHINES, ORPHAN);
    if !orphans.is_empty() {
        machines.extend(orphans);
        machines.sort_by(|a, b| a.name().cmp(b.name()));
    }
    let machines = machines.into_iter().map(|machine| (machine.clone(), node_of(shared, &machine))).collect();
    let undecodable = owned.undecodable.iter().map(undecodable).collect();
    let (refused, name_seed) = (manager.memory.failed_claims(key), manager.memory.name_seed(key, &manager.random));
    let early_failures = manager.memory.early_failures(key);
    let early_failures = early_failures.unwrap_or_else(|| EarlyFailures::restored(&set, &shared.policy.set));
    SetSnapshot {
        set,
        machines,
        undecodable,
        outstanding,
        refused,
        early_failures,
        clock: if shared.connectivity.is_clock_skewed() { ClockTrust::Skewed } else { ClockTrust::Trusted },
        name_seed: NameSeed(name_seed),
        now: shared.clock.now(),
    }
}

/// Returns the Node of a Failed Machine. Other Machines need no Node here, and a Node of another VM does not count.
pub(super) fn node_of(shared: &Shared, machine: &Machine) -> planner::Presence<Arc<NodeView>> {
    if *machine.phase() != MachinePhase::Failed {
        return planner::Presence::Absent;
    }
    let Some((nodes, node)) = shared.nodes.as_ref().zip(machine.node_name()) else { return planner::Presence::Absent };
    match nodes.look_up(&Key::cluster(node.as_str())).without_details() {
        planner::Presence::Present(node) if planner::node::mismatch(&machine.spec.provider_id, &node).is_some() => {
            planner::Presence::Absent
        }
        found => found,
    }
}

fn undecodable(object: &Arc<UndecodableObject>) -> UndecodableMachine {
    UndecodableMachine {
        name: object.name.as_str().into(),
        uid: object.uid.as_str().into(),
        resource_version: object.resource_version.clone(),
        labels: object.labels.clone(),
        is_deleting: object.deletion_timestamp.is_some(),
    }
}

impl SetSnapshot {
    /// Returns the Machines as input of the planner.
    pub(super) fn members(&self) -> Vec<Member<'_>> {
        self.machines
            .iter()
            .map(|(machine, node)| Member { machine, node: node.as_ref().map(|node| &**node) })
            .collect()
    }

    /// Returns the input of the planner.
    pub(super) fn as_input<'a>(&'a self, members: &'a [Member<'a>], shared: &'a Shared) -> Observed<'a> {
        Observed {
            set: &self.set,
            machines: members,
            undecodable: &self.undecodable,
            outstanding: &self.outstanding,
            refused: &self.refused,
            early_failures: self.early_failures,
            clock: self.clock,
            name_seed: self.name_seed,
            policy: &shared.policy,
            now: self.now,
        }
    }
}
