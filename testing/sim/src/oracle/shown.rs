//! What the watches of the controllers have delivered.
//!
//! An action that is based on a stale cache is allowed. An action that contradicts delivered state is not. So each
//! check uses the state that was delivered when the request was decided. A request takes some time from the decision to
//! its effect: it waits for a rate limiter, is delayed, or is sent again. Therefore the oldest state of the last
//! [`GRACE`] counts.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

/// Maximum time from the decision on a request to its effect: the timeout of a request plus some seconds before it is
/// sent.
pub(super) const GRACE: SignedDuration = SignedDuration::from_secs(30);

/// The delivered revisions of each kind, and since when.
#[derive(Debug, Default)]
pub(super) struct Shown(BTreeMap<String, VecDeque<(Timestamp, u64)>>);

impl Shown {
    /// Records that a watch of this kind has delivered a revision.
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
        // The last revision before the window is kept: it was current at the start of the window.
        while shown.get(1).is_some_and(|(at, _)| old(at)) {
            shown.pop_front();
        }
    }

    /// Returns the oldest revision of a kind on which a request with an effect now may have been decided.
    pub(super) fn oldest(&self, kind: &str, now: Timestamp) -> u64 {
        self.within(kind, now, GRACE)
    }

    /// Returns the oldest revision of a kind that was current at any time in this period before `now`. The period must
    /// not exceed [`GRACE`].
    pub(super) fn within(&self, kind: &str, now: Timestamp, time: SignedDuration) -> u64 {
        let shown = self.0.get(kind).into_iter().flatten();
        let mut before = 0;
        let mut min = u64::MAX;
        for (at, revision) in shown {
            if now.duration_since(*at) > time {
                before = *revision;
            } else {
                min = min.min(*revision);
            }
        }
        before.min(min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn oldest_revision_of_the_last_half_minute_counts() {
        let mut shown = Shown::default();
        assert_eq!(shown.oldest("machines", at(0)), 0, "nothing was delivered, so everything is allowed");
        shown.note("machines", 5, at(0));
        shown.note("machines", 7, at(40));
        shown.note("machines", 9, at(60));
        assert_eq!(shown.oldest("machines", at(60)), 5, "it was current at the start of the window");
        assert_eq!(shown.oldest("machines", at(71)), 7);
        assert_eq!(shown.oldest("machines", at(100)), 9, "a revision is current until the next one is delivered");
        assert_eq!(shown.within("machines", at(62), SignedDuration::from_secs(1)), 9);
        assert_eq!(shown.within("machines", at(60), SignedDuration::from_secs(1)), 7);
    }
}
