//! Which keys are ready, running or waiting. Plain data: time comes in as a parameter and nothing here waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;

use super::busy::Busy;
use super::state::{Failing, QueueState, Ready, Running, Waiting};
use crate::watchdog::Heartbeat;

/// Every collection holds a key at most once, and a key without work, wish or failure is in none: the size follows the number
/// of objects, never the number of events.
#[derive(Debug)]
pub(super) struct Backlog<T> {
    /// Keys for the next free worker, first come first.
    ready: VecDeque<T>,
    /// Since when work is wanted: every ready key, and running keys that were asked for again.
    wanted: BTreeMap<T, Instant>,
    running: BTreeMap<T, InWork>,
    /// Delayed keys by due time; the number keeps those due together in the order they came.
    timetable: BTreeSet<(Instant, u64, T)>,
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

/// Work on a key.
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
            timetable: BTreeSet::new(),
            due: BTreeMap::new(),
            arrivals: 0,
            failures: BTreeMap::new(),
            intake: Intake::Open,
            busy: Busy::default(),
        }
    }
}

/// Whether an add changed anything.
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
            self.timetable.remove(&(earlier, arrival, key.clone()));
        }
        self.arrivals += 1;
        self.due.insert(key.clone(), (due, self.arrivals));
        self.timetable.insert((due, self.arrivals, key));
    }

    /// Makes every key ready whose time has come, in the order of their times.
    pub(super) fn wake(&mut self, now: Instant) -> Vec<Added> {
        let mut woken = Vec::new();
        while self.timetable.first().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, _, key)) = self.timetable.pop_first() else { break };
            self.due.remove(&key);
            woken.push(self.add(key, now));
        }
        woken
    }

    /// The key that has been ready longest, how long it was wanted, and the heartbeat of the work on it.
    pub(super) fn take(&mut self, now: Instant) -> Option<(T, Duration, Heartbeat)> {
        let key = self.ready.pop_front()?;
        let since = self.wanted.remove(&key).unwrap_or(now);
        let heartbeat = Heartbeat::default();
        self.busy.count(&key, now);
        self.running.insert(key.clone(), InWork { since: now, heartbeat: heartbeat.clone() });
        Some((key, now.saturating_duration_since(since), heartbeat))
    }

    /// Ends the work on `key` and says how long it took. A key wanted again in the meantime goes to the end of the line.
    pub(super) fn finish(&mut self, key: &T, now: Instant) -> Duration {
        let since = self.running.remove(key).map_or(now, |pass| pass.since);
        if self.wanted.contains_key(key) {
            self.ready.push_back(key.clone());
        }
        now.saturating_duration_since(since)
    }

    /// Returns the largest number of times that one key was taken within ten seconds, lately.
    pub(super) fn busiest(&mut self, now: Instant) -> u32 {
        self.busy.most(now)
    }

    /// Counts a failure and says how many came before it.
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
        self.timetable.first().map(|(due, ..)| *due)
    }

    /// Keys that wait for a worker, those that wait for their own work to end included.
    pub(super) fn depth(&self) -> usize {
        self.wanted.len()
    }

    /// Whether neither a ready nor a delayed key is left to hand out.
    pub(super) fn is_quiet(&self) -> bool {
        self.ready.is_empty() && self.timetable.is_empty()
    }

    /// The time all work in progress has taken so far, and the longest of it.
    pub(super) fn in_progress(&self, now: Instant) -> (Duration, Duration) {
        let taken = || self.running.values().map(|pass| now.saturating_duration_since(pass.since));
        (taken().sum(), taken().max().unwrap_or_default())
    }

    /// How many keys are being worked on.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// The work that has been silent for longest, and for how long.
    pub(super) fn most_silent(&self, now: Instant) -> Option<(&T, Duration)> {
        let silent = self.running.iter().filter_map(|(key, pass)| Some((key, pass.heartbeat.silent_for(now)?)));
        silent.max_by_key(|(_, silent_for)| *silent_for)
    }

    /// For how long a key has been there for the taking; zero if none is.
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
                .timetable
                .iter()
                .map(|(due, _, key)| Waiting { key: key.to_string(), due_in: due.saturating_duration_since(now) })
                .collect(),
            running: self
                .running
                .iter()
                .map(|(key, pass)| Running {
                    key: key.to_string(),
                    running_for: since(pass.since),
                    silent_for: pass.heartbeat.silent_for(now).unwrap_or_default(),
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

    /// What the queue promises, said as simply as possible: a list of wishes in the order they became ready.
    #[derive(Default)]
    struct Model {
        line: Vec<u8>,
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
            } else if !self.line.contains(&key) {
                self.line.push(key);
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
            let mut ripe: Vec<_> = self.delayed.extract_if(.., |(due, _)| *due <= now).collect();
            ripe.sort_by_key(|(due, _)| *due); // stable: those due together stay in the order they came
            for (_, key) in ripe {
                self.add(key);
            }
        }

        fn take(&mut self) -> Option<u8> {
            if self.line.is_empty() {
                return None;
            }
            let key = self.line.remove(0);
            assert!(!self.running.contains(&key));
            self.running.push(key);
            Some(key)
        }

        fn finish(&mut self, key: u8) {
            self.running.retain(|other| *other != key);
            if let Some(i) = self.again.iter().position(|other| *other == key) {
                self.again.remove(i);
                self.line.push(key);
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
        fn it_hands_out_what_a_simple_list_of_wishes_would(ops in prop::collection::vec(op(), 1..120)) {
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

            // Nothing is lost: once all work ends and all times have come, every wish has been handed out and nothing is left.
            now += Duration::from_secs(1);
            backlog.wake(now);
            model.wake(now);
            while !(model.running.is_empty() && model.line.is_empty()) {
                for key in std::mem::take(&mut model.running) {
                    backlog.finish(&key, now);
                    model.finish(key);
                }
                while let Some(key) = model.take() {
                    prop_assert_eq!(backlog.take(now).map(|(key, ..)| key), Some(key));
                }
            }
            prop_assert!(backlog.ready.is_empty() && backlog.wanted.is_empty() && backlog.running.is_empty());
            prop_assert!(backlog.timetable.is_empty() && backlog.due.is_empty());
        }
    }
}
