//! Decides what to do next with a MachineSet, and why.
//!
//! A MachineSet keeps a number of Machines of one template. Three situations must be handled. The cache is behind, so
//! that a Machine that was just created would be counted as missing. The response to a request is lost, so that its
//! result is unknown. And a Machine that cannot be written must not block the others. So pending requests are part of
//! the input ([`Outstanding`]), the planner chooses the names of new Machines, so that a create with a lost response is
//! repeated under the same name, and a Machine that cannot be adopted is skipped.
//!
//! Counts are conservative in both directions. When scaling up, Machines with a pending create are counted. When
//! scaling down, Machines with a pending delete are not. So the MachineSet itself never creates more Machines than
//! desired, however far the cache is behind. A delete with a lost response is repeated only if the Machine would be
//! selected again now, because it may be needed again.
//!
//! A reconcile has two parts: [`plan`] decides what to do, and afterwards [`status`](status()) calculates the status
//! from the result.

mod claim;
mod create;
mod deletion;
mod deletion_order;
mod early_failures;
pub mod interest;
mod member;
mod policy;
mod preservation;
mod reason;
mod replicas;
mod response;
mod status;
mod step;
mod template;

use std::collections::{BTreeMap, BTreeSet};

use api::{MachineName, MachineSet, Object, Uid};
use jiff::Timestamp;

use crate::{Awaited, Policy, Wake};
use crate::{Event, EventType};

pub use claim::{OwnerChange, Ownership};
pub use create::NameSeed;
pub use deletion_order::DeletionReason;
pub use early_failures::EarlyFailures;
pub use member::{Member, UndecodableMachine};
pub use policy::{InPlaceRank, MinReady, Replacement, SetPolicy};
pub use reason::Reason;
pub use response::Response;
pub(crate) use status::available_at;
pub use status::{Failure, Operation, StatusWrite, status, with_counts};
pub use step::{Attempt, MachineCreate, MachineDelete, Plan, Step};

/// Input of the decision.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The MachineSet.
    pub set: &'a MachineSet,
    /// The Machines that it owns and those without a controller, sorted by name.
    pub machines: &'a [Member<'a>],
    /// Machines that it owns and that cannot be decoded. They are counted, but not selected.
    pub undecodable: &'a [UndecodableMachine],
    /// Requests whose result is not in the cache yet.
    pub outstanding: &'a Outstanding,
    /// Machines whose adoption or release failed, and when it was tried.
    pub refused: &'a BTreeMap<Uid, Timestamp>,
    /// Number of consecutive replacements that failed early.
    pub early_failures: EarlyFailures,
    /// Random seed for names.
    pub name_seed: NameSeed,
    /// Whether the clock agrees with the API server's.
    pub clock: ClockTrust,
    /// Settings.
    pub policy: &'a Policy,
    /// The time of the decision.
    pub now: Timestamp,
}

/// Whether the clock of this process agrees with the API server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockTrust {
    /// The clocks agree, as far as is known.
    #[default]
    Trusted,
    /// The clocks differ by more than the limit. No Machine is created, and no Failed Machine is replaced, because the
    /// end of its preservation cannot be determined.
    Skewed,
}

/// Requests of the MachineSet whose result is unknown: a response was lost, or the cache is behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// Machines that may have been created and are not in the cache.
    pub creates: BTreeSet<MachineName>,
    /// Machines that may or may not have been deleted.
    pub deletes: BTreeSet<Uid>,
    /// When the last request is considered lost.
    pub until: Option<Timestamp>,
}

impl Outstanding {
    /// Returns whether the delete of this Machine repeats one whose result is unknown.
    pub(crate) fn attempt(&self, uid: &Uid) -> Attempt {
        if self.deletes.contains(uid) { Attempt::Repeat } else { Attempt::First }
    }
}

/// Decides what to do next with a MachineSet.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Plan {
    if seen.set.is_deleting() {
        return deletion::plan(seen);
    }
    let errors = api::validation::machine_set(seen.set);
    if !errors.is_empty() {
        return invalid(seen, api::validation::joined(&errors));
    }
    let finalizers = &seen.set.metadata.finalizers;
    if let Some(finalizers) = api::lists::finalizers_with(finalizers, api::names::finalizers::MACHINE) {
        return Plan::of(vec![Step::Finalizers(finalizers)], Wake::Again, Reason::FinalizerMissing);
    }
    let claims = claim::due(seen);
    if !claims.is_empty() {
        return claim::plan(claims);
    }
    replicas::plan(seen)
}

/// Returns the plan for an invalid MachineSet. [`status`](status()) sets the condition. The Event is emitted once per
/// message.
fn invalid(seen: &Observed<'_>, error: String) -> Plan {
    let reported = status::invalid(seen.set).is_some_and(|condition| condition.message == error);
    let steps = if reported {
        Vec::new()
    } else {
        let reason = api::names::events::millwright::INVALID;
        vec![Step::EmitEvent(Event { event_type: EventType::Warning, reason, message: error.clone() })]
    };
    Plan::of(steps, Wake::On(Awaited::Change), Reason::Invalid(error))
}

#[cfg(test)]
mod tests;
