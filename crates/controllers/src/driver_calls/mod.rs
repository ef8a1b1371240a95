//! Calls to the drivers.
//!
//! A call to a cloud can take minutes, so it does not occupy a worker: it runs in a task of its own. While it is in
//! progress its Machine is not planned, and its end wakes the Machine. `planner::limiter` decides which call is sent
//! next. Right before a call is sent, leadership is checked again, because the wait may have outlasted the lease, and
//! the request is built from the current objects. What the driver returns is scrubbed here, and nowhere else, before it
//! is used in a status, an Event or a log.
//!
//! | file | content |
//! | --- | --- |
//! | `limiter` | the queue of calls: concurrency, throttling and quota backoff |
//! | `open_calls` | the calls that are in progress, by Machine |
//! | `run` | one call: wait, build the request, send it |
//! | `request` | the request to the driver, and the secrets in it |
//! | `answer` | what the result of a call says about the VM |
//! | `scrub` | removes secrets and unprintable text from what the driver returned |
//! | `metrics` | metrics of calls |
//! | `state` | the calls for `/debug/state` |

mod answer;
mod limiter;
mod metrics;
mod open_calls;
mod request;
mod run;
mod scrub;
mod state;

use std::sync::Arc;
use std::time::Duration;

use api::time::later;
use api::view::PersistentVolumeSpec;
use api::{Machine, MachineClass, Object, SecretData, Uid};
use driver::{ClassRequest, Deleted, DriverError, MachineRequest, Method, Owners};
use jiff::Timestamp;
use planner::limiter::{CallPriority, CallRequest, Refusal, call_timeout};
use planner::machine::{Call, CallUnderWay, DriverState};
use planner::scrub::Scrubber;
use runtime::Key;
use runtime::lease::Leadership;
use tokio_util::sync::CancellationToken;

use crate::Drivers;
use crate::cluster::Shared;
use crate::machine_memory::MachineRecord;
use crate::measure::LifecycleMetrics;
pub(crate) use limiter::Limiter;
pub(crate) use metrics::CallMetrics;
pub(crate) use open_calls::OpenCalls;
use open_calls::{Cancellation, End};
pub(crate) use request::RequestBuilder;
use run::MachineCall;
pub use state::{CallState, CredentialState, DriverCallsState};

/// Delay between the time at which the limiter wakes the Machines of a class and the time at which they reconcile by
/// themselves. The limiter wakes them in a fair order.
const AFTER_THE_LIMITER: Duration = Duration::from_secs(1);

/// Calls the drivers of one cluster. Clones share all state.
#[derive(Clone)]
pub struct DriverCalls {
    context: Arc<Context>,
}

/// What driver calls are made with.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) drivers: Drivers,
    pub(crate) limiter: Limiter,
    pub(crate) open_calls: OpenCalls,
    pub(crate) requests: RequestBuilder,
    /// `None` if the metrics could not be registered.
    pub(crate) metrics: Option<CallMetrics>,
    pub(crate) lifecycle: LifecycleMetrics,
    pub(crate) leadership: Leadership,
}

impl DriverCalls {
    pub(crate) fn new(context: Context) -> Self {
        Self { context: Arc::new(context) }
    }

    /// Starts a call about a Machine, unless one is in progress. The end of a call wakes its Machine.
    pub fn start(&self, key: &Key, machine: &Arc<Machine>, class: &Arc<MachineClass>, call: Call) {
        let Context { shared, limiter, open_calls, .. } = &*self.context;
        let uid = machine.uid();
        let canceled = CancellationToken::new();
        let timeout = call_timeout(call, machine, &shared.policy);
        // Waiting, building the request and the call itself may take this long each.
        let at_most = timeout.saturating_mul(3);
        let cancellation =
            if machine.is_deleting() { Cancellation::Never } else { Cancellation::BeforeItIsSent(canceled.clone()) };
        let Some(open_call) = open_calls.begin(key, &uid, call, at_most, cancellation) else { return };
        let request = CallRequest::about(call, machine, class);
        let capacity_use = request.capacity_use;
        let Some(permit) = limiter.enter(request) else {
            // The class was held back after the plan was made; the next plan reports it.
            open_call.end(End::NothingSent);
            return;
        };
        let (_, record) = open_calls.snapshot(key, &uid);
        let machine_call = MachineCall {
            context: self.context.clone(),
            key: key.clone(),
            uid,
            machine: machine.clone(),
            class: class.clone(),
            call,
            capacity_use,
            timeout,
            record,
            queued_at: shared.clock.now(),
            canceled,
        };
        shared.tasks.spawn("driver call", machine_call.run(open_call, permit));
    }

    /// Cancels a call that has not been sent. The Machine is being deleted and must not wait in the queue for a VM that
    /// it no longer needs.
    pub fn cancel_unsent(&self, key: &Key) {
        self.context.open_calls.cancel_unsent(key);
    }

    /// Returns the call in progress about this very Machine, if there is one, and what is known of its VM, read at the
    /// same moment.
    pub fn snapshot(&self, key: &Key, uid: &Uid) -> (Option<CallUnderWay>, MachineRecord) {
        self.context.open_calls.snapshot(key, uid)
    }

    /// Removes the backoff of a failed call, because its class, a Secret of the class or the driver has changed. A call
    /// in progress gets no backoff if it fails. Returns whether a call had failed.
    pub(crate) fn reset_backoff(&self, key: &Key) -> bool {
        self.context.open_calls.reset_backoff(key)
    }

    /// Removes the backoff of the calls of all Machines. Returns the Machines whose last call had failed.
    pub(crate) fn reset_all_backoffs(&self) -> Vec<Key> {
        self.context.open_calls.reset_all_backoffs()
    }

    /// Returns the error because of which creates of a class are held back, and when to reconcile again.
    pub fn exhaustion(&self, class: &str) -> Option<(Refusal, Timestamp)> {
        let (refusal, left) = self.context.limiter.exhaustion(class)?;
        Some((refusal, later(self.context.shared.clock.now(), left.saturating_add(AFTER_THE_LIMITER))))
    }

    /// Drops what is known about the capacity of a class.
    pub fn forget_class(&self, class: &str) {
        self.context.limiter.forget_class(class);
    }

    /// Returns whether a driver of this process serves a class.
    pub(crate) fn driver_state(&self, class: &MachineClass) -> DriverState {
        self.context.drivers.state(class)
    }

    /// Lists all VMs of the cluster that a class refers to.
    pub async fn list(&self, class: &Arc<MachineClass>, secret: Arc<SecretData>) -> Result<Owners, DriverError> {
        let request = ClassRequest { class: class.clone(), secret: secret.clone() };
        let driver = self.context.drivers.of(class)?;
        let (always, at_most) = (|| true, self.context.shared.policy.safety.orphan_list_entries);
        self.context
            .request(class, CallPriority::Create, Method::List, &secret, always, async |limits: driver::Call| {
                let owners = limits.bound(driver.list(&limits, &request)).await?;
                // The caller rejects a list that is too large as a whole, so its names are not read.
                if owners.len() > at_most { Ok(owners) } else { scrub::owners(owners) }
            })
            .await
    }

    /// Deletes a VM that has no Machine; `machine` is a stub with name, namespace and provider id. The call may wait in
    /// the queue for as long as a call may take, so `is_orphan` is evaluated once more before the call is sent. If it
    /// is false, the result is `Canceled`.
    pub async fn delete_orphan(
        &self,
        machine: Arc<Machine>,
        class: &Arc<MachineClass>,
        secret: Arc<SecretData>,
        is_orphan: impl FnOnce() -> bool,
    ) -> Result<Deleted, DriverError> {
        let request = MachineRequest { machine, class: class.clone(), secret: secret.clone() };
        let driver = self.context.drivers.of(class)?;
        self.context
            .request(class, CallPriority::Delete, Method::Delete, &secret, is_orphan, async |limits: driver::Call| {
                limits.bound(driver.delete(&limits, &request)).await
            })
            .await
    }

    /// Returns the cloud's ids of these volumes. This sends nothing to the cloud, so it does not wait in the queue.
    pub async fn volume_ids(
        &self,
        class: &MachineClass,
        volumes: &[PersistentVolumeSpec],
    ) -> Result<Vec<String>, DriverError> {
        let driver = self.context.drivers.of(class)?;
        let limits = self.context.limits(class, self.context.shared.policy.driver_call_timeout);
        let work = limits.bound(driver.volume_ids(&limits, volumes));
        let answer = self.context.measured(class, Method::VolumeIds, work).await;
        // The request contains no secret, so the error cannot contain one.
        answer.map_err(|error| scrub::error(&error, &Scrubber::default()))
    }
}
