//! The history of a value.

use std::collections::VecDeque;

/// The values of a fact, each with the revision from which it holds.
#[derive(Clone, Debug)]
pub(super) struct History<T>(VecDeque<(u64, T)>);

impl<T> Default for History<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: PartialEq> History<T> {
    /// Sets the value from this revision on.
    pub(super) fn set(&mut self, revision: u64, value: T) {
        if self.0.back().is_none_or(|(_, last)| *last != value) {
            self.0.push_back((revision, value));
        }
    }

    /// Returns the current value.
    pub(super) fn now(&self) -> Option<&T> {
        self.0.back().map(|(_, value)| value)
    }

    /// Returns the revision of the first value.
    pub(super) fn began_at(&self) -> u64 {
        self.0.front().map_or(0, |(revision, _)| *revision)
    }

    /// Returns the revision from which the value of this revision holds.
    pub(super) fn changed_at(&self, revision: u64) -> u64 {
        self.0.iter().rev().map(|(from, _)| *from).find(|from| *from <= revision).unwrap_or_default()
    }

    /// Returns the revision of the first matching value among those that held at this revision or later.
    pub(super) fn first_since(&self, revision: u64, matches: impl Fn(&T) -> bool) -> Option<u64> {
        let begin = self.0.iter().rposition(|(from, _)| *from <= revision).unwrap_or_default();
        self.0.iter().skip(begin).find(|(_, value)| matches(value)).map(|(from, _)| *from)
    }

    /// Returns the values that held at this revision or later.
    pub(super) fn since(&self, revision: u64) -> impl Iterator<Item = &T> {
        let begin = self.0.iter().rposition(|(from, _)| *from <= revision).unwrap_or_default();
        self.0.iter().skip(begin).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_begins_with_the_value_of_the_revision() {
        let mut history = History::default();
        for (revision, value) in [(3, 'a'), (5, 'b'), (6, 'b'), (9, 'c')] {
            history.set(revision, value);
        }
        let since = |revision| history.since(revision).collect::<String>();
        assert_eq!([since(0), since(4), since(5), since(8), since(9)], ["abc", "abc", "bc", "bc", "c"]);
        assert_eq!(history.now(), Some(&'c'));
        assert_eq!(
            [4, 6, 9].map(|revision| history.first_since(revision, |value| *value != 'a')),
            [Some(5), Some(5), Some(9)]
        );
        assert_eq!([2, 3, 5, 8, 9].map(|revision| history.changed_at(revision)), [0, 3, 5, 5, 9]);
    }
}
