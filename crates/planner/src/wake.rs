//! What a plan waits for.
//!
//! A wait without an event hangs, and a wait without a deadline hangs if the event is lost. So a plan states both: the
//! event, and the time at which the object is reconciled at the latest.

use std::fmt;

use jiff::Timestamp;

/// When the object is reconciled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Immediately: the step that was just executed makes the next one possible.
    Again,
    /// After this event. Nothing is in progress, so there is no timeout.
    On(Awaited),
    /// After this event or at this time, whichever is first.
    By {
        /// The expected event.
        awaited: Awaited,
        /// The latest time of the next reconcile.
        at: Timestamp,
    },
}

impl Wake {
    /// Returns the earlier of two wakes. Of two waits without a deadline, the first one is kept.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Again, _) | (_, Self::Again) => Self::Again,
            (Self::By { at: one, .. }, Self::By { at: two, .. }) => {
                if two < one {
                    other
                } else {
                    self
                }
            }
            (Self::By { .. } | Self::On(_), Self::On(_)) => self,
            (Self::On(_), Self::By { .. }) => other,
        }
    }

    /// Returns the same wait with this time as the latest.
    #[must_use]
    pub fn no_later_than(self, latest: Option<Timestamp>) -> Self {
        match (self, latest) {
            (Self::By { awaited, at }, Some(latest)) => Self::By { awaited, at: at.min(latest) },
            (Self::On(awaited), Some(at)) => Self::By { awaited, at },
            (wake, _) => wake,
        }
    }
}

/// The event that ends a wait. It adds the object to the work queue through the handlers in `controllers`, unless
/// stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// The object changes.
    Change,
    /// The MachineClass is created, or can be decoded again.
    Class,
    /// The Secret appears or changes.
    Secret,
    /// The driver call in progress ends.
    DriverAnswer,
    /// A failed call may be retried. Only time causes this event.
    Retry,
    /// A MachineSet of the MachineDeployment, or one of its Machines or Nodes, changes.
    Sets,
    /// The Node registers, or becomes healthy.
    Node,
    /// Another Machine of the MachineDeployment becomes healthy or is deleted.
    Sibling,
    /// The connection to the API servers is restored.
    Connectivity,
    /// Pods leave the Node that is being drained, or its volumes are detached.
    Pods,
    /// Machines of the MachineSet are created, deleted or changed.
    Machines,
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Change => "a change of the object",
            Self::Class => "its MachineClass",
            Self::Secret => "its Secret",
            Self::DriverAnswer => "the driver call to end",
            Self::Retry => "the next retry",
            Self::Sets => "its MachineSets and Machines",
            Self::Node => "its Node",
            Self::Sibling => "another Machine of its MachineDeployment",
            Self::Connectivity => "the connection to the API servers",
            Self::Pods => "the pods on its Node",
            Self::Machines => "its Machines",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sooner_returns_the_earlier_wait() {
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
