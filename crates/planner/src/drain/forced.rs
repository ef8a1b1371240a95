//! Making pods leave.
//!
//! Each is deleted once, all together, with no grace; nobody is waited for, because on a node that is dead or overdue nobody may
//! ever answer. A deletion that the API server did not take is tried again for a short while; then a machine's deletion goes on
//! without it. Who comes to a node that could not be cordoned, after that, is left alone until it is. A pod that is marked for deletion with no grace has been dealt with, by whomever: only its finalizers hold it.

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
use crate::wake::later;

/// The reference's text for a drain that never saw the node's pods.
const NEVER_SYNCED: &str = "timed out waiting for pod cache to sync";

/// What keeps a pod that came too late.
const NOT_CORDONED: &str = "the node could not be cordoned and takes new pods";

/// Remembers since when the drain has been forced.
pub(super) fn keep_time(builder: &mut AdvanceBuilder<'_, '_>, mode: Mode) {
    match (mode, builder.memory.forced_since) {
        (Mode::Forced(_), None) => builder.note(Note::Forced { since: Some(builder.now) }),
        (Mode::Gentle, Some(_)) => builder.note(Note::Forced { since: None }),
        _ => {}
    }
}

/// When force has failed for long enough that a deletion goes on; `None` for drains that never give up.
fn gives_up(builder: &AdvanceBuilder<'_, '_>) -> Option<Timestamp> {
    match builder.request.caller {
        Caller::Deletion => {
            builder.memory.forced_since.map(|since| later(since, builder.request.limits.forced_timeout))
        }
        Caller::InPlaceUpdate | Caller::Preservation => None,
    }
}

/// Nobody knows who is on the node.
pub(super) fn unseen(mut builder: AdvanceBuilder<'_, '_>, mode: Mode) -> Advance {
    if let (Mode::Forced(_), Some(end)) = (mode, gives_up(&builder)) {
        if end <= builder.now {
            return builder.ended(Outcome::GivenUp { failure: NEVER_SYNCED.to_owned() });
        }
        builder.wake(end);
    }
    builder.step(Step::Watch);
    builder.wake(later(builder.now, builder.request.limits.evict_interval));
    builder.working()
}

pub(super) fn advance(mut builder: AdvanceBuilder<'_, '_>, pods: &Pods<'_>, mode: Mode) -> Advance {
    if builder.memory.present_when_forced.is_none() {
        builder.note(Note::PresentWhenForced { pods: pods.readable.iter().map(|pod| pod.uid()).collect() });
    }
    for pod in &pods.readable {
        if !selection::has_to_leave(pod, builder.request.limits) || is_dealt_with(&builder, pod) {
            continue;
        }
        if came_later(&builder, pod) {
            builder.block(PodId::of(pod).to_string(), Obstacle::Failed { text: NOT_CORDONED.to_owned() }, None);
        } else {
            delete(&mut builder, pod);
        }
    }
    if builder.is_over() {
        return builder.ended(Outcome::Drained(mode));
    }
    if let Some(end) = gives_up(&builder) {
        if end <= builder.now {
            let failure = builder.failure().unwrap_or_else(|| "pods could not be deleted in time".to_owned());
            return builder.ended(Outcome::GivenUp { failure });
        }
        builder.wake(end);
    }
    builder.working()
}

/// Whether a pod came after force had looked, to a node that still takes pods. Whoever deleted it would meet the next one a moment later,
/// as fast as the API server answers: it stays until the node is closed, or goes with its VM.
fn came_later(builder: &AdvanceBuilder<'_, '_>, pod: &PodView) -> bool {
    let was_present = builder.memory.present_when_forced.as_ref().is_some_and(|present| present.contains(&pod.uid()));
    !was_present && builder.view.node.present().is_some_and(takes_pods)
}

fn takes_pods(node: &NodeView) -> bool {
    !node.spec.unschedulable && !node.spec.taints.iter().any(|taint| taint.key == taints::PRESERVED)
}

fn is_dealt_with(builder: &AdvanceBuilder<'_, '_>, pod: &PodView) -> bool {
    let marked = pod.is_deleting() && pod.metadata.deletion_grace_period_seconds == Some(0);
    let granted = builder.memory.pods.get(&pod.uid()).and_then(|tries| tries.granted);
    marked || granted.is_some_and(|granted| granted.verb == Verb::Delete)
}

fn delete(builder: &mut AdvanceBuilder<'_, '_>, pod: &PodView) {
    let id = PodId::of(pod);
    if let Some((Verb::Delete, until)) = pod::unanswered(builder, &id.uid) {
        return builder.block(id.to_string(), Obstacle::Unanswered(Verb::Delete), Some(until));
    }
    let limits = builder.request.limits;
    let setback = builder.memory.pods.get(&id.uid).and_then(|tries| tries.setback.clone());
    let Some(setback) = setback.filter(|setback| setback.verb == Verb::Delete) else {
        return builder.ask(id, Verb::Delete, None);
    };
    let again = later(setback.at, pause(&id.uid, setback.count, limits.first_pause, limits.evict_interval));
    if again <= builder.now {
        return builder.ask(id, Verb::Delete, None);
    }
    let text = match setback.answer {
        Answer::Failed(failure) => failure.text,
        _ => "the API server refused".to_owned(),
    };
    builder.block(id.to_string(), Obstacle::Failed { text }, Some(again));
}
