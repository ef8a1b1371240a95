//! When a machine's bootstrap token goes.
//!
//! It has served when the machine has joined, and is of no use once the machine is gone; the reference forgets the second case and
//! leaves a key to the cluster behind for every machine that never joined. A token that this process did not make is looked for
//! only while one can be about: they expire with the creation timeout, and a machine older than twice that has none.
//!
//! A removal that fails stops nothing. It is tried again after growing pauses for as long as the token can be about: its machine runs, so
//! nothing else may ever wake it, and a key that has served must not be good for longer than it has to. The machine's end is the last
//! attempt.

use api::{Machine, MachinePhase, Object};
use jiff::Timestamp;

use super::{Facts, MachinePatch, Observed, Plan, Reason, Step, Target, facts};
use crate::Policy;
use crate::pause::pause;
use crate::token::TokenRecord;

/// Adds to a plan that the token goes, if it is time, or when it will be.
pub(super) fn tidy(seen: &Observed<'_>, facts: &Facts<'_>, mut plan: Plan) -> Plan {
    if matches!(seen.target, Target::None) || seen.token == TokenRecord::Gone {
        return plan;
    }
    let known = seen.token != TokenRecord::Unknown;
    let runs = !facts.deleting && *facts.phase == MachinePhase::Running;
    match (&plan.because, its_end(&plan, facts)) {
        // Last, because a machine that runs must not wait for housekeeping.
        (Reason::Joined, _) => plan.steps.push(Step::RemoveToken),
        // Our finalizer is the last that holds the machine: what comes after it may never happen.
        (_, Some(end)) if known || may_be_about(seen.machine, seen.policy, seen.now) => {
            plan.steps.insert(end, Step::RemoveToken);
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

/// When a removal that failed is tried again; `None` if none failed, or if the token will have expired by then.
#[must_use]
pub fn removal_retry(machine: &Machine, token: TokenRecord, policy: &Policy) -> Option<Timestamp> {
    let TokenRecord::NotRemoved { attempts, at } = token else { return None };
    let again = facts::later(at, pause(&machine.uid(), attempts, policy.short_retry, policy.medium_retry));
    may_be_about(machine, policy, again).then_some(again)
}

/// The step of the plan that lets the machine go.
fn its_end(plan: &Plan, facts: &Facts<'_>) -> Option<usize> {
    let lets_go = |step: &Step| matches!(step, Step::Patch(MachinePatch { finalizers: Some(_), .. }));
    plan.steps.iter().rposition(lets_go).filter(|_| facts.deleting)
}

/// Whether a token that some process made for this machine may not have expired by then.
fn may_be_about(machine: &Machine, policy: &Policy, then: Timestamp) -> bool {
    let patience = facts::creation_timeout(machine, policy);
    let created = Facts::of(machine).created;
    created.is_some_and(|created| then <= facts::later(created, patience.saturating_mul(2)))
}
