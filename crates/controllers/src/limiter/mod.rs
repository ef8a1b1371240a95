//! The one way to the drivers.
//!
//! A call to a cloud can take minutes, so it never holds a worker: it runs in a task of its own, its machine plans nothing while
//! it is under way, and its end wakes the machine. Who may leave when is decided in `planner::limiter`. Right before a call leaves it is
//! asked once more whether we still lead (the wait may have outlasted the lease) and its request is put together afresh; right after
//! it has ended what the driver said is made fit to be shown, here and nowhere else, before it becomes status, Event or log.
//!
//! | file | idea |
//! | --- | --- |
//! | `queue` | places, the line before them, and the time |
//! | `open_calls` | whether a call about a machine is out |
//! | `request` | what a driver is handed, and what must not be told of it |
//! | `answer` | what an answer teaches |
//! | `words` | what a driver said, made fit to be written down |
//! | `metrics` | the limiter in numbers |
//! | `state` | the limiter at one moment |

mod answer;
mod metrics;
mod open_calls;
mod queue;
mod request;
mod state;
mod words;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::view::PersistentVolumeSpec;
use api::{Machine, MachineClass, Object, SecretData, Uid};
use driver::{ClassRequest, Code, Deleted, DriverError, MachineRequest, Method, Owners};
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use planner::Policy;
use planner::limiter::{CallOutcome, CallPriority, CallRequest, CapacityUse, Refusal, call_timeout};
use planner::machine::interest::in_turns;
use planner::machine::{Call, CallUnderWay, DriverState, VmState};
use planner::scrub::Scrubber;
use runtime::cache::Cache;
use runtime::lease::Leadership;
use runtime::queue::Queue;
use runtime::{Clock, Key, Metrics, Random, Tasks};
use tokio_util::sync::CancellationToken;

use crate::Drivers;
use crate::credentials::Credentials;
use crate::decision::{DriverCall, Journal, Taught};
use crate::indexes::MACHINES_BY_CLASS;
use crate::measure::LifecycleMetrics;
use crate::safety::ApiConnectivity;
use crate::tokens::Tokens;
use crate::vm_state::{Known, VmStateCache};
use answer::{Answer, Learned};
use metrics::LimiterMetrics;
use open_calls::{End, OpenCall, OpenCalls, Recall};
use queue::{CallPermit, CallQueue};
use request::{Prepared, Requests};
pub use state::{CallState, CredentialState, LimiterState};

/// How much later than the limiter itself a machine that is held back looks again: the limiter wakes them in a fair order.
const AFTER_THE_LIMITER: Duration = Duration::from_secs(1);

/// The way to the drivers of one cluster. Clones are the same limiter.
#[derive(Clone)]
pub struct CallLimiter {
    shared: Arc<Shared>,
}

struct Shared {
    drivers: Drivers,
    call_queue: CallQueue,
    requests: Requests,
    metrics: Option<LimiterMetrics>,
    lifecycle: LifecycleMetrics,
    open_calls: OpenCalls,
    policy: Arc<Policy>,
    connectivity: ApiConnectivity,
    leadership: Leadership,
    journal: Journal,
    clock: Clock,
    tasks: Tasks,
}

/// What a limiter is made from.
pub struct LimiterParts {
    /// The drivers behind it.
    pub drivers: Drivers,
    /// How many calls may run at once for one credential.
    pub places: usize,
    /// Limits and periods.
    pub policy: Arc<Policy>,
    /// Whom calls are about.
    pub machines: Cache<Machine>,
    /// How their VMs are made.
    pub classes: Cache<MachineClass>,
    /// With which credentials.
    pub credentials: Credentials,
    /// Where their nodes log in, if they do.
    pub(crate) tokens: Option<Tokens>,
    /// Whether we see.
    pub connectivity: ApiConnectivity,
    /// Where answers are kept.
    pub vm_states: VmStateCache,
    /// Whether we may act.
    pub leadership: Leadership,
    /// Whom an answer wakes.
    pub queue: Queue<Key>,
    /// Where the end of a call is told.
    pub journal: Journal,
    /// Where measurements go.
    pub metrics: Metrics,
    /// Where it is noted how long a machine took to be made, and to go.
    pub(crate) lifecycle: LifecycleMetrics,
    /// The time.
    pub clock: Clock,
    /// Randomness for jitter.
    pub random: Random,
    /// Who owns the calls.
    pub tasks: Tasks,
}

impl CallLimiter {
    /// A limiter with all its places free.
    pub fn new(parts: LimiterParts) -> Self {
        let LimiterParts { machines, queue, clock, tasks, policy, .. } = parts;
        let on_room = {
            let (machines, queue, random) = (machines.clone(), queue.clone(), parts.random.fork());
            Box::new(move |class: &str| wake_in_turns(class, &machines, &queue, &random))
        };
        let rules = planner::limiter::CallLimiter::new(parts.places, (*policy).clone());
        let call_queue = CallQueue::new(rules, clock.clone(), parts.random.fork(), on_room);
        call_queue.keep_time(&tasks);
        let metrics = LimiterMetrics::new(&parts.metrics)
            .inspect_err(|why| tracing::warn!(%why, "the driver limiter is not measured"))
            .inspect(|metrics| metrics.follow(&call_queue, &parts.metrics))
            .ok();
        let requests = Requests {
            machines,
            classes: parts.classes,
            credentials: parts.credentials,
            vm_states: parts.vm_states.clone(),
            tokens: parts.tokens,
            policy: policy.clone(),
        };
        let (drivers, leadership, connectivity) = (parts.drivers, parts.leadership, parts.connectivity);
        let open_calls = OpenCalls::new(parts.vm_states, queue, clock.clone());
        let shared = Shared {
            drivers,
            call_queue,
            requests,
            metrics,
            lifecycle: parts.lifecycle,
            open_calls,
            policy,
            connectivity,
            leadership,
            journal: parts.journal,
            clock,
            tasks,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Starts a call about a machine, unless one is out: the end of that call wakes it.
    pub fn begin(&self, key: &Key, machine: &Arc<Machine>, class: &Arc<MachineClass>, call: Call) {
        let recall = CancellationToken::new();
        let uid = machine.uid();
        let timeout = call_timeout(call, machine, &self.shared.policy);
        // It may wait for its turn, be prepared and run for as long as a call may take, each.
        let at_most = timeout.saturating_mul(3);
        let may_recall = if machine.is_deleting() { Recall::Never } else { Recall::Possible(recall.clone()) };
        let Some(open_call) = self.shared.open_calls.begin(key, &uid, call, at_most, may_recall) else { return };
        let Some(place) = self.shared.call_queue.enter(CallRequest::about(call, machine, class)) else {
            // Its class was closed since the plan was made; the next plan says so.
            open_call.end(End::NothingSent);
            return;
        };
        let (_, before) = self.shared.open_calls.look(key, &uid);
        let asked = self.shared.clock.now();
        let (limiter, key, machine, class) = (self.clone(), key.clone(), machine.clone(), class.clone());
        let capacity_use = CallRequest::about(call, &machine, &class).capacity_use;
        self.shared.tasks.spawn("driver call", async move {
            let left = OnceLock::new();
            let subject = Subject {
                key: &key,
                uid: &uid,
                class: &class,
                call,
                capacity_use,
                timeout,
                known: &before,
                left: &left,
            };
            let described = || before.clone().into_described();
            let work = async {
                let answer = limiter.serve(&subject, &open_call, place, &recall).await?;
                Some(answer::learned(call, answer, described(), limiter.shared.clock.now()))
            };
            // One answer that a driver cannot read must not end the process, and with it the next one.
            let learned = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
                limiter.shared.open_calls.panicked(&key);
                let error = DriverError::new(Code::Internal, "the driver panicked; the result of the call is unknown");
                Some(answer::learned(call, Err(error), described(), limiter.shared.clock.now()))
            });
            let Some(Learned { code, note, vm }) = learned else {
                open_call.end(End::NothingSent);
                return;
            };
            let ended = limiter.shared.clock.now();
            tracing::debug!(machine = %key, call = call.verb(), learned = ?vm, "the cloud answered");
            if let Some(left) = left.into_inner() {
                let (taught, provider_id) = meaning(&vm);
                let told = DriverCall { machine, call, asked, left, ended, code, taught, provider_id };
                limiter.shared.journal.called(&key, &told);
            }
            open_call.end(End::Answered { vm, note });
        });
    }

    /// Takes back a call that has not left: its machine is being deleted, and must not wait behind a crowd for a VM it no longer
    /// wants.
    pub fn recall(&self, key: &Key) {
        self.shared.open_calls.recall(key);
    }

    /// The call that is out about this very machine, if there is one, and what is known of its VM: both of one moment.
    pub fn look(&self, key: &Key, uid: &Uid) -> (Option<CallUnderWay>, Known) {
        self.shared.open_calls.look(key, uid)
    }

    /// What a call about this machine is made with has changed: its class, a Secret of that or the driver. What failed is tried again
    /// without waiting for its back-off, also if it fails only now; says whether something had failed.
    pub(crate) fn try_again(&self, key: &Key) -> bool {
        self.shared.open_calls.try_again(key)
    }

    /// The same for all machines; says which had failed.
    pub(crate) fn try_all_again(&self) -> Vec<Key> {
        self.shared.open_calls.try_all_again()
    }

    /// The refusal that holds back the creates of a class, and when to look again.
    pub fn exhaustion(&self, class: &str) -> Option<(Refusal, Timestamp)> {
        let (refusal, left) = self.shared.call_queue.room(class)?;
        Some((refusal, self.later(left.saturating_add(AFTER_THE_LIMITER))))
    }

    /// Forgets what was said of a class that is gone.
    pub fn forget_class(&self, class: &str) {
        self.shared.call_queue.forget_class(class);
    }

    /// Whether a driver of this process serves a class.
    pub(crate) fn driver_state(&self, class: &MachineClass) -> DriverState {
        self.shared.drivers.state(class)
    }

    /// The bootstrap tokens of the target cluster, if there is one.
    pub(crate) fn tokens(&self) -> Option<&Tokens> {
        self.shared.requests.tokens.as_ref()
    }

    /// All VMs of the cluster that a class points to.
    pub async fn list(&self, class: &Arc<MachineClass>, secret: Arc<SecretData>) -> Result<Owners, DriverError> {
        let request = ClassRequest { class: class.clone(), secret: secret.clone() };
        let driver = self.shared.drivers.of(class)?;
        let (always, at_most) = (|| true, self.shared.policy.safety.orphan_list_entries);
        self.request(class, CallPriority::Making, Method::List, &secret, always, async |limits: driver::Call| {
            let owners = limits.bound(driver.list(&limits, &request)).await?;
            // The caller rejects a list that is too large as a whole, so its names are not read.
            if owners.len() > at_most { Ok(owners) } else { words::owners(owners) }
        })
        .await
    }

    /// Deletes a VM that has no Machine; `machine` is a stub with name, namespace and provider id. The call may wait in the queue for as
    /// long as a call may take, so `is_orphan` is evaluated once more before the call is sent. If it is false, the result is `Canceled`.
    pub async fn delete_orphan(
        &self,
        machine: Arc<Machine>,
        class: &Arc<MachineClass>,
        secret: Arc<SecretData>,
        is_orphan: impl FnOnce() -> bool,
    ) -> Result<Deleted, DriverError> {
        let request = MachineRequest { machine, class: class.clone(), secret: secret.clone() };
        let driver = self.shared.drivers.of(class)?;
        self.request(class, CallPriority::Ending, Method::Delete, &secret, is_orphan, async |limits: driver::Call| {
            limits.bound(driver.delete(&limits, &request)).await
        })
        .await
    }

    /// The cloud's ids of these volumes. No call to the cloud, so nobody waits for a place.
    pub async fn volume_ids(
        &self,
        class: &MachineClass,
        volumes: &[PersistentVolumeSpec],
    ) -> Result<Vec<String>, DriverError> {
        let driver = self.shared.drivers.of(class)?;
        let limits = self.limits(class, self.shared.policy.driver_call_timeout);
        let work = limits.bound(driver.volume_ids(&limits, volumes));
        let answer = self.measured(class, Method::VolumeIds, work).await;
        // No secret goes out with this call, so none can come back.
        answer.map_err(|error| words::error(&error, &Scrubber::default()))
    }

    /// A call that is about no Machine, waited for by whoever makes it.
    async fn request<T, F: Future<Output = Result<T, DriverError>>>(
        &self,
        class: &MachineClass,
        priority: CallPriority,
        method: Method,
        secret: &SecretData,
        still_wanted: impl FnOnce() -> bool,
        work: impl FnOnce(driver::Call) -> F,
    ) -> Result<T, DriverError> {
        let never_left = |why: &str| DriverError::new(Code::Canceled, why);
        let request = CallRequest::of_house(class, priority);
        let Some(mut place) = self.shared.call_queue.enter(request) else {
            return Err(never_left("it was turned away"));
        };
        let timeout = self.shared.policy.driver_call_timeout;
        if !self.admitted(&mut place, class, method, timeout, &CancellationToken::new()).await {
            return Err(never_left("the call did not get its turn, so nothing was asked of the cloud"));
        }
        if !still_wanted() {
            return Err(never_left("the call is no longer needed; no request was sent to the cloud"));
        }
        let limits = if method == Method::List {
            self.limits_without_effect(class, timeout)
        } else {
            self.limits(class, timeout)
        };
        let answer = self.measured(class, method, work(limits)).await;
        let answer = answer.map_err(|error| words::error(&error, &Scrubber::of(secret)));
        place.end(&decision(&answer, CapacityUse::None, |_| CallOutcome::Answered));
        answer
    }

    /// Waits for its turn and makes the call. `None` if nothing was sent.
    async fn serve(
        &self,
        subject: &Subject<'_>,
        open_call: &OpenCall,
        mut place: CallPermit,
        recall: &CancellationToken,
    ) -> Option<Result<Answer, DriverError>> {
        let Subject { key, uid, class, call, capacity_use, timeout, known, left } = *subject;
        let admitted = self.admitted(&mut place, class, method(call), timeout, recall).await;
        if !admitted || !capacity_use.may_leave(self.shared.connectivity.now()) {
            return None;
        }
        let _ = left.set(self.shared.clock.now());
        let preparing = self.shared.requests.prepare(key, uid, class, call, known);
        let prepared = self.limits_without_effect(class, timeout).bound(preparing).await;
        let prepared: Prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) if error.code() == Code::Canceled => return None,
            Err(error) => return Some(Err(error)),
        };
        let driver = match self.shared.drivers.of(&prepared.request.class) {
            Ok(driver) => driver,
            Err(error) => return Some(Err(error)),
        };
        if self.shared.leadership.check().is_err() {
            return None;
        }
        let limits =
            if call == Call::Status { self.limits_without_effect(class, timeout) } else { self.limits(class, timeout) };
        open_call.ends_by(limits.deadline());
        let work = limits.bound(Answer::to(call, &*driver, &limits, &prepared.request));
        let begun = self.shared.clock.instant();
        let answer = self.measured(class, method(call), work).await;
        if answer.as_ref().map_or_else(|error| has_nothing_to_do(call, error), |_| true) {
            let MachineRequest { machine, class, .. } = &prepared.request;
            self.shared.lifecycle.answered(call, machine, class, begun.elapsed());
        }
        let answer = answer.map_err(|error| words::error(&error, &prepared.scrubber()));
        let answer = answer.map(|answer| answer.with_clean_note(|| prepared.scrubber()));
        let success = |answer: &Answer| match answer {
            Answer::Created(..) => CallOutcome::Made,
            _ => CallOutcome::Answered,
        };
        place.end(&decision(&answer, capacity_use, success));
        Some(answer)
    }

    /// Waits until the call may leave. False if it must not: it was taken back or turned away, its turn did not come, we are asked
    /// to stop or do not lead any more.
    async fn admitted(
        &self,
        place: &mut CallPermit,
        class: &MachineClass,
        method: Method,
        at_most: Duration,
        recall: &CancellationToken,
    ) -> bool {
        let stopping = self.shared.tasks.stopping();
        let arrived = self.shared.clock.instant();
        let admitted = tokio::select! {
            biased;
            () = stopping.cancelled() => false,
            () = recall.cancelled() => false,
            admitted = place.admitted() => admitted.is_ok(),
            () = tokio::time::sleep(at_most) => false,
        };
        if let Some(metrics) = self.shared.metrics.as_ref().filter(|_| admitted) {
            metrics.left(planner::limiter::credential(class), method, arrived.elapsed());
        }
        admitted && self.shared.leadership.check().is_ok()
    }

    async fn measured<T>(
        &self,
        class: &MachineClass,
        method: Method,
        work: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, DriverError> {
        let left = self.shared.clock.instant();
        let answer = work.await;
        if let Some(metrics) = &self.shared.metrics {
            metrics.ended(&class.provider, method, left.elapsed(), answer.as_ref().err().map(DriverError::code));
        }
        answer
    }

    fn later(&self, by: Duration) -> Timestamp {
        let later = SignedDuration::try_from(by).ok().and_then(|by| self.shared.clock.now().checked_add(by).ok());
        later.unwrap_or(Timestamp::MAX)
    }

    /// Of a call that changes something. A shutdown does not take it back: the cloud would go on alone, and whoever leads next had
    /// better not begin meanwhile. It is waited for, and if that takes too long the lease is left to expire.
    fn limits(&self, class: &MachineClass, timeout: Duration) -> driver::Call {
        let limits = driver::Call::within(timeout);
        match &self.shared.metrics {
            Some(metrics) => limits.metered(metrics.meter(class)),
            None => limits,
        }
    }

    /// Of questions, and of what comes before a call. A shutdown ends them.
    fn limits_without_effect(&self, class: &MachineClass, timeout: Duration) -> driver::Call {
        self.limits(class, timeout).canceled_by(self.shared.tasks.stopping())
    }
}

/// What a call is about.
#[derive(Clone, Copy)]
struct Subject<'a> {
    key: &'a Key,
    uid: &'a Uid,
    class: &'a Arc<MachineClass>,
    call: Call,
    capacity_use: CapacityUse,
    /// How long it may wait for its turn, and then take.
    timeout: Duration,
    /// What was known of its VM when the call was planned.
    known: &'a Known,
    /// When it left, once it has.
    left: &'a OnceLock<Timestamp>,
}

/// What an answer means to whoever is told of it.
fn meaning(learned: &VmState) -> (Taught, Option<String>) {
    match learned {
        VmState::Failed(_) => (Taught::Failure, None),
        VmState::Known(vm) if vm.unusable.is_some() => (Taught::Failure, None),
        VmState::Known(vm) => (Taught::Answer, Some(vm.provider_id.to_string())),
        _ => (Taught::Answer, None),
    }
}

fn decision<T>(
    answer: &Result<T, DriverError>,
    capacity_use: CapacityUse,
    success: impl Fn(&T) -> CallOutcome,
) -> CallOutcome {
    match answer {
        Ok(answer) => success(answer),
        Err(error) => CallOutcome::of_error(error.code(), capacity_use, error.message()),
    }
}

/// Whether an error says that there was nothing to do, which is as good as done.
fn has_nothing_to_do(call: Call, error: &DriverError) -> bool {
    call == Call::Initialize && error.code() == Code::Unimplemented
}

fn method(call: Call) -> Method {
    match call {
        Call::Status => Method::Status,
        Call::Create => Method::Create,
        Call::Initialize => Method::Initialize,
        Call::Delete => Method::Delete,
    }
}

/// Wakes the machines of a class that wait for room, beginning with any of their deployments.
fn wake_in_turns(class: &str, machines: &Cache<Machine>, queue: &Queue<Key>, random: &Random) {
    let machines = machines.find(&MACHINES_BY_CLASS, class);
    let begin = |deployments: usize| {
        usize::try_from(random.below(u64::try_from(deployments).unwrap_or_default())).unwrap_or_default()
    };
    for machine in in_turns(machines.iter().map(|machine| &**machine), begin) {
        queue.add(Key::new(machine.namespace(), machine.name()));
    }
}
