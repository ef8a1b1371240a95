//! Reports a failed driver call once and retries it after a backoff.
//!
//! The delay and the texts depend on the call; the rest is common to creation and deletion. The Event contains the
//! method, the error of the driver, and the time of the next attempt.

use std::time::Duration;

use api::names::events;
use api::{Code, CodedText};
use jiff::Timestamp;

use super::vm::{Call, Failure};
use super::{Observed, Plan, Reason, StatusWrite, Step, facts};
use crate::{Awaited, Event, EventType, Policy, Wake};

/// The reaction to a failed call.
pub(super) struct Retry {
    /// Delay before the next attempt.
    pub(super) delay: Duration,
    /// The status to write.
    pub(super) write: StatusWrite,
    /// The first call of the next attempt.
    pub(super) call: Call,
    /// What the Event says about the next attempt.
    pub(super) next: NextAttempt,
}

/// When the next attempt is made. A time is reported only if it is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAttempt {
    /// After the backoff.
    AfterBackoff,
    /// When it is the turn of this Machine among the Machines of its MachineClass.
    OnePerClass,
    /// Never: the Machine is marked Failed before, at this time.
    FailedBefore(Timestamp),
}

/// Plans a Machine after a failed call.
pub(super) fn plan(seen: &Observed<'_>, failure: &Failure, retry: Retry) -> Plan {
    let because = Reason::CallFailed { call: failure.call, code: failure.code };
    let at = facts::later(failure.at, retry.delay);
    if at <= seen.now {
        return Plan::of(vec![Step::Driver(retry.call)], Wake::On(Awaited::DriverAnswer), because);
    }
    let next = match retry.next {
        NextAttempt::AfterBackoff => after_backoff(at),
        NextAttempt::OnePerClass => one_per_class(),
        NextAttempt::FailedBefore(deadline) => {
            format!("the Machine is marked Failed at {}, when its creation timeout has passed", time_of_day(deadline))
        }
    };
    Plan::of(report(seen, failure, retry.write, &next), Wake::By { awaited: Awaited::Retry, at }, because)
}

/// Returns the steps that report a failure, or none if it is reported already.
pub(super) fn report(seen: &Observed<'_>, failure: &Failure, write: StatusWrite, next: &str) -> Vec<Step> {
    if !write.is_new(seen.machine, seen.policy, seen.now) {
        return Vec::new();
    }
    let said = CodedText::parse(&failure.text).map_or(failure.text.as_str(), |coded| coded.message);
    let message = format!("{} failed: {}: {said}; {next}", failure.call.method(), failure.code);
    vec![
        Step::Status(write),
        Step::EmitEvent(Event { event_type: EventType::Warning, reason: events::millwright::DRIVER_ERROR, message }),
    ]
}

/// Describes the next attempt at this time.
fn after_backoff(at: Timestamp) -> String {
    format!("next attempt at {}, or when its MachineClass or Secret changes", time_of_day(at))
}

/// Describes the next attempt if one Machine of the MachineClass retries at a time.
pub(super) fn one_per_class() -> String {
    "retrying one Machine of the MachineClass at a time".to_owned()
}

fn time_of_day(at: Timestamp) -> String {
    at.strftime("%H:%M:%S UTC").to_string()
}

/// Returns whether the error is transient. `Canceled` is transient, because this process cancelled the call.
pub(super) fn is_transient(code: Code) -> bool {
    matches!(code, Code::Unknown | Code::DeadlineExceeded | Code::Aborted | Code::Unavailable | Code::Canceled)
}

/// Returns the delay before a failed creation is retried.
pub(super) fn creation_delay(failure: &Failure, policy: &Policy) -> Duration {
    match (failure.call, failure.code) {
        (Call::Initialize, _) => policy.short_retry,
        (_, Code::ResourceExhausted) if policy.exhausted_retry.is_zero() => policy.long_retry,
        (_, Code::ResourceExhausted) => policy.exhausted_retry,
        (_, code) if is_transient(code) => policy.short_retry,
        _ => policy.medium_retry,
    }
}
