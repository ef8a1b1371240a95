//! A set that was deleted.
//!
//! Its machines go with it, and our finalizer keeps it until they are gone. Unless the person who deleted it asked to keep the
//! machines (`kubectl delete --cascade=orphan`): then the garbage collector is taking the set out of their owners, and we let it.
//! The two kinds of object come through two watches, so a set can seem done with that while the machines still seem owned. That
//! is why each deletion is guarded by the version of the machine: one that was let go has another.
//!
//! What is wrong with the spec does not matter here: an object that became invalid must still be able to go.

use api::names::finalizers;
use api::{MachineSet, Object};

use super::member::{Unreadable, claimed};
use super::replicas::{delete, rest};
use super::step::{MachineDelete, Plan, Step};
use super::victims::Why;
use super::{Observed, Reason};
use crate::{Awaited, Wake};

/// The garbage collector's finalizer for owners whose dependents stay.
const ORPHAN: &str = "orphan";

pub(super) fn plan(seen: &Observed<'_>) -> Plan {
    let machines: Vec<_> = claimed(seen).collect();
    let left = machines.len() + seen.unreadable.len();
    if left == 0 {
        return let_go(seen);
    }
    let waiting = |because| Plan::of(Vec::new(), Wake::On(Awaited::Machines), because);
    if seen.set.has_finalizer(ORPHAN) {
        return waiting(Reason::LettingGo);
    }
    if !seen.set.has_finalizer(finalizers::MACHINE) {
        return waiting(Reason::NotOurs);
    }
    let staying =
        machines.iter().filter(|member| !member.is_leaving()).map(|member| delete(seen, member, Why::SetGoes));
    let unread = seen.unreadable.iter().filter(|machine| !machine.leaving).map(|machine| unread(seen, machine));
    let deletes: Vec<MachineDelete> = staying.chain(unread).collect();
    let steps = if deletes.is_empty() { Vec::new() } else { vec![Step::Delete(deletes)] };
    Plan::of(steps, Wake::On(Awaited::Machines), Reason::DeletionAsked { left })
}

/// Whether the deletion of this set deletes its Machines.
pub(super) fn takes_machines(set: &MachineSet) -> bool {
    set.has_finalizer(finalizers::MACHINE) && !set.has_finalizer(ORPHAN)
}

/// Nobody is left, as far as we have seen.
fn let_go(seen: &Observed<'_>) -> Plan {
    let unseen = seen.outstanding.creates.len();
    if unseen > 0 {
        return Plan::of(Vec::new(), rest(seen), Reason::Unseen(unseen));
    }
    match api::lists::finalizers_without(&seen.set.metadata.finalizers, finalizers::MACHINE) {
        Some(list) => Plan::of(vec![Step::Finalizers(list)], Wake::On(Awaited::Change), Reason::NothingLeft),
        None => Plan::of(Vec::new(), Wake::On(Awaited::Change), Reason::NotOurs),
    }
}

fn unread(seen: &Observed<'_>, machine: &Unreadable) -> MachineDelete {
    MachineDelete {
        name: machine.name.clone(),
        uid: machine.uid.clone(),
        resource_version: machine.resource_version.clone(),
        why: Why::SetGoes,
        asked: seen.outstanding.asked(&machine.uid),
    }
}
