//! Everything a set's decision looks at, read at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::view::NodeView;
use api::{Machine, MachineName, MachinePhase, MachineSet, Object, Uid};
use jiff::{SignedDuration, Timestamp};
use planner::machineset::interest::is_staying;
use planner::machineset::{ClockTrust, EarlyFailures, Member, NameSeed, Observed, Outstanding, Unreadable};
use runtime::cache::UndecodableObject;
use runtime::expectations::Expected;
use runtime::{Expectations, Key};

use crate::cluster::Shared;
use crate::fleet::Fleet;
use crate::indexes::{MACHINES_BY_OWNER, ORPHAN, ORPHAN_MACHINES};
use crate::presence::presence;

/// What was seen, kept alive for the planner and for the steps that follow.
pub(super) struct SetSnapshot {
    pub(super) set: Arc<MachineSet>,
    machines: Vec<(Arc<Machine>, planner::Presence<Arc<NodeView>>)>,
    unreadable: Vec<Unreadable>,
    outstanding: Outstanding,
    refused: BTreeMap<Uid, Timestamp>,
    early_failures: EarlyFailures,
    clock: ClockTrust,
    name_seed: NameSeed,
    now: Timestamp,
}

pub(super) fn observe(shared: &Shared, fleet: &Fleet, key: &Key, set: Arc<MachineSet>) -> SetSnapshot {
    let uid = set.uid();
    // What is outstanding is read first: a machine that appears in between is counted twice, never not at all.
    let outstanding = outstanding(shared, &fleet.expectations, key);
    let mut machines = shared.machines.find(&MACHINES_BY_OWNER, uid.as_str());
    let orphans = shared.machines.find(&ORPHAN_MACHINES, ORPHAN);
    if !orphans.is_empty() {
        machines.extend(orphans);
        machines.sort_by(|a, b| a.name().cmp(b.name()));
    }
    let machines = machines.into_iter().map(|machine| (machine.clone(), node_of(shared, &machine))).collect();
    let unreadable = shared.machines.undecodable().iter().filter(|left| is_owned(left, &uid)).map(unread).collect();
    let (refused, name_seed) = (fleet.memory.refused(key), fleet.memory.name_seed(key, &fleet.random));
    let early_failures = fleet.memory.early_failures(key);
    let early_failures = early_failures.unwrap_or_else(|| EarlyFailures::restored(&set, &shared.policy.set));
    SetSnapshot {
        set,
        machines,
        unreadable,
        outstanding,
        refused,
        early_failures,
        clock: if shared.connectivity.is_clock_skewed() { ClockTrust::Skewed } else { ClockTrust::Trusted },
        name_seed: NameSeed(name_seed),
        now: shared.clock.now(),
    }
}

pub(super) fn outstanding(shared: &Shared, expectations: &Expectations, key: &Key) -> Outstanding {
    let mut unseen = Outstanding::default();
    for open in expectations.outstanding(key) {
        match open.what {
            Expected::Create(machine) => drop(unseen.creates.insert(MachineName::from(&*machine.name))),
            Expected::Delete { uid } => drop(unseen.deletes.insert(Uid::from(&*uid))),
        }
        let lapses = SignedDuration::try_from(open.lapses_in).ok().and_then(|d| shared.clock.now().checked_add(d).ok());
        unseen.until = unseen.until.max(lapses);
    }
    unseen
}

/// How many Machines of the set count as replicas, without those whose delete is pending.
pub(super) fn staying(shared: &Shared, set: &MachineSet, outstanding: &Outstanding) -> usize {
    let uid = set.uid();
    let pending = |machine: &Uid| outstanding.deletes.contains(machine);
    let owned = shared.machines.find(&MACHINES_BY_OWNER, uid.as_str());
    let undecodable = shared.machines.undecodable();
    let undecodable = undecodable.iter().filter(|left| is_owned(left, &uid) && left.deletion_timestamp.is_none());
    owned.iter().filter(|machine| is_staying(set, machine, pending)).count() + undecodable.count()
}

pub(super) fn node_of(shared: &Shared, machine: &Machine) -> planner::Presence<Arc<NodeView>> {
    if *machine.phase() != MachinePhase::Failed {
        return planner::Presence::Absent;
    }
    let Some((nodes, node)) = shared.nodes.as_ref().zip(machine.node_name()) else { return planner::Presence::Absent };
    match presence(nodes.look_up(&Key::cluster(node.as_str()))) {
        planner::Presence::Present(node) if planner::node::mismatch(&machine.spec.provider_id, &node).is_some() => {
            planner::Presence::Absent
        }
        found => found,
    }
}

fn is_owned(left: &UndecodableObject, uid: &Uid) -> bool {
    left.owners.iter().any(|owner| owner.controller == Some(true) && owner.uid == uid.as_str())
}

fn unread(left: &Arc<UndecodableObject>) -> Unreadable {
    Unreadable {
        name: left.name.as_str().into(),
        uid: left.uid.as_str().into(),
        resource_version: left.resource_version.clone(),
        labels: left.labels.clone(),
        leaving: left.deletion_timestamp.is_some(),
    }
}

impl SetSnapshot {
    /// The machines as the planner takes them.
    pub(super) fn member(&self) -> Vec<Member<'_>> {
        self.machines
            .iter()
            .map(|(machine, node)| Member { machine, node: node.as_ref().map(|node| &**node) })
            .collect()
    }

    /// The planner's view of it.
    pub(super) fn as_input<'a>(&'a self, member: &'a [Member<'a>], shared: &'a Shared) -> Observed<'a> {
        Observed {
            set: &self.set,
            machines: member,
            unreadable: &self.unreadable,
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
