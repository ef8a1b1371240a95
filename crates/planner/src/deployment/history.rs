//! Old sets that are no longer needed.
//!
//! Empty sets are kept so that one can go back to their templates, up to a limit. The oldest beyond it go, but only those that hold
//! nothing: one that cannot go yet is not made up for by a younger one.

use api::Object;

use super::builder::PlanBuilder;
use super::draft::Draft;
use super::step::Step;

pub(super) fn trim(builder: &mut PlanBuilder<'_>) {
    let Some(limit) = builder.seen.deployment.spec.revision_history_limit else { return };
    let limit = usize::try_from(limit).unwrap_or(0); // less than none is none
    let old: Vec<&Draft<'_>> = builder.sets.old.iter().filter(|old| !old.is_leaving()).collect();
    let surplus = old.len().saturating_sub(limit);
    for set in old.into_iter().take(surplus).filter(|old| is_empty(old)) {
        builder.removals.push(Step::DeleteSet {
            name: set.name().to_owned(),
            uid: set.set.uid(),
            resource_version: Some(set.set.resource_version().to_owned()),
        });
    }
}

/// It wants nothing, has nothing, and its controller has seen that. One that is written in this reconcile waits for the next.
fn is_empty(old: &Draft<'_>) -> bool {
    let seen = old.set.status.observed_generation >= old.set.generation();
    !old.is_populated() && seen && old.step().is_none()
}
