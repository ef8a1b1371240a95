//! Counts reconciles per key.
//!
//! A reconcile that requeues its own key without a delay keeps a worker busy. If it sends no requests, request metrics do not show
//! it, but the largest number of reconciles of one key does.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Reconciles are counted per key within consecutive windows of this length.
pub(super) const WINDOW: Duration = Duration::from_secs(10);

/// Counts reconciles per key. Holds only the keys of the current window.
#[derive(Debug)]
pub(super) struct Busy<T> {
    since: Option<Instant>,
    counts: BTreeMap<T, u32>,
    /// Largest count of the last complete window.
    last: u32,
}

impl<T> Default for Busy<T> {
    fn default() -> Self {
        Self { since: None, counts: BTreeMap::new(), last: 0 }
    }
}

impl<T: Clone + Ord> Busy<T> {
    /// Counts a reconcile of `key`.
    pub(super) fn count(&mut self, key: &T, now: Instant) {
        self.rotate(now);
        if let Some(count) = self.counts.get_mut(key) {
            *count = count.saturating_add(1);
        } else {
            self.counts.insert(key.clone(), 1);
        }
    }

    /// Returns the largest number of reconciles of one key within the current or the last complete window.
    pub(super) fn most(&mut self, now: Instant) -> u32 {
        self.rotate(now);
        self.counts.values().copied().max().unwrap_or(0).max(self.last)
    }

    /// Starts a new window if the current one is over.
    fn rotate(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let elapsed = now.saturating_duration_since(since);
        if elapsed < WINDOW {
            return;
        }
        let ended_just_now = elapsed < WINDOW.saturating_mul(2);
        self.last = if ended_just_now { self.counts.values().copied().max().unwrap_or(0) } else { 0 };
        self.counts.clear();
        self.since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows QUE-12.
    #[test]
    fn busiest_key_is_counted_within_its_window() {
        let (mut busy, start) = (Busy::default(), Instant::now());
        assert_eq!(busy.most(start), 0);
        (0..3).for_each(|_| busy.count(&"a", start));
        busy.count(&"b", start);
        assert_eq!(busy.most(start), 3);
        busy.count(&"b", start + WINDOW);
        assert_eq!(busy.most(start + WINDOW), 3, "the last complete window counts");
        assert_eq!(busy.most(start + WINDOW + WINDOW), 1);
        assert_eq!(busy.most(start + 5 * WINDOW), 0, "an idle queue shows no old value");
        assert!(busy.counts.is_empty());
    }
}
