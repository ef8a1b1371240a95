//! A fact about an object, and which component wrote it.
//!
//! A component knows its own writes as soon as they are answered. All other writes it knows when a watch has shown them.

use super::Writer;
use super::history::History;

/// Whether something is so, since when, and who wrote it last.
#[derive(Debug, Default)]
pub(super) struct Owned {
    values: History<bool>,
    writer: Option<Writer>,
}

impl Owned {
    /// From this revision on it is `value`, by the write of `writer`.
    pub(super) fn set(&mut self, revision: u64, value: bool, writer: Option<Writer>) {
        if self.values.now() != Some(&value) {
            self.writer = writer;
        }
        self.values.set(revision, value);
    }

    /// Whether it is so.
    pub(super) fn is_so(&self) -> bool {
        self.values.now() == Some(&true)
    }

    /// Whether `reader` must know that it is so: it was shown at `seen` and has been so since, or the reader wrote it. Its own
    /// write counts only if `answers_arrive`.
    pub(super) fn is_known(&self, seen: u64, reader: Option<Writer>, answers_arrive: bool) -> bool {
        let was_shown = self.values.began_at() <= seen && self.values.since(seen).all(|value| *value);
        let is_own = answers_arrive && reader.is_some() && self.writer == reader;
        self.is_so() && (was_shown || is_own)
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
    fn a_write_is_known_to_its_writer_at_once_and_to_others_when_shown() {
        let mut fact = Owned::default();
        fact.set(3, false, None);
        fact.set(5, true, Some(writer(1)));
        assert!(fact.is_known(4, Some(writer(1)), true));
        assert!(!fact.is_known(4, Some(writer(1)), false), "the answer may be lost");
        assert!(!fact.is_known(4, Some(writer(2)), true));
        assert!(fact.is_known(5, Some(writer(2)), true));
        fact.set(7, false, Some(writer(2)));
        assert!(!fact.is_known(7, Some(writer(1)), true));
    }
}
