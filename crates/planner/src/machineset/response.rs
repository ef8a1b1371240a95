//! What the response to a create or delete of a Machine means for its MachineSet.
//!
//! The controller sends the requests and classifies the responses. The state search in `testing/sim` uses the same rules.

use super::step::Attempt;

/// Response to a create or delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// The request succeeded.
    Succeeded,
    /// Another object has the name of the new Machine.
    NameTaken,
    /// The Machine to delete has changed since the decision, and its current state was read.
    Stale,
    /// The request had no effect.
    NoEffect,
    /// The request may have had an effect, or may have one later.
    Unknown,
}

impl Response {
    /// Returns whether the request is no longer outstanding. If a repeated request had no effect, the result of the
    /// first one is still unknown.
    #[must_use]
    pub fn ends_expectation(self, attempt: Attempt) -> bool {
        match self {
            Self::Succeeded | Self::NameTaken | Self::Stale => true,
            Self::NoEffect => attempt == Attempt::First,
            Self::Unknown => false,
        }
    }

    /// Returns whether the name of the create is in use, so that the next Machine needs another name.
    #[must_use]
    pub fn uses_name(self) -> bool {
        matches!(self, Self::Succeeded | Self::NameTaken)
    }

    /// Returns whether the next batch is sent. Otherwise the MachineSet is reconciled again.
    #[must_use]
    pub fn sends_next_batch(self) -> bool {
        self == Self::Succeeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_repeat_stays_outstanding() {
        assert!(Response::NoEffect.ends_expectation(Attempt::First));
        assert!(!Response::NoEffect.ends_expectation(Attempt::Repeat));
        assert!(Response::Succeeded.ends_expectation(Attempt::Repeat));
        assert!(!Response::Unknown.ends_expectation(Attempt::First));
    }

    #[test]
    fn taken_name_is_replaced_and_stops_the_batches() {
        assert!(Response::NameTaken.uses_name() && !Response::NameTaken.sends_next_batch());
        assert!(Response::Succeeded.uses_name() && Response::Succeeded.sends_next_batch());
        for response in [Response::Stale, Response::NoEffect, Response::Unknown] {
            assert!(!response.uses_name() && !response.sends_next_batch());
        }
    }
}
