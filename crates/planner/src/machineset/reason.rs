//! Why a set's plan is what it is.

use std::fmt;

/// The reason of a plan, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Our finalizer comes before the first machine.
    FinalizerFirst,
    /// The spec cannot be acted on.
    Invalid(String),
    /// Machines without a manager match, or machines of its own no longer do.
    Ownership {
        /// How many are taken in.
        adopted: usize,
        /// How many are let go.
        released: usize,
    },
    /// There are fewer machines than wanted.
    TooFew {
        /// How many there are.
        present: usize,
        /// How many there are to be.
        wanted: usize,
    },
    /// There are fewer machines than wanted, and it is frozen.
    Frozen,
    /// There are fewer machines than wanted, and an in-place update is moving its machines away.
    ScaleUpDisabled,
    /// There are fewer machines than wanted, and the template makes none that the set would own.
    InvalidTemplate(&'static str),
    /// Some machines are to go.
    Surplus {
        /// How many.
        leaving: usize,
        /// How many there are.
        present: usize,
        /// How many there are to be.
        wanted: usize,
    },
    /// Machines are to be created or replaced, and the clock differs from the API server's.
    ClockSkewed,
    /// Failed Machines are to be replaced, and replacements have kept failing early.
    ReplacementDelayed(String),
    /// Some machines differ from the template, or their preservation has to change.
    Differs(usize),
    /// Requests were sent whose result nobody has seen.
    Unseen(usize),
    /// Everything is as it should be.
    Converged,
    /// The set was deleted, and its machines go with it.
    DeletionAsked {
        /// How many are left.
        left: usize,
    },
    /// The set was deleted, and its machines are to stay: they are being let go.
    LettingGo,
    /// The set was deleted, and its machines are gone.
    NothingLeft,
    /// The set was deleted, and someone else's finalizer holds it.
    NotOurs,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FinalizerFirst => f.write_str("it must not vanish while it has machines"),
            Self::Invalid(what) => write!(f, "its spec cannot be acted on: {what}"),
            Self::Ownership { adopted, released: 0 } => {
                write!(f, "{adopted} of the machines it selects have no manager")
            }
            Self::Ownership { adopted: 0, released } => write!(f, "{released} of its machines are no longer selected"),
            Self::Ownership { adopted, released } => {
                write!(f, "{adopted} machines it selects have no manager, {released} of its own are no longer selected")
            }
            Self::TooFew { present, wanted } => write!(f, "{present} of {wanted} machines are there"),
            Self::Frozen => f.write_str("it is frozen, so no machine is made"),
            Self::ScaleUpDisabled => f.write_str("an in-place update is moving its machines away, so none is made"),
            Self::InvalidTemplate(why) => f.write_str(why),
            Self::Surplus { leaving, present, wanted } => {
                write!(f, "{present} machines are there and {wanted} wanted, {leaving} must go")
            }
            Self::ClockSkewed => f.write_str(
                "the clock of the controller differs from the API server's, so no Machine is created or replaced",
            ),
            Self::ReplacementDelayed(why) => f.write_str(why),
            Self::Differs(machines) => write!(f, "{machines} of its machines are not as they should be"),
            Self::Unseen(requests) => write!(f, "the result of {requests} requests has not been seen yet"),
            Self::Converged => f.write_str("everything is as it should be"),
            Self::DeletionAsked { left } => write!(f, "someone deleted it, and {left} of its machines are left"),
            Self::LettingGo => f.write_str("someone deleted it without its machines, which are being let go"),
            Self::NothingLeft => f.write_str("its machines are gone"),
            Self::NotOurs => f.write_str("our part of its deletion is done; another finalizer holds it"),
        }
    }
}
