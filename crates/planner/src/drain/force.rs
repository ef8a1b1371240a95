//! Deletes pods in a forced drain.
//!
//! Each pod is deleted once, all in parallel, without a grace period and without waiting, because a Node that does not
//! work may never report the end of a pod. A failed deletion is retried for a short time; then the deletion of a
//! Machine continues without it. Pods that are scheduled to a Node that could not be cordoned, after the forced drain
//! began, are not deleted until it is cordoned. A pod with a deletionTimestamp and no grace period counts as deleted:
//! only its finalizers keep it.

use api::Object;
use api::names::taints;
use api::view::{NodeView, PodView};
use jiff::Timestamp;

use super::answer::Answer;
use super::blocker::Obstacle;
use super::builder::AdvanceBuilder;
use super::memory::{Note, Verb};
use super::mode::Mode;
use super::selection::{self, PodId};
use super::{Advance, Caller, Outcome, Pods, Step, pod};
use crate::pause::pause;
use meta::time::later;

/// MCM's text for a drain that never listed the pods.
const NEVER_SYNCED: &str = "timed out waiting for pod cache to sync";

/// The failure of a pod that was scheduled after the forced drain began.
const NOT_CORDONED: &str = "the Node is not cordoned and accepts new pods";

/// Records since when the drain is forced.
pub(super) fn record_start(builder: &mut AdvanceBuilder<'_, '_>, mode: Mode) {
    match (mode, builder.memory.forced_since) {
        (Mode::Force(_), None) => builder.note(Note::Forced { since: Some(builder.now) }),
        (Mode::Evict, Some(_)) => builder.note(Note::Forced { since: None }),
        _ => {}
    }
}

/// Returns when a deletion continues after a failed forced drain. `None` for drains that have no such limit.
fn deadline(builder: &AdvanceBuilder<'_, '_>) -> Option<Timestamp> {
    match builder.request.caller {
        Caller::Deletion => {
            builder.memory.forced_since.map(|since| later(since, builder.request.limits.forced_timeout))
        }
        Caller::InPlaceUpdate | Caller::Preservation => None,
    }
}

/// Plans a drain without a list of pods.
pub(super) fn without_pods(mut builder: AdvanceBuilder<'_, '_>, mode: Mode) -> Advance {
    if let (Mode::Force(_), Some(end)) = (mode, deadline(&builder)) {
        if end <= builder.now {
            return builder.finished(Outcome::Failed { failure: NEVER_SYNCED.to_owned() });
        }
        builder.wake(end);
    }
    builder.step(Step::Watch);
    builder.wake(later(builder.now, builder.request.limits.evict_interval));
    builder.in_progress()
}

pub(super) fn advance(mut builder: AdvanceBuilder<'_, '_>, pods: &Pods<'_>, mode: Mode) -> Advance {
    if builder.memory.present_when_forced.is_none() {
        builder.note(Note::PresentWhenForced { pods: pods.readable.iter().map(|pod| pod.uid()).collect() });
    }
    for pod in &pods.readable {
        if !selection::must_be_drained(pod, builder.request.limits) || is_deleted(&builder, pod) {
            continue;
        }
        if was_scheduled_later(&builder, pod) {
            builder.block(PodId::of(pod).to_string(), Obstacle::Failed { text: NOT_CORDONED.to_owned() }, None);
        } else {
            delete(&mut builder, pod);
        }
    }
    if builder.is_done() {
        return builder.finished(Outcome::Drained(mode));
    }
    if let Some(end) = deadline(&builder) {
        if end <= builder.now {
            let failure = builder.failure().unwrap_or_else(|| "failed to delete the pods in time".to_owned());
            return builder.finished(Outcome::Failed { failure });
        }
        builder.wake(end);
    }
    builder.in_progress()
}

/// Returns whether a pod was scheduled after the forced drain began, to a Node that still accepts pods. Deleting it
/// would only lead to the next one: it stays until the Node is cordoned, or is deleted with the VM.
fn was_scheduled_later(builder: &AdvanceBuilder<'_, '_>, pod: &PodView) -> bool {
    let was_present = builder.memory.present_when_forced.as_ref().is_some_and(|present| present.contains(&pod.uid()));
    !was_present && builder.view.node.present().is_some_and(accepts_pods)
}

fn accepts_pods(node: &NodeView) -> bool {
    !node.spec.unschedulable && !node.spec.taints.iter().any(|taint| taint.key == taints::PRESERVED)
}

fn is_deleted(builder: &AdvanceBuilder<'_, '_>, pod: &PodView) -> bool {
    let marked = pod.is_deleting() && pod.metadata.deletion_grace_period_seconds == Some(0);
    let granted = builder.memory.pods.get(&pod.uid()).and_then(|attempts| attempts.granted);
    marked || granted.is_some_and(|granted| granted.verb == Verb::Delete)
}

fn delete(builder: &mut AdvanceBuilder<'_, '_>, pod: &PodView) {
    let id = PodId::of(pod);
    if let Some((Verb::Delete, until)) = pod::request_in_progress(builder, &id.uid) {
        return builder.block(id.to_string(), Obstacle::InProgress(Verb::Delete), Some(until));
    }
    let limits = builder.request.limits;
    let failed = builder.memory.pods.get(&id.uid).and_then(|attempts| attempts.failed.clone());
    let Some(failed) = failed.filter(|failed| failed.verb == Verb::Delete) else {
        return builder.request_removal(id, Verb::Delete, None);
    };
    let again = later(failed.at, pause(&id.uid, failed.count, limits.initial_backoff, limits.evict_interval));
    if again <= builder.now {
        return builder.request_removal(id, Verb::Delete, None);
    }
    let text = match failed.answer {
        Answer::Failed(failure) => failure.text,
        _ => "the API server refused the deletion".to_owned(),
    };
    builder.block(id.to_string(), Obstacle::Failed { text }, Some(again));
}
