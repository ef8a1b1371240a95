//! Checks how often the same request is sent.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

const WINDOW: SignedDuration = SignedDuration::from_mins(1);
const MAX: usize = 60;

/// Times of each request in the last minute.
#[derive(Debug, Default)]
pub(super) struct Requests(BTreeMap<String, VecDeque<Timestamp>>);

impl Requests {
    /// Records a request and checks the rate.
    pub(super) fn note(&mut self, request: &str, now: Timestamp) -> Option<String> {
        if !self.0.contains_key(request) {
            // Removes requests that were not sent for a while.
            self.0.retain(|_, times| times.back().is_some_and(|last| now.duration_since(*last) <= WINDOW));
            self.0.insert(request.to_owned(), VecDeque::new());
        }
        let times = self.0.get_mut(request)?;
        times.push_back(now);
        while times.front().is_some_and(|first| now.duration_since(*first) > WINDOW) {
            times.pop_front();
        }
        (times.len() > MAX).then(|| format!("{request}: {} times within a minute", times.len()))
    }
}
