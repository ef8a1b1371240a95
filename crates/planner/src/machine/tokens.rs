//! Deletes the bootstrap token of a Machine.
//!
//! The token is not needed any more once the Machine has joined or is deleted. MCM does not handle the second case and
//! leaves a credential for every Machine that never joined. If it is unknown whether a token exists, it is looked up
//! only while it can exist: tokens expire with the creation timeout, so a Machine older than twice that has none.
//!
//! A failed deletion does not end the plan. It is retried with exponential backoff for as long as the token can exist:
//! a Running Machine may not be reconciled for any other cause, and the credential must not be valid longer than
//! necessary. The last attempt is made when the finalizer of the Machine is removed.

use api::{Machine, MachinePhase, Object};
use jiff::Timestamp;

use super::{Facts, MachinePatch, Observed, Plan, Reason, Step, Target, facts};
use crate::Policy;
use crate::pause::pause;
use crate::token::TokenRecord;

/// Adds the deletion of the token to a plan, or the time of the next attempt.
pub(super) fn add_token_removal(seen: &Observed<'_>, facts: &Facts<'_>, mut plan: Plan) -> Plan {
    if matches!(seen.target, Target::None) || seen.token == TokenRecord::Gone {
        return plan;
    }
    let known = seen.token != TokenRecord::Unknown;
    let runs = !facts.deleting && *facts.phase == MachinePhase::Running;
    match (&plan.because, finalizer_removal(&plan, facts)) {
        // Last, because a failure must not delay the other steps of a Running Machine.
        (Reason::Joined, _) => plan.steps.push(Step::RemoveToken),
        // Before the finalizer is removed: the Machine may not exist after that step.
        (_, Some(index)) if known || may_exist(seen.machine, seen.policy, seen.now) => {
            plan.steps.insert(index, Step::RemoveToken);
        }
        _ if runs => match seen.token {
            TokenRecord::Made => plan.steps.push(Step::RemoveToken),
            TokenRecord::NotRemoved { .. } => match removal_retry(seen.machine, seen.token, seen.policy) {
                Some(at) if at <= seen.now => plan.steps.push(Step::RemoveToken),
                at => plan.wake = plan.wake.no_later_than(at),
            },
            TokenRecord::Unknown | TokenRecord::Gone => {}
        },
        _ => {}
    }
    plan
}

/// Returns when a failed deletion is retried, or `None` if none failed or the token is expired by then.
#[must_use]
pub fn removal_retry(machine: &Machine, token: TokenRecord, policy: &Policy) -> Option<Timestamp> {
    let TokenRecord::NotRemoved { attempts, at } = token else { return None };
    let again = facts::later(at, pause(&machine.uid(), attempts, policy.short_retry, policy.medium_retry));
    may_exist(machine, policy, again).then_some(again)
}

/// Returns the index of the step that removes the finalizer.
fn finalizer_removal(plan: &Plan, facts: &Facts<'_>) -> Option<usize> {
    let removes_finalizer = |step: &Step| matches!(step, Step::Patch(MachinePatch { finalizers: Some(_), .. }));
    plan.steps.iter().rposition(removes_finalizer).filter(|_| facts.deleting)
}

/// Returns whether a token of this Machine may still be valid at this time.
fn may_exist(machine: &Machine, policy: &Policy, then: Timestamp) -> bool {
    let timeout = facts::creation_timeout(machine, policy);
    let created = Facts::of(machine).created;
    created.is_some_and(|created| then <= facts::later(created, timeout.saturating_mul(2)))
}
