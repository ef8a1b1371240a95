//! The log of decisions: one line for each decision with steps.
//!
//! A failing object is retried, and each retry makes the same decision. To keep the log readable, a line about an object that failed
//! recently is not repeated for [`REPEAT_AFTER`]. Then it is logged again with the number of suppressed lines. Suppressed lines are logged
//! at debug level (verbosity 4).
//!
//! State is kept for failing objects only.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use runtime::{Clock, Key};

use super::{Decision, DriverCall, DriverCallResult, Ending, Listener, Subject};

/// Time after which a line about a failing object is repeated.
const REPEAT_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// Maximum number of lines that are kept for one object. It exceeds the number of lines between two retries.
const MAX_LINES: usize = 8;

/// Reports decisions to the log and to a listener. Clones share the state.
#[derive(Clone)]
pub struct Journal {
    listener: Option<Listener>,
    clock: Clock,
    failures: Arc<Mutex<BTreeMap<(Subject, Key), Failing>>>,
}

/// An object that failed recently.
struct Failing {
    failed: Timestamp,
    logged: VecDeque<LoggedLine>,
}

struct LoggedLine {
    fingerprint: u64,
    at: Timestamp,
    suppressed: u64,
}

/// Level at which a line is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visibility {
    /// Info or warning. `suppressed` is the number of suppressed repetitions, if there were any.
    Logged { suppressed: Option<u64> },
    /// Debug only.
    Debug,
}

impl Journal {
    /// Creates a journal that also calls this listener.
    pub fn new(listener: Option<Listener>, clock: &Clock) -> Self {
        Self { listener, clock: clock.clone(), failures: Arc::default() }
    }

    /// Reports a decision and its result.
    pub fn decided(&self, decision: &Decision) {
        log(decision, self.visibility(decision));
        if let Some(listener) = &self.listener {
            listener.decided(decision);
        }
    }

    /// Reports the end of a driver call. It is not logged: the next decision contains the error.
    pub fn called(&self, key: &Key, call: &DriverCall) {
        if call.result == DriverCallResult::Failure {
            self.note_failure(Subject::Machine, key);
        }
        if let Some(listener) = &self.listener {
            listener.called(call);
        }
    }

    /// Drops the state of a deleted object.
    pub fn deleted(&self, about: Subject, key: &Key) {
        self.failures.lock().remove(&(about, key.clone()));
        if let (Subject::Machine, Some(listener)) = (about, &self.listener) {
            listener.deleted(key);
        }
    }

    /// Returns the number of objects that failed recently.
    pub fn failures(&self) -> usize {
        self.failures.lock().len()
    }

    fn note_failure(&self, about: Subject, key: &Key) {
        let now = self.clock.now();
        let mut failures = self.failures.lock();
        let failing = failures.entry((about, key.clone()));
        failing.or_insert_with(|| Failing { failed: now, logged: VecDeque::new() }).failed = now;
    }

    fn visibility(&self, decision: &Decision) -> Visibility {
        let open = decision.outcome.is_open();
        if decision.steps.is_empty() && !open {
            return Visibility::Debug;
        }
        if open {
            self.note_failure(decision.about, &decision.key);
        }
        let now = self.clock.now();
        let object = (decision.about, decision.key.clone());
        let mut failures = self.failures.lock();
        match failures.get_mut(&object) {
            None => Visibility::Logged { suppressed: None },
            Some(failing) if now.duration_since(failing.failed) >= REPEAT_AFTER => {
                failures.remove(&object);
                Visibility::Logged { suppressed: None }
            }
            Some(failing) => failing.visibility(fingerprint(decision), now),
        }
    }
}

impl Failing {
    fn visibility(&mut self, fingerprint: u64, now: Timestamp) -> Visibility {
        match self.logged.iter_mut().find(|line| line.fingerprint == fingerprint) {
            Some(line) if now.duration_since(line.at) < REPEAT_AFTER => {
                line.suppressed += 1;
                Visibility::Debug
            }
            Some(line) => {
                let suppressed = std::mem::take(&mut line.suppressed);
                line.at = now;
                Visibility::Logged { suppressed: (suppressed > 0).then_some(suppressed) }
            }
            None => {
                if self.logged.len() == MAX_LINES {
                    self.logged.pop_front();
                }
                self.logged.push_back(LoggedLine { fingerprint, at: now, suppressed: 0 });
                Visibility::Logged { suppressed: None }
            }
        }
    }
}

/// Returns a hash of a line without digits: versions, ports and times differ in every retry.
fn fingerprint(decision: &Decision) -> u64 {
    let outcome = decision.outcome.to_string();
    let mut hasher = DefaultHasher::new();
    for text in decision.steps.iter().chain([&decision.because, &outcome]) {
        text.bytes().filter(|byte| !byte.is_ascii_digit()).for_each(|byte| byte.hash(&mut hasher));
        0xff_u8.hash(&mut hasher);
    }
    hasher.finish()
}

/// Logs one line with the object as a field, so that a search for a Machine finds all of its lines.
macro_rules! line {
    ($level:ident, $decision:expr, $suppressed:expr, $message:literal) => {{
        let Decision { about, key, steps, because, awaits, outcome, .. } = $decision;
        let (step, outcome, suppressed) = (steps.join(", "), outcome.to_string(), $suppressed);
        let (reason, awaits) = (because.as_str(), Some(awaits.as_str()).filter(|awaits| !awaits.is_empty()));
        match about {
            Subject::Machine => tracing::$level!(machine = %key, step, reason, outcome, awaits, suppressed, $message),
            Subject::Set => tracing::$level!(set = %key, step, reason, outcome, awaits, suppressed, $message),
            Subject::Deployment => tracing::$level!(deployment = %key, step, reason, outcome, awaits, suppressed, $message),
        }
    }};
}

fn log(decision: &Decision, visibility: Visibility) {
    match (visibility, &decision.outcome) {
        (Visibility::Logged { suppressed }, Ending::Done | Ending::InProgress) => {
            line!(info, decision, suppressed, "decided");
        }
        (Visibility::Logged { suppressed }, Ending::Postponed(_)) => {
            line!(info, decision, suppressed, "not done; retrying");
        }
        (Visibility::Logged { suppressed }, Ending::Failed(_)) => {
            line!(warn, decision, suppressed, "not done; retrying");
        }
        (Visibility::Debug, _) if decision.steps.is_empty() => line!(debug, decision, None::<u64>, "nothing to do"),
        (Visibility::Debug, Ending::Done | Ending::InProgress) => line!(debug, decision, None::<u64>, "decided again"),
        (Visibility::Debug, _) => line!(debug, decision, None::<u64>, "not done again; retrying"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use planner::{Awaited, Wake};
    use std::time::Duration;

    fn journal() -> Journal {
        Journal::new(None, &Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()))
    }

    fn decision(step: &str, outcome: Ending) -> Decision {
        Decision::of(Subject::Machine, &Key::new("ns", "m"), &[step], &"reasons", Wake::On(Awaited::Node))
            .ended(outcome)
    }

    fn failed(why: &str) -> Decision {
        decision("write", Ending::Failed(why.into()))
    }

    const LOGGED: Visibility = Visibility::Logged { suppressed: None };

    /// Shows EVT-9.
    #[tokio::test(start_paused = true)]
    async fn healthy_object_is_always_logged_and_not_tracked() {
        let journal = journal();
        for _ in 0..3 {
            assert_eq!(journal.visibility(&decision("create 2 Machines", Ending::Done)), LOGGED);
        }
        assert_eq!(journal.failures(), 0);
    }

    /// Shows EVT-8.
    #[tokio::test(start_paused = true)]
    async fn decision_without_steps_is_logged_at_debug_level() {
        let idle = Decision { steps: vec![], ..decision("", Ending::Done) };
        assert_eq!(journal().visibility(&idle), Visibility::Debug);
    }

    /// Shows EVT-9.
    #[tokio::test(start_paused = true)]
    async fn repeated_failure_is_logged_again_with_the_suppressed_count() {
        let journal = journal();
        assert_eq!(journal.visibility(&failed("version 17 is old")), LOGGED);
        for version in 18..21 {
            tokio::time::advance(Duration::from_mins(3)).await;
            assert_eq!(journal.visibility(&failed(&format!("version {version} is old"))), Visibility::Debug);
        }
        assert_eq!(journal.visibility(&failed("forbidden")), LOGGED, "another failure is logged");
        tokio::time::advance(Duration::from_mins(3)).await;
        assert_eq!(journal.visibility(&failed("version 99 is old")), Visibility::Logged { suppressed: Some(3) });
    }

    #[tokio::test(start_paused = true)]
    async fn steps_of_a_retry_are_suppressed_while_the_call_fails() {
        let (journal, key) = (journal(), Key::new("ns", "m"));
        let call = || journal.visibility(&decision("call", Ending::InProgress));
        journal.note_failure(Subject::Machine, &key);
        assert_eq!(call(), LOGGED);
        journal.note_failure(Subject::Machine, &key);
        assert_eq!(call(), Visibility::Debug);
        assert_eq!(journal.visibility(&decision("write", Ending::Done)), LOGGED, "a new line is logged");
        tokio::time::advance(Duration::from_mins(11)).await;
        assert_eq!(call(), LOGGED);
        assert_eq!(call(), LOGGED, "the object is healthy again");
        assert_eq!(journal.failures(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_object_is_not_tracked() {
        let journal = journal();
        journal.visibility(&failed("forbidden"));
        journal.deleted(Subject::Machine, &Key::new("ns", "m"));
        assert_eq!(journal.failures(), 0);
    }
}
