//! Whose changes wake a set.
//!
//! | change | wakes |
//! | --- | --- |
//! | a MachineSet | itself |
//! | a Machine, if it matters to a set | the set that owns it, and the one that did |
//! | a Machine without an owner, when it appears or its labels or owners change | the sets that select it |
//! | the preserve annotation of a Node, or its end | the sets of its machines |

use api::view::NodeView;
use api::{Preservable, LabelSelector, Machine, MachineSet, Object, OwnerReference, Text};
use planner::machineset::interest::{is_new_orphan, matters};
use runtime::Key;
use runtime::cache::{Cache, Delta, Reflector};

use crate::fleet::Fleet;
use crate::indexes::MACHINES_BY_NODE;

/// A set wakes itself; what it waited for ends with it.
pub(crate) fn on_sets(reflector: &mut Reflector<MachineSet>, fleet: &Fleet) {
    let (wake, expectations, memory) = (fleet.wake_set.clone(), fleet.expectations.clone(), fleet.memory.clone());
    reflector.on_delta(move |key, delta| {
        if let Delta::Removed { .. } | Delta::RemovedUndecodable { .. } = delta {
            expectations.forget(key);
            memory.forget(key);
        }
        // Our own status write is no news to us. Anybody else's is: it may have to be put right.
        let own = delta.now().is_some_and(|set| memory.take_own(key, set.resource_version()));
        if !own {
            wake.add(key.clone());
        }
    });
}

/// A Machine meets what was expected of it and wakes its set, or those that may want it.
pub(crate) fn on_machines(reflector: &mut Reflector<Machine>, fleet: &Fleet) {
    let (wake, sets, expectations) = (fleet.wake_set.clone(), fleet.sets.clone(), fleet.expectations.clone());
    reflector.on_delta(move |key, delta| {
        match delta {
            Delta::Added(now) | Delta::Changed { new: now, .. } | Delta::Mended { new: now, .. } => {
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
        if let Some(orphan) = delta.now().filter(|now| is_new_orphan(delta.before().map(|before| &**before), now)) {
            for set in sets.list() {
                if selects(set.spec.selector.as_ref(), orphan) {
                    wake.add(Key::new(set.namespace(), set.name()));
                }
            }
        }
    });
}

/// A Node whose preserve annotation changed, or that is gone, wakes the sets of its machines.
pub(crate) fn on_nodes(reflector: &mut Reflector<NodeView>, machines: &Cache<Machine>, fleet: &Fleet) {
    let (wake, machines) = (fleet.wake_set.clone(), machines.clone());
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

/// The names of the sets that own the machine, or did.
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

/// An invalid selector concerns its own set only.
fn selects(selector: Option<&LabelSelector>, machine: &Machine) -> bool {
    let labels = &machine.metadata.labels;
    !labels.is_empty() && selector.is_some_and(|selector| !selector.is_empty() && selector.matches(labels) == Ok(true))
}
