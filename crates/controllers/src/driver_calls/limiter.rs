//! Runs `planner::limiter`: concurrency per credential, backoff while the cloud throttles, and backoff of classes
//! without capacity.
//!
//! A call holds a [`CallPermit`] from its arrival to its end; dropping the permit releases it. One task keeps the time:
//! it admits calls when a backoff ends, and wakes the Machines of a class that may be tried again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{Machine, Object};
use parking_lot::Mutex;
use planner::limiter::{Arrival, CallId, CallLimiter, CallOutcome, CallRequest, Effects, Moment, Refusal, Traffic};
use planner::machine::interest::round_robin;
use runtime::cache::Cache;
use runtime::queue::Queue;
use runtime::watchdog::{LoopState, STUCK_AFTER, Stuck};
use runtime::{Clock, Key, Random, Tasks};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::cluster::Shared;
use crate::indexes::MACHINES_BY_CLASS;

/// Called with a class whose Machines may try again, or may try with more calls than before.
type OnCapacity = Box<dyn Fn(&str) + Send + Sync>;

/// The limiter of one cluster. Clones share all state.
#[derive(Clone)]
pub(crate) struct Limiter {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// Notified when something may be due earlier than the timer task assumes.
    changed: Notify,
    clock: Clock,
    beginning: Instant,
    random: Random,
    on_capacity: OnCapacity,
}

struct State {
    limiter: CallLimiter,
    waiting: BTreeMap<CallId, oneshot::Sender<()>>,
}

/// A call at the limiter: first queued, then in flight.
pub(super) struct CallPermit {
    limiter: Limiter,
    /// `None` once the end of the call was reported.
    id: Option<CallId>,
    admission: Option<oneshot::Receiver<()>>,
}

/// The call was rejected before it was sent.
pub(super) struct Rejected;

impl Limiter {
    /// Starts a limiter that admits `max_in_flight` calls per credential, and wakes in `queue` the Machines that waited
    /// for capacity.
    pub(crate) fn start(max_in_flight: usize, shared: &Shared, queue: &Queue<Key>, random: &Random) -> Self {
        let on_capacity: OnCapacity = {
            let (machines, queue, random) = (shared.machines.clone(), queue.clone(), random.fork());
            Box::new(move |class: &str| wake_in_turns(class, &machines, &queue, &random))
        };
        let limiter = CallLimiter::new(max_in_flight, (*shared.policy).clone());
        let inner = Inner {
            state: Mutex::new(State { limiter, waiting: BTreeMap::new() }),
            changed: Notify::new(),
            beginning: shared.clock.instant(),
            clock: shared.clock.clone(),
            random: random.fork(),
            on_capacity,
        };
        let limiter = Self { inner: Arc::new(inner) };
        limiter.start_timer(&shared.tasks);
        limiter
    }

    /// Starts the task that keeps the time. It ends when the tasks stop.
    fn start_timer(&self, tasks: &Tasks) {
        let (limiter, stopping) = (self.clone(), tasks.stopping());
        let (watched, over) = (self.downgrade(), tasks.stopping());
        tasks
            .watchdog()
            .watch(move |now| if over.is_cancelled() { LoopState::Ended } else { look(watched().as_ref(), now) });
        tasks.spawn("driver limiter", async move {
            loop {
                let next = limiter.inner.state.lock().limiter.next_change();
                let due = async {
                    match next.and_then(|next| limiter.inner.beginning.checked_add(next)) {
                        Some(at) => tokio::time::sleep_until(at).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = stopping.cancelled() => return,
                    () = limiter.inner.changed.notified() => {}
                    () = due => {}
                }
                limiter.tick();
            }
        });
    }

    /// Queues a call. Returns `None` if its class is held back.
    pub(super) fn enter(&self, request: CallRequest) -> Option<CallPermit> {
        let now = self.now();
        let mut state = self.inner.state.lock();
        let Arrival::Queued(id) = state.limiter.enqueue(request, now) else { return None };
        let (admit, admission) = oneshot::channel();
        state.waiting.insert(id, admit);
        state.admit(now);
        drop(state);
        self.inner.changed.notify_one();
        Some(CallPermit { limiter: self.clone(), id: Some(id), admission: Some(admission) })
    }

    /// Returns the error because of which a class is held back, and for how long.
    pub(super) fn exhaustion(&self, class: &str) -> Option<(Refusal, Duration)> {
        let now = self.now();
        let state = self.inner.state.lock();
        state.limiter.exhaustion(class, now).map(|(refusal, left)| (refusal.clone(), left))
    }

    pub(super) fn forget_class(&self, class: &str) {
        self.inner.state.lock().limiter.forget_class(class);
    }

    /// Returns the calls of each credential, and the classes that are held back.
    pub(super) fn traffic(&self) -> (BTreeMap<String, Traffic>, Vec<String>) {
        let now = self.now();
        let state = self.inner.state.lock();
        let traffic = state.limiter.traffic().into_iter().map(|(name, traffic)| (name.to_owned(), traffic)).collect();
        (traffic, state.limiter.exhausted_classes(now).map(str::to_owned).collect())
    }

    pub(super) fn downgrade(&self) -> impl Fn() -> Option<Self> + Send + Sync + 'static {
        let inner = Arc::downgrade(&self.inner);
        move || inner.upgrade().map(|inner| Self { inner })
    }

    /// Returns for how long the next change is overdue.
    fn overdue_for(&self, now: Instant) -> Duration {
        let due = self.inner.state.lock().limiter.next_change();
        let due = due.and_then(|due| self.inner.beginning.checked_add(due));
        due.map_or(Duration::ZERO, |due| now.saturating_duration_since(due))
    }

    fn tick(&self) {
        let now = self.now();
        let due = {
            let mut state = self.inner.state.lock();
            state.admit(now);
            state.limiter.classes_to_retry(now)
        };
        for class in &due {
            (self.inner.on_capacity)(class);
        }
    }

    fn release(&self, id: CallId, outcome: &CallOutcome) {
        let (now, chance) = (self.now(), self.inner.random.fraction());
        let Effects { rejected, more_capacity } = {
            let mut state = self.inner.state.lock();
            state.waiting.remove(&id);
            let effects = state.limiter.finish(id, outcome, now, chance);
            for id in &effects.rejected {
                state.waiting.remove(id); // dropping the sender rejects the call
                state.limiter.finish(*id, &CallOutcome::Unknown, now, chance);
            }
            state.admit(now);
            effects
        };
        if !rejected.is_empty() {
            tracing::debug!(calls = rejected.len(), "rejected queued creates of a class without capacity");
        }
        if let Some(class) = more_capacity {
            (self.inner.on_capacity)(&class);
        }
        self.inner.changed.notify_one();
    }

    fn now(&self) -> Moment {
        self.inner.clock.instant().saturating_duration_since(self.inner.beginning)
    }
}

/// Reports to the watchdog whether the timer task runs.
fn look(limiter: Option<&Limiter>, now: Instant) -> LoopState {
    match limiter.map(|limiter| limiter.overdue_for(now)) {
        None => LoopState::Ended,
        Some(silent_for) if silent_for > STUCK_AFTER => {
            LoopState::Stuck(Stuck { what: "the limiter of driver calls".to_owned(), silent_for })
        }
        Some(_) => LoopState::Running,
    }
}

/// Wakes the Machines of a class that wait for capacity, in turns of their MachineDeployments, beginning with a random
/// one.
fn wake_in_turns(class: &str, machines: &Cache<Machine>, queue: &Queue<Key>, random: &Random) {
    let machines = machines.find(&MACHINES_BY_CLASS, class);
    let begin = |deployments: usize| {
        usize::try_from(random.below(u64::try_from(deployments).unwrap_or_default())).unwrap_or_default()
    };
    for machine in round_robin(machines.iter().map(|machine| &**machine), begin) {
        queue.add(Key::new(machine.namespace(), machine.name()));
    }
}

impl State {
    /// Admits the calls that may be sent now.
    fn admit(&mut self, now: Moment) {
        for id in self.limiter.admit(now) {
            // A call that no longer waits releases its permit when it drops it.
            if let Some(admit) = self.waiting.remove(&id) {
                let _ = admit.send(());
            }
        }
    }
}

impl CallPermit {
    /// Waits until the call may be sent.
    pub(super) async fn admitted(&mut self) -> Result<(), Rejected> {
        match self.admission.take() {
            Some(admission) => admission.await.map_err(|_| Rejected),
            None => Ok(()),
        }
    }

    /// Reports the outcome of the call, and releases the permit.
    pub(super) fn end(mut self, outcome: &CallOutcome) {
        if let Some(id) = self.id.take() {
            self.limiter.release(id, outcome);
        }
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.limiter.release(id, &CallOutcome::Unknown);
        }
    }
}
