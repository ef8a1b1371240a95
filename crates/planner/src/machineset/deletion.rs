//! Deletion of a MachineSet.
//!
//! Its Machines are deleted with it, and the finalizer stays until they are gone. With `kubectl delete
//! --cascade=orphan` the Machines stay: the garbage collector removes the MachineSet from their owners. The cache may
//! show the MachineSet without the finalizer `orphan` while it still shows the Machines as owned. So each delete has
//! the version of the Machine as precondition: an orphaned Machine has another one.
//!
//! The spec is not validated here, because an invalid MachineSet must be deletable.

use api::names::finalizers;
use api::{MachineSet, Object};

use super::deletion_order::DeletionReason;
use super::member::{UndecodableMachine, claimed};
use super::replicas::{delete, idle_wake};
use super::step::{MachineDelete, Plan, Step};
use super::{Observed, Reason};
use crate::{Awaited, Wake};

/// Finalizer of the garbage collector for owners whose dependents are orphaned.
const ORPHAN: &str = "orphan";

pub(super) fn plan(seen: &Observed<'_>) -> Plan {
    let machines: Vec<_> = claimed(seen).collect();
    let left = machines.len() + seen.undecodable.len();
    if left == 0 {
        return remove_finalizer(seen);
    }
    let waiting = |because| Plan::of(Vec::new(), Wake::On(Awaited::Machines), because);
    if seen.set.has_finalizer(ORPHAN) {
        return waiting(Reason::Orphaning);
    }
    if !seen.set.has_finalizer(finalizers::MACHINE) {
        return waiting(Reason::OtherFinalizer);
    }
    let staying = machines
        .iter()
        .filter(|member| !member.is_terminating())
        .map(|member| delete(seen, member, DeletionReason::SetDeleted));
    let delete_undecodable =
        seen.undecodable.iter().filter(|machine| !machine.is_deleting).map(|machine| delete_undecodable(seen, machine));
    let deletes: Vec<MachineDelete> = staying.chain(delete_undecodable).collect();
    let steps = if deletes.is_empty() { Vec::new() } else { vec![Step::Delete(deletes)] };
    Plan::of(steps, Wake::On(Awaited::Machines), Reason::Deleting { left })
}

/// Returns whether the deletion of this MachineSet deletes its Machines.
pub(super) fn deletes_machines(set: &MachineSet) -> bool {
    set.has_finalizer(finalizers::MACHINE) && !set.has_finalizer(ORPHAN)
}

/// Removes the finalizer when no Machines are left.
fn remove_finalizer(seen: &Observed<'_>) -> Plan {
    let pending = seen.outstanding.creates.len();
    if pending > 0 {
        return Plan::of(Vec::new(), idle_wake(seen), Reason::ResultsPending(pending));
    }
    match api::lists::finalizers_without(&seen.set.metadata.finalizers, finalizers::MACHINE) {
        Some(list) => Plan::of(vec![Step::Finalizers(list)], Wake::On(Awaited::Change), Reason::MachinesGone),
        None => Plan::of(Vec::new(), Wake::On(Awaited::Change), Reason::OtherFinalizer),
    }
}

fn delete_undecodable(seen: &Observed<'_>, machine: &UndecodableMachine) -> MachineDelete {
    MachineDelete {
        name: machine.name.clone(),
        uid: machine.uid.clone(),
        resource_version: machine.resource_version.clone(),
        why: DeletionReason::SetDeleted,
        attempt: seen.outstanding.attempt(&machine.uid),
    }
}
