//! Deletes old MachineSets.
//!
//! Up to a limit, empty MachineSets are kept for rollbacks. The oldest ones beyond the limit are deleted if they are
//! empty. If one of them is not empty, no younger one is deleted instead.

use api::Object;

use super::builder::PlanBuilder;
use super::draft::Draft;
use super::step::Step;

pub(super) fn trim(builder: &mut PlanBuilder<'_>) {
    let Some(limit) = builder.seen.deployment.spec.revision_history_limit else { return };
    let limit = usize::try_from(limit).unwrap_or(0); // negative means none
    let old: Vec<&Draft<'_>> = builder.sets.old.iter().filter(|old| !old.is_terminating()).collect();
    let surplus = old.len().saturating_sub(limit);
    for set in old.into_iter().take(surplus).filter(|old| is_empty(old)) {
        builder.removals.push(Step::DeleteSet {
            name: set.name().to_owned(),
            uid: set.set.uid(),
            resource_version: Some(set.set.resource_version().to_owned()),
        });
    }
}

/// Returns whether the MachineSet has and wants no Machines, and its controller has observed that. A MachineSet that is
/// written in this reconcile waits for the next.
fn is_empty(old: &Draft<'_>) -> bool {
    let seen = old.set.status.observed_generation >= old.set.generation();
    !old.is_populated() && seen && old.step().is_none()
}
