//! Looks up a Node that is not in the cache.
//!
//! A deletion ends with the Node. If a Node were considered absent only because the watch is interrupted or late, VM
//! and Machine would be deleted and the Node would remain: no Machine names it any more, and it has no mark of the
//! controller. Therefore, if the cache does not contain a Node that the Machine is known to have, the API server is
//! queried: once before the drain, and once after the deletion of the VM, when nothing can register any more. A Node in
//! the cache needs no query.
//!
//! If the query fails, it is repeated for as long as a drain may take. If the drain timeout has passed, the error is
//! permanent or force is requested, the deletion continues as if the Node did not exist, and reports it: a Machine must
//! be deletable even if its cluster is gone.

use std::time::Duration;

use api::Object;
use api::deletion::Step as Stage;
use api::names::{events, labels};
use api::texts::deletion as text;
use jiff::Timestamp;

use super::{Facts, Observed, Plan, Reason, StatusWrite, Step, Target, facts};
use crate::drain::{Persistence, Request};
use crate::{Awaited, Event, EventType, Presence, Wake};

/// The last response of the API server about a Node that is not in the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodeLookup {
    /// No request was made since the deletion of the VM; before that, the Node could still register.
    #[default]
    NotRequested,
    /// The Node does not exist.
    Absent,
    /// The request failed.
    Failed(LookupFailure),
    /// The Node is in the cache, and the requests to remove it fail.
    RemovalFailed(LookupFailure),
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupFailure {
    /// The error.
    pub why: String,
    /// Whether a retry may succeed.
    pub persistence: Persistence,
    /// Time of the first failure.
    pub since: Timestamp,
    /// Time of the last failure.
    pub at: Timestamp,
}

impl NodeLookup {
    /// Records a failed request.
    #[must_use]
    pub fn failed(&self, why: String, persistence: Persistence, now: Timestamp) -> Self {
        let since = match self {
            Self::Failed(before) => before.since,
            Self::NotRequested | Self::Absent | Self::RemovalFailed(_) => now,
        };
        Self::Failed(LookupFailure { why, persistence, since, at: now })
    }

    /// Records a failed removal of the Node.
    #[must_use]
    pub fn removal_failed(&self, why: String, now: Timestamp) -> Self {
        let since = match self {
            Self::RemovalFailed(before) => before.since,
            Self::NotRequested | Self::Absent | Self::Failed(_) => now,
        };
        Self::RemovalFailed(LookupFailure { why, persistence: Persistence::Transient, since, at: now })
    }
}

/// What a deletion knows about a Node that is not in the cache.
pub(super) enum Absence<'a> {
    /// The Node does not exist, or its name is unknown.
    Confirmed,
    /// The Node must be looked up first.
    Unconfirmed(Plan),
    /// The lookup failed, and the deletion does not wait any longer.
    Assumed(&'a LookupFailure),
}

/// Returns what is known about a Node that is not in the cache, before this step of the deletion.
pub(super) fn absence<'a>(seen: &Observed<'a>, facts: &Facts<'_>, next: Stage) -> Absence<'a> {
    let (Target::Cluster { node: Presence::Absent, node_lookup, .. }, Some(name)) = (seen.target, facts.node_name)
    else {
        return Absence::Confirmed;
    };
    match node_lookup {
        NodeLookup::Absent => Absence::Confirmed,
        NodeLookup::NotRequested | NodeLookup::RemovalFailed(_) => {
            Absence::Unconfirmed(query(name, Reason::NodeNotCached(name.to_owned())))
        }
        NodeLookup::Failed(failure) if is_final(seen, failure, name) => Absence::Assumed(failure),
        NodeLookup::Failed(failure) => Absence::Unconfirmed(query_again(seen, failure, name, next)),
    }
}

/// Returns the Event about a Machine that is deleted although its Node is unknown.
pub(super) fn node_may_remain(name: &str, failure: &LookupFailure) -> Event {
    let message = format!(
        "VM is deleted, but the lookup of node {name:?} failed: {}; if the Node still exists, delete it manually",
        failure.why
    );
    Event { event_type: EventType::Warning, reason: events::millwright::NODE_MAY_BE_LEFT, message }
}

fn query(name: &str, because: Reason) -> Plan {
    Plan::of(vec![Step::LookUpNode { name: name.to_owned() }], Wake::Again, because)
}

fn query_again(seen: &Observed<'_>, failure: &LookupFailure, name: &str, next: Stage) -> Plan {
    let because = Reason::NodeLookupFailed { name: name.to_owned(), why: failure.why.clone() };
    let at = facts::later(failure.at, seen.policy.short_retry);
    if at <= seen.now {
        return query(name, because);
    }
    let write = StatusWrite::deletion_failed(text::node_lookup_failed(next, name, &failure.why), seen.now);
    let steps = write.is_new(seen.machine, seen.policy, seen.now).then_some(Step::Status(write)).into_iter().collect();
    Plan::of(steps, Wake::By { awaited: Awaited::Retry, at }, because)
}

fn is_final(seen: &Observed<'_>, failure: &LookupFailure, name: &str) -> bool {
    is_forced(seen) || failure.persistence == Persistence::Permanent || has_timed_out(seen, failure, name)
}

fn is_forced(seen: &Observed<'_>) -> bool {
    seen.machine.label(labels::FORCE_DELETION).and_then(labels::is_true) == Some(true)
}

/// Returns whether the failure has lasted for the drain timeout.
fn has_timed_out(seen: &Observed<'_>, failure: &LookupFailure, name: &str) -> bool {
    let timeout = Request::for_deletion(seen.machine, name, Presence::Absent, &seen.policy.drain, seen.outages).timeout;
    seen.outages.deadline_within(failure.since, timeout, Duration::ZERO, seen.now) <= seen.now
}

/// Returns what to report if the Node remains in the cache: the requests to remove it have failed for the drain
/// timeout, or twice if force is requested. The API server may be gone permanently.
pub(super) fn removal_failed_for_too_long(seen: &Observed<'_>, name: &str) -> Option<(Event, Reason)> {
    let Target::Cluster { node_lookup: NodeLookup::RemovalFailed(failure), .. } = seen.target else { return None };
    let repeated = failure.since < failure.at;
    let enough = has_timed_out(seen, failure, name) || (is_forced(seen) && repeated);
    if !enough {
        return None;
    }
    let message = format!(
        "VM is deleted, but deletion of node {name:?} failed: {}; if the Node still exists, delete it manually",
        failure.why
    );
    let event = Event { event_type: EventType::Warning, reason: events::millwright::NODE_MAY_BE_LEFT, message };
    Some((event, Reason::NodeDeletionFailed { name: name.to_owned(), why: failure.why.clone() }))
}
