//! DrainView the node of a machine that stays: before its update, and when it is set aside.

use api::Object;
use api::view::NodeView;

use super::builder::PlanBuilder;
use super::{Facts, Observed, Step, Target};
use crate::drain::{Caller, Mode, Outcome, Request};
use crate::{Awaited, Presence, Wake};

/// How the drain of a node stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum InPlaceDrain {
    /// It goes on.
    Goes {
        /// What to do now.
        steps: Vec<Step>,
        /// When to look again.
        wake: Wake,
        /// What keeps it from ending unless somebody helps.
        failure: Option<String>,
    },
    /// Nobody who has to leave is left.
    Done,
}

/// What stands in the way of keeping new pods away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing that is known of, or it is time to try again.
    Clear,
    /// The barrier was tried in vain a moment ago.
    Barred {
        /// Why.
        why: String,
        /// When to look again.
        wake: Wake,
    },
    /// It was tried in vain, and the drain has become forceful: it goes on without.
    Forced {
        /// When the barrier may be tried again.
        again: jiff::Timestamp,
    },
}

/// What is known to keep the barrier from being set up.
pub(super) fn way(builder: &PlanBuilder<'_>, caller: Caller) -> Way {
    let seen = &builder.seen;
    let Target::Cluster { node, drain_view, .. } = seen.target else { return Way::Clear };
    let (Some(obstruction), Some(request)) = (&drain_view.obstruction, request(seen, node, caller)) else {
        return Way::Clear;
    };
    let again = obstruction.again(seen.policy);
    match Mode::of(&request, seen.now) {
        (Mode::Forced(_), _) => Way::Forced { again },
        (Mode::Gentle, _) if again <= seen.now => Way::Clear,
        (Mode::Gentle, forced) => {
            let wake = Wake::By { awaited: Awaited::Retry, at: again }.no_later_than(forced);
            Way::Barred { why: obstruction.why.clone(), wake }
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

/// Empties the node, as far as it goes now.
pub(super) fn drain_in_place(builder: &PlanBuilder<'_>, caller: Caller) -> InPlaceDrain {
    let seen = &builder.seen;
    let Target::Cluster { node, drain_view, .. } = seen.target else { return InPlaceDrain::Done };
    let Some(request) = request(seen, node, caller) else { return InPlaceDrain::Done };
    let progress = drain_view.advance(&request, node, seen.now);
    let (steps, wake) = (progress.steps, progress.wake);
    match progress.outcome {
        Outcome::Drained(_) => InPlaceDrain::Done,
        Outcome::Working { failure, .. } => InPlaceDrain::Goes { steps, wake, failure },
        Outcome::GivenUp { failure } => InPlaceDrain::Goes { steps, wake, failure: Some(failure) },
    }
}
