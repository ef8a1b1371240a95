//! Adopts and releases Machines.
//!
//! A MachineSet owns the Machines whose controller reference names it. A selected Machine without controller is
//! *adopted*. An owned Machine that is no longer selected is *released*. Both replace the list of owner references, so
//! other references are kept, and the version of the Machine is a precondition.
//!
//! If the adoption or release of a Machine fails, it is retried after a delay, and the MachineSet continues without the
//! Machine.

use api::lists::{owners_with, owners_without};
use api::names::API_VERSION;
use api::{Machine, MachineSet, Object, OwnerReference};

use super::member::{owns, selects};
use super::step::{Plan, Step};
use super::{Observed, Reason};
use crate::{GuardedPatch, MachinePatch, Wake};
use meta::time::later;

/// A change of a Machine's owner references.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerChange {
    /// Whether the MachineSet adopts or releases the Machine.
    pub ownership: Ownership,
    /// Replaces the list of owner references.
    pub patch: GuardedPatch,
}

/// Direction of an owner change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ownership {
    /// The MachineSet becomes the controller of the Machine.
    Adopt,
    /// The MachineSet is removed from the owners of the Machine.
    Release,
}

/// Returns the owner changes that are due.
pub(super) fn due(seen: &Observed<'_>) -> Vec<OwnerChange> {
    seen.machines
        .iter()
        .filter(|member| !was_refused(seen, member.machine))
        .filter_map(|member| claim(seen.set, member.machine))
        .collect()
}

pub(super) fn plan(claims: Vec<OwnerChange>) -> Plan {
    let count = |ownership| claims.iter().filter(|claim| claim.ownership == ownership).count();
    let because = Reason::Ownership { adopted: count(Ownership::Adopt), released: count(Ownership::Release) };
    let mut steps = Vec::new();
    if count(Ownership::Adopt) > 0 {
        // A MachineSet that is being deleted must not adopt Machines, and the cache may be behind.
        steps.push(Step::Confirm);
    }
    steps.push(Step::Claim(claims));
    Plan::of(steps, Wake::Again, because)
}

fn claim(set: &MachineSet, machine: &Machine) -> Option<OwnerChange> {
    let (ownership, owners) = match (owns(set, machine), machine.controller_owner(), selects(set, machine)) {
        (false, None, true) if !machine.is_deleting() => {
            (Ownership::Adopt, owners_with(&machine.metadata.owner_references, &reference(set)))
        }
        (true, _, false) => (Ownership::Release, owners_without(&machine.metadata.owner_references, &set.uid())),
        _ => return None,
    };
    let patch = MachinePatch { owner_references: Some(owners), ..MachinePatch::default() };
    Some(OwnerChange { ownership, patch: GuardedPatch::as_seen(machine, patch) })
}

fn was_refused(seen: &Observed<'_>, machine: &Machine) -> bool {
    let again = |tried| later(tried, seen.policy.short_retry);
    seen.refused.get(&machine.uid()).is_some_and(|tried| again(*tried) > seen.now)
}

/// Returns the controller reference to a MachineSet.
pub(super) fn reference(set: &MachineSet) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.into(),
        kind: "MachineSet".into(),
        name: set.name().into(),
        uid: set.uid(),
        controller: Some(true),
        block_owner_deletion: Some(true),
        ..OwnerReference::default()
    }
}
