//! Reasons of plans.

use std::fmt;

/// The reason of a plan. Its `Display` is shown to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The finalizer is added before the first Machine is created.
    FinalizerMissing,
    /// The spec is invalid.
    Invalid(String),
    /// Machines without controller are selected, or owned Machines are not selected any more.
    Ownership {
        /// Number of Machines to adopt.
        adopted: usize,
        /// Number of Machines to release.
        released: usize,
    },
    /// There are fewer Machines than desired.
    TooFew {
        /// Number of Machines.
        present: usize,
        /// Desired number of Machines.
        wanted: usize,
    },
    /// There are fewer Machines than desired, but the MachineSet is frozen.
    Frozen,
    /// There are fewer Machines than desired, but an in-place update is moving Machines to another MachineSet.
    ScaleUpDisabled,
    /// There are fewer Machines than desired, but the MachineSet would not own Machines of its template.
    InvalidTemplate(&'static str),
    /// Machines are to be deleted.
    Surplus {
        /// Number of Machines to delete.
        leaving: usize,
        /// Number of Machines.
        present: usize,
        /// Desired number of Machines.
        wanted: usize,
    },
    /// Machines are to be created or replaced, but the clock differs from the API server's.
    ClockSkewed,
    /// Failed Machines are to be replaced, but the last replacements failed early.
    ReplacementDelayed(String),
    /// Machines differ from the template, or their preservation changes.
    MachinesOutdated(usize),
    /// The results of requests are unknown.
    ResultsPending(usize),
    /// Nothing to do.
    Converged,
    /// The MachineSet is being deleted together with its Machines.
    Deleting {
        /// Number of remaining Machines.
        left: usize,
    },
    /// The MachineSet is being deleted, and its Machines are orphaned.
    Orphaning,
    /// The MachineSet is being deleted, and its Machines are gone.
    MachinesGone,
    /// The MachineSet is being deleted, and another finalizer remains.
    OtherFinalizer,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FinalizerMissing => f.write_str("adding the finalizer before creating Machines"),
            Self::Invalid(what) => write!(f, "the spec is invalid: {what}"),
            Self::Ownership { adopted, released: 0 } => {
                write!(f, "{adopted} selected Machines have no controller")
            }
            Self::Ownership { adopted: 0, released } => write!(f, "{released} owned Machines are no longer selected"),
            Self::Ownership { adopted, released } => {
                write!(
                    f,
                    "{adopted} selected Machines have no controller, {released} owned Machines are no longer selected"
                )
            }
            Self::TooFew { present, wanted } => write!(f, "{present} of {wanted} Machines exist"),
            Self::Frozen => f.write_str("the MachineSet is frozen; no Machines are created"),
            Self::ScaleUpDisabled => f.write_str("an in-place update is in progress; no Machines are created"),
            Self::InvalidTemplate(why) => f.write_str(why),
            Self::Surplus { leaving, present, wanted } => {
                write!(f, "{present} Machines exist, {wanted} are desired; deleting {leaving}")
            }
            Self::ClockSkewed => f.write_str(
                "the clock of the controller differs from the API server's; no Machine is created or replaced",
            ),
            Self::ReplacementDelayed(why) => f.write_str(why),
            Self::MachinesOutdated(machines) => write!(f, "{machines} Machines are out of date"),
            Self::ResultsPending(requests) => write!(f, "waiting for the result of {requests} requests"),
            Self::Converged => f.write_str("up to date"),
            Self::Deleting { left } => write!(f, "the MachineSet is being deleted; {left} Machines remain"),
            Self::Orphaning => {
                f.write_str("the MachineSet is being deleted; the garbage collector is orphaning its Machines")
            }
            Self::MachinesGone => f.write_str("all Machines are deleted"),
            Self::OtherFinalizer => f.write_str("waiting for other finalizers of the MachineSet to be removed"),
        }
    }
}
