//! When a machine's bootstrap token goes.
//!
//! It has served when the machine has joined, and is of no use once the machine is gone; the reference forgets the second case and
//! leaves a key to the cluster behind for every machine that never joined. A token that this process did not make is looked for
//! only while one can be about: they expire with the creation timeout, and a machine older than twice that has none.

use api::MachinePhase;

use super::{Facts, MachinePatch, Observed, Plan, Reason, Step, Target, facts};
use crate::token::TokenRecord;

/// Adds to a plan that the token goes, if it is time.
pub(super) fn tidy(seen: &Observed<'_>, facts: &Facts<'_>, mut plan: Plan) -> Plan {
    if matches!(seen.target, Target::None) || seen.token == TokenRecord::Gone {
        return plan;
    }
    let known = seen.token == TokenRecord::Made;
    match (&plan.because, its_end(&plan, facts)) {
        // Last, because a machine that runs must not wait for housekeeping.
        (Reason::Joined, _) => plan.steps.push(Step::RemoveToken),
        // Our finalizer is the last that holds the machine: what comes after it may never happen.
        (_, Some(end)) if known || may_still_be_about(seen, facts) => plan.steps.insert(end, Step::RemoveToken),
        // An earlier attempt did not go through.
        _ if known && !facts.deleting && *facts.phase == MachinePhase::Running => plan.steps.push(Step::RemoveToken),
        _ => {}
    }
    plan
}

/// The step of the plan that lets the machine go.
fn its_end(plan: &Plan, facts: &Facts<'_>) -> Option<usize> {
    let lets_go = |step: &Step| matches!(step, Step::Patch(MachinePatch { finalizers: Some(_), .. }));
    plan.steps.iter().rposition(lets_go).filter(|_| facts.deleting)
}

/// Whether a token that some process made for this machine may not have expired yet.
fn may_still_be_about(seen: &Observed<'_>, facts: &Facts<'_>) -> bool {
    let patience = facts::creation_timeout(seen.machine, seen.policy);
    facts.created.is_some_and(|created| seen.now <= facts::later(created, patience.saturating_mul(2)))
}
