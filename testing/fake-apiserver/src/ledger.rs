//! Who asked for what, and how it went: for tests that count requests and for benchmarks.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

/// How many requests the log keeps; the counters keep all.
const LOG_LENGTH: usize = 20_000;

/// What requests are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tally {
    /// The client's `User-Agent`.
    pub user_agent: String,
    /// Like `patch`; the lower-case method for paths that name no objects.
    pub verb: String,
    /// Like `machines` or `machines/status`; the path for paths that name no objects.
    pub resource: String,
    /// The HTTP status of the answer; 0 when the connection broke before one.
    pub code: u16,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it was answered.
    pub at: Timestamp,
    /// What it is counted as.
    pub tally: Tally,
    /// The namespace, empty if the path has none.
    pub namespace: String,
    /// The object, empty if the path names none.
    pub name: String,
}

/// The book of requests.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    counts: BTreeMap<Tally, u64>,
    log: VecDeque<Entry>,
}

impl Ledger {
    pub(crate) fn record(&mut self, entry: Entry) {
        match self.counts.get_mut(&entry.tally) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(entry.tally.clone(), 1)),
        }
        if self.log.len() == LOG_LENGTH {
            self.log.pop_front();
        }
        self.log.push_back(entry);
    }

    pub(crate) fn counts(&self) -> BTreeMap<Tally, u64> {
        self.counts.clone()
    }

    pub(crate) fn log(&self) -> Vec<Entry> {
        self.log.iter().cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
