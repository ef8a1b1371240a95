//! A value and when it changed, for readers that look at the past.

use std::time::Duration;

/// A value with its history. Instants are offsets on the cloud's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Timed<T> {
    first: T,
    changes: Vec<(Duration, T)>,
}

impl<T> Timed<T> {
    pub(super) fn new(first: T) -> Self {
        Self { first, changes: Vec::new() }
    }

    /// What it was at this instant.
    pub(super) fn at(&self, then: Duration) -> &T {
        self.changes.iter().rev().find(|(since, _)| *since <= then).map_or(&self.first, |(_, value)| value)
    }

    /// What it is.
    pub(super) fn latest(&self) -> &T {
        self.changes.last().map_or(&self.first, |(_, value)| value)
    }

    /// It is this from now on.
    pub(super) fn set(&mut self, now: Duration, value: T) {
        self.changes.push((now, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_what_it_was() {
        let second = Duration::from_secs;
        let mut value = Timed::new("a");
        value.set(second(5), "b");
        assert_eq!((*value.at(second(4)), *value.at(second(5)), *value.latest()), ("a", "b", "b"));
    }
}
