//! Reconciles one Machine.

mod act;
mod drain;
mod node;
mod observe;
pub(crate) mod wake;

use std::sync::Arc;
use std::time::Duration;

use api::Machine;
use observe::MachineSnapshot;
use planner::machine::{Plan, Step, stage};
use runtime::Key;
use runtime::cache::{Lookup, Trust};
use runtime::queue::Outcome;

use crate::Decision;
use crate::decision::{Ending, MachineState, Subject};
use crate::machine_controller::MachineController;
use crate::outcome::outcome;
use crate::write::WriteError;

/// Reconciles one Machine.
pub(crate) async fn reconcile(controller: Arc<MachineController>, key: Key) -> Outcome {
    let machine = match controller.shared.machines.look_up(&key) {
        Lookup::Present(machine) => machine,
        Lookup::Absent => {
            controller.memory.forget(&key);
            controller.shared.journal.deleted(Subject::Machine, &key);
            controller.replacement_locks.release_kept(&key);
            if let Some(drains) = &controller.drains {
                drains.release(&key);
            }
            return Outcome::Done;
        }
        Lookup::Undecodable(object) => {
            controller.replacement_locks.release_kept(&key);
            tracing::warn!(machine = %key, error = %object.error, "failed to decode object; skipping");
            crate::unreadable::report::<Machine>(&controller.events, &object);
            return Outcome::Done;
        }
    };
    if controller.shared.caches.trust() == Trust::Doubtful {
        // The cache and the API server contradict each other, for example after a restore of etcd. Do nothing until
        // they agree.
        return Outcome::Again { after: controller.shared.policy.short_retry };
    }
    let (seen, plan) = decide(&controller, &key, machine);
    let Some(deployment) = &plan.exclusive_in else {
        controller.replacement_locks.release_kept(&key);
        return act(&controller, &key, &seen, &plan).await.unwrap_or_else(|write_error| write_error.outcome());
    };
    let Some(lock) = controller.replacement_locks.claim(deployment, &key) else { return Outcome::Done };
    // The snapshot may be older than the writes of the previous lock holder. With the lock held, decide again.
    let Some(machine) = controller.shared.machines.get(&key) else { return Outcome::Again { after: Duration::ZERO } };
    let (seen, plan) = decide(&controller, &key, machine);
    match act(&controller, &key, &seen, &plan).await {
        Ok(outcome) => outcome,
        Err(write_error) => {
            if write_error.is_uncertain() {
                lock.keep();
            }
            write_error.outcome()
        }
    }
}

/// Executes the plan, and logs the decision.
async fn act(
    controller: &MachineController,
    key: &Key,
    seen: &MachineSnapshot,
    plan: &Plan,
) -> Result<Outcome, WriteError> {
    let decision =
        Decision::of(Subject::Machine, key, &plan.steps, &plan.because, plan.wake).with_machine(MachineState {
            machine: seen.machine.clone(),
            stage: stage(&seen.as_input(controller)),
            at: seen.now,
        });
    let done = act::execute(controller, key, seen, plan).await;
    let ending = match &done {
        Ok(_) if matches!(plan.steps.last(), Some(Step::Driver(_))) => Ending::InProgress,
        Ok(_) => Ending::Done,
        Err(write_error) => write_error.ending(),
    };
    controller.shared.journal.decided(&decision.ended(ending));
    done.map(|again| {
        drain::release_if_not_needed(controller, key, plan);
        outcome(plan.wake.no_later_than(again), &controller.shared.policy, controller.shared.clock.now())
    })
}

/// Observes the Machine and computes its plan.
fn decide(controller: &MachineController, key: &Key, machine: Arc<Machine>) -> (MachineSnapshot, Plan) {
    let seen = observe::observe(controller, key, machine);
    let plan = planner::machine::plan(&seen.as_input(controller));
    (seen, plan)
}
