//! Plans for a MachineSet, as data.

use std::collections::BTreeMap;
use std::fmt;

use api::{Machine, MachineName, Text, Uid};

use super::Reason;
use super::claim::{OwnerChange, Ownership};
use super::deletion_order::DeletionReason;
use super::early_failures::EarlyFailures;
use super::status::Failure;
use crate::{Event, GuardedPatch, Wake};

/// The steps of a plan, in order, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The steps. Only a failure of [`Step::Finalizers`] or [`Step::Confirm`] prevents the following steps.
    pub steps: Vec<Step>,
    /// When the MachineSet is planned again.
    pub wake: Wake,
    /// The reason.
    pub because: Reason,
    /// An operation that cannot be tried, for the status.
    pub failure: Option<Failure>,
    /// The number of early failures after this plan, if it changes.
    pub early_failures: Option<EarlyFailures>,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Writes the complete list of finalizers, with the version as precondition.
    Finalizers(Vec<Text>),
    /// Checks with the API server that the MachineSet exists and is not being deleted, before it adopts Machines.
    Confirm,
    /// Changes the owners of Machines.
    Claim(Vec<OwnerChange>),
    /// Patches Machines.
    Patch(Vec<GuardedPatch>),
    /// Creates Machines in batches, the Machines of a batch concurrently. After a batch with a failure, the remaining
    /// batches are skipped, because they would probably fail as well.
    Create(Vec<Vec<MachineCreate>>),
    /// Deletes Machines.
    Delete(Vec<MachineDelete>),
    /// Emits an Event on the MachineSet.
    EmitEvent(Event),
}

/// A Machine to create.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineCreate {
    /// Its name, chosen by the planner.
    pub name: MachineName,
    /// Whether this create repeats one with a lost response.
    pub attempt: Attempt,
    /// The machine.
    pub machine: Machine,
}

/// Whether a request repeats one with a lost response. If the repeated request is rejected, the result of the first one
/// is still unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// First attempt.
    First,
    /// Repeated attempt.
    Repeat,
}

/// A Machine to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineDelete {
    /// Name of the Machine.
    pub name: MachineName,
    /// UID of the Machine.
    pub uid: Uid,
    /// The version that the decision was based on: a Machine that was preserved or released meanwhile is not deleted.
    pub resource_version: String,
    /// Why it is deleted.
    pub why: DeletionReason,
    /// Whether this delete repeats one with a lost response.
    pub attempt: Attempt,
}

impl Plan {
    pub(super) fn of(steps: Vec<Step>, wake: Wake, because: Reason) -> Self {
        Self { steps, wake, because, failure: None, early_failures: None }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finalizers(list) if list.iter().any(|name| name == api::names::finalizers::MACHINE) => {
                f.write_str("add the finalizer")
            }
            Self::Finalizers(_) => f.write_str("remove the finalizer"),
            Self::Confirm => f.write_str("check that the MachineSet still exists"),
            Self::Claim(claims) => {
                let names = |which| claims.iter().filter(move |c| c.ownership == which).map(|c| c.patch.name.as_str());
                let (adopted, released) = (listed(names(Ownership::Adopt)), listed(names(Ownership::Release)));
                match (adopted.is_empty(), released.is_empty()) {
                    (false, true) => write!(f, "adopt {adopted}"),
                    (true, _) => write!(f, "release {released}"),
                    (false, false) => write!(f, "adopt {adopted}, release {released}"),
                }
            }
            Self::Patch(patches) => {
                write!(f, "update Machines {}", listed(patches.iter().map(|patch| patch.name.as_str())))
            }
            Self::Create(batches) => {
                write!(f, "create {}", listed(batches.iter().flatten().map(|create| create.name.as_str())))
            }
            Self::Delete(deletes) => {
                let mut reasons: BTreeMap<DeletionReason, Vec<&str>> = BTreeMap::new();
                for delete in deletes {
                    reasons.entry(delete.why).or_default().push(delete.name.as_str());
                }
                let parts = reasons.into_iter().map(|(why, names)| format!("{} ({why})", listed(names.into_iter())));
                write!(f, "delete {}", parts.collect::<Vec<_>>().join(", "))
            }
            Self::EmitEvent(event) => write!(f, "emit Event {}", event.reason),
        }
    }
}

/// Returns the first few names: a MachineSet may have thousands of Machines.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 3;
    let names: Vec<&str> = names.collect();
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        rest => format!("{shown} and {rest} more"),
    }
}
