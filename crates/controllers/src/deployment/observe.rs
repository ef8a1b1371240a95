//! The input of a MachineDeployment's plan, read from the caches at one time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::view::NodeView;
use api::{Machine, MachineDeployment, MachineSet, Object};
use jiff::Timestamp;
use planner::deployment::{Named, Observed, SeenMachine, SeenSet, UndecodableSet, machines_named};
use runtime::Key;
use runtime::cache::Lookup;

use crate::cluster::Shared;
use crate::indexes::{ORPHAN, ORPHAN_SETS, SETS_BY_OWNER};
use crate::manager::Manager;
use crate::owners::is_managed_by;

/// The objects that a plan borrows.
pub(super) struct DeploymentSnapshot {
    deployment: Arc<MachineDeployment>,
    sets: Vec<FoundSet>,
    names_in_use: BTreeSet<String>,
    undecodable_sets: Vec<UndecodableSet>,
    named: BTreeMap<String, Found>,
    status_written: Option<Timestamp>,
    /// When the last outstanding create of a Machine lapses.
    creates_lapse: Option<Timestamp>,
    now: Timestamp,
}

struct FoundSet {
    set: Arc<MachineSet>,
    machines: Vec<(Arc<Machine>, Option<Arc<NodeView>>)>,
    /// Number of Machines that cannot be decoded or that the cache does not show yet.
    unseen: usize,
}

enum Found {
    Seen(Arc<Machine>),
    Unreadable,
    NotVisible,
    Gone,
}

/// Reads the caches. `missing` are names of Machines that were looked up and do not exist.
pub(super) fn observe(
    shared: &Shared,
    manager: &Manager,
    deployment: Arc<MachineDeployment>,
    missing: &BTreeSet<String>,
) -> DeploymentSnapshot {
    let uid = deployment.uid();
    let mut creates_lapse = None;
    let found = |set: Arc<MachineSet>| {
        let set = manager.counts.latest(set);
        let owned = manager.counts.owned(&Key::new(set.namespace(), set.name()), &set.uid());
        creates_lapse = creates_lapse.max(owned.creates_lapse);
        let machines = owned.decoded.into_iter();
        FoundSet {
            unseen: owned.undecodable.len() + owned.outstanding.creates.len(),
            machines: machines.map(|machine| (machine.clone(), node_of(shared, &machine))).collect(),
            set,
        }
    };
    let orphans = manager.sets.find(&ORPHAN_SETS, ORPHAN);
    let sets = manager.sets.find(&SETS_BY_OWNER, uid.as_str()).into_iter().chain(orphans).map(found).collect();
    let undecodable = manager.sets.undecodable();
    let decoded = manager.sets.list().into_iter().map(|set| set.name().to_owned());
    let names_in_use = decoded.chain(undecodable.iter().map(|object| object.name.clone())).collect();
    let undecodable_sets = undecodable
        .iter()
        .filter(|object| is_managed_by(object, &uid) && object.deletion_timestamp.is_none())
        .map(|object| UndecodableSet { name: object.name.clone(), error: object.error.clone() })
        .collect();
    let look_up = |name: String| {
        let found = match shared.machines.look_up(&Key::new(deployment.namespace(), name.as_str())) {
            Lookup::Present(machine) => Found::Seen(machine),
            Lookup::Undecodable(_) => Found::Unreadable,
            Lookup::Absent if missing.contains(&name) => Found::Gone,
            Lookup::Absent => Found::NotVisible,
        };
        (name, found)
    };
    let named = machines_named(&deployment).into_iter().map(look_up).collect();
    let status_written = manager.status_writes.last(&uid);
    let now = shared.clock.now();
    DeploymentSnapshot { deployment, sets, names_in_use, undecodable_sets, named, status_written, creates_lapse, now }
}

fn node_of(shared: &Shared, machine: &Machine) -> Option<Arc<NodeView>> {
    let node = shared.nodes.as_ref()?.get(&Key::cluster(machine.node_name()?.as_str()))?;
    planner::node::mismatch(&machine.spec.provider_id, &node).is_none().then_some(node)
}

impl DeploymentSnapshot {
    /// Returns the latest time of the next reconcile: no event follows an outstanding create that lapses.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.creates_lapse
    }

    /// Returns the MachineSets as input of the planner.
    pub(super) fn sets(&self) -> Vec<SeenSet<'_>> {
        let mut sets = Vec::with_capacity(self.sets.len());
        for FoundSet { set, machines, unseen } in &self.sets {
            let machines = machines.iter().map(|(machine, node)| SeenMachine { machine, node: node.as_deref() });
            sets.push(SeenSet { set, machines: machines.collect(), unseen: *unseen });
        }
        sets
    }

    /// Returns the Machines that are named for deletion as input of the planner.
    pub(super) fn named(&self) -> BTreeMap<String, Named<'_>> {
        let mut named = BTreeMap::new();
        for (name, found) in &self.named {
            let seen = match found {
                Found::Seen(machine) => Named::Found(machine),
                Found::Unreadable => Named::Undecodable,
                Found::NotVisible => Named::NotCached,
                Found::Gone => Named::NotFound,
            };
            named.insert(name.clone(), seen);
        }
        named
    }

    /// Returns the input of the planner.
    pub(super) fn as_input<'a>(
        &'a self,
        sets: &'a [SeenSet<'a>],
        named: &'a BTreeMap<String, Named<'a>>,
        shared: &'a Shared,
    ) -> Observed<'a> {
        Observed {
            deployment: &self.deployment,
            sets,
            names_in_use: &self.names_in_use,
            undecodable_sets: &self.undecodable_sets,
            named,
            has_target_cluster: shared.nodes.is_some(),
            policy: &shared.policy,
            reported: self.status_written,
            now: self.now,
        }
    }
}
