//! How far the controllers see.
//!
//! Whoever decides on a late cache is not wrong, and whoever decides against what he was shown is. So each judgement begins with what
//! the watches had shown when the request was decided on. A request takes a while from the decision to its effect (it waits for its
//! turn, is delayed, is sent again), so what counts is the oldest state of the last [`GRACE`].

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

/// How long a request may be under way: the deadline of a request, and some seconds until it is sent.
pub(super) const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// What was shown of each kind, and since when.
#[derive(Debug, Default)]
pub(super) struct Shown(BTreeMap<String, VecDeque<(Timestamp, u64)>>);

impl Shown {
    /// A watch of this kind has come to this revision.
    pub(super) fn note(&mut self, kind: &str, revision: u64, now: Timestamp) {
        if !self.0.contains_key(kind) {
            self.0.insert(kind.to_owned(), VecDeque::new());
        }
        let Some(shown) = self.0.get_mut(kind) else { return };
        if shown.back().is_some_and(|(_, last)| *last == revision) {
            return;
        }
        shown.push_back((now, revision));
        let old = |at: &Timestamp| now.duration_since(*at) > GRACE;
        // The last one before the window is what was shown when the window began.
        while shown.get(1).is_some_and(|(at, _)| old(at)) {
            shown.pop_front();
        }
    }

    /// The oldest revision of a kind that a request may have been decided on which has its effect now.
    pub(super) fn oldest(&self, kind: &str, now: Timestamp) -> u64 {
        self.within(kind, now, GRACE)
    }

    /// The oldest revision of a kind that was the last one shown at any time within this time before now. No longer than [`GRACE`].
    pub(super) fn within(&self, kind: &str, now: Timestamp, time: SignedDuration) -> u64 {
        let shown = self.0.get(kind).into_iter().flatten();
        let mut before = 0;
        let mut least = u64::MAX;
        for (at, revision) in shown {
            if now.duration_since(*at) > time {
                before = *revision;
            } else {
                least = least.min(*revision);
            }
        }
        before.min(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn what_counts_is_the_oldest_state_of_the_time_a_request_may_take() {
        let mut shown = Shown::default();
        assert_eq!(shown.oldest("machines", at(0)), 0, "nothing was shown: everything is excused");
        shown.note("machines", 5, at(0));
        shown.note("machines", 7, at(40));
        shown.note("machines", 9, at(60));
        assert_eq!(shown.oldest("machines", at(60)), 5, "it was the state when the window began");
        assert_eq!(shown.oldest("machines", at(71)), 7);
        assert_eq!(shown.oldest("machines", at(100)), 9, "a state lasts until the next is shown");
        assert_eq!(shown.within("machines", at(62), SignedDuration::from_secs(1)), 9);
        assert_eq!(shown.within("machines", at(60), SignedDuration::from_secs(1)), 7);
    }
}
