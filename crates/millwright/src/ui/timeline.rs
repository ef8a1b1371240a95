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

/// How many are kept: what somebody who opens the page wants to have missed.
const KEPT: usize = 300;

/// What was decided lately. Clones are the same.
#[derive(Clone)]
pub(crate) struct Timeline {
    clock: Clock,
    inside: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    told: u64,
    kept: VecDeque<Entry>,
}

/// A decision, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Entry {
    /// Its number, counted from one.
    pub(super) number: u64,
    at: Timestamp,
    kind: &'static str,
    name: String,
    did: Vec<String>,
    because: String,
    /// Why it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

impl Timeline {
    /// An empty one.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, inside: Arc::default() }
    }

    /// Whom to tell of every decision.
    pub(crate) fn listener(&self) -> Listener {
        Arc::new(self.clone())
    }

    /// Those that are kept and were made after the one with this number.
    pub(super) fn after(&self, number: u64) -> Vec<Entry> {
        self.inside.lock().kept.iter().filter(|entry| entry.number > number).cloned().collect()
    }
}

impl Listen for Timeline {
    fn decided(&self, decision: &Decision) {
        if decision.did.is_empty() && !decision.outcome.is_open() {
            return;
        }
        let mut entry = Entry {
            number: 0,
            at: self.clock.now(),
            kind: kind(decision.about).word(),
            name: decision.key.name.to_string(),
            did: decision.did.clone(),
            because: decision.because.clone(),
            failed: decision.outcome.is_open().then(|| decision.outcome.to_string()),
        };
        let mut inside = self.inside.lock();
        // What fails is tried again and again; once is enough to be seen.
        let latest = inside.kept.iter().rev().find(|kept| (kept.kind, &kept.name) == (entry.kind, &entry.name));
        if entry.failed.is_some() && latest.is_some_and(|latest| latest.says_the_same(&entry)) {
            return;
        }
        inside.told += 1;
        entry.number = inside.told;
        if inside.kept.len() == KEPT {
            inside.kept.pop_front();
        }
        inside.kept.push_back(entry);
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
    async fn what_did_nothing_is_left_out_and_what_keeps_failing_is_told_once() {
        let timeline = timeline();
        decided(&timeline, &[], "nothing to do", Ending::Done);
        for _ in 0..3 {
            decided(&timeline, &["create"], "it is new", Ending::Failed("no quota".to_owned()));
        }
        decided(&timeline, &["create"], "it is new", Ending::Done);
        let told: Vec<Option<String>> = timeline.after(0).into_iter().map(|entry| entry.failed).collect();
        assert_eq!(told, [Some("no quota".to_owned()), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn it_keeps_the_latest_and_says_what_is_new() {
        let timeline = timeline();
        for number in 0..KEPT + 10 {
            decided(&timeline, &["step"], &format!("{number}"), Ending::Done);
        }
        let kept = timeline.after(0);
        assert_eq!((kept.len(), kept[0].number), (KEPT, 11));
        assert_eq!(timeline.after(u64::try_from(KEPT).unwrap() + 9).len(), 1);
    }
}
