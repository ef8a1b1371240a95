//! Whose machines these are.
//!
//! A set owns the machines that name it as the owner which manages them. One that nobody manages and whose labels it selects is
//! *adopted*; one of its own whose labels it no longer selects is *released*. Both rewrite the list of owner references, so both
//! keep what others have put into it, and both are guarded by the version of the machine that was looked at.
//!
//! A claim that does not go through is not tried again for a while, and the set goes on without that machine.

use api::lists::{owners_with, owners_without};
use api::names::API_VERSION;
use api::{Machine, MachineName, MachineSet, Object, OwnerReference, Uid};

use super::member::{owns, selects};
use super::step::{Plan, Step};
use super::{Observed, Reason};
use crate::Wake;
use crate::wake::later;

/// A change of a machine's owners.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerChange {
    /// Which machine.
    pub name: MachineName,
    /// The very one that was looked at.
    pub uid: Uid,
    /// The version that was looked at.
    pub resource_version: String,
    /// Which way it goes.
    pub ownership: Ownership,
    /// The whole list of its owners from now on.
    pub owners: Vec<OwnerReference>,
}

/// Which way a machine goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ownership {
    /// The set takes it in.
    Adopt,
    /// The set lets go of it.
    Release,
}

/// The claims to make now.
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
        // A set that is gone or going must take nobody along, and the cache may not know yet.
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
    Some(OwnerChange {
        name: machine.name().into(),
        uid: machine.uid(),
        resource_version: machine.resource_version().to_owned(),
        ownership,
        owners,
    })
}

fn was_refused(seen: &Observed<'_>, machine: &Machine) -> bool {
    let again = |tried| later(tried, seen.policy.short_retry);
    seen.refused.get(&machine.uid()).is_some_and(|tried| again(*tried) > seen.now)
}

/// The set as the owner that manages a machine.
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
