//! Whose changes wake a deployment.
//!
//! | change | wakes |
//! | --- | --- |
//! | a MachineDeployment | itself |
//! | a MachineSet | the deployment that owns it, and the one that did |
//! | a MachineSet without an owner | the deployments that select it |
//! | a Machine that begins to leave, is gone, fails, moves or gets on with an in-place update | the deployment of its set |
//! | a Node that is taken into care, or whose in-place update gets on | the deployment of its machine's set |
//!
//! All other changes of a Machine reach the deployment through the status of its set, which counts many of them at once.

use api::view::NodeView;
use api::{LabelSelector, Machine, MachineDeployment, MachineSet, Object};
use planner::deployment::interest;
use runtime::Key;
use runtime::cache::{Cache, Delta, Reflector};
use runtime::queue::Coalesced;

use crate::fleet::Fleet;
use crate::indexes::MACHINES_BY_NODE;

/// A deployment wakes itself.
pub(crate) fn on_deployments(reflector: &mut Reflector<MachineDeployment>, fleet: &Fleet) {
    let (wake, reported, rollouts) = (fleet.wake_deployment.clone(), fleet.reported.clone(), fleet.rollouts.clone());
    let lookups = fleet.lookups.clone();
    reflector.on_delta(move |key, delta| {
        if let Delta::Removed { last, .. } = delta {
            reported.forget(&last.uid());
            lookups.forget(&last.uid());
            rollouts.note(last.uid(), Vec::new());
        }
        wake.add(key.clone());
    });
}

/// A set wakes its deployment, or those that may want it.
pub(crate) fn on_sets(reflector: &mut Reflector<MachineSet>, fleet: &Fleet) {
    let (wake, deployments) = (fleet.wake_deployment.clone(), fleet.deployments.clone());
    reflector.on_delta(move |key, delta| {
        let owners = [delta.before(), delta.now()].into_iter().flatten().filter_map(|set| set.controller_owner());
        for owner in owners.filter(|owner| *owner.kind == *MachineDeployment::kind()) {
            wake.add(Key::new(key.namespace.clone(), owner.name.as_str()));
        }
        if let Delta::Undecodable { object, .. } | Delta::RemovedUndecodable { last: object, .. } = delta {
            let owners = object.owners.iter().filter(|owner| owner.controller == Some(true));
            for owner in owners.filter(|owner| *owner.kind == *MachineDeployment::kind()) {
                wake.add(Key::new(key.namespace.clone(), owner.name.as_str()));
            }
        }
        if let Some(orphan) = delta.now().filter(|set| set.controller_owner().is_none()) {
            for deployment in deployments.list() {
                if selects(deployment.spec.selector.as_ref(), orphan) {
                    wake.add(Key::new(deployment.namespace(), deployment.name()));
                }
            }
        }
    });
}

/// A machine wakes the deployment of its set when something happens to it that the set's numbers do not show.
pub(crate) fn on_machines(reflector: &mut Reflector<Machine>, fleet: &Fleet) {
    let owners = Owners::of(fleet);
    reflector.on_delta(move |_, delta| {
        let (before, now) = (delta.before(), delta.now());
        if interest::in_machine(before.map(|machine| &**machine), now.map(|machine| &**machine)) {
            for machine in [before, now].into_iter().flatten() {
                owners.wake(machine);
            }
        }
    });
}

/// A node wakes the deployment of its machine when it has just joined, and when an in-place update gets on.
pub(crate) fn on_nodes(reflector: &mut Reflector<NodeView>, machines: &Cache<Machine>, fleet: &Fleet) {
    let (owners, machines) = (Owners::of(fleet), machines.clone());
    reflector.on_delta(move |key, delta| {
        if interest::in_node(delta.before().map(|node| &**node), delta.now().map(|node| &**node)) {
            for machine in machines.find(&MACHINES_BY_NODE, &key.name) {
                owners.wake(&machine);
            }
        }
    });
}

/// The way from a machine to its deployment.
#[derive(Clone)]
struct Owners {
    sets: Cache<MachineSet>,
    wake: Coalesced<Key>,
}

impl Owners {
    fn of(fleet: &Fleet) -> Self {
        Self { sets: fleet.sets.clone(), wake: fleet.wake_deployment.clone() }
    }

    fn wake(&self, machine: &Machine) {
        let Some(set) = machine.controller_owner() else { return };
        let found = self.sets.get(&Key::new(machine.namespace(), set.name.as_str()));
        let Some(found) = found.filter(|found| found.uid() == set.uid) else { return };
        if let Some(deployment) = found.controller_owner() {
            self.wake.add(Key::new(machine.namespace(), deployment.name.as_str()));
        }
    }
}

/// An invalid selector concerns its own deployment only.
fn selects(selector: Option<&LabelSelector>, set: &MachineSet) -> bool {
    let labels = &set.metadata.labels;
    !labels.is_empty() && selector.is_some_and(|selector| !selector.is_empty() && selector.matches(labels) == Ok(true))
}
