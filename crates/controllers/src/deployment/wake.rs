//! The changes that trigger a reconcile of a MachineDeployment.
//!
//! | change | reconciled |
//! | --- | --- |
//! | a MachineDeployment | itself |
//! | a MachineSet | the MachineDeployments that own it or owned it before |
//! | a MachineSet without an owner | the MachineDeployments that select it |
//! | a Machine, if `planner::deployment::interest` needs the change | the MachineDeployment of its MachineSet |
//! | a Node, if `planner::deployment::interest` needs the change | the MachineDeployment of its Machine's MachineSet |
//!
//! All other changes of Machines trigger a reconcile through the status of the MachineSet, which combines many of them.

use api::view::NodeView;
use api::{Machine, MachineDeployment, MachineSet, Object};
use planner::deployment::interest;
use runtime::Key;
use runtime::cache::{Cache, Delta, Reflector};
use runtime::queue::Coalesced;

use crate::indexes::MACHINES_BY_NODE;
use crate::manager::Manager;
use crate::owners::selects;

/// Registers the handler for MachineDeployments. The state of a deleted MachineDeployment is dropped.
pub(crate) fn on_deployments(reflector: &mut Reflector<MachineDeployment>, manager: &Manager) {
    let (wake, status_writes) = (manager.wake_deployment.clone(), manager.status_writes.clone());
    let (lookups, rollouts) = (manager.lookups.clone(), manager.rollouts.clone());
    reflector.on_delta(move |key, delta| {
        if let Delta::Removed { last, .. } = delta {
            status_writes.forget(&last.uid());
            lookups.forget(&last.uid());
            rollouts.set_guarded(last.uid(), Vec::new());
        }
        wake.add(key.clone());
    });
}

/// Registers the handler for MachineSets.
pub(crate) fn on_sets(reflector: &mut Reflector<MachineSet>, manager: &Manager) {
    let (wake, deployments) = (manager.wake_deployment.clone(), manager.deployments.clone());
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
                if selects(deployment.spec.selector.as_ref(), &orphan.metadata.labels) {
                    wake.add(Key::new(deployment.namespace(), deployment.name()));
                }
            }
        }
    });
}

/// Registers the handler for Machines. It passes on the changes that the counts of the MachineSet do not show.
pub(crate) fn on_machines(reflector: &mut Reflector<Machine>, manager: &Manager) {
    let owners = Owners::of(manager);
    reflector.on_delta(move |_, delta| {
        let (before, now) = (delta.before(), delta.now());
        if interest::in_machine(before.map(|machine| &**machine), now.map(|machine| &**machine)) {
            for machine in [before, now].into_iter().flatten() {
                owners.wake(machine);
            }
        }
    });
}

/// Registers the handler for Nodes.
pub(crate) fn on_nodes(reflector: &mut Reflector<NodeView>, machines: &Cache<Machine>, manager: &Manager) {
    let (owners, machines) = (Owners::of(manager), machines.clone());
    reflector.on_delta(move |key, delta| {
        if interest::in_node(delta.before().map(|node| &**node), delta.now().map(|node| &**node)) {
            for machine in machines.find(&MACHINES_BY_NODE, &key.name) {
                owners.wake(&machine);
            }
        }
    });
}

/// Finds the MachineDeployment of a Machine.
#[derive(Clone)]
struct Owners {
    sets: Cache<MachineSet>,
    wake: Coalesced<Key>,
}

impl Owners {
    fn of(manager: &Manager) -> Self {
        Self { sets: manager.sets.clone(), wake: manager.wake_deployment.clone() }
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
