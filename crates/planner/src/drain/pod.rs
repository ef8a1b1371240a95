//! What is to be done about one pod.

use api::view::PodView;
use api::{Object, Uid};
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::answer::{Answer, Outlook, Refusal};
use super::blocker::Obstacle;
use super::budget::Budgets;
use super::builder::AdvanceBuilder;
use super::memory::{Grant, Note, Setback, Tries, Verb};
use crate::pause::pause;
use crate::wake::later;

/// What one pod needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// To be asked to go, or made to.
    Request(Verb),
    /// Time, until then at the latest.
    Wait(Obstacle, Option<Timestamp>),
}

/// Whether a pod moves together with volumes. The reference counts what comes to nothing differently for the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Luggage {
    None,
    Volumes,
}

/// The grace period of a pod; none if it says nothing.
pub(super) fn grace(pod: &PodView) -> Duration {
    Duration::from_secs(
        u64::try_from(pod.spec.termination_grace_period_seconds.unwrap_or_default()).unwrap_or_default(),
    )
}

/// When a pod that is on its way out should have gone, whoever sent it; `None` for one that is not.
pub(super) fn gone_by(builder: &AdvanceBuilder<'_, '_>, pod: &PodView) -> Option<Timestamp> {
    let limits = builder.request.limits;
    if let Some(end) = pod.deleted_at() {
        return Some(later(end, limits.ending_allowance)); // its grace is in the timestamp
    }
    let granted = builder.memory.pods.get(&pod.uid())?.granted?;
    let patience = match granted.how {
        Grant::Accepted => grace(pod) + limits.ending_allowance,
        Grant::Gone => limits.answer_patience, // somebody must be wrong: the watch, if it does not show it soon
    };
    Some(later(granted.at, patience)).filter(|by| builder.now < *by) // a granted eviction that nobody sees did not happen
}

/// Whether a request for it is still unanswered, and until when that is believed.
pub(super) fn unanswered(builder: &AdvanceBuilder<'_, '_>, pod: &Uid) -> Option<(Verb, Timestamp)> {
    let (verb, at) = builder.memory.pods.get(pod)?.asked?;
    let until = later(at, builder.request.limits.answer_patience);
    (builder.now < until).then_some((verb, until))
}

/// What a pod needs that should be evicted.
pub(super) fn need(
    builder: &mut AdvanceBuilder<'_, '_>,
    pod: &PodView,
    luggage: Luggage,
    budgets: &mut Budgets<'_>,
) -> Need {
    if let Some(by) = gone_by(builder, pod) {
        return if builder.now < by {
            Need::Wait(Obstacle::Ending, Some(by))
        } else {
            Need::Wait(Obstacle::Overdue { finalizers: pod.metadata.finalizers.clone() }, None)
        };
    }
    if let Some((verb, until)) = unanswered(builder, &pod.uid()) {
        return Need::Wait(Obstacle::Unanswered(verb), Some(until));
    }
    let tries = builder.memory.pods.get(&pod.uid()).cloned().unwrap_or_default();
    let obstacle = tries.setback.as_ref().map(|setback| obstacle(pod, setback, budgets));
    if let Some(Obstacle::Misconfigured { .. }) = obstacle
        && tries.first_setback.is_some()
    {
        // The reference never counts these refusals: such a pod is deleted at the drain's deadline and not before.
        builder.note(Note::RefusalsForgiven { pod: pod.uid() });
    }
    let limit = match &obstacle {
        Some(Obstacle::Misconfigured { .. }) => None,
        _ => patience_ends(builder, &tries, luggage),
    };
    let verb = verb(builder, limit);
    let (Some(setback), Some(obstacle)) = (tries.setback.as_ref().filter(|s| s.verb == verb), obstacle) else {
        return Need::Request(verb);
    };
    let due = next_attempt(builder, pod, setback, &obstacle);
    if due <= builder.now || (is_budget(&obstacle) && budgets.has_opened(pod, tries.budget.as_deref())) {
        return Need::Request(verb);
    }
    Need::Wait(obstacle, Some(limit.filter(|limit| *limit > builder.now).map_or(due, |limit| due.min(limit))))
}

/// When a pod's refusals have lasted as long as the reference would have retried.
fn patience_ends(builder: &AdvanceBuilder<'_, '_>, tries: &Tries, luggage: Luggage) -> Option<Timestamp> {
    let limit = builder.request.refusal_limit()?;
    let since = match luggage {
        Luggage::None => tries.first_refusal,
        Luggage::Volumes => tries.first_setback,
    };
    if limit.is_zero() { Some(builder.now) } else { Some(later(since?, limit)) }
}

fn verb(builder: &AdvanceBuilder<'_, '_>, limit: Option<Timestamp>) -> Verb {
    if limit.is_none_or(|limit| builder.now < limit) { Verb::Evict } else { Verb::Delete }
}

/// When it is tried again by itself.
fn next_attempt(builder: &AdvanceBuilder<'_, '_>, pod: &PodView, setback: &Setback, obstacle: &Obstacle) -> Timestamp {
    let limits = builder.request.limits;
    let longest = match obstacle {
        Obstacle::Misconfigured { .. } | Obstacle::Failed { .. } => limits.longest_pause,
        _ => limits.evict_interval,
    };
    let pause = pause(&pod.uid(), setback.count, limits.first_pause, longest);
    later(setback.at, setback.answer.retry_after().map_or(pause, |wanted| wanted.max(pause)))
}

fn is_budget(obstacle: &Obstacle) -> bool {
    matches!(obstacle, Obstacle::Misconfigured { .. } | Obstacle::Budget { .. })
}

fn obstacle(pod: &PodView, setback: &Setback, budgets: &Budgets<'_>) -> Obstacle {
    match &setback.answer {
        Answer::Refused(Refusal::Budget { .. }) => budgets.obstacle(pod),
        Answer::Refused(Refusal::SeveralBudgets) => budgets.several(pod),
        Answer::Refused(Refusal::NamespaceEnding) => Obstacle::NamespaceEnding,
        Answer::Failed(failure) if failure.outlook == Outlook::Lasting => {
            Obstacle::Failed { text: failure.text.clone() }
        }
        Answer::Failed(failure) => Obstacle::Busy { text: failure.text.clone() },
        Answer::Accepted | Answer::Gone => Obstacle::Ending,
    }
}

/// Drops what is remembered of pods that are not on the node any more.
pub(super) fn forget_the_gone(builder: &mut AdvanceBuilder<'_, '_>, here: &[&PodView]) {
    let here: BTreeSet<Uid> = here.iter().map(|pod| pod.uid()).collect();
    let gone: Vec<Uid> = builder.memory.pods.keys().filter(|pod| !here.contains(*pod)).cloned().collect();
    for pod in gone {
        builder.note(Note::PodLeft { pod });
    }
}
