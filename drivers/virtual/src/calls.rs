//! What the cloud was asked, for tests and for the curious.

use std::collections::{BTreeMap, VecDeque};

use driver::{Code, Method};
use jiff::Timestamp;

/// One call, from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// When it began.
    pub at: Timestamp,
    /// What was asked.
    pub method: Method,
    /// About which machine.
    pub machine: Option<String>,
    /// What became of it.
    pub end: CallEnd,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It is still under way.
    Open,
    /// It was answered.
    Answered(Code),
    /// Its caller went away before an answer.
    Abandoned,
}

/// The latest calls and the number of all.
#[derive(Debug)]
pub(crate) struct Calls {
    latest: VecDeque<CallRecord>,
    forgotten: u64,
    limit: usize,
    counts: BTreeMap<Method, u64>,
}

impl Calls {
    pub(crate) fn keeping(limit: usize) -> Self {
        Self { latest: VecDeque::new(), forgotten: 0, limit: limit.max(1), counts: BTreeMap::new() }
    }

    /// Notes that a call has begun; the number by which its end is noted.
    pub(crate) fn begin(&mut self, at: Timestamp, method: Method, machine: Option<&str>) -> u64 {
        *self.counts.entry(method).or_default() += 1;
        if self.latest.len() == self.limit {
            self.latest.pop_front();
            self.forgotten += 1;
        }
        self.latest.push_back(CallRecord { at, method, machine: machine.map(Into::into), end: CallEnd::Open });
        self.forgotten + self.latest.len() as u64 - 1
    }

    pub(crate) fn end(&mut self, number: u64, end: CallEnd) {
        let place = number.checked_sub(self.forgotten).and_then(|place| usize::try_from(place).ok());
        if let Some(record) = place.and_then(|place| self.latest.get_mut(place)) {
            record.end = end;
        }
    }

    pub(crate) fn count(&self, method: Method) -> u64 {
        self.counts.get(&method).copied().unwrap_or_default()
    }

    pub(crate) fn latest(&self) -> Vec<CallRecord> {
        self.latest.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_calls_are_forgotten_but_counted() {
        let mut calls = Calls::keeping(2);
        let numbers: Vec<_> = (0..3).map(|_| calls.begin(Timestamp::UNIX_EPOCH, Method::List, None)).collect();
        calls.end(numbers[0], CallEnd::Abandoned); // forgotten: no one else's record may change
        calls.end(numbers[2], CallEnd::Answered(Code::Ok));
        let ends: Vec<_> = calls.latest().into_iter().map(|call| call.end).collect();
        assert_eq!(ends, [CallEnd::Open, CallEnd::Answered(Code::Ok)]);
        assert_eq!(calls.count(Method::List), 3);
    }
}
