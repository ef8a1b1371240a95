//! Counting machines: one reconcile of all sets and deployments.
//!
//! There is one key. New machines wake it, many at once as one; and it comes back by itself, because a safety that trusts its own
//! events would not be one. A reconcile without a finding sends nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::names::annotations::UNFREEZE;
use api::names::events::components;
use api::{Machine, MachineDeployment, MachineSet, Object, Uid};
use planner::deployment::OvershootCount;
use planner::overshoot::{Edit, Kind, Observed, SeenSet, Step, plan};
use planner::{Awaited, Wake};
use runtime::Key;
use runtime::cache::{Cached, Delta, Reflector, Trust};
use runtime::queue::Outcome;

use crate::Decision;
use crate::cluster::Shared;
use crate::decision::{Ending, Subject};
use crate::fleet::Fleet;
use crate::indexes::MACHINES_BY_OWNER;
use crate::write::{Guard, Part, WriteError};

/// The only key there is.
pub(crate) fn everything() -> Key {
    Key::cluster("all")
}

/// Whose changes bring a count about. The reference counts when a machine is added, and once in each period; a wish to unfreeze need
/// not wait for that. Where only machines count that nobody deletes, whatever changes a decision does.
pub(crate) fn listen(
    count: OvershootCount,
    machines: &mut Reflector<Machine>,
    sets: &mut Reflector<MachineSet>,
    deployments: &mut Reflector<MachineDeployment>,
    fleet: &Fleet,
) {
    match count {
        OvershootCount::All => {
            on_added_machines(machines, fleet);
            on_wishes(sets, fleet);
            on_wishes(deployments, fleet);
        }
        OvershootCount::NotDeleting => {
            on_machines(machines, fleet);
            on_sets(sets, fleet);
            on_deployments(deployments, fleet);
        }
    }
}

fn on_added_machines(reflector: &mut Reflector<Machine>, fleet: &Fleet) {
    let wake = fleet.wake_overshoot.clone();
    reflector.on_delta(move |_, delta| {
        if let Delta::Added(_) | Delta::Undecodable { old: None, .. } = delta {
            wake.add(everything());
        }
    });
}

fn on_wishes<K: Object + Cached>(reflector: &mut Reflector<K>, fleet: &Fleet) {
    let wake = fleet.wake_overshoot.clone();
    reflector.on_delta(move |_, delta| {
        let asks = |object: Option<&Arc<K>>| object.is_some_and(|object| object.annotation(UNFREEZE).is_some());
        if asks(delta.now()) && !asks(delta.before()) {
            wake.add(everything());
        }
    });
}

/// Machines that come, begin to leave or change hands are counted again.
fn on_machines(reflector: &mut Reflector<Machine>, fleet: &Fleet) {
    let wake = fleet.wake_overshoot.clone();
    reflector.on_delta(move |_, delta| {
        let counted =
            |machine: &Arc<Machine>| (machine.is_deleting(), machine.controller_owner().map(|owner| owner.uid.clone()));
        if delta.before().map(counted) != delta.now().map(counted) {
            wake.add(everything());
        }
    });
}

/// Limits, labels, conditions and wishes are on sets.
fn on_sets(reflector: &mut Reflector<MachineSet>, fleet: &Fleet) {
    let wake = fleet.wake_overshoot.clone();
    reflector.on_delta(move |_, delta| {
        let judged = |set: &Arc<MachineSet>| {
            (
                set.metadata.labels.clone(),
                set.metadata.annotations.clone(),
                set.spec.replicas,
                set.status.conditions.clone(),
            )
        };
        if delta.before().map(judged) != delta.now().map(judged) {
            wake.add(everything());
        }
    });
}

/// And on deployments.
fn on_deployments(reflector: &mut Reflector<MachineDeployment>, fleet: &Fleet) {
    let wake = fleet.wake_overshoot.clone();
    reflector.on_delta(move |_, delta| {
        let judged = |deployment: &Arc<MachineDeployment>| {
            let spec = &deployment.spec;
            let meta = &deployment.metadata;
            (meta.labels.clone(), meta.annotations.clone(), spec.replicas, spec.strategy.clone())
        };
        if delta.before().map(judged) != delta.now().map(judged) {
            wake.add(everything());
        }
    });
}

/// Counts all machines and does what follows from it.
pub(crate) async fn reconcile(shared: Arc<Shared>, fleet: Arc<Fleet>, _all: Key) -> Outcome {
    if shared.caches.trust() == Trust::Doubtful {
        // Machines of two histories would be counted twice.
        return Outcome::Again { after: shared.policy.short_retry };
    }
    let sets: Vec<Arc<MachineSet>> = fleet.sets.list().into_iter().map(|set| fleet.memory.with_counts(set)).collect();
    let deployments = fleet.deployments.list();
    let owners: BTreeMap<Uid, &MachineDeployment> =
        deployments.iter().map(|deployment| (deployment.uid(), &**deployment)).collect();
    let unreadable = unreadable(&shared);
    let seen: Vec<SeenSet<'_>> = sets
        .iter()
        .map(|set| {
            let (machines, deleting) = count(&shared, &unreadable, set);
            let deployment = set.controller_owner().and_then(|owner| owners.get(&owner.uid).copied());
            SeenSet { set, deployment, machines, deleting }
        })
        .collect();
    let all: Vec<&MachineDeployment> = deployments.iter().map(|deployment| &**deployment).collect();
    let now = shared.clock.now();
    let steps = plan(&Observed { sets: &seen, deployments: &all, policy: &shared.policy, now });
    let mut versions = Versions::default();
    versions.0.extend(sets.iter().map(|set| ((Kind::Set, set.name().to_owned()), version(&**set))));
    versions.0.extend(deployments.iter().map(|d| ((Kind::Deployment, d.name().to_owned()), version(&**d))));
    carry_out(&shared, &fleet, &steps, &mut versions).await
}

/// How many machines a set owns, and how many of them are being deleted; those that cannot be read count.
fn count(shared: &Shared, unreadable: &BTreeMap<Uid, (usize, usize)>, set: &MachineSet) -> (i32, i32) {
    let uid = set.uid();
    let readable = shared.machines.find(&MACHINES_BY_OWNER, uid.as_str());
    let deleting = readable.iter().filter(|machine| machine.is_deleting()).count();
    let (unread, unread_deleting) = unreadable.get(&uid).copied().unwrap_or_default();
    let number = |machines: usize| i32::try_from(machines).unwrap_or(i32::MAX);
    (number(readable.len() + unread), number(deleting + unread_deleting))
}

/// The same of the machines that cannot be read, by the uid of their owner.
fn unreadable(shared: &Shared) -> BTreeMap<Uid, (usize, usize)> {
    let mut by_owner: BTreeMap<Uid, (usize, usize)> = BTreeMap::new();
    for object in shared.machines.undecodable() {
        for owner in &object.owners {
            let (machines, deleting) = by_owner.entry(owner.uid.clone()).or_default();
            *machines += 1;
            *deleting += usize::from(object.deletion_timestamp.is_some());
        }
    }
    by_owner
}

/// The version of each object that the next write is based on; gone for one whose write failed.
#[derive(Default)]
struct Versions(BTreeMap<(Kind, String), String>);

fn version(object: &impl Object) -> String {
    object.resource_version().to_owned()
}

async fn carry_out(shared: &Shared, fleet: &Fleet, steps: &[Step], versions: &mut Versions) -> Outcome {
    let mut failed = false;
    for step in steps {
        if let Err(why) = fleet.leadership.check() {
            tracing::info!(%why, "not judging any further");
            return Outcome::Failed;
        }
        match step {
            Step::Write(edit) => {
                // One object that cannot be written does not keep the others from being judged.
                let written = write(fleet, edit, step, versions).await;
                tell(shared, edit, step, written.as_ref().err());
                if written.is_err() {
                    versions.0.remove(&(edit.kind, edit.name.clone()));
                    failed = true;
                }
            }
            Step::Tell { set, event } => {
                let key = Key::new(shared.namespace.as_str(), set.as_str());
                if let (Some(set), true) = (fleet.sets.get(&key), versions.0.contains_key(&(Kind::Set, set.clone()))) {
                    let sink = fleet.events.speaking_as(components::MANAGER);
                    crate::events::emit(&sink, set.object_ref(), event);
                }
            }
        }
    }
    if failed { Outcome::Failed } else { Outcome::Again { after: shared.policy.fleet.overshooting_period } }
}

/// Tells what was done to an object, under its own name.
fn tell(shared: &Shared, edit: &Edit, step: &Step, error: Option<&WriteError>) {
    let about = match edit.kind {
        Kind::Set => Subject::Set,
        Kind::Deployment => Subject::Deployment,
    };
    let key = Key::new(shared.namespace.as_str(), edit.name.as_str());
    let because = "all sets and deployments were judged by how many machines they have";
    let decision = Decision::of(about, &key, &[step], &because, Wake::On(Awaited::Machines));
    let ending = error.map_or(Ending::Done, WriteError::ending);
    shared.journal.decided(&decision.ended(ending));
}

async fn write(fleet: &Fleet, edit: &Edit, step: &Step, versions: &mut Versions) -> Result<(), WriteError> {
    let place = (edit.kind, edit.name.clone());
    let Some(based_on) = versions.0.get(&place) else { return Ok(()) };
    let guard = Guard { name: &edit.name, uid: edit.uid.as_str(), version: Some(based_on) };
    let part = match edit.part {
        planner::overshoot::Part::Metadata => Part::Object,
        planner::overshoot::Part::Status => Part::Status,
    };
    let (writers, body) = (&fleet.writers, edit.changes.clone());
    let written = match edit.kind {
        Kind::Set => version(&*writers.sets.patch(guard, part, body, step).await?.object),
        Kind::Deployment => version(&*writers.deployments.patch(guard, part, body, step).await?.object),
    };
    versions.0.insert(place, written);
    Ok(())
}
