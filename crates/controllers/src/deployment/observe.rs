//! Everything a deployment's decision looks at, read from the caches at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::view::NodeView;
use api::{Machine, MachineDeployment, MachineSet, Object, OwnerReference};
use jiff::{SignedDuration, Timestamp};
use planner::deployment::{Named, Observed, SeenMachine, SeenSet, TargetCluster, UndecodableSet, machines_named};
use runtime::Key;
use runtime::cache::{Lookup, UndecodableObject};
use runtime::expectations::Expected;

use crate::cluster::Shared;
use crate::fleet::Fleet;
use crate::indexes::{MACHINES_BY_OWNER, ORPHAN, ORPHAN_SETS, SETS_BY_OWNER};

/// What was seen, kept alive for the planner.
pub(super) struct DeploymentSnapshot {
    deployment: Arc<MachineDeployment>,
    sets: Vec<FoundSet>,
    names_in_use: BTreeSet<String>,
    undecodable_sets: Vec<UndecodableSet>,
    named: BTreeMap<String, Found>,
    reported: Option<Timestamp>,
    /// When the last machine that was asked for and not seen is no longer waited for.
    until: Option<Timestamp>,
    now: Timestamp,
}

struct FoundSet {
    set: Arc<MachineSet>,
    machines: Vec<(Arc<Machine>, Option<Arc<NodeView>>)>,
    unseen: usize,
}

enum Found {
    Seen(Arc<Machine>),
    Unreadable,
    NotVisible,
    Gone,
}

/// `gone` are machines that the API server, asked just now, does not know.
pub(super) fn observe(
    shared: &Shared,
    fleet: &Fleet,
    deployment: Arc<MachineDeployment>,
    gone: &BTreeSet<String>,
) -> DeploymentSnapshot {
    let unreadable = shared.machines.undecodable();
    let owned = fleet.sets.find(&SETS_BY_OWNER, deployment.uid().as_str());
    let orphans = fleet.sets.find(&ORPHAN_SETS, ORPHAN);
    let now = shared.clock.now();
    let mut until = None;
    let found = |set: Arc<MachineSet>| {
        let set = fleet.memory.with_counts(set);
        let uid = set.uid();
        let theirs = unreadable.iter().filter(|object| {
            object.owners.iter().any(|owner| owner.controller == Some(true) && owner.uid == uid.as_str())
        });
        // What is expected is read first: a machine that appears in between is counted twice, never not at all.
        let expected = fleet.expectations.outstanding(&Key::new(set.namespace(), set.name())).into_iter();
        let asked_for = expected.filter(|open| matches!(open.what, Expected::Create(_))).map(|open| open.lapses_in);
        let lapses: Vec<Timestamp> =
            asked_for.filter_map(|lapses_in| now.checked_add(SignedDuration::try_from(lapses_in).ok()?).ok()).collect();
        until = until.max(lapses.iter().max().copied());
        let machines = shared.machines.find(&MACHINES_BY_OWNER, uid.as_str()).into_iter();
        FoundSet {
            unseen: theirs.count() + lapses.len(),
            machines: machines.map(|machine| (machine.clone(), node_of(shared, &machine))).collect(),
            set,
        }
    };
    let sets = owned.into_iter().chain(orphans).map(found).collect();
    let readable = fleet.sets.list().into_iter().map(|set| set.name().to_owned());
    let names_in_use = readable.chain(fleet.sets.undecodable().iter().map(|object| object.name.clone())).collect();
    let undecodable_sets = fleet.sets.undecodable();
    let is_owned = |object: &&Arc<UndecodableObject>| {
        let by_deployment =
            |owner: &OwnerReference| owner.controller == Some(true) && owner.uid == deployment.uid().as_str();
        object.owners.iter().any(by_deployment) && object.deletion_timestamp.is_none()
    };
    let undecodable_sets = undecodable_sets.iter().filter(is_owned);
    let undecodable_sets = undecodable_sets
        .map(|object| UndecodableSet { name: object.name.clone(), error: object.error.clone() })
        .collect();
    let look_up = |name: String| {
        let found = match shared.machines.look_up(&Key::new(deployment.namespace(), name.as_str())) {
            Lookup::Present(machine) => Found::Seen(machine),
            Lookup::Undecodable(_) => Found::Unreadable,
            Lookup::Absent if gone.contains(&name) => Found::Gone,
            Lookup::Absent => Found::NotVisible,
        };
        (name, found)
    };
    let named = machines_named(&deployment).into_iter().map(look_up).collect();
    let reported = fleet.reported.at(&deployment.uid());
    DeploymentSnapshot { deployment, sets, names_in_use, undecodable_sets, named, reported, until, now }
}

fn node_of(shared: &Shared, machine: &Machine) -> Option<Arc<NodeView>> {
    let node = shared.nodes.as_ref()?.get(&Key::cluster(machine.node_name()?.as_str()))?;
    planner::node::mismatch(&machine.spec.provider_id, &node).is_none().then_some(node)
}

impl DeploymentSnapshot {
    /// When to look again at the latest, whatever the plan waits for: a machine that was asked for and never comes wakes nobody.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// The sets, for the planner.
    pub(super) fn sets(&self) -> Vec<SeenSet<'_>> {
        let mut sets = Vec::with_capacity(self.sets.len());
        for FoundSet { set, machines, unseen } in &self.sets {
            let machines = machines.iter().map(|(machine, node)| SeenMachine { machine, node: node.as_deref() });
            sets.push(SeenSet { set, machines: machines.collect(), unseen: *unseen });
        }
        sets
    }

    /// The machines that someone named, for the planner.
    pub(super) fn named(&self) -> BTreeMap<String, Named<'_>> {
        let mut named = BTreeMap::new();
        for (name, found) in &self.named {
            let seen = match found {
                Found::Seen(machine) => Named::Seen(machine),
                Found::Unreadable => Named::Unreadable,
                Found::NotVisible => Named::NotVisible,
                Found::Gone => Named::Gone,
            };
            named.insert(name.clone(), seen);
        }
        named
    }

    /// The planner's view of it.
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
            target: if shared.nodes.is_some() { TargetCluster::Seen } else { TargetCluster::None },
            policy: &shared.policy,
            reported: self.reported,
            now: self.now,
        }
    }
}
