//! The decisions of `planner::limiter`, turned into waiting and going.
//!
//! A call takes a [`CallPermit`] when it arrives and holds it until its end; dropping the place, for whatever reason, gives it back. One
//! task keeps the time: it lets calls go when a pause ends and tells when a class may be tried again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use planner::limiter::{Aftermath, Arrival, CallId, CallLimiter, CallOutcome, CallRequest, Moment, Refusal, Traffic};
use runtime::watchdog::{Look, PATIENCE, Stuck};
use runtime::{Clock, Random, Tasks};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// Told which class may be tried again, or by more than before.
pub(super) type OnRoom = Box<dyn Fn(&str) + Send + Sync>;

/// One cluster's call_queue. Clones are the same.
#[derive(Clone)]
pub(super) struct CallQueue {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Rung when something may happen earlier than the keeper of time thinks.
    bell: Notify,
    clock: Clock,
    beginning: Instant,
    random: Random,
    on_room: OnRoom,
}

struct State {
    limiter: CallLimiter,
    waiting: BTreeMap<CallId, oneshot::Sender<()>>,
}

/// A call's place at the limiter: first in the line, then outside.
pub(super) struct CallPermit {
    call_queue: CallQueue,
    /// Until its end has been told.
    id: Option<CallId>,
    admission: Option<oneshot::Receiver<()>>,
}

/// The call was sent away before it left.
pub(super) struct TurnedAway;

impl CallQueue {
    pub(super) fn new(limiter: CallLimiter, clock: Clock, random: Random, on_room: OnRoom) -> Self {
        let state = Mutex::new(State { limiter, waiting: BTreeMap::new() });
        let shared = Shared { state, bell: Notify::new(), beginning: clock.instant(), clock, random, on_room };
        Self { shared: Arc::new(shared) }
    }

    /// Keeps the time until the group stops.
    pub(super) fn keep_time(&self, tasks: &Tasks) {
        let (call_queue, stopping) = (self.clone(), tasks.stopping());
        let (kept, over) = (self.downgrade(), tasks.stopping());
        tasks.watchdog().watch(move |now| if over.is_cancelled() { Look::Over } else { look(kept().as_ref(), now) });
        tasks.spawn("driver limiter", async move {
            loop {
                let next = call_queue.shared.state.lock().limiter.next_change();
                let change = async {
                    match next.and_then(|next| call_queue.shared.beginning.checked_add(next)) {
                        Some(at) => tokio::time::sleep_until(at).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = stopping.cancelled() => return,
                    () = call_queue.shared.bell.notified() => {}
                    () = change => {}
                }
                call_queue.tick();
            }
        });
    }

    /// A call arrives; `None` if it would only be refused.
    pub(super) fn enter(&self, request: CallRequest) -> Option<CallPermit> {
        let now = self.now();
        let mut state = self.shared.state.lock();
        let Arrival::Waits(id) = state.limiter.arrive(request, now) else { return None };
        let (admit, admission) = oneshot::channel();
        state.waiting.insert(id, admit);
        state.let_go(now);
        drop(state);
        self.shared.bell.notify_one();
        Some(CallPermit { call_queue: self.clone(), id: Some(id), admission: Some(admission) })
    }

    /// The refusal that holds back a class, and for how long.
    pub(super) fn room(&self, class: &str) -> Option<(Refusal, std::time::Duration)> {
        let now = self.now();
        let state = self.shared.state.lock();
        state.limiter.room(class, now).map(|(refusal, left)| (refusal.clone(), left))
    }

    pub(super) fn forget_class(&self, class: &str) {
        self.shared.state.lock().limiter.forget_class(class);
    }

    /// What goes on, by credential, and the classes that are held back.
    pub(super) fn traffic(&self) -> (BTreeMap<String, Traffic>, Vec<String>) {
        let now = self.now();
        let state = self.shared.state.lock();
        let traffic = state.limiter.traffic().into_iter().map(|(name, traffic)| (name.to_owned(), traffic)).collect();
        (traffic, state.limiter.classes_held_back(now).map(str::to_owned).collect())
    }

    pub(super) fn downgrade(&self) -> impl Fn() -> Option<Self> + Send + Sync + 'static {
        let shared = Arc::downgrade(&self.shared);
        move || shared.upgrade().map(|shared| Self { shared })
    }

    /// For how long something should have happened that did not.
    fn overdue_for(&self, now: Instant) -> Duration {
        let due = self.shared.state.lock().limiter.next_change();
        let due = due.and_then(|due| self.shared.beginning.checked_add(due));
        due.map_or(Duration::ZERO, |due| now.saturating_duration_since(due))
    }

    fn tick(&self) {
        let now = self.now();
        let due = {
            let mut state = self.shared.state.lock();
            state.let_go(now);
            state.limiter.classes_due(now)
        };
        for class in &due {
            (self.shared.on_room)(class);
        }
    }

    fn leave(&self, id: CallId, decision: &CallOutcome) {
        let (now, chance) = (self.now(), self.shared.random.fraction());
        let Aftermath { turned_away, roomier } = {
            let mut state = self.shared.state.lock();
            state.waiting.remove(&id);
            let aftermath = state.limiter.leave(id, decision, now, chance);
            for id in &aftermath.turned_away {
                state.waiting.remove(id); // whoever waits on it hears that nobody will let it go
                state.limiter.leave(*id, &CallOutcome::Nothing, now, chance);
            }
            state.let_go(now);
            aftermath
        };
        if !turned_away.is_empty() {
            tracing::debug!(calls = turned_away.len(), "creates that would only be refused were turned away");
        }
        if let Some(class) = roomier {
            (self.shared.on_room)(&class);
        }
        self.shared.bell.notify_one();
    }

    fn now(&self) -> Moment {
        self.shared.clock.instant().saturating_duration_since(self.shared.beginning)
    }
}

/// Whether the keeper of time still moves.
fn look(call_queue: Option<&CallQueue>, now: Instant) -> Look {
    match call_queue.map(|call_queue| call_queue.overdue_for(now)) {
        None => Look::Over,
        Some(silent_for) if silent_for > PATIENCE => {
            Look::Stuck(Stuck { what: "the limiter to the drivers".to_owned(), silent_for })
        }
        Some(_) => Look::Moving,
    }
}

impl State {
    /// Lets go whoever may.
    fn let_go(&mut self, now: Moment) {
        for id in self.limiter.admit(now) {
            // Whoever no longer waits gives the place back by dropping it.
            if let Some(admit) = self.waiting.remove(&id) {
                let _ = admit.send(());
            }
        }
    }
}

impl CallPermit {
    /// Waits until the call may leave.
    pub(super) async fn admitted(&mut self) -> Result<(), TurnedAway> {
        match self.admission.take() {
            Some(admission) => admission.await.map_err(|_| TurnedAway),
            None => Ok(()),
        }
    }

    /// Ends the call with what it says about the cloud.
    pub(super) fn end(mut self, decision: &CallOutcome) {
        if let Some(id) = self.id.take() {
            self.call_queue.leave(id, decision);
        }
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.call_queue.leave(id, &CallOutcome::Nothing);
        }
    }
}
