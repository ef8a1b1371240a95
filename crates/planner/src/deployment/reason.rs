//! Why a deployment's plan is what it is.

use std::fmt;

/// The reason of a plan, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The spec cannot be acted on.
    Invalid(String),
    /// Machines may have been named that the cache does not know.
    UnknownMachinesNamed,
    /// An adopted set and its machines still need its hash.
    HashMissing(String),
    /// Someone asked for an earlier template.
    RollbackAsked(i64),
    /// It is paused: only its size is looked after.
    Paused,
    /// Its replicas changed.
    Resized {
        /// The number its sets were last told.
        to: i32,
    },
    /// Old machines are being replaced.
    Rolling {
        /// How many machines the old sets are still to have.
        old: i32,
        /// How many the new one is to have so far.
        new: i32,
        /// How many there are to be in the end.
        of: i32,
    },
    /// A recreating deployment waits until the last old machine is gone.
    OldMachinesLeave(usize),
    /// The new set could not be made.
    SetNotMade(String),
    /// Its machines are not all available yet.
    Completing {
        /// How many are.
        available: i32,
        /// Of how many.
        of: i32,
    },
    /// Everything is as it should be.
    Converged,
    /// Someone deleted it; its sets go first.
    SetsLeave(usize),
    /// Someone deleted it and wants to keep its sets; the garbage collector lets go of them.
    SetsLetGo,
    /// Someone deleted it, and it holds nothing.
    Empty,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(errors) => write!(f, "it is invalid: {errors}"),
            Self::UnknownMachinesNamed => f.write_str("machines are to be deleted that are not in sight"),
            Self::HashMissing(set) => {
                write!(f, "adopted set {set:?} and its machines are not told apart from others yet")
            }
            Self::RollbackAsked(0) => f.write_str("it is to go back to the revision before"),
            Self::RollbackAsked(revision) => write!(f, "it is to go back to revision {revision}"),
            Self::Paused => f.write_str("it is paused"),
            Self::Resized { to } => write!(f, "it is to have {to} machines"),
            Self::Rolling { old, new, of } => {
                write!(f, "its template changed: {new} of {of} machines are wanted new, {old} old")
            }
            Self::OldMachinesLeave(count) => write!(f, "{count} old machines have to leave before new ones come"),
            Self::SetNotMade(error) => write!(f, "its new set could not be made: {error}"),
            Self::Completing { available, of } => write!(f, "{available} of {of} machines are available"),
            Self::Converged => f.write_str("everything is as it should be"),
            Self::SetsLeave(count) => write!(f, "it was deleted, and {count} of its sets are still there"),
            Self::SetsLetGo => f.write_str("it was deleted without its sets, and they have not been let go of yet"),
            Self::Empty => f.write_str("it was deleted and holds nothing"),
        }
    }
}
