//! Records the calls to the cloud, for tests and inspection.

use std::collections::{BTreeMap, VecDeque};

use driver::{Code, Method};
use jiff::Timestamp;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Start of the call.
    pub at: Timestamp,
    /// The method.
    pub method: Method,
    /// The machine of the call.
    pub machine: Option<String>,
    /// The result of the call.
    pub end: CallEnd,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// The call is in progress.
    Open,
    /// The call returned this code.
    Answered(Code),
    /// The caller ended the call before a response.
    Abandoned,
}

/// The latest calls and the number of all calls.
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

    /// Records the start of a call. Returns the number with which its end is recorded.
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
        calls.end(numbers[0], CallEnd::Abandoned); // already dropped: no other record may change
        calls.end(numbers[2], CallEnd::Answered(Code::Ok));
        let ends: Vec<_> = calls.latest().into_iter().map(|call| call.end).collect();
        assert_eq!(ends, [CallEnd::Open, CallEnd::Answered(Code::Ok)]);
        assert_eq!(calls.count(Method::List), 3);
    }
}
