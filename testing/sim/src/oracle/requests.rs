//! How often the same thing is asked.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

const WINDOW: SignedDuration = SignedDuration::from_mins(1);
const MOST: usize = 60;

/// When each thing was asked in the last minute.
#[derive(Debug, Default)]
pub(super) struct Requests(BTreeMap<String, VecDeque<Timestamp>>);

impl Requests {
    /// This was asked now; what is wrong with that.
    pub(super) fn note(&mut self, what: &str, now: Timestamp) -> Option<String> {
        if !self.0.contains_key(what) {
            // Objects come and go: what has not been asked for a while is forgotten.
            self.0.retain(|_, times| times.back().is_some_and(|last| now.duration_since(*last) <= WINDOW));
            self.0.insert(what.to_owned(), VecDeque::new());
        }
        let times = self.0.get_mut(what)?;
        times.push_back(now);
        while times.front().is_some_and(|first| now.duration_since(*first) > WINDOW) {
            times.pop_front();
        }
        (times.len() > MOST).then(|| format!("{what}: {} times within a minute", times.len()))
    }
}
