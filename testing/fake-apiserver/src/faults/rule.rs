//! Rules: which requests, when, how often, and what then. They are written like sentences.

use std::time::Duration;

use jiff::Timestamp;

use crate::faults::{After, Fault, Faults, Outcome, Refusal, RequestInfo, Staleness, Verb, WatchFault};

/// The name of a rule that is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(pub(super) u64);

/// Some verbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verbs(Vec<Verb>);

impl From<Verb> for Verbs {
    fn from(verb: Verb) -> Self {
        Self(vec![verb])
    }
}

impl<const N: usize> From<[Verb; N]> for Verbs {
    fn from(verbs: [Verb; N]) -> Self {
        Self(verbs.to_vec())
    }
}

/// A rule in the making. Conditions narrow it down; the fault at the end puts it in force.
#[must_use = "a rule without a fault at its end is not in force"]
#[derive(Clone, Debug)]
pub struct Rule {
    faults: Faults,
    conditions: Conditions,
}

/// Which requests a rule is about, and how many of them it hits.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    verbs: Vec<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    agent: Option<String>,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
    skip: u64,
    times: Option<u64>,
    probability: Option<f64>,
}

impl Rule {
    pub(super) fn new(faults: Faults, verbs: Verbs) -> Self {
        Self { faults, conditions: Conditions { verbs: verbs.0, ..Conditions::default() } }
    }

    /// Only requests about this kind, by its plural name.
    pub fn of(mut self, resource: impl Into<String>) -> Self {
        self.conditions.resource = Some(resource.into());
        self
    }

    /// Only requests in this namespace.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.conditions.namespace = Some(namespace.into());
        self
    }

    /// Only requests about the object of this name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.conditions.name = Some(name.into());
        self
    }

    /// Only requests about this subresource. Empty means the object itself; without this condition either will do.
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.conditions.subresource = Some(subresource.into());
        self
    }

    /// Only requests of clients whose `User-Agent` starts like this.
    pub fn by_agent(mut self, prefix: impl Into<String>) -> Self {
        self.conditions.agent = Some(prefix.into());
        self
    }

    /// Not before this instant.
    pub fn from(mut self, from: Timestamp) -> Self {
        self.conditions.from = Some(from);
        self
    }

    /// Only before this instant.
    pub fn until(mut self, until: Timestamp) -> Self {
        self.conditions.until = Some(until);
        self
    }

    /// Not to the first so many requests that it is about.
    pub fn skipping(mut self, requests: u64) -> Self {
        self.conditions.skip = requests;
        self
    }

    /// No more than so many times; without this condition, every time.
    pub fn times(mut self, times: u64) -> Self {
        self.conditions.times = Some(times);
        self
    }

    /// Only the first time.
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Only to this share of the requests, drawn from the seed.
    pub fn with_probability(mut self, share: f64) -> Self {
        self.conditions.probability = Some(share.clamp(0.0, 1.0));
        self
    }

    /// Puts the rule in force with this fault.
    pub fn deal(self, fault: Fault) -> RuleId {
        self.faults.arm(self.conditions, fault)
    }

    /// They wait this long.
    pub fn delay(self, delay: Duration) -> RuleId {
        self.delay_between(delay, delay)
    }

    /// They wait for a time between these two.
    pub fn delay_between(self, least: Duration, most: Duration) -> RuleId {
        self.deal(Fault::Delay { least, most })
    }

    /// They get a 409.
    pub fn conflict(self) -> RuleId {
        self.deal(Fault::Refuse(Refusal::Conflict))
    }

    /// They get a 429, with or without a `Retry-After` in seconds.
    pub fn throttle(self, retry_after: Option<u64>) -> RuleId {
        self.deal(Fault::Refuse(Refusal::TooManyRequests { retry_after }))
    }

    /// They get a 403, as if no role granted them.
    pub fn forbid(self) -> RuleId {
        self.deal(Fault::Refuse(Refusal::Forbidden))
    }

    /// They get a 500.
    pub fn fail(self) -> RuleId {
        self.deal(Fault::Refuse(Refusal::InternalError))
    }

    /// They get a 503.
    pub fn be_unavailable(self) -> RuleId {
        self.deal(Fault::Refuse(Refusal::Unavailable))
    }

    /// They get a 410. Lists and watches only.
    pub fn expire(self) -> RuleId {
        self.deal(Fault::Refuse(Refusal::Gone))
    }

    /// Their connection breaks before anything has happened.
    pub fn disconnect(self) -> RuleId {
        self.deal(Fault::Disconnect)
    }

    /// They are carried out, but the client never hears of it.
    pub fn lose_answer(self) -> RuleId {
        self.deal(Fault::LoseAnswer)
    }

    /// They succeed and change nothing, as when an admission webhook puts everything back. Updates and patches only.
    pub fn revert(self) -> RuleId {
        self.deal(Fault::Revert)
    }

    /// They show the past. Gets and lists only.
    pub fn be_stale(self, by: Staleness) -> RuleId {
        self.deal(Fault::Stale(by))
    }

    /// The watch breaks.
    pub fn drop_watch(self, after: After) -> RuleId {
        self.deal(Fault::Watch { fault: WatchFault::Drop, after })
    }

    /// The watch stays open and falls silent.
    pub fn stall_watch(self, after: After) -> RuleId {
        self.deal(Fault::Watch { fault: WatchFault::Stall, after })
    }

    /// The watch ends with a 410 in an `ERROR` event.
    pub fn expire_watch(self, after: After) -> RuleId {
        self.deal(Fault::Watch { fault: WatchFault::Expire, after })
    }
}

impl Conditions {
    fn is_about(&self, request: &RequestInfo<'_>, now: Timestamp) -> bool {
        let is = |wanted: &Option<String>, actual: &str| wanted.as_deref().is_none_or(|wanted| wanted == actual);
        self.verbs.contains(&request.verb)
            && is(&self.resource, request.resource)
            && is(&self.namespace, request.namespace)
            && is(&self.name, request.name)
            && is(&self.subresource, request.subresource)
            && self.agent.as_deref().is_none_or(|prefix| request.user_agent.starts_with(prefix))
            && self.from.is_none_or(|from| now >= from)
            && self.until.is_none_or(|until| now < until)
    }
}

/// A rule in force, and what it has done so far.
pub(super) struct Armed {
    id: RuleId,
    conditions: Conditions,
    fault: Fault,
    generator: fastrand::Rng,
    seen: u64,
    fired: u64,
}

/// What a fault does to a decision.
pub(super) enum Effect {
    Delay(Duration),
    Outcome(Outcome),
}

impl Armed {
    pub(super) fn new(id: RuleId, conditions: Conditions, fault: Fault, generator: fastrand::Rng) -> Self {
        Self { id, conditions, fault, generator, seen: 0, fired: 0 }
    }

    pub(super) fn id(&self) -> RuleId {
        self.id
    }

    pub(super) fn fired(&self) -> u64 {
        self.fired
    }

    pub(super) fn only_delays(&self) -> bool {
        matches!(self.fault, Fault::Delay { .. })
    }

    /// Whether the request gets this rule's fault; if so it counts.
    pub(super) fn fire(&mut self, request: &RequestInfo<'_>, now: Timestamp) -> Option<Fault> {
        if !self.fault.can_befall(request.verb) || !self.conditions.is_about(request, now) {
            return None;
        }
        self.seen += 1;
        let spent = self.conditions.times.is_some_and(|times| self.fired >= times);
        if self.seen <= self.conditions.skip || spent {
            return None;
        }
        if self.conditions.probability.is_some_and(|share| self.generator.f64() >= share) {
            return None;
        }
        self.fired += 1;
        Some(self.fault)
    }

    /// What that fault comes to; a delay is drawn here.
    pub(super) fn effect_of(&mut self, fault: Fault) -> Effect {
        Effect::Outcome(match fault {
            Fault::Delay { least, most } => {
                let spread = most.saturating_sub(least);
                return Effect::Delay(least.saturating_add(spread.mul_f64(self.generator.f64())));
            }
            Fault::Refuse(refusal) => Outcome::Refused(refusal),
            Fault::Disconnect => Outcome::Disconnected,
            Fault::LoseAnswer => Outcome::AnswerLost,
            Fault::Revert => Outcome::Reverted,
            Fault::Stale(staleness) => Outcome::Stale(staleness),
            Fault::Watch { fault, after } => Outcome::Watch { fault, after },
        })
    }
}
