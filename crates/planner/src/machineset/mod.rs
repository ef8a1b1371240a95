//! What to do next with one set of machines, and why.
//!
//! A set keeps a number of machines of one template. That sounds like subtraction, and goes wrong in three ways: the cache is
//! late, so that what was just made is counted as missing and made again; a request's answer is lost, so that nobody knows
//! whether it happened; and one machine that cannot be written stands in the way of all others. So the set counts with what it
//! has asked for and not yet seen ([`Outstanding`]), chooses the names of its machines itself, so that a create whose answer was
//! lost is repeated under the same name, and goes on without a machine it cannot claim.
//!
//! Counting is cautious in both directions. Whoever may exist counts when a machine is to be made, and whoever may already be
//! gone does not count when one is to be deleted. So machines that are not being deleted never exceed what is wanted through our
//! own doing, however late the cache is. Nor is a request repeated for its own sake: a delete without an answer is sent again only
//! if the machine would be chosen again now, because meanwhile somebody may want it back.
//!
//! A reconcile has two components: [`plan`] says what to do, and after it was done [`status`](status()) says, from what came of it, what to
//! write about it.

mod claim;
mod create;
mod early_failures;
mod ending;
pub mod interest;
mod member;
mod policy;
mod preservation;
mod reason;
mod replicas;
mod status;
mod step;
mod template;
mod victims;

use std::collections::{BTreeMap, BTreeSet};

use api::{MachineName, MachineSet, Object, Uid};
use jiff::Timestamp;

use crate::{Awaited, Policy, Wake};
use crate::{Event, EventType};

pub use claim::{OwnerChange, Ownership};
pub use create::NameSeed;
pub use early_failures::EarlyFailures;
pub use member::{Member, Unreadable};
pub use policy::{InPlaceRank, MinReady, Replacement, SetPolicy};
pub use reason::Reason;
pub(crate) use status::available_at;
pub use status::{Doing, Failure, StatusWrite, status, with_counts};
pub use step::{Asked, MachineCreate, MachineDelete, MachinePatch, Mark, Plan, Step};
pub use victims::Why;

/// Everything the decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The set itself.
    pub set: &'a MachineSet,
    /// The machines it owns and those that nobody manages, by name.
    pub machines: &'a [Member<'a>],
    /// Machines it owns that cannot be read: they count, and nobody plans on them.
    pub unreadable: &'a [Unreadable],
    /// What it has asked for and the cache has not shown yet.
    pub outstanding: &'a Outstanding,
    /// Machines whose claim did not go through, and when that was tried.
    pub refused: &'a BTreeMap<Uid, Timestamp>,
    /// Replacements in a row that failed early.
    pub early_failures: EarlyFailures,
    /// Randomness for names.
    pub name_seed: NameSeed,
    /// Whether the clock agrees with the API server's.
    pub clock: ClockTrust,
    /// Limits and periods.
    pub policy: &'a Policy,
    /// The time of the decision.
    pub now: Timestamp,
}

/// Whether the clock of this process agrees with the API server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockTrust {
    /// It does, as far as is known.
    #[default]
    Trusted,
    /// It differs by more than the limit. No Machine is created, and no Failed Machine is replaced: its preservation only seems to
    /// have expired.
    Skewed,
}

/// Requests of the set whose result nobody has seen: an answer was lost, or the watch is late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// Machines that may or may not have been made, and that nobody has seen.
    pub creates: BTreeSet<MachineName>,
    /// Machines that may or may not have been deleted.
    pub deletes: BTreeSet<Uid>,
    /// When the last of them is no longer waited for.
    pub until: Option<Timestamp>,
}

impl Outstanding {
    /// Whether the deletion of this machine was asked for before, and nobody knows what came of it.
    pub(crate) fn asked(&self, uid: &Uid) -> Asked {
        if self.deletes.contains(uid) { Asked::Again } else { Asked::First }
    }
}

/// Decides what to do next with a set.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Plan {
    if seen.set.is_deleting() {
        return ending::plan(seen);
    }
    let errors = api::validation::machine_set(seen.set);
    if !errors.is_empty() {
        return refusal(seen, api::validation::joined(&errors));
    }
    let finalizers = &seen.set.metadata.finalizers;
    if let Some(finalizers) = api::lists::finalizers_with(finalizers, api::names::finalizers::MACHINE) {
        return Plan::of(vec![Step::Finalizers(finalizers)], Wake::Again, Reason::FinalizerFirst);
    }
    let claims = claim::due(seen);
    if !claims.is_empty() {
        return claim::plan(claims);
    }
    replicas::plan(seen)
}

/// The set cannot be acted on. The condition is the status' affair; the Event is sent once per message.
fn refusal(seen: &Observed<'_>, what: String) -> Plan {
    let told = status::invalid(seen.set).is_some_and(|condition| condition.message == what);
    let steps = if told {
        Vec::new()
    } else {
        let reason = api::names::events::ours::INVALID;
        vec![Step::Tell(Event { event_type: EventType::Warning, reason, message: what.clone() })]
    };
    Plan::of(steps, Wake::On(Awaited::Change), Reason::Invalid(what))
}

#[cfg(test)]
mod tests;
