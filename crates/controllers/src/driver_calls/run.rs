//! One driver call: wait for the limiter, build the request, send it, and report the result.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::{Machine, MachineClass, SecretData, Uid};
use driver::{Code, DriverError, MachineRequest, Method};
use futures::FutureExt;
use jiff::Timestamp;
use planner::limiter::{CallOutcome, CallPriority, CallRequest, CapacityUse, credential};
use planner::machine::{Call, VmState};
use planner::scrub::Scrubber;
use runtime::Key;
use tokio_util::sync::CancellationToken;

use super::answer::{self, Answer, CallResult};
use super::limiter::CallPermit;
use super::open_calls::{End, OpenCall};
use super::{Context, scrub};
use crate::decision::{DriverCall, DriverCallResult};
use crate::machine_memory::MachineRecord;

/// A call about a Machine.
pub(super) struct MachineCall {
    pub(super) context: Arc<Context>,
    pub(super) key: Key,
    pub(super) uid: Uid,
    /// The Machine and its class as they were when the call was planned.
    pub(super) machine: Arc<Machine>,
    pub(super) class: Arc<MachineClass>,
    pub(super) call: Call,
    pub(super) capacity_use: CapacityUse,
    /// Maximum time in the queue, and maximum duration of the call.
    pub(super) timeout: Duration,
    /// What was known of the Machine when the call was planned.
    pub(super) record: MachineRecord,
    pub(super) queued_at: Timestamp,
    /// Cancels the call before it is sent.
    pub(super) canceled: CancellationToken,
}

impl MachineCall {
    /// Runs the call until its end, which wakes the Machine.
    pub(super) async fn run(self, open_call: OpenCall, permit: CallPermit) {
        let Self { context, key, call, .. } = &self;
        let sent_at = OnceLock::new();
        let work = async { Some(self.result(self.send(&open_call, permit, &sent_at).await?)) };
        // A driver that panics on one answer must not end the process: it would panic again after the restart.
        let result = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
            context.open_calls.panicked(key);
            let error = DriverError::new(Code::Internal, "the driver panicked; the result of the call is unknown");
            Some(self.result(Err(error)))
        });
        let Some(CallResult { code, note, vm }) = result else {
            open_call.end(End::NothingSent);
            return;
        };
        let ended = context.shared.clock.now();
        tracing::debug!(machine = %key, call = call.verb(), vm = ?vm, "driver call ended");
        if let Some(sent) = sent_at.into_inner() {
            let (machine, call, queued) = (self.machine.clone(), *call, self.queued_at);
            let (result, provider_id) = classify(&vm);
            let event = DriverCall { machine, call, queued, sent, ended, code, result, provider_id };
            context.shared.journal.called(key, &event);
        }
        open_call.end(End::Answered { vm, note });
    }

    fn result(&self, answer: Result<Answer, DriverError>) -> CallResult {
        answer::result(self.call, answer, self.record.last_described(), self.context.shared.clock.now())
    }

    /// Waits until the limiter admits the call, then sends it. Returns `None` if nothing was sent.
    async fn send(
        &self,
        open_call: &OpenCall,
        mut permit: CallPermit,
        sent_at: &OnceLock<Timestamp>,
    ) -> Option<Result<Answer, DriverError>> {
        let Self { context, key, uid, class, call, timeout, .. } = self;
        let (call, timeout, method) = (*call, *timeout, method(*call));
        let admitted = context.admitted(&mut permit, class, method, timeout, &self.canceled).await;
        if !admitted || !self.capacity_use.may_start(context.shared.connectivity.now()) {
            return None;
        }
        let _ = sent_at.set(context.shared.clock.now());
        let building = context.requests.build(key, uid, class, call, &self.record);
        let built = match context.read_only_limits(class, timeout).bound(building).await {
            Ok(built) => built,
            Err(error) if error.code() == Code::Canceled => return None,
            Err(error) => return Some(Err(error)),
        };
        let driver = match context.drivers.of(&built.request.class) {
            Ok(driver) => driver,
            Err(error) => return Some(Err(error)),
        };
        if context.leadership.check().is_err() {
            return None;
        }
        let limits = if call == Call::Status {
            context.read_only_limits(class, timeout)
        } else {
            context.limits(class, timeout)
        };
        open_call.ends_by(limits.deadline());
        let work = limits.bound(Answer::of(call, &*driver, &limits, &built.request));
        let begun = context.shared.clock.instant();
        let answer = context.measured(class, method, work).await;
        if answer.as_ref().map_or_else(|error| is_not_needed(call, error), |_| true) {
            let MachineRequest { machine, class, .. } = &built.request;
            context.lifecycle.answered(call, machine, class, begun.elapsed());
        }
        let answer = answer.map_err(|error| scrub::error(&error, &built.scrubber()));
        let answer = answer.map(|answer| answer.with_clean_note(|| built.scrubber()));
        let success = |answer: &Answer| match answer {
            Answer::Created(..) => CallOutcome::Created,
            _ => CallOutcome::Responded,
        };
        permit.end(&outcome(&answer, self.capacity_use, success));
        Some(answer)
    }
}

impl Context {
    /// Makes a call that is about no Machine, and waits for its end.
    pub(super) async fn request<T, F: Future<Output = Result<T, DriverError>>>(
        &self,
        class: &MachineClass,
        priority: CallPriority,
        method: Method,
        secret: &SecretData,
        still_needed: impl FnOnce() -> bool,
        work: impl FnOnce(driver::Call) -> F,
    ) -> Result<T, DriverError> {
        let not_sent = |why: &str| DriverError::new(Code::Canceled, why);
        let Some(mut permit) = self.limiter.enter(CallRequest::without_machine(class, priority)) else {
            return Err(not_sent("the limiter rejected the call; no request was sent to the cloud"));
        };
        let timeout = self.shared.policy.driver_call_timeout;
        if !self.admitted(&mut permit, class, method, timeout, &CancellationToken::new()).await {
            return Err(not_sent("the call was not admitted in time; no request was sent to the cloud"));
        }
        if !still_needed() {
            return Err(not_sent("the call is no longer needed; no request was sent to the cloud"));
        }
        let limits =
            if method == Method::List { self.read_only_limits(class, timeout) } else { self.limits(class, timeout) };
        let answer = self.measured(class, method, work(limits)).await;
        let answer = answer.map_err(|error| scrub::error(&error, &Scrubber::of(secret)));
        permit.end(&outcome(&answer, CapacityUse::None, |_| CallOutcome::Responded));
        answer
    }

    /// Waits until the call may be sent. Returns false if it must not: it was canceled or rejected, waited too long,
    /// the process stops or no longer leads.
    async fn admitted(
        &self,
        permit: &mut CallPermit,
        class: &MachineClass,
        method: Method,
        at_most: Duration,
        canceled: &CancellationToken,
    ) -> bool {
        let stopping = self.shared.tasks.stopping();
        let queued = self.shared.clock.instant();
        let admitted = tokio::select! {
            biased;
            () = stopping.cancelled() => false,
            () = canceled.cancelled() => false,
            admitted = permit.admitted() => admitted.is_ok(),
            () = tokio::time::sleep(at_most) => false,
        };
        if let Some(metrics) = self.metrics.as_ref().filter(|_| admitted) {
            metrics.sent(credential(class), method, queued.elapsed());
        }
        admitted && self.leadership.check().is_ok()
    }

    pub(super) async fn measured<T>(
        &self,
        class: &MachineClass,
        method: Method,
        work: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, DriverError> {
        let begun = self.shared.clock.instant();
        let answer = work.await;
        if let Some(metrics) = &self.metrics {
            metrics.ended(&class.provider, method, begun.elapsed(), answer.as_ref().err().map(DriverError::code));
        }
        answer
    }

    /// Limits of a call that changes the cloud. A shutdown does not cancel it: the cloud would continue, and the next
    /// leader must not start the same operation meanwhile. The shutdown waits for the call. If that takes too long, the
    /// lease expires instead of being released.
    pub(super) fn limits(&self, class: &MachineClass, timeout: Duration) -> driver::Call {
        let limits = driver::Call::within(timeout);
        match &self.metrics {
            Some(metrics) => limits.metered(metrics.meter(class)),
            None => limits,
        }
    }

    /// Limits of a call that changes nothing, and of the work before a call. A shutdown cancels it.
    fn read_only_limits(&self, class: &MachineClass, timeout: Duration) -> driver::Call {
        self.limits(class, timeout).canceled_by(self.shared.tasks.stopping())
    }
}

/// Returns how a listener classifies the result, and the provider id in it.
fn classify(vm: &VmState) -> (DriverCallResult, Option<String>) {
    match vm {
        VmState::Failed(_) => (DriverCallResult::Failure, None),
        VmState::Known(vm) if vm.unusable.is_some() => (DriverCallResult::Failure, None),
        VmState::Known(vm) => (DriverCallResult::Success, Some(vm.provider_id.to_string())),
        _ => (DriverCallResult::Success, None),
    }
}

/// Returns what the answer says to the limiter.
fn outcome<T>(
    answer: &Result<T, DriverError>,
    capacity_use: CapacityUse,
    success: impl Fn(&T) -> CallOutcome,
) -> CallOutcome {
    match answer {
        Ok(answer) => success(answer),
        Err(error) => CallOutcome::of_error(error.code(), capacity_use, error.message()),
    }
}

/// Returns whether the driver has no such operation, which counts as success.
fn is_not_needed(call: Call, error: &DriverError) -> bool {
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
