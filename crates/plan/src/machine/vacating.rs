//! Emptying the node of a machine that stays: before its update, and when it is set aside.

use super::course::Course;
use super::{Step, Target, facts};
use crate::drain::Caller;
use crate::{Awaited, Wake};

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
pub(super) fn vacate(course: &Course<'_>, _caller: Caller) -> Vacating {
    let Target::Cluster { .. } = course.seen.target else { return Vacating::Done };
    let at = facts::later(course.seen.now, course.seen.policy.long_retry);
    Vacating::Goes { steps: Vec::new(), wake: Wake::By { awaited: Awaited::Pods, at }, failure: None }
}
