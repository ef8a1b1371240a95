//! Ready, running and delayed keys. A data structure without I/O; time is a parameter.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;

use super::busy::Busy;
use super::state::{Failing, QueueState, Ready, Running, Waiting};
use crate::watchdog::Heartbeat;

/// Every collection holds a key at most once, and idle keys without failures are in none. Therefore the size depends on the
/// number of objects, not on the number of events.
#[derive(Debug)]
pub(super) struct Backlog<T> {
    /// Keys for the next free worker, in order.
    ready: VecDeque<T>,
    /// When a key was added: all ready keys, and running keys that were added again.
    wanted: BTreeMap<T, Instant>,
    running: BTreeMap<T, InWork>,
    /// Delayed keys by due time. The number preserves the order of keys with the same due time.
    delayed: BTreeSet<(Instant, u64, T)>,
    due: BTreeMap<T, (Instant, u64)>,
    arrivals: u64,
    failures: BTreeMap<T, u32>,
    intake: Intake,
    busy: Busy<T>,
}

/// Whether keys are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intake {
    Open,
    Closed,
}

/// A key that is being processed.
#[derive(Debug)]
struct InWork {
    since: Instant,
    heartbeat: Heartbeat,
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            wanted: BTreeMap::new(),
            running: BTreeMap::new(),
            delayed: BTreeSet::new(),
            due: BTreeMap::new(),
            arrivals: 0,
            failures: BTreeMap::new(),
            intake: Intake::Open,
            busy: Busy::default(),
        }
    }
}

/// Result of an add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    New,
    AlreadyWanted,
    /// The backlog is closed.
    Dropped,
}

impl<T: Clone + Ord> Backlog<T> {
    /// Drops every key from now on.
    pub(super) fn close(&mut self) {
        self.intake = Intake::Closed;
    }

    /// Accepts keys from now on.
    pub(super) fn open(&mut self) {
        self.intake = Intake::Open;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.intake == Intake::Closed
    }

    pub(super) fn add(&mut self, key: T, now: Instant) -> Added {
        if self.is_closed() {
            return Added::Dropped;
        }
        if self.wanted.contains_key(&key) {
            return Added::AlreadyWanted;
        }
        self.wanted.insert(key.clone(), now);
        if !self.running.contains_key(&key) {
            self.ready.push_back(key);
        }
        Added::New
    }

    pub(super) fn add_at(&mut self, key: T, due: Instant) {
        if self.is_closed() {
            return;
        }
        if let Some((earlier, arrival)) = self.due.get(&key).copied() {
            if earlier <= due {
                return;
            }
            self.delayed.remove(&(earlier, arrival, key.clone()));
        }
        self.arrivals += 1;
        self.due.insert(key.clone(), (due, self.arrivals));
        self.delayed.insert((due, self.arrivals, key));
    }

    /// Makes all due keys ready, in the order of their due times.
    pub(super) fn wake(&mut self, now: Instant) -> Vec<Added> {
        let mut woken = Vec::new();
        while self.delayed.first().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, _, key)) = self.delayed.pop_first() else { break };
            self.due.remove(&key);
            woken.push(self.add(key, now));
        }
        woken
    }

    /// Takes the first ready key. Returns it with its waiting time and the heartbeat of its work.
    pub(super) fn take(&mut self, now: Instant) -> Option<(T, Duration, Heartbeat)> {
        let key = self.ready.pop_front()?;
        let since = self.wanted.remove(&key).unwrap_or(now);
        let heartbeat = Heartbeat::default();
        self.busy.count(&key, now);
        self.running.insert(key.clone(), InWork { since: now, heartbeat: heartbeat.clone() });
        Some((key, now.saturating_duration_since(since), heartbeat))
    }

    /// Ends the work on `key` and returns its duration. If the key was added again in the meantime, it becomes ready.
    pub(super) fn finish(&mut self, key: &T, now: Instant) -> Duration {
        let since = self.running.remove(key).map_or(now, |work| work.since);
        if self.wanted.contains_key(key) {
            self.ready.push_back(key.clone());
        }
        now.saturating_duration_since(since)
    }

    /// Returns the largest recent number of times that one key was taken within ten seconds.
    pub(super) fn busiest(&mut self, now: Instant) -> u32 {
        self.busy.most(now)
    }

    /// Counts a failure and returns the number of earlier ones.
    pub(super) fn failed(&mut self, key: &T) -> u32 {
        let failures = self.failures.entry(key.clone()).or_default();
        let before = *failures;
        *failures = before.saturating_add(1);
        before
    }

    pub(super) fn forget(&mut self, key: &T) {
        self.failures.remove(key);
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first().map(|(due, ..)| *due)
    }

    /// Returns the number of keys that wait for a worker or for the end of their own work.
    pub(super) fn depth(&self) -> usize {
        self.wanted.len()
    }

    /// Returns whether there are neither ready nor delayed keys.
    pub(super) fn is_quiet(&self) -> bool {
        self.ready.is_empty() && self.delayed.is_empty()
    }

    /// Returns the total and the maximum duration of work in progress.
    pub(super) fn in_progress(&self, now: Instant) -> (Duration, Duration) {
        let taken = || self.running.values().map(|work| now.saturating_duration_since(work.since));
        (taken().sum(), taken().max().unwrap_or_default())
    }

    /// Returns the number of keys that are being processed.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns the work with the longest time since its last poll, and that time.
    pub(super) fn most_silent(&self, now: Instant) -> Option<(&T, Duration)> {
        let silent = self.running.iter().filter_map(|(key, work)| Some((key, work.heartbeat.silent_for(now)?)));
        silent.max_by_key(|(_, silent_for)| *silent_for)
    }

    /// Returns for how long a ready or due key has not been taken; zero if there is none.
    pub(super) fn untaken_for(&self, now: Instant) -> Duration {
        let ready = self.ready.front().and_then(|key| self.wanted.get(key));
        let first = ready.copied().into_iter().chain(self.next_due()).min();
        first.map_or(Duration::ZERO, |first| now.saturating_duration_since(first))
    }
}

impl<T: Clone + Ord + Display> Backlog<T> {
    pub(super) fn state(&self, name: &'static str, now: Instant) -> QueueState {
        let since = |then: Instant| now.saturating_duration_since(then);
        let wanted_for = |key: &T| self.wanted.get(key).map_or(Duration::ZERO, |then| since(*then));
        QueueState {
            name,
            ready: self.ready.iter().map(|key| Ready { key: key.to_string(), wanted_for: wanted_for(key) }).collect(),
            waiting: self
                .delayed
                .iter()
                .map(|(due, _, key)| Waiting { key: key.to_string(), due_in: due.saturating_duration_since(now) })
                .collect(),
            running: self
                .running
                .iter()
                .map(|(key, work)| Running {
                    key: key.to_string(),
                    running_for: since(work.since),
                    silent_for: work.heartbeat.silent_for(now).unwrap_or_default(),
                    wanted_again: self.wanted.contains_key(key),
                })
                .collect(),
            failing: self.failures.iter().map(|(key, times)| Failing { key: key.to_string(), times: *times }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Simple model of the queue.
    #[derive(Default)]
    struct Model {
        ready: Vec<u8>,
        running: Vec<u8>,
        again: Vec<u8>,
        delayed: Vec<(Instant, u8)>,
    }

    impl Model {
        fn add(&mut self, key: u8) {
            if self.running.contains(&key) {
                if !self.again.contains(&key) {
                    self.again.push(key);
                }
            } else if !self.ready.contains(&key) {
                self.ready.push(key);
            }
        }

        fn add_at(&mut self, key: u8, due: Instant) {
            match self.delayed.iter().position(|(_, other)| *other == key) {
                Some(i) if self.delayed[i].0 <= due => {}
                Some(i) => {
                    self.delayed.remove(i);
                    self.delayed.push((due, key));
                }
                None => self.delayed.push((due, key)),
            }
        }

        fn wake(&mut self, now: Instant) {
            let mut ready: Vec<_> = self.delayed.extract_if(.., |(due, _)| *due <= now).collect();
            ready.sort_by_key(|(due, _)| *due); // stable: keeps the order of keys with the same due time
            for (_, key) in ready {
                self.add(key);
            }
        }

        fn take(&mut self) -> Option<u8> {
            if self.ready.is_empty() {
                return None;
            }
            let key = self.ready.remove(0);
            assert!(!self.running.contains(&key));
            self.running.push(key);
            Some(key)
        }

        fn finish(&mut self, key: u8) {
            self.running.retain(|other| *other != key);
            if let Some(i) = self.again.iter().position(|other| *other == key) {
                self.again.remove(i);
                self.ready.push(key);
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Add(u8),
        AddAfter(u8, u64),
        Pass(u64),
        Take,
        Finish(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => (0u8..6).prop_map(Op::Add),
            3 => (0u8..6, 1u64..50).prop_map(|(key, ms)| Op::AddAfter(key, ms)),
            2 => (1u64..30).prop_map(Op::Pass),
            3 => Just(Op::Take),
            3 => any::<usize>().prop_map(Op::Finish),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        /// Shows QUE-4.
        #[test]
        fn backlog_behaves_like_the_model(ops in prop::collection::vec(op(), 1..120)) {
            let mut now = Instant::now();
            let (mut backlog, mut model) = (Backlog::default(), Model::default());
            for op in ops {
                match op {
                    Op::Add(key) => {
                        backlog.add(key, now);
                        model.add(key);
                    }
                    Op::AddAfter(key, ms) => {
                        backlog.add_at(key, now + Duration::from_millis(ms));
                        model.add_at(key, now + Duration::from_millis(ms));
                    }
                    Op::Pass(ms) => {
                        now += Duration::from_millis(ms);
                        backlog.wake(now);
                        model.wake(now);
                    }
                    Op::Take => prop_assert_eq!(backlog.take(now).map(|(key, ..)| key), model.take()),
                    Op::Finish(which) if !model.running.is_empty() => {
                        let key = model.running[which % model.running.len()];
                        backlog.finish(&key, now);
                        model.finish(key);
                    }
                    Op::Finish(_) => {}
                }
                prop_assert_eq!(backlog.next_due(), model.delayed.iter().map(|(due, _)| *due).min());
            }

            // No key is lost: after all work has ended and all keys were due, the backlog is empty.
            now += Duration::from_secs(1);
            backlog.wake(now);
            model.wake(now);
            while !(model.running.is_empty() && model.ready.is_empty()) {
                for key in std::mem::take(&mut model.running) {
                    backlog.finish(&key, now);
                    model.finish(key);
                }
                while let Some(key) = model.take() {
                    prop_assert_eq!(backlog.take(now).map(|(key, ..)| key), Some(key));
                }
            }
            prop_assert!(backlog.ready.is_empty() && backlog.wanted.is_empty() && backlog.running.is_empty());
            prop_assert!(backlog.delayed.is_empty() && backlog.due.is_empty());
        }
    }
}
