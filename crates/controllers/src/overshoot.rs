//! The overshoot protection: one reconcile of all MachineSets and MachineDeployments.
//!
//! It has one key. New Machines trigger it, at a limited rate, and it is repeated periodically, because a protection must not depend on
//! events alone. A reconcile without findings sends no requests.

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
use crate::indexes::MACHINES_BY_OWNER;
use crate::manager::Manager;
use crate::write::{Guard, Part, WriteError};

/// Returns the only key of the overshoot protection.
pub(crate) fn everything() -> Key {
    Key::cluster("all")
}

/// Registers the event handlers. MCM counts when a Machine is added, and once in each period; here, a request to unfreeze also triggers a
/// count. With [`OvershootCount::NotDeleting`], all changes that the decision depends on trigger a count.
pub(crate) fn listen(
    count: OvershootCount,
    machines: &mut Reflector<Machine>,
    sets: &mut Reflector<MachineSet>,
    deployments: &mut Reflector<MachineDeployment>,
    manager: &Manager,
) {
    match count {
        OvershootCount::All => {
            on_added_machines(machines, manager);
            on_unfreeze_requests(sets, manager);
            on_unfreeze_requests(deployments, manager);
        }
        OvershootCount::NotDeleting => {
            on_machines(machines, manager);
            on_sets(sets, manager);
            on_deployments(deployments, manager);
        }
    }
}

fn on_added_machines(reflector: &mut Reflector<Machine>, manager: &Manager) {
    let wake = manager.wake_overshoot.clone();
    reflector.on_delta(move |_, delta| {
        if let Delta::Added(_) | Delta::Undecodable { old: None, .. } = delta {
            wake.add(everything());
        }
    });
}

fn on_unfreeze_requests<K: Object + Cached>(reflector: &mut Reflector<K>, manager: &Manager) {
    let wake = manager.wake_overshoot.clone();
    reflector.on_delta(move |_, delta| {
        let is_requested = |object: Option<&Arc<K>>| object.is_some_and(|object| object.annotation(UNFREEZE).is_some());
        if is_requested(delta.now()) && !is_requested(delta.before()) {
            wake.add(everything());
        }
    });
}

/// Triggers a count when a Machine is added or deleted or gets another owner.
fn on_machines(reflector: &mut Reflector<Machine>, manager: &Manager) {
    let wake = manager.wake_overshoot.clone();
    reflector.on_delta(move |_, delta| {
        let counted =
            |machine: &Arc<Machine>| (machine.is_deleting(), machine.controller_owner().map(|owner| owner.uid.clone()));
        if delta.before().map(counted) != delta.now().map(counted) {
            wake.add(everything());
        }
    });
}

/// Triggers a count when the limits, labels, conditions or annotations of a MachineSet change.
fn on_sets(reflector: &mut Reflector<MachineSet>, manager: &Manager) {
    let wake = manager.wake_overshoot.clone();
    reflector.on_delta(move |_, delta| {
        let relevant = |set: &Arc<MachineSet>| {
            (
                set.metadata.labels.clone(),
                set.metadata.annotations.clone(),
                set.spec.replicas,
                set.status.conditions.clone(),
            )
        };
        if delta.before().map(relevant) != delta.now().map(relevant) {
            wake.add(everything());
        }
    });
}

/// Triggers a count when the limits, labels or annotations of a MachineDeployment change.
fn on_deployments(reflector: &mut Reflector<MachineDeployment>, manager: &Manager) {
    let wake = manager.wake_overshoot.clone();
    reflector.on_delta(move |_, delta| {
        let relevant = |deployment: &Arc<MachineDeployment>| {
            let spec = &deployment.spec;
            let meta = &deployment.metadata;
            (meta.labels.clone(), meta.annotations.clone(), spec.replicas, spec.strategy.clone())
        };
        if delta.before().map(relevant) != delta.now().map(relevant) {
            wake.add(everything());
        }
    });
}

/// Counts all Machines, then freezes or unfreezes MachineSets and MachineDeployments.
pub(crate) async fn reconcile(shared: Arc<Shared>, manager: Arc<Manager>, _all: Key) -> Outcome {
    if shared.caches.trust() == Trust::Doubtful {
        // The cache may mix Machines of two histories of the API server, and would count them twice.
        return Outcome::Again { after: shared.policy.short_retry };
    }
    let sets: Vec<Arc<MachineSet>> = manager.sets.list().into_iter().map(|set| manager.counts.latest(set)).collect();
    let deployments = manager.deployments.list();
    let owners: BTreeMap<Uid, &MachineDeployment> =
        deployments.iter().map(|deployment| (deployment.uid(), &**deployment)).collect();
    let undecodable = undecodable(&shared);
    let seen: Vec<SeenSet<'_>> = sets
        .iter()
        .map(|set| {
            let (machines, deleting) = count(&shared, &undecodable, set);
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
    carry_out(&shared, &manager, &steps, &mut versions).await
}

/// Returns the number of Machines of a MachineSet, and how many of them are being deleted. Machines that cannot be decoded are counted.
fn count(shared: &Shared, undecodable: &BTreeMap<Uid, (usize, usize)>, set: &MachineSet) -> (i32, i32) {
    let uid = set.uid();
    let decoded = shared.machines.find(&MACHINES_BY_OWNER, uid.as_str());
    let deleting = decoded.iter().filter(|machine| machine.is_deleting()).count();
    let (others, others_deleting) = undecodable.get(&uid).copied().unwrap_or_default();
    let number = |machines: usize| i32::try_from(machines).unwrap_or(i32::MAX);
    (number(decoded.len() + others), number(deleting + others_deleting))
}

/// Returns these numbers for the Machines that cannot be decoded, by the uid of their owner.
fn undecodable(shared: &Shared) -> BTreeMap<Uid, (usize, usize)> {
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

/// Precondition of the next write of each object. An object whose write failed has none.
#[derive(Default)]
struct Versions(BTreeMap<(Kind, String), String>);

fn version(object: &impl Object) -> String {
    object.resource_version().to_owned()
}

async fn carry_out(shared: &Shared, manager: &Manager, steps: &[Step], versions: &mut Versions) -> Outcome {
    let mut failed = false;
    for step in steps {
        if let Err(why) = manager.leadership.check() {
            tracing::info!(%why, "stopped counting Machines");
            return Outcome::Failed;
        }
        match step {
            Step::Write(edit) => {
                // A failed write does not stop the writes of other objects.
                let written = write(manager, edit, step, versions).await;
                report(shared, edit, step, written.as_ref().err());
                if written.is_err() {
                    versions.0.remove(&(edit.kind, edit.name.clone()));
                    failed = true;
                }
            }
            Step::EmitEvent { set, event } => {
                let key = Key::new(shared.namespace.as_str(), set.as_str());
                if let (Some(set), true) = (manager.sets.get(&key), versions.0.contains_key(&(Kind::Set, set.clone())))
                {
                    let sink = manager.events.with_component(components::MANAGER);
                    sink.emit(set.object_ref(), event.clone());
                }
            }
        }
    }
    if failed { Outcome::Failed } else { Outcome::Again { after: shared.policy.deployment.overshooting_period } }
}

/// Reports what was done to an object.
fn report(shared: &Shared, edit: &Edit, step: &Step, error: Option<&WriteError>) {
    let about = match edit.kind {
        Kind::Set => Subject::Set,
        Kind::Deployment => Subject::Deployment,
    };
    let key = Key::new(shared.namespace.as_str(), edit.name.as_str());
    let because = "checked the number of Machines of all MachineSets and MachineDeployments";
    let decision = Decision::of(about, &key, &[step], &because, Wake::On(Awaited::Machines));
    let ending = error.map_or(Ending::Done, WriteError::ending);
    shared.journal.decided(&decision.ended(ending));
}

async fn write(manager: &Manager, edit: &Edit, step: &Step, versions: &mut Versions) -> Result<(), WriteError> {
    let object = (edit.kind, edit.name.clone());
    let Some(version_seen) = versions.0.get(&object) else { return Ok(()) };
    let guard = Guard { name: &edit.name, uid: edit.uid.as_str(), version: Some(version_seen) };
    let part = match edit.part {
        planner::overshoot::Part::Metadata => Part::Object,
        planner::overshoot::Part::Status => Part::Status,
    };
    let (writers, body) = (&manager.writers, edit.changes.clone());
    let written = match edit.kind {
        Kind::Set => version(&*writers.sets.patch(guard, part, body, step).await?.object),
        Kind::Deployment => version(&*writers.deployments.patch(guard, part, body, step).await?.object),
    };
    versions.0.insert(object, written);
    Ok(())
}
