//! The log of decisions: one line for each that does something.
//!
//! An object failing is tried again and again, and each try decides the same. Told every time, one broken quota would bury
//! everything else. So a line about an object that failed lately is not repeated for [`SILENCE`]; then it is told again, with how often
//! it has been true in between. Whoever wants every line asks for verbosity 4.
//!
//! Only objects failing are remembered, so the memory of a healthy fleet is empty.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use runtime::{Clock, Key};

use super::{Decision, DriverCall, Ending, Listener, Subject, Taught};

/// For how long a line about an object failing is not repeated.
const SILENCE: SignedDuration = SignedDuration::from_mins(10);
/// How many lines are remembered of one object: more than the steps between two tries.
const REMEMBERED: usize = 8;

/// Where decisions are told. Clones are the same.
#[derive(Clone)]
pub struct Journal {
    listener: Option<Listener>,
    clock: Clock,
    failures: Arc<Mutex<BTreeMap<(Subject, Key), Failing>>>,
}

/// An object for which something failed lately.
struct Failing {
    failed: Timestamp,
    told: VecDeque<Told>,
}

struct Told {
    line: u64,
    at: Timestamp,
    unsaid: u64,
}

/// Whether a line is worth everybody's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    /// It is news; `unsaid` is how often it was true without being told, if it was.
    News { unsaid: Option<u64> },
    /// Only for those who want to know everything.
    Detail,
}

impl Journal {
    /// A journal that also tells this listener.
    pub fn new(listener: Option<Listener>, clock: &Clock) -> Self {
        Self { listener, clock: clock.clone(), failures: Arc::default() }
    }

    /// Tells a decision and what came of it.
    pub fn decided(&self, decision: &Decision) {
        write_down(decision, self.worth(decision));
        if let Some(listener) = &self.listener {
            listener.decided(decision);
        }
    }

    /// Tells the end of a call to the cloud. The log does not repeat it: the decision that follows from it says why.
    pub fn called(&self, key: &Key, call: &DriverCall) {
        if call.taught == Taught::Failure {
            self.note_failure(Subject::Machine, key);
        }
        if let Some(listener) = &self.listener {
            listener.called(call);
        }
    }

    /// Forgets an object that is gone.
    pub fn gone(&self, about: Subject, key: &Key) {
        self.failures.lock().remove(&(about, key.clone()));
        if let (Subject::Machine, Some(listener)) = (about, &self.listener) {
            listener.gone(key);
        }
    }

    /// How many objects are failing, or were a moment ago.
    pub fn failures(&self) -> usize {
        self.failures.lock().len()
    }

    fn note_failure(&self, about: Subject, key: &Key) {
        let now = self.clock.now();
        let mut failures = self.failures.lock();
        let failing = failures.entry((about, key.clone()));
        failing.or_insert_with(|| Failing { failed: now, told: VecDeque::new() }).failed = now;
    }

    fn worth(&self, decision: &Decision) -> Worth {
        let open = decision.outcome.is_open();
        if decision.did.is_empty() && !open {
            return Worth::Detail;
        }
        if open {
            self.note_failure(decision.about, &decision.key);
        }
        let now = self.clock.now();
        let place = (decision.about, decision.key.clone());
        let mut failures = self.failures.lock();
        match failures.get_mut(&place) {
            None => Worth::News { unsaid: None },
            Some(failing) if now.duration_since(failing.failed) >= SILENCE => {
                failures.remove(&place);
                Worth::News { unsaid: None }
            }
            Some(failing) => failing.worth(fingerprint(decision), now),
        }
    }
}

impl Failing {
    fn worth(&mut self, line: u64, now: Timestamp) -> Worth {
        match self.told.iter_mut().find(|told| told.line == line) {
            Some(told) if now.duration_since(told.at) < SILENCE => {
                told.unsaid += 1;
                Worth::Detail
            }
            Some(told) => {
                let unsaid = std::mem::take(&mut told.unsaid);
                told.at = now;
                Worth::News { unsaid: (unsaid > 0).then_some(unsaid) }
            }
            None => {
                if self.told.len() == REMEMBERED {
                    self.told.pop_front();
                }
                self.told.push_back(Told { line, at: now, unsaid: 0 });
                Worth::News { unsaid: None }
            }
        }
    }
}

/// What a line says, apart from numbers: versions, ports and times differ with every try.
fn fingerprint(decision: &Decision) -> u64 {
    let outcome = decision.outcome.to_string();
    let mut hasher = DefaultHasher::new();
    for text in decision.did.iter().chain([&decision.because, &outcome]) {
        text.bytes().filter(|byte| !byte.is_ascii_digit()).for_each(|byte| byte.hash(&mut hasher));
        0xff_u8.hash(&mut hasher);
    }
    hasher.finish()
}

/// One line, under the name of what it is about, so that a search for a machine finds all of its lines.
macro_rules! line {
    ($level:ident, $decision:expr, $unsaid:expr, $message:literal) => {{
        let Decision { about, key, did, because, awaits, outcome, .. } = $decision;
        let (step, outcome, unsaid) = (did.join(", "), outcome.to_string(), $unsaid);
        let (reason, awaits) = (because.as_str(), Some(awaits.as_str()).filter(|awaits| !awaits.is_empty()));
        match about {
            Subject::Machine => tracing::$level!(machine = %key, step, reason, outcome, awaits, unsaid, $message),
            Subject::Set => tracing::$level!(set = %key, step, reason, outcome, awaits, unsaid, $message),
            Subject::Deployment => tracing::$level!(deployment = %key, step, reason, outcome, awaits, unsaid, $message),
        }
    }};
}

fn write_down(decision: &Decision, worth: Worth) {
    match (worth, &decision.outcome) {
        (Worth::News { unsaid }, Ending::Done | Ending::UnderWay) => line!(info, decision, unsaid, "decided"),
        (Worth::News { unsaid }, Ending::Postponed(_)) => line!(info, decision, unsaid, "not done; deciding afresh"),
        (Worth::News { unsaid }, Ending::Failed(_)) => line!(warn, decision, unsaid, "not done; deciding afresh"),
        (Worth::Detail, _) if decision.did.is_empty() => line!(debug, decision, None::<u64>, "nothing to do"),
        (Worth::Detail, Ending::Done | Ending::UnderWay) => line!(debug, decision, None::<u64>, "decided again"),
        (Worth::Detail, _) => line!(debug, decision, None::<u64>, "not done again; deciding afresh"),
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

    const NEWS: Worth = Worth::News { unsaid: None };

    /// Shows EVT-9.
    #[tokio::test(start_paused = true)]
    async fn a_healthy_object_is_told_of_every_time_and_not_remembered() {
        let journal = journal();
        for _ in 0..3 {
            assert_eq!(journal.worth(&decision("make 2 machines", Ending::Done)), NEWS);
        }
        assert_eq!(journal.failures(), 0);
    }

    /// Shows EVT-8.
    #[tokio::test(start_paused = true)]
    async fn a_reconcile_that_decides_nothing_is_no_news() {
        let idle = Decision { did: vec![], ..decision("", Ending::Done) };
        assert_eq!(journal().worth(&idle), Worth::Detail);
    }

    /// Shows EVT-9.
    #[tokio::test(start_paused = true)]
    async fn a_failure_that_repeats_is_told_once_and_after_a_while_again_with_how_often() {
        let journal = journal();
        assert_eq!(journal.worth(&failed("version 17 is old")), NEWS);
        for version in 18..21 {
            tokio::time::advance(Duration::from_mins(3)).await;
            assert_eq!(journal.worth(&failed(&format!("version {version} is old"))), Worth::Detail);
        }
        assert_eq!(journal.worth(&failed("forbidden")), NEWS, "another failure is news");
        tokio::time::advance(Duration::from_mins(3)).await;
        assert_eq!(journal.worth(&failed("version 99 is old")), Worth::News { unsaid: Some(3) });
    }

    #[tokio::test(start_paused = true)]
    async fn the_steps_of_a_retry_are_not_repeated_while_the_call_keeps_failing() {
        let (journal, key) = (journal(), Key::new("ns", "m"));
        let ask = || journal.worth(&decision("ask", Ending::UnderWay));
        journal.note_failure(Subject::Machine, &key);
        assert_eq!(ask(), NEWS);
        journal.note_failure(Subject::Machine, &key);
        assert_eq!(ask(), Worth::Detail);
        assert_eq!(journal.worth(&decision("write down", Ending::Done)), NEWS, "what is new is told");
        tokio::time::advance(Duration::from_mins(11)).await;
        assert_eq!(ask(), NEWS);
        assert_eq!(ask(), NEWS, "the failing is over");
        assert_eq!(journal.failures(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn of_an_object_that_is_gone_nothing_is_remembered() {
        let journal = journal();
        journal.worth(&failed("forbidden"));
        journal.gone(Subject::Machine, &Key::new("ns", "m"));
        assert_eq!(journal.failures(), 0);
    }
}
