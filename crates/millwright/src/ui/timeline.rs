//! The last decisions, newest last.

use std::collections::VecDeque;
use std::sync::Arc;

use controllers::decision::{Listen, Subject};
use controllers::{Decision, Listener};
use inspect::explain::Explained;
use jiff::Timestamp;
use parking_lot::Mutex;
use runtime::Clock;
use serde::Serialize;

/// Number of decisions that are kept.
const MAX_ENTRIES: usize = 300;

/// The last decisions. Clones share their state.
#[derive(Clone)]
pub(crate) struct Timeline {
    clock: Clock,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    count: u64,
    kept: VecDeque<Entry>,
}

/// A decision, as shown in the web view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Entry {
    /// Number of the entry, starting with one.
    pub(super) number: u64,
    at: Timestamp,
    kind: &'static str,
    name: String,
    did: Vec<String>,
    because: String,
    /// Reason why the decision was not carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

impl Timeline {
    /// Creates an empty timeline.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, shared: Arc::default() }
    }

    /// Returns the listener that stores every decision.
    pub(crate) fn listener(&self) -> Listener {
        Arc::new(self.clone())
    }

    /// Returns the entries with a higher number.
    pub(super) fn after(&self, number: u64) -> Vec<Entry> {
        self.shared.lock().kept.iter().filter(|entry| entry.number > number).cloned().collect()
    }
}

impl Listen for Timeline {
    fn decided(&self, decision: &Decision) {
        if decision.steps.is_empty() && !decision.outcome.is_open() {
            return;
        }
        let mut entry = Entry {
            number: 0,
            at: self.clock.now(),
            kind: kind(decision.about).word(),
            name: decision.key.name.to_string(),
            did: decision.steps.clone(),
            because: decision.because.clone(),
            failed: decision.outcome.is_open().then(|| decision.outcome.to_string()),
        };
        let mut shared = self.shared.lock();
        // A failing decision is retried repeatedly. Show it only once.
        let latest = shared.kept.iter().rev().find(|kept| (kept.kind, &kept.name) == (entry.kind, &entry.name));
        if entry.failed.is_some() && latest.is_some_and(|latest| latest.says_the_same(&entry)) {
            return;
        }
        shared.count += 1;
        entry.number = shared.count;
        if shared.kept.len() == MAX_ENTRIES {
            shared.kept.pop_front();
        }
        shared.kept.push_back(entry);
    }
}

impl Entry {
    fn says_the_same(&self, other: &Self) -> bool {
        (&self.did, &self.because, &self.failed) == (&other.did, &other.because, &other.failed)
    }
}

fn kind(subject: Subject) -> Explained {
    match subject {
        Subject::Machine => Explained::Machine,
        Subject::Set => Explained::MachineSet,
        Subject::Deployment => Explained::MachineDeployment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controllers::decision::Ending;
    use planner::{Awaited, Wake};
    use runtime::Key;

    fn decided(timeline: &Timeline, steps: &[&str], because: &str, ending: Ending) {
        let decision = Decision::of(Subject::Machine, &Key::new("ns", "m"), steps, &because, Wake::On(Awaited::Node))
            .ended(ending);
        timeline.decided(&decision);
    }

    fn timeline() -> Timeline {
        Timeline::new(Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()))
    }

    /// Shows OPR-10.
    #[tokio::test(start_paused = true)]
    async fn timeline_skips_empty_decisions_and_repeated_failures() {
        let timeline = timeline();
        decided(&timeline, &[], "nothing to do", Ending::Done);
        for _ in 0..3 {
            decided(&timeline, &["create"], "it is new", Ending::Failed("no quota".to_owned()));
        }
        decided(&timeline, &["create"], "it is new", Ending::Done);
        let failures: Vec<Option<String>> = timeline.after(0).into_iter().map(|entry| entry.failed).collect();
        assert_eq!(failures, [Some("no quota".to_owned()), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn timeline_keeps_the_latest_entries() {
        let timeline = timeline();
        for number in 0..MAX_ENTRIES + 10 {
            decided(&timeline, &["step"], &format!("{number}"), Ending::Done);
        }
        let kept = timeline.after(0);
        assert_eq!((kept.len(), kept[0].number), (MAX_ENTRIES, 11));
        assert_eq!(timeline.after(u64::try_from(MAX_ENTRIES).unwrap() + 9).len(), 1);
    }
}
