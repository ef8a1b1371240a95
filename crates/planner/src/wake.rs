//! What a plan waits for.
//!
//! A wait without a wake-up is a hang, and a wait without a deadline is one the day an event is lost. So a plan says both: what
//! will wake it, and when it is looked at again at the latest.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// `now` plus a duration, held at the end of time instead of failing.
pub(crate) fn later(now: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|d| now.checked_add(d).ok()).unwrap_or(Timestamp::MAX)
}

/// When the object is planned again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// At once: what was just done makes the next step possible.
    Again,
    /// When this happens. Nothing is under way, so there is nothing to time out.
    On(Awaited),
    /// When this happens, or at this time, whichever is first.
    By {
        /// The event that is hoped for.
        awaited: Awaited,
        /// The latest time to look again.
        at: Timestamp,
    },
}

impl Wake {
    /// Whichever comes first. Of two waits without a deadline the first one is told.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Again, _) | (_, Self::Again) => Self::Again,
            (Self::By { at: ours, .. }, Self::By { at: theirs, .. }) => {
                if theirs < ours {
                    other
                } else {
                    self
                }
            }
            (Self::By { .. } | Self::On(_), Self::On(_)) => self,
            (Self::On(_), Self::By { .. }) => other,
        }
    }

    /// The same wait, looked at again at this time at the latest.
    #[must_use]
    pub fn no_later_than(self, latest: Option<Timestamp>) -> Self {
        match (self, latest) {
            (Self::By { awaited, at }, Some(latest)) => Self::By { awaited, at: at.min(latest) },
            (Self::On(awaited), Some(at)) => Self::By { awaited, at },
            (wake, _) => wake,
        }
    }
}

/// The event that ends a wait. Unless it says otherwise it reaches the queue by itself: see
/// `controllers` for the wiring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// Someone changes the object.
    Change,
    /// The MachineClass appears, or can be read again.
    Class,
    /// The Secret appears or changes.
    Secret,
    /// A driver call that is under way ends.
    DriverAnswer,
    /// A failed call may be tried again; only time brings this about.
    Retry,
    /// A deployment's sets, their machines or nodes get on.
    Sets,
    /// The Node registers, or becomes healthy.
    Node,
    /// A machine of the same deployment comes back, or goes.
    Sibling,
    /// We see the API servers again.
    Connectivity,
    /// The pods of a node that is being emptied leave, or its volumes do.
    Pods,
    /// The machines of a set come, go or change.
    Machines,
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Change => "a change of the object",
            Self::Class => "its MachineClass",
            Self::Secret => "its Secret",
            Self::DriverAnswer => "the cloud's answer",
            Self::Retry => "the next attempt",
            Self::Sets => "its sets and machines",
            Self::Node => "its Node",
            Self::Sibling => "another machine of its deployment",
            Self::Connectivity => "connectivity of the API servers",
            Self::Pods => "the pods on its Node",
            Self::Machines => "its machines",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_waits_the_one_that_ends_first_is_kept() {
        let by = |second| Wake::By { awaited: Awaited::Node, at: Timestamp::from_second(second).unwrap() };
        let on = Wake::On(Awaited::Change);
        assert_eq!(by(1).sooner(by(2)), by(1));
        assert_eq!(by(2).sooner(by(1)), by(1));
        assert_eq!(on.sooner(by(1)), by(1));
        assert_eq!(by(1).sooner(on), by(1));
        assert_eq!(by(1).sooner(Wake::Again), Wake::Again);
        assert_eq!(Wake::Again.sooner(on), Wake::Again);
    }
}
