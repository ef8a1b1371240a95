//! Whether a node that the cache does not show is really not there.
//!
//! A deletion ends with the Node object. If it took a node for absent that has only not been heard of yet, because a watch is cut or
//! late, VM and Machine would go and the Node would stay for good: no Machine names it any more, and it carries no mark of ours.
//! So where a deletion would go on without a node that the machine is known to have become, the API server itself is asked, once
//! before the drain and once after the end of the VM, when nothing can join any more. A node that is in the cache costs no question.
//!
//! An API server that cannot say is asked again for as long as a drain may take. Then, when it refuses, or when force is asked for,
//! the deletion goes on as if there were no node, and says so: a machine must be able to go though its cluster is gone for good.

use std::time::Duration;

use api::Object;
use api::deletion::Step as Stage;
use api::descriptions::deletion as text;
use api::names::{events, labels};
use jiff::Timestamp;

use super::{Facts, Observed, Plan, Reason, StatusWrite, Step, Target, facts};
use crate::drain::{Outlook, Request};
use crate::{Awaited, Event, EventType, Presence, Wake};

/// What the API server itself last said of a node that the cache does not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodeLookup {
    /// It was not asked, or the VM has ended since: until then the node could still join.
    #[default]
    Unasked,
    /// There is no such node.
    Absent,
    /// It could not say.
    Unanswered(Unanswered),
    /// The cache shows the Node, and the requests that remove it fail.
    NotRemoved(Unanswered),
}

/// A question that was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// Why.
    pub why: String,
    /// Whether asking again may help.
    pub outlook: Outlook,
    /// When it was first asked in vain.
    pub since: Timestamp,
    /// When it was last asked.
    pub at: Timestamp,
}

impl NodeLookup {
    /// This question was not answered either.
    #[must_use]
    pub fn in_vain(&self, why: String, outlook: Outlook, now: Timestamp) -> Self {
        let since = match self {
            Self::Unanswered(before) => before.since,
            Self::Unasked | Self::Absent | Self::NotRemoved(_) => now,
        };
        Self::Unanswered(Unanswered { why, outlook, since, at: now })
    }

    /// The removal of the Node failed, too.
    #[must_use]
    pub fn not_removed(&self, why: String, now: Timestamp) -> Self {
        let since = match self {
            Self::NotRemoved(before) => before.since,
            Self::Unasked | Self::Absent | Self::Unanswered(_) => now,
        };
        Self::NotRemoved(Unanswered { why, outlook: Outlook::Passing, since, at: now })
    }
}

/// How much a deletion knows of a node that the cache does not show.
pub(super) enum Absence<'a> {
    /// There is none, or nobody knows what it would be called.
    Certain,
    /// It has to be asked for.
    Open(Plan),
    /// Nobody could say, and no more is waited for.
    Assumed(&'a Unanswered),
}

/// What is known of the node, given that the cache does not show it, before the deletion takes this step.
pub(super) fn absence<'a>(seen: &Observed<'a>, facts: &Facts<'_>, next: Stage) -> Absence<'a> {
    let (Target::Cluster { node: Presence::Absent, node_lookup, .. }, Some(name)) = (seen.target, facts.node_name)
    else {
        return Absence::Certain;
    };
    match node_lookup {
        NodeLookup::Absent => Absence::Certain,
        NodeLookup::Unasked | NodeLookup::NotRemoved(_) => {
            Absence::Open(ask(name, Reason::NodeUnseen(name.to_owned())))
        }
        NodeLookup::Unanswered(failure) if is_enough(seen, failure, name) => Absence::Assumed(failure),
        NodeLookup::Unanswered(failure) => Absence::Open(ask_again(seen, failure, name, next)),
    }
}

/// What people are told when a machine goes while nobody knows of its node.
pub(super) fn confess(name: &str, failure: &Unanswered) -> Event {
    let message = format!(
        "its VM is gone, but whether node {name:?} is registered could not be found out: {}; if it is, delete it by hand",
        failure.why
    );
    Event { event_type: EventType::Warning, reason: events::ours::NODE_MAY_BE_LEFT, message }
}

fn ask(name: &str, because: Reason) -> Plan {
    Plan::of(vec![Step::LookForNode { name: name.to_owned() }], Wake::Again, because)
}

fn ask_again(seen: &Observed<'_>, failure: &Unanswered, name: &str, next: Stage) -> Plan {
    let because = Reason::NodeUncertain { name: name.to_owned(), why: failure.why.clone() };
    let at = facts::later(failure.at, seen.policy.short_retry);
    if at <= seen.now {
        return ask(name, because);
    }
    let write = StatusWrite::deletion_failed(text::node_lookup_failed(next, name, &failure.why), seen.now);
    let steps = write.is_news(seen.machine, seen.policy, seen.now).then_some(Step::Status(write)).into_iter().collect();
    Plan::of(steps, Wake::By { awaited: Awaited::Retry, at }, because)
}

fn is_enough(seen: &Observed<'_>, failure: &Unanswered, name: &str) -> bool {
    is_forced(seen) || failure.outlook == Outlook::Lasting || has_lasted(seen, failure, name)
}

fn is_forced(seen: &Observed<'_>) -> bool {
    seen.machine.label(labels::FORCE_DELETION).and_then(labels::is_true) == Some(true)
}

/// Returns whether the failure has lasted for as long as a drain may take.
fn has_lasted(seen: &Observed<'_>, failure: &Unanswered, name: &str) -> bool {
    let patience =
        Request::for_deletion(seen.machine, name, Presence::Absent, &seen.policy.drain, seen.outages).timeout;
    seen.outages.deadline_within(failure.since, patience, Duration::ZERO, seen.now) <= seen.now
}

/// Returns what to report if the Node is not removed any more, although the cache shows it: the requests have failed for as long as a
/// drain may take, or twice if force is asked for. The API server may be gone for good.
pub(super) fn removal_given_up(seen: &Observed<'_>, name: &str) -> Option<(Event, Reason)> {
    let Target::Cluster { node_lookup: NodeLookup::NotRemoved(failure), .. } = seen.target else { return None };
    let repeated = failure.since < failure.at;
    let enough = has_lasted(seen, failure, name) || (is_forced(seen) && repeated);
    if !enough {
        return None;
    }
    let message = format!(
        "VM is deleted, but deletion of node {name:?} failed: {}; if the Node still exists, delete it by hand",
        failure.why
    );
    let event = Event { event_type: EventType::Warning, reason: events::ours::NODE_MAY_BE_LEFT, message };
    Some((event, Reason::NodeNotRemoved { name: name.to_owned(), why: failure.why.clone() }))
}
