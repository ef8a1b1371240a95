//! Drains the Node of a Machine that is not deleted: before its in-place update, and when it is preserved.

use api::Object;
use api::view::NodeView;

use super::builder::PlanBuilder;
use super::{Facts, Observed, Step, Target};
use crate::drain::{Caller, Mode, Outcome, Request};
use crate::{Awaited, Presence, Wake};

/// The state of the drain.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum InPlaceDrain {
    /// In progress.
    InProgress {
        /// The steps.
        steps: Vec<Step>,
        /// When to plan again.
        wake: Wake,
        /// The failure that a user must fix, if there is one.
        failure: Option<String>,
    },
    /// The Node is drained.
    Done,
}

/// The state of the barriers that keep new pods away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BarrierState {
    /// No failure is known, or the next attempt is due.
    Clear,
    /// The last attempt failed, and the drain waits for the next one.
    Failed {
        /// The error.
        why: String,
        /// When to plan again.
        wake: Wake,
    },
    /// The last attempt failed, and the drain is forced: it continues without the barrier.
    Skipped {
        /// When the next attempt is due.
        again: jiff::Timestamp,
    },
}

/// Returns the state of the barriers.
pub(super) fn barrier_state(builder: &PlanBuilder<'_>, caller: Caller) -> BarrierState {
    let seen = &builder.seen;
    let Target::Cluster { node, drain_view, .. } = seen.target else { return BarrierState::Clear };
    let (Some(failure), Some(request)) = (&drain_view.barrier_failure, request(seen, node, caller)) else {
        return BarrierState::Clear;
    };
    let again = failure.again(seen.policy);
    match Mode::of(&request, seen.now) {
        (Mode::Force(_), _) => BarrierState::Skipped { again },
        (Mode::Evict, _) if again <= seen.now => BarrierState::Clear,
        (Mode::Evict, forced) => {
            let wake = Wake::By { awaited: Awaited::Retry, at: again }.no_later_than(forced);
            BarrierState::Failed { why: failure.why.clone(), wake }
        }
    }
}

fn request<'a>(seen: &Observed<'a>, node: Presence<&'a NodeView>, caller: Caller) -> Option<Request<'a>> {
    let name = node.present().map(Object::name).or(Facts::of(seen.machine).node_name)?;
    let begin = match caller {
        Caller::Preservation => Request::for_preservation,
        Caller::InPlaceUpdate | Caller::Deletion => Request::for_in_place,
    };
    Some(begin(seen.machine, name, node, &seen.policy.drain, seen.outages))
}

/// Advances the drain of the Node.
pub(super) fn drain_in_place(builder: &PlanBuilder<'_>, caller: Caller) -> InPlaceDrain {
    let seen = &builder.seen;
    let Target::Cluster { node, drain_view, .. } = seen.target else { return InPlaceDrain::Done };
    let Some(request) = request(seen, node, caller) else { return InPlaceDrain::Done };
    let progress = drain_view.advance(&request, node, seen.now);
    let (steps, wake) = (progress.steps, progress.wake);
    match progress.outcome {
        Outcome::Drained(_) => InPlaceDrain::Done,
        Outcome::InProgress { failure, .. } => InPlaceDrain::InProgress { steps, wake, failure },
        Outcome::Failed { failure } => InPlaceDrain::InProgress { steps, wake, failure: Some(failure) },
    }
}
