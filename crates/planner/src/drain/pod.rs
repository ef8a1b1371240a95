//! Decides about one pod.

use api::view::PodView;
use api::{Object, Uid};
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::answer::{Answer, Persistence, Refusal};
use super::blocker::Obstacle;
use super::budget::Budgets;
use super::builder::AdvanceBuilder;
use super::memory::{Attempts, FailedAttempt, Grant, Note, Verb};
use crate::pause::pause;
use meta::time::later;

/// The next step for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// A request to evict or delete it.
    Request(Verb),
    /// A wait, until this time at the latest.
    Wait(Obstacle, Option<Timestamp>),
}

/// Whether the drain waits for volumes of the pod. MCM counts failed evictions differently for the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodVolumes {
    None,
    Awaited,
}

/// Returns the grace period of a pod, zero if it has none.
pub(super) fn grace(pod: &PodView) -> Duration {
    Duration::from_secs(
        u64::try_from(pod.spec.termination_grace_period_seconds.unwrap_or_default()).unwrap_or_default(),
    )
}

/// Returns when a pod that is terminating, by any client, should be deleted. `None` if it is not terminating.
pub(super) fn deleted_by(builder: &AdvanceBuilder<'_, '_>, pod: &PodView) -> Option<Timestamp> {
    let limits = builder.request.limits;
    if let Some(end) = pod.deleted_at() {
        return Some(later(end, limits.termination_allowance)); // the timestamp contains the grace period
    }
    let granted = builder.memory.pods.get(&pod.uid())?.granted?;
    let allowance = match granted.how {
        Grant::Accepted => grace(pod) + limits.termination_allowance,
        Grant::Gone => limits.response_timeout, // the watch should show it soon
    };
    Some(later(granted.at, allowance)).filter(|by| builder.now < *by) // an accepted eviction without a deletionTimestamp had no effect
}

/// Returns the request that has no response yet, and until when it is considered in progress.
pub(super) fn request_in_progress(builder: &AdvanceBuilder<'_, '_>, pod: &Uid) -> Option<(Verb, Timestamp)> {
    let (verb, at) = builder.memory.pods.get(pod)?.requested?;
    let until = later(at, builder.request.limits.response_timeout);
    (builder.now < until).then_some((verb, until))
}

/// Returns the next step for a pod that must be evicted.
pub(super) fn need(
    builder: &mut AdvanceBuilder<'_, '_>,
    pod: &PodView,
    volumes: PodVolumes,
    budgets: &mut Budgets<'_>,
) -> Need {
    if let Some(by) = deleted_by(builder, pod) {
        return if builder.now < by {
            Need::Wait(Obstacle::Terminating, Some(by))
        } else {
            Need::Wait(Obstacle::Overdue { finalizers: pod.metadata.finalizers.clone() }, None)
        };
    }
    if let Some((verb, until)) = request_in_progress(builder, &pod.uid()) {
        return Need::Wait(Obstacle::InProgress(verb), Some(until));
    }
    let attempts = builder.memory.pods.get(&pod.uid()).cloned().unwrap_or_default();
    let obstacle = attempts.failed.as_ref().map(|failed| obstacle(pod, failed, budgets));
    if let Some(Obstacle::Misconfigured { .. }) = obstacle
        && attempts.first_failure.is_some()
    {
        // MCM does not count these refusals: such a pod is deleted only after the drain timeout.
        builder.note(Note::RefusalsReset { pod: pod.uid() });
    }
    let limit = match &obstacle {
        Some(Obstacle::Misconfigured { .. }) => None,
        _ => refusals_end(builder, &attempts, volumes),
    };
    let verb = verb(builder, limit);
    let (Some(failed), Some(obstacle)) = (attempts.failed.as_ref().filter(|s| s.verb == verb), obstacle) else {
        return Need::Request(verb);
    };
    let due = next_attempt(builder, pod, failed, &obstacle);
    if due <= builder.now || (is_budget(&obstacle) && budgets.has_opened(pod, attempts.budget.as_deref())) {
        return Need::Request(verb);
    }
    Need::Wait(obstacle, Some(limit.filter(|limit| *limit > builder.now).map_or(due, |limit| due.min(limit))))
}

/// Returns when the refusals have lasted for as long as MCM would have retried.
fn refusals_end(builder: &AdvanceBuilder<'_, '_>, attempts: &Attempts, volumes: PodVolumes) -> Option<Timestamp> {
    let limit = builder.request.refusal_limit()?;
    let since = match volumes {
        PodVolumes::None => attempts.first_refusal,
        PodVolumes::Awaited => attempts.first_failure,
    };
    if limit.is_zero() { Some(builder.now) } else { Some(later(since?, limit)) }
}

fn verb(builder: &AdvanceBuilder<'_, '_>, limit: Option<Timestamp>) -> Verb {
    if limit.is_none_or(|limit| builder.now < limit) { Verb::Evict } else { Verb::Delete }
}

/// Returns when the next attempt is due.
fn next_attempt(
    builder: &AdvanceBuilder<'_, '_>,
    pod: &PodView,
    failed: &FailedAttempt,
    obstacle: &Obstacle,
) -> Timestamp {
    let limits = builder.request.limits;
    let longest = match obstacle {
        Obstacle::Misconfigured { .. } | Obstacle::Failed { .. } => limits.max_backoff,
        _ => limits.evict_interval,
    };
    let pause = pause(&pod.uid(), failed.count, limits.initial_backoff, longest);
    later(failed.at, failed.answer.retry_after().map_or(pause, |wanted| wanted.max(pause)))
}

fn is_budget(obstacle: &Obstacle) -> bool {
    matches!(obstacle, Obstacle::Misconfigured { .. } | Obstacle::Budget { .. })
}

fn obstacle(pod: &PodView, failed: &FailedAttempt, budgets: &Budgets<'_>) -> Obstacle {
    match &failed.answer {
        Answer::Refused(Refusal::Budget { .. }) => budgets.obstacle(pod),
        Answer::Refused(Refusal::SeveralBudgets) => budgets.several(pod),
        Answer::Refused(Refusal::NamespaceTerminating) => Obstacle::NamespaceTerminating,
        Answer::Failed(failure) if failure.persistence == Persistence::Permanent => {
            Obstacle::Failed { text: failure.text.clone() }
        }
        Answer::Failed(failure) => Obstacle::Busy { text: failure.text.clone() },
        Answer::Accepted | Answer::Gone => Obstacle::Terminating,
    }
}

/// Drops the state of pods that are not on the Node any more.
pub(super) fn forget_deleted(builder: &mut AdvanceBuilder<'_, '_>, here: &[&PodView]) {
    let here: BTreeSet<Uid> = here.iter().map(|pod| pod.uid()).collect();
    let gone: Vec<Uid> = builder.memory.pods.keys().filter(|pod| !here.contains(*pod)).cloned().collect();
    for pod in gone {
        builder.note(Note::PodLeft { pod });
    }
}
