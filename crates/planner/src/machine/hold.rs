//! A driver call that failed: say so, once, and try again after a while.
//!
//! How long and in which words depends on what was attempted; the rest is the same for creation and deletion. The Event says
//! what an operator asks first: what was tried, what the cloud said, and when it is tried again.

use std::time::Duration;

use api::names::events;
use api::{Code, CodedText};
use jiff::Timestamp;

use super::vm::{Call, Failure};
use super::{Observed, Plan, Reason, StatusWrite, Step, facts};
use crate::{Awaited, Event, EventType, Policy, Wake};

/// What a failed call leads to.
pub(super) struct Hold {
    /// How long until the next attempt.
    pub(super) delay: Duration,
    /// What is written down meanwhile.
    pub(super) write: StatusWrite,
    /// What the next attempt begins with.
    pub(super) again: Call,
    /// What people are told of the next attempt.
    pub(super) outlook: Outlook,
}

/// What can be promised of the next attempt. A time that would not be kept is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    /// It comes after the back-off.
    NextTry,
    /// It comes when it is this machine's turn among those of its class.
    InTurns,
    /// It does not come: the machine is marked Failed before.
    GivenUpBefore(Timestamp),
}

/// Holds a machine up after a failed call.
pub(super) fn hold_up(seen: &Observed<'_>, failure: &Failure, hold: Hold) -> Plan {
    let because = Reason::CallFailed { call: failure.call, code: failure.code };
    let at = facts::later(failure.at, hold.delay);
    if at <= seen.now {
        return Plan::of(vec![Step::Driver(hold.again)], Wake::On(Awaited::DriverAnswer), because);
    }
    let outlook = match hold.outlook {
        Outlook::NextTry => next_try(at),
        Outlook::InTurns => in_turns(),
        Outlook::GivenUpBefore(deadline) => {
            format!("it is marked Failed at {}, when its creation timeout has passed", of_day(deadline))
        }
    };
    Plan::of(told(seen, failure, hold.write, &outlook), Wake::By { awaited: Awaited::Retry, at }, because)
}

/// Writes a failure down and tells it, unless it has been said already.
pub(super) fn told(seen: &Observed<'_>, failure: &Failure, write: StatusWrite, outlook: &str) -> Vec<Step> {
    if !write.is_news(seen.machine, seen.policy, seen.now) {
        return Vec::new();
    }
    let said = CodedText::parse(&failure.text).map_or(failure.text.as_str(), |coded| coded.message);
    let message = format!("{} failed: {}: {said}; {outlook}", failure.call.method(), failure.code);
    vec![
        Step::Status(write),
        Step::Tell(Event { event_type: EventType::Warning, reason: events::ours::DRIVER_ERROR, message }),
    ]
}

/// When it is tried again, for people.
fn next_try(at: Timestamp) -> String {
    format!("next try at {}, or when its MachineClass or Secret changes", of_day(at))
}

/// The same, where only the class is known to be tried again.
pub(super) fn in_turns() -> String {
    "the machines of its class are tried again one by one".to_owned()
}

fn of_day(at: Timestamp) -> String {
    at.strftime("%H:%M:%S UTC").to_string()
}

/// Whether a failure passes by itself. A call that was cancelled, by us, was never refused.
pub(super) fn passes(code: Code) -> bool {
    matches!(code, Code::Unknown | Code::DeadlineExceeded | Code::Aborted | Code::Unavailable | Code::Canceled)
}

/// Until a creation that failed in this way is tried again.
pub(super) fn creation_delay(failure: &Failure, policy: &Policy) -> Duration {
    match (failure.call, failure.code) {
        (Call::Initialize, _) => policy.short_retry,
        (_, Code::ResourceExhausted) if policy.exhausted_retry.is_zero() => policy.long_retry,
        (_, Code::ResourceExhausted) => policy.exhausted_retry,
        (_, code) if passes(code) => policy.short_retry,
        _ => policy.medium_retry,
    }
}
