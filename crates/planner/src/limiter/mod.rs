//! Limits the calls to the cloud.
//!
//! Clouds limit the requests of an account. A controller that does not limit its own calls is throttled: its deletions
//! together with its creations, and every other tool that uses the account. So all calls pass one limiter with four
//! rules.
//!
//! 1. **Concurrency.** The number of concurrent calls per credential is limited. The other calls wait in a [`queue`]
//!    that is fair between MachineDeployments, and no MachineDeployment uses all slots: a thousand calls that hang must
//!    not block ten that would not.
//! 2. **Throttling.** If several Machines in a row fail with *Unavailable*, the credential is throttled ([`pause`]): no
//!    call starts for a time that doubles with every pause, and then one call tries.
//! 3. **Capacity.** A MachineClass whose create failed for lack of quota or capacity is blocked ([`capacity`]): its
//!    creates, but no other calls. Deletions free capacity, status calls use none, and the cluster-autoscaler can use
//!    other MachineClasses. After a wait one Machine tries. Each success allows twice as many.
//! 4. **Alternation.** Deletions and other calls of a MachineDeployment alternate. If deletions came first, a thousand
//!    failing deletions would block the replacements. If creations came first, they would block the deletions that free
//!    their capacity.
//!
//! The limiter has no clock and no random source: the time is passed as the duration since an origin that the caller
//! chooses, and so is a random number.

mod capacity;
mod pause;
mod queue;
mod request;
mod timeout;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::Code;
use jiff::Timestamp;

use crate::Policy;
use capacity::Exhaustion;
use pause::Pause;
pub use queue::CallPriority;
use queue::FairQueue;
pub use request::credential;
pub use timeout::call_timeout;

/// Whether a MachineClass has capacity for another VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity<'a> {
    /// Nothing is known that prevents a create.
    Open,
    /// A create of this MachineClass failed for lack of capacity. The next attempt is at this time.
    Exhausted {
        /// The failure.
        refusal: &'a Refusal,
        /// The latest time of the next reconcile.
        until: Timestamp,
    },
}

/// The error with which the cloud rejected a create for lack of capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Error code.
    pub code: Code,
    /// Error message without secrets.
    pub message: String,
}

/// A time, as the duration since an origin that the caller chooses.
pub type Moment = Duration;

/// A driver call that requests admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRequest {
    /// The credential whose limits apply.
    pub credential: String,
    /// The MachineClass of the call.
    pub class: String,
    /// Name of the Machine; empty if the call is about none.
    pub subject: String,
    /// The MachineDeployment, or the MachineClass for a Machine without one.
    pub pool: String,
    /// The queue within the MachineDeployment.
    pub priority: CallPriority,
    /// How the call relates to the capacity of its MachineClass.
    pub capacity_use: CapacityUse,
}

/// How a call relates to the capacity of its MachineClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityUse {
    /// A create, which needs capacity.
    Takes,
    /// A call that precedes a create. It takes a trial of an exhausted MachineClass if one is free, and is admitted
    /// otherwise.
    Precedes,
    /// No relation.
    None,
}

/// A call in the limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(u64);

/// Whether a call was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It waits for admission.
    Queued(CallId),
    /// Its MachineClass has no capacity, so it would fail.
    Rejected,
}

/// What the result of a call says about the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// A create succeeded: there was capacity.
    Created,
    /// The cloud responded, with success or an error: it is available.
    Responded,
    /// The cloud is not available for this credential.
    Throttled,
    /// There was no capacity for another VM of this MachineClass.
    Exhausted(Refusal),
    /// Unknown: the call was not sent, or its result was not received.
    Unknown,
}

impl CallOutcome {
    /// Returns the outcome of an error. *Unavailable* is the code of a cloud that is down or throttles.
    /// *ResourceExhausted* counts only as the result of a create, because no other call needs capacity.
    #[must_use]
    pub fn of_error(code: Code, capacity_use: CapacityUse, message: &str) -> Self {
        match (code, capacity_use) {
            (Code::Unavailable, _) => Self::Throttled,
            (Code::ResourceExhausted, CapacityUse::Takes) => {
                Self::Exhausted(Refusal { code, message: message.to_owned() })
            }
            (Code::Canceled | Code::DeadlineExceeded, _) => Self::Unknown,
            _ => Self::Responded,
        }
    }
}

/// Effects of the end of a call on other calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Queued calls that would fail now.
    pub rejected: Vec<CallId>,
    /// The MachineClass that may start more creates than before. Its Machines can be reconciled.
    pub more_capacity: Option<String>,
}

/// Number of calls of one credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Calls in progress.
    pub running: usize,
    /// Queued calls.
    pub queued: usize,
    /// Whether the credential is throttled.
    pub paused: bool,
}

/// The limiter.
#[derive(Debug)]
pub struct CallLimiter {
    concurrency: usize,
    policy: Policy,
    next: u64,
    requests: BTreeMap<CallId, (CallRequest, State)>,
    credentials: BTreeMap<String, Credential>,
    classes: BTreeMap<String, Exhaustion>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    Running,
}

/// The calls of one credential.
#[derive(Debug, Default)]
struct Credential {
    queue: FairQueue,
    running: BTreeSet<CallId>,
    /// Number of running calls by MachineDeployment and priority.
    running_by_pool: BTreeMap<(String, CallPriority), usize>,
    pause: Pause,
}

/// Maximum number of running calls of one MachineDeployment and priority, as a multiple of the free slots.
const SHARE: usize = 16;

/// Returns whether a MachineDeployment may start another call of a priority. A single MachineDeployment gets nearly all
/// slots, but not the last one, which is reserved for MachineDeployments without a running call. So calls that hang,
/// for example creates, block neither other MachineDeployments nor the deletions of their own.
fn may_start(running: Option<usize>, free: usize, concurrency: usize) -> bool {
    // With few slots none is reserved, so that all of them are used.
    let reserved = usize::from(concurrency >= 8);
    match running {
        None | Some(0) => free > 0,
        Some(running) => running < SHARE.saturating_mul(free.saturating_sub(reserved)),
    }
}

impl CallLimiter {
    /// Creates a limiter with this number of concurrent calls per credential, but at least one.
    #[must_use]
    pub fn new(concurrency: usize, policy: Policy) -> Self {
        Self {
            concurrency: concurrency.max(1),
            policy,
            next: 0,
            requests: BTreeMap::new(),
            credentials: BTreeMap::new(),
            classes: BTreeMap::new(),
        }
    }

    /// Queues a call.
    pub fn enqueue(&mut self, request: CallRequest, now: Moment) -> Arrival {
        let id = CallId(self.next);
        let has_capacity = self.exhaustion(&request.class, now).is_none();
        match (request.capacity_use, has_capacity) {
            (CapacityUse::Takes, false) => return Arrival::Rejected,
            (CapacityUse::Takes | CapacityUse::Precedes, true) => {
                if let Some(exhaustion) = self.classes.get_mut(&request.class) {
                    exhaustion.try_with(id, now);
                }
            }
            (CapacityUse::Precedes, false) | (CapacityUse::None, _) => {}
        }
        self.next += 1;
        self.credentials.entry(request.credential.clone()).or_default().queue.push(id, &request.pool, request.priority);
        self.requests.insert(id, (request, State::Queued));
        Arrival::Queued(id)
    }

    /// Returns the calls that start now. They are running from now on.
    pub fn admit(&mut self, now: Moment) -> Vec<CallId> {
        let mut admitted = Vec::new();
        let concurrency = self.concurrency;
        for credential in self.credentials.values_mut() {
            let slots = concurrency.saturating_sub(credential.running.len());
            let mut allowed = credential.pause.allowance(now, &self.policy).min(slots);
            while allowed > 0 {
                let free = concurrency.saturating_sub(credential.running.len());
                let running = &credential.running_by_pool;
                let may_start = |pool: &str, priority| {
                    may_start(running.get(&(pool.to_owned(), priority)).copied(), free, concurrency)
                };
                let Some((id, pool, priority)) = credential.queue.next(may_start) else { break };
                credential.running.insert(id);
                *credential.running_by_pool.entry((pool, priority)).or_default() += 1;
                credential.pause.started(id, now);
                if let Some((_, state)) = self.requests.get_mut(&id) {
                    *state = State::Running;
                }
                admitted.push(id);
                allowed -= 1;
            }
        }
        admitted
    }

    /// Removes a call that has ended, or that is cancelled while it is queued. `chance` is a random number from zero to
    /// one that spreads retries.
    pub fn finish(&mut self, id: CallId, outcome: &CallOutcome, now: Moment, chance: f64) -> Effects {
        let Some((request, state)) = self.requests.remove(&id) else { return Effects::default() };
        if let Some(credential) = self.credentials.get_mut(&request.credential) {
            match state {
                State::Queued => credential.queue.remove(id, &request.pool),
                State::Running => {
                    credential.running.remove(&id);
                    if let Some(count) = credential.running_by_pool.get_mut(&(request.pool.clone(), request.priority)) {
                        *count = count.saturating_sub(1);
                    }
                    credential.running_by_pool.retain(|_, count| *count > 0);
                    credential.pause.ended((id, &request.subject), outcome, now, chance, &self.policy);
                }
            }
            if credential.is_idle() {
                self.credentials.remove(&request.credential);
            }
        }
        self.learn_capacity(id, &request, outcome, now, chance)
    }

    /// Returns the failure and how long to wait if a MachineClass has no capacity.
    #[must_use]
    pub fn exhaustion(&self, class: &str, now: Moment) -> Option<(&Refusal, Duration)> {
        self.classes.get(class)?.blocked(now, &self.policy)
    }

    /// Returns the MachineClasses whose wait has ended since the previous call. Their Machines can be reconciled.
    pub fn classes_to_retry(&mut self, now: Moment) -> Vec<String> {
        let ended = |(class, exhaustion): (&String, &mut Exhaustion)| exhaustion.has_ended(now).then(|| class.clone());
        self.classes.iter_mut().filter_map(ended).collect()
    }

    /// Returns when the next change occurs that depends only on time.
    #[must_use]
    pub fn next_change(&self) -> Option<Moment> {
        let pauses = self.credentials.values().filter_map(|credential| credential.pause.ends(&self.policy));
        pauses.chain(self.classes.values().filter_map(Exhaustion::ends)).min()
    }

    /// Returns the number of calls by credential.
    #[must_use]
    pub fn traffic(&self) -> BTreeMap<&str, Traffic> {
        let of = |credential: &Credential| Traffic {
            running: credential.running.len(),
            queued: credential.queue.len(),
            paused: credential.pause.is_on(),
        };
        self.credentials.iter().map(|(name, credential)| (name.as_str(), of(credential))).collect()
    }

    /// Returns the MachineClasses without capacity.
    pub fn exhausted_classes(&self, now: Moment) -> impl Iterator<Item = &str> {
        self.classes
            .iter()
            .filter(move |(_, exhaustion)| exhaustion.blocked(now, &self.policy).is_some())
            .map(|(class, _)| class.as_str())
    }

    /// Removes a MachineClass that was deleted.
    pub fn forget_class(&mut self, class: &str) {
        self.classes.remove(class);
    }

    fn learn_capacity(
        &mut self,
        id: CallId,
        request: &CallRequest,
        outcome: &CallOutcome,
        now: Moment,
        chance: f64,
    ) -> Effects {
        let mut effects = Effects::default();
        match (request.capacity_use, outcome) {
            (CapacityUse::Takes, CallOutcome::Exhausted(refusal)) => {
                let exhaustion = self.classes.entry(request.class.clone()).or_default();
                exhaustion.refused(id, refusal.clone(), now, chance, &self.policy);
                let would_fail = |(_, (other, state)): &(&CallId, &(CallRequest, State))| {
                    other.capacity_use == CapacityUse::Takes && other.class == request.class && *state == State::Queued
                };
                effects.rejected = self.requests.iter().filter(would_fail).map(|(id, _)| *id).collect();
            }
            (CapacityUse::Takes, CallOutcome::Created) => {
                if let Some(exhaustion) = self.classes.get_mut(&request.class) {
                    if exhaustion.succeeded(id, self.concurrency) {
                        effects.more_capacity = Some(request.class.clone());
                    }
                    if exhaustion.is_over() {
                        self.classes.remove(&request.class);
                    }
                }
            }
            _ => {
                if let Some(exhaustion) = self.classes.get_mut(&request.class) {
                    exhaustion.ended(id);
                }
            }
        }
        effects
    }
}

impl Credential {
    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.queue.len() == 0 && self.pause.is_default()
    }
}

#[cfg(test)]
mod tests;
