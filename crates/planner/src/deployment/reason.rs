//! Reasons of plans.

use std::fmt;

/// The reason of a plan. Its `Display` is shown to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The spec is invalid, or a MachineSet cannot be decoded.
    Invalid(String),
    /// Machines are named for deletion that are not in the cache.
    MachinesNotCached,
    /// An adopted MachineSet and its Machines need the template hash.
    HashMissing(String),
    /// A rollback to this revision is requested; 0 is the previous one.
    RollbackRequested(i64),
    /// The MachineDeployment is paused: it is only scaled.
    Paused,
    /// The replicas changed.
    Resized {
        /// The desired replicas.
        to: i32,
    },
    /// A rollout is in progress.
    Rolling {
        /// Desired replicas of the old MachineSets.
        old: i32,
        /// Desired replicas of the new MachineSet.
        new: i32,
        /// Replicas of the MachineDeployment.
        of: i32,
    },
    /// With the Recreate strategy, new Machines are created after the last old one is gone.
    OldMachinesRemain(usize),
    /// The new MachineSet could not be created.
    SetNotCreated(String),
    /// Not all Machines are available.
    Completing {
        /// Number of available Machines.
        available: i32,
        /// Desired number.
        of: i32,
    },
    /// Nothing to do.
    Converged,
    /// The MachineDeployment is being deleted; this number of MachineSets remain.
    Deleting(usize),
    /// The MachineDeployment is being deleted, and its MachineSets are orphaned.
    Orphaning,
    /// The MachineDeployment is being deleted, and nothing is left to do.
    Deleted,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(errors) => write!(f, "the MachineDeployment cannot be reconciled: {errors}"),
            Self::MachinesNotCached => f.write_str("looking up Machines that are named for deletion"),
            Self::HashMissing(set) => {
                write!(f, "adding the template hash to adopted MachineSet {set:?} and its Machines")
            }
            Self::RollbackRequested(0) => f.write_str("rolling back to the previous revision"),
            Self::RollbackRequested(revision) => write!(f, "rolling back to revision {revision}"),
            Self::Paused => f.write_str("the MachineDeployment is paused"),
            Self::Resized { to } => write!(f, "scaling to {to} Machines"),
            Self::Rolling { old, new, of } => {
                write!(f, "rolling out the template: scaled to {new} new and {old} old Machines (replicas: {of})")
            }
            Self::OldMachinesRemain(count) => {
                write!(f, "waiting for {count} old Machines to be deleted before creating new ones")
            }
            Self::SetNotCreated(error) => write!(f, "failed to create the new MachineSet: {error}"),
            Self::Completing { available, of } => write!(f, "{available} of {of} Machines are available"),
            Self::Converged => f.write_str("up to date"),
            Self::Deleting(count) => write!(f, "the MachineDeployment is being deleted; {count} MachineSets remain"),
            Self::Orphaning => f.write_str(
                "the MachineDeployment is being deleted; the garbage collector is orphaning its MachineSets",
            ),
            Self::Deleted => f.write_str("the MachineDeployment is being deleted; nothing is left to do"),
        }
    }
}
