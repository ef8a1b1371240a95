//! Faults on demand: what a network, an overloaded API server or a lagging replica would do to a request.
//!
//! A controller is only as good as its worst afternoon, and real afternoons are hard to come by in a test. So every request
//! asks here, before it is handled, what shall go wrong with it. The answer comes from *rules*: which requests, when, how
//! often, and what then. Rules are scripted for a test of one behaviour and drawn from a seed for a simulation; the same rules,
//! seed and requests always give the same faults, or a failure found at night could not be repeated in the morning.
//!
//! ```
//! # use fake_apiserver as apiserver;
//! use fake_apiserver::faults::{Faults, Verb};
//!
//! let faults = Faults::seeded(7);
//! faults.on(Verb::Create).of("machines").times(2).lose_answer();
//! faults.on_any().by_agent("mcm/").with_probability(0.1).throttle(None);
//! ```

mod fault;
mod rule;
mod storm;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

pub use fault::{After, Fault, Refusal, Staleness, Verb, WatchFault};
pub use rule::{Rule, RuleId, Verbs};

/// How many of the newest faults the log keeps: enough for every assertion, and no leak in a simulated month.
const LOG_LENGTH: usize = 4096;

/// What the rules may look at in a request. Empty text means that the request has no such part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestInfo<'a> {
    /// What is asked for.
    pub verb: Verb,
    /// The plural name of the kind: `machines`.
    pub resource: &'a str,
    /// Empty for cluster-scoped objects and for requests across namespaces.
    pub namespace: &'a str,
    /// Empty for requests about many objects. For a create, the name in the body if there is one.
    pub name: &'a str,
    /// `status`, `scale`, `eviction`, or empty.
    pub subresource: &'a str,
    /// The client's `User-Agent`.
    pub user_agent: &'a str,
}

/// What shall go wrong with one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// How long the server waits before it does anything. Zero means that it does not.
    pub delay: Duration,
    /// What happens then.
    pub outcome: Outcome,
}

/// How a request ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    #[default]
    Normal,
    /// With this refusal, before it had any effect.
    Refused(Refusal),
    /// With a broken connection, before it had any effect.
    Disconnected,
    /// It is carried out, then the connection breaks: the client cannot know.
    AnswerLost,
    /// It succeeds and changes nothing.
    Reverted,
    /// A read is answered from the past.
    Stale(Staleness),
    /// A watch opens, and goes wrong later.
    Watch {
        /// How it goes wrong.
        fault: WatchFault,
        /// When.
        after: After,
    },
}

/// A fault that was dealt out: who got what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// When the request came.
    pub at: Timestamp,
    /// The rule behind it.
    pub rule: RuleId,
    /// What was dealt out.
    pub fault: Fault,
    /// What was asked for.
    pub verb: Verb,
    /// Of which kind.
    pub resource: String,
    /// Where.
    pub namespace: String,
    /// About which object.
    pub name: String,
    /// About which part of it.
    pub subresource: String,
}

/// The rules of one server. Clones share them.
#[derive(Clone)]
pub struct Faults {
    state: Arc<Mutex<State>>,
}

struct State {
    generator: fastrand::Rng,
    next: u64,
    rules: Vec<rule::Armed>,
    log: VecDeque<Fired>,
}

impl Faults {
    /// No rules yet. Rules with a probability draw from this seed.
    pub fn seeded(seed: u64) -> Self {
        let state =
            State { generator: fastrand::Rng::with_seed(seed), next: 0, rules: Vec::new(), log: VecDeque::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Starts a rule about requests with these verbs.
    pub fn on(&self, verbs: impl Into<Verbs>) -> Rule {
        Rule::new(self.clone(), verbs.into())
    }

    /// Starts a rule about every request.
    pub fn on_any(&self) -> Rule {
        self.on(Verb::ALL)
    }

    /// Decides about one request, and remembers that it did: a rule good for two times has one left.
    ///
    /// Delays of all matching rules add up. Of the others the oldest that fires decides alone, and those after it are not
    /// used up.
    #[must_use]
    pub fn decide(&self, request: &RequestInfo<'_>, now: Timestamp) -> Decision {
        let mut state = self.state.lock();
        let mut decision = Decision::default();
        let mut fired = Vec::new();
        for rule in &mut state.rules {
            if decision.outcome != Outcome::Normal && !rule.only_delays() {
                continue;
            }
            if let Some(fault) = rule.fire(request, now) {
                fired.push((rule.id(), fault));
                match rule.effect_of(fault) {
                    rule::Effect::Delay(delay) => decision.delay = decision.delay.saturating_add(delay),
                    rule::Effect::Outcome(outcome) => decision.outcome = outcome,
                }
            }
        }
        for (rule, fault) in fired {
            state.record(request, now, rule, fault);
        }
        decision
    }

    /// What was dealt out so far, oldest first; the newest few thousand.
    pub fn fired(&self) -> Vec<Fired> {
        self.state.lock().log.iter().cloned().collect()
    }

    /// How often this rule has fired since it was made.
    pub fn times_fired(&self, rule: RuleId) -> u64 {
        self.state.lock().rules.iter().find(|r| r.id() == rule).map_or(0, rule::Armed::fired)
    }

    /// Withdraws one rule.
    pub fn withdraw(&self, rule: RuleId) {
        self.state.lock().rules.retain(|r| r.id() != rule);
    }

    /// Withdraws all rules: the storm is over. The log stays.
    pub fn calm(&self) {
        self.state.lock().rules.clear();
    }

    fn arm(&self, conditions: rule::Conditions, fault: Fault) -> RuleId {
        let mut state = self.state.lock();
        let id = RuleId(state.next);
        state.next += 1;
        // A generator of its own, so that one rule more does not change what the others do.
        let generator = state.generator.fork();
        state.rules.push(rule::Armed::new(id, conditions, fault, generator));
        id
    }
}

impl State {
    fn record(&mut self, request: &RequestInfo<'_>, at: Timestamp, rule: RuleId, fault: Fault) {
        if self.log.len() == LOG_LENGTH {
            self.log.pop_front();
        }
        self.log.push_back(Fired {
            at,
            rule,
            fault,
            verb: request.verb,
            resource: request.resource.to_owned(),
            namespace: request.namespace.to_owned(),
            name: request.name.to_owned(),
            subresource: request.subresource.to_owned(),
        });
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::seeded(0)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Faults").field("rules", &state.rules.len()).field("fired", &state.log.len()).finish()
    }
}

#[cfg(test)]
mod tests;
