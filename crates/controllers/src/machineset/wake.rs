//! The changes that trigger a reconcile of a MachineSet.
//!
//! | change | reconciled |
//! | --- | --- |
//! | a MachineSet | itself |
//! | a Machine, if `planner::machineset::interest` needs the change | the MachineSets that own it or owned it before |
//! | a Machine without an owner, if it is new or its labels or owners change | the MachineSets that select it |
//! | the preserve annotation of a Node, or the deletion of the Node | the MachineSets of its Machines |

use api::view::NodeView;
use api::{Machine, MachineSet, Object, OwnerReference, Preservable, Text};
use planner::machineset::interest::{is_new_without_controller, matters};
use runtime::Key;
use runtime::cache::{Cache, Delta, Reflector};

use crate::indexes::MACHINES_BY_NODE;
use crate::manager::Manager;
use crate::owners::selects;

/// Registers the handler for MachineSets. The state of a deleted MachineSet is dropped.
pub(crate) fn on_sets(reflector: &mut Reflector<MachineSet>, manager: &Manager) {
    let (wake, counts, memory) = (manager.wake_set.clone(), manager.counts.clone(), manager.memory.clone());
    reflector.on_delta(move |key, delta| {
        if let Delta::Removed { .. } | Delta::RemovedUndecodable { .. } = delta {
            counts.forget(key);
            memory.forget(key);
        }
        // The event of this controller's own status write needs no reconcile. After a write by another client, the status may be
        // wrong.
        let own = delta.now().is_some_and(|set| memory.take_own_version(key, set.resource_version()));
        if !own {
            wake.add(key.clone());
        }
    });
}

/// Registers the handler for Machines. It also ends the expectations that an event meets.
pub(crate) fn on_machines(reflector: &mut Reflector<Machine>, manager: &Manager) {
    let (wake, sets, expectations) =
        (manager.wake_set.clone(), manager.sets.clone(), manager.counts.expectations.clone());
    reflector.on_delta(move |key, delta| {
        match delta {
            Delta::Added(now) | Delta::Changed { new: now, .. } | Delta::Fixed { new: now, .. } => {
                expectations.created(key);
                if now.is_deleting() {
                    expectations.deleted(now.uid().as_str());
                }
            }
            Delta::Undecodable { object, .. } => {
                expectations.created(key);
                if object.deletion_timestamp.is_some() {
                    expectations.deleted(object.uid.as_str());
                }
            }
            Delta::Removed { last, .. } => drop(expectations.deleted(last.uid().as_str())),
            Delta::RemovedUndecodable { last, .. } => drop(expectations.deleted(last.uid.as_str())),
        }
        if let Delta::Changed { old, new } = delta
            && !matters(old, new)
        {
            return;
        }
        for owner in owners(delta) {
            wake.add(Key::new(key.namespace.clone(), owner.as_str()));
        }
        if let Some(orphan) =
            delta.now().filter(|now| is_new_without_controller(delta.before().map(|before| &**before), now))
        {
            for set in sets.list() {
                if selects(set.spec.selector.as_ref(), &orphan.metadata.labels) {
                    wake.add(Key::new(set.namespace(), set.name()));
                }
            }
        }
    });
}

/// Registers the handler for Nodes.
pub(crate) fn on_nodes(reflector: &mut Reflector<NodeView>, machines: &Cache<Machine>, manager: &Manager) {
    let (wake, machines) = (manager.wake_set.clone(), machines.clone());
    reflector.on_delta(move |key, delta| {
        let preserve = |node: Option<&std::sync::Arc<NodeView>>| node.map(|node| node.preserve());
        if preserve(delta.before()) == preserve(delta.now()) {
            return;
        }
        for machine in machines.find(&MACHINES_BY_NODE, &key.name) {
            if let Some(owner) = machine.controller_owner().filter(|owner| is_set(owner)) {
                wake.add(Key::new(machine.namespace(), owner.name.as_str()));
            }
        }
    });
}

/// Returns the names of the MachineSets that own the Machine or owned it before the change.
fn owners(delta: &Delta<Machine>) -> Vec<Text> {
    let mut names: Vec<Text> = [delta.before(), delta.now()]
        .into_iter()
        .flatten()
        .filter_map(|machine| machine.controller_owner().filter(|owner| is_set(owner)))
        .map(|owner| owner.name.clone())
        .collect();
    if let Delta::Undecodable { object, .. } | Delta::RemovedUndecodable { last: object, .. } = delta {
        let owner = object.owners.iter().find(|owner| owner.controller == Some(true));
        names.extend(owner.filter(|owner| is_set(owner)).map(|owner| owner.name.clone()));
    }
    names.dedup();
    names
}

fn is_set(owner: &OwnerReference) -> bool {
    *owner.kind == *MachineSet::kind()
}
