//! Emptying the node of a machine that stays: before its update, and when it is set aside.

use super::course::Course;
use super::{Facts, Step, Target};
use crate::Wake;
use crate::drain::{Caller, Outcome, Request};

/// How the emptying of a node stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Vacating {
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

/// Empties the node, as far as it goes now.
pub(super) fn vacate(course: &Course<'_>, caller: Caller) -> Vacating {
    let seen = &course.seen;
    let Target::Cluster { node, emptying, .. } = seen.target else { return Vacating::Done };
    let facts = Facts::of(seen.machine);
    let Some(name) = node.present().map(api::Object::name).or(facts.node_name) else { return Vacating::Done };
    let limits = &seen.policy.drain;
    let begin = match caller {
        Caller::Preservation => Request::for_preservation,
        Caller::InPlaceUpdate | Caller::Deletion => Request::for_in_place,
    };
    let mut request = begin(seen.machine, name, node, limits, std::time::Duration::ZERO);
    request.blind = request.reference.map_or_else(Default::default, |at| seen.blindness.within(at, seen.now));
    let progress = emptying.advance(&request, node, seen.now);
    let (steps, wake) = (progress.steps, progress.wake);
    match progress.outcome {
        Outcome::Drained(_) => Vacating::Done,
        Outcome::Working { failure, .. } => Vacating::Goes { steps, wake, failure },
        Outcome::GivenUp { failure } => Vacating::Goes { steps, wake, failure: Some(failure) },
    }
}
