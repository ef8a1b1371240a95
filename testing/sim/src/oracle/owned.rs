//! A fact about an object, and the component that wrote it.
//!
//! A component knows its own writes when it gets the response. It knows other writes when a watch has delivered them.

use super::Writer;
use super::history::History;

/// A fact, its history, and its last writer.
#[derive(Debug, Default)]
pub(super) struct Owned {
    values: History<bool>,
    writer: Option<Writer>,
}

impl Owned {
    /// Sets the fact from this revision on.
    pub(super) fn set(&mut self, revision: u64, value: bool, writer: Option<Writer>) {
        if self.values.now() != Some(&value) {
            self.writer = writer;
        }
        self.values.set(revision, value);
    }

    /// Whether the fact holds now.
    pub(super) fn holds(&self) -> bool {
        self.values.now() == Some(&true)
    }

    /// Whether `reader` must know that the fact holds: it held at `seen` and at all times since, or the reader wrote
    /// it. An own write counts only if `responses_arrive`.
    pub(super) fn is_known(&self, seen: u64, reader: Option<Writer>, responses_arrive: bool) -> bool {
        let was_shown = self.values.began_at() <= seen && self.values.since(seen).all(|value| *value);
        let is_own = responses_arrive && reader.is_some() && self.writer == reader;
        self.holds() && (was_shown || is_own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::WritingComponent;

    fn writer(process: u64) -> Writer {
        Writer { process, component: WritingComponent::Machines }
    }

    #[test]
    fn write_is_known_to_its_writer_first() {
        let mut fact = Owned::default();
        fact.set(3, false, None);
        fact.set(5, true, Some(writer(1)));
        assert!(fact.is_known(4, Some(writer(1)), true));
        assert!(!fact.is_known(4, Some(writer(1)), false), "the response may be lost");
        assert!(!fact.is_known(4, Some(writer(2)), true));
        assert!(fact.is_known(5, Some(writer(2)), true));
        fact.set(7, false, Some(writer(2)));
        assert!(!fact.is_known(7, Some(writer(1)), true));
    }
}
