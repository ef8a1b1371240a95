//! Making pods leave.
//!
//! Each is deleted once, all together, with no grace; nobody is waited for, because on a node that is dead or overdue nobody may
//! ever answer. A deletion that the API server did not take is tried again for a short while; then a machine's deletion goes on
//! without it. A pod that is marked for deletion with no grace has been dealt with, by whomever: only its finalizers hold it.

use api::Object;
use api::view::PodView;
use jiff::Timestamp;

use super::answer::Answer;
use super::blocker::Obstacle;
use super::memory::{Note, Verb};
use super::mode::Mode;
use super::pass::Pass;
use super::pause::{later, pause};
use super::selection::{self, PodId};
use super::{Advance, Caller, Outcome, Pods, Step, pod};

/// The reference's text for a drain that never saw the node's pods.
const NEVER_SYNCED: &str = "timed out waiting for pod cache to sync";

/// Remembers since when the drain has been forced.
pub(super) fn keep_time(pass: &mut Pass<'_, '_>, mode: Mode) {
    match (mode, pass.memory.forced_since) {
        (Mode::Forced(_), None) => pass.note(Note::Forced { since: Some(pass.now) }),
        (Mode::Gentle, Some(_)) => pass.note(Note::Forced { since: None }),
        _ => {}
    }
}

/// When force has failed for long enough that a deletion goes on; `None` for drains that never give up.
fn gives_up(pass: &Pass<'_, '_>) -> Option<Timestamp> {
    match pass.request.caller {
        Caller::Deletion => pass.memory.forced_since.map(|since| later(since, pass.request.limits.forced_timeout)),
        Caller::InPlaceUpdate | Caller::Preservation => None,
    }
}

/// Nobody knows who is on the node.
pub(super) fn unseen(mut pass: Pass<'_, '_>, mode: Mode) -> Advance {
    if let (Mode::Forced(_), Some(end)) = (mode, gives_up(&pass)) {
        if end <= pass.now {
            return pass.ended(Outcome::GivenUp { failure: NEVER_SYNCED.to_owned() });
        }
        pass.wake(end);
    }
    pass.step(Step::Watch);
    pass.wake(later(pass.now, pass.request.limits.evict_interval));
    pass.working()
}

pub(super) fn advance(mut pass: Pass<'_, '_>, pods: &Pods<'_>, mode: Mode) -> Advance {
    for pod in &pods.readable {
        if selection::has_to_leave(pod, pass.request.limits) && !is_dealt_with(&pass, pod) {
            delete(&mut pass, pod);
        }
    }
    if pass.is_over() {
        return pass.ended(Outcome::Drained(mode));
    }
    if let Some(end) = gives_up(&pass) {
        if end <= pass.now {
            let failure = pass.failure().unwrap_or_else(|| "pods could not be deleted in time".to_owned());
            return pass.ended(Outcome::GivenUp { failure });
        }
        pass.wake(end);
    }
    pass.working()
}

fn is_dealt_with(pass: &Pass<'_, '_>, pod: &PodView) -> bool {
    let marked = pod.is_deleting() && pod.metadata.deletion_grace_period_seconds == Some(0);
    let granted = pass.memory.pods.get(&pod.uid()).and_then(|tries| tries.granted);
    marked || granted.is_some_and(|granted| granted.verb == Verb::Delete)
}

fn delete(pass: &mut Pass<'_, '_>, pod: &PodView) {
    let id = PodId::of(pod);
    if let Some((Verb::Delete, until)) = pod::unanswered(pass, &id.uid) {
        return pass.block(id.to_string(), Obstacle::Unanswered(Verb::Delete), Some(until));
    }
    let limits = pass.request.limits;
    let setback = pass.memory.pods.get(&id.uid).and_then(|tries| tries.setback.clone());
    let Some(setback) = setback.filter(|setback| setback.verb == Verb::Delete) else {
        return pass.ask(id, Verb::Delete, None);
    };
    let again = later(setback.at, pause(&id.uid, setback.count, limits.first_pause, limits.evict_interval));
    if again <= pass.now {
        return pass.ask(id, Verb::Delete, None);
    }
    let text = match setback.answer {
        Answer::Failed(failure) => failure.text,
        _ => "the API server refused".to_owned(),
    };
    pass.block(id.to_string(), Obstacle::Failed { text }, Some(again));
}
