//! The machine controller: one reconcile of one machine.

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
use crate::decision::{Ending, Standing, Subject};
use crate::machine_controller::MachineController;
use crate::outcome::outcome;
use crate::write::WriteError;

/// Looks at one machine and does what its plan says.
pub(crate) async fn reconcile(controller: Arc<MachineController>, key: Key) -> Outcome {
    let machine = match controller.shared.machines.look_up(&key) {
        Lookup::Present(machine) => machine,
        Lookup::Absent => {
            controller.vm_states.forget(&key);
            controller.shared.journal.gone(Subject::Machine, &key);
            controller.replacement_locks.settle(&key);
            if let Some(drains) = &controller.drains {
                drains.release(&key);
            }
            return Outcome::Done;
        }
        Lookup::Undecodable(object) => {
            controller.replacement_locks.settle(&key);
            tracing::warn!(machine = %key, error = %object.error, "cannot be read, so it is left alone");
            crate::unreadable::tell::<Machine>(&controller.events, &object);
            return Outcome::Done;
        }
    };
    if controller.shared.caches.trust() == Trust::Doubtful {
        // What we have seen and what the API server now shows are from two histories. Nothing is done until that is settled.
        return Outcome::Again { after: controller.shared.policy.short_retry };
    }
    let (seen, plan) = decide(&controller, &key, machine);
    let Some(deployment) = &plan.exclusive_in else {
        controller.replacement_locks.settle(&key);
        return act(&controller, &key, &seen, &plan).await.unwrap_or_else(|write_error| write_error.outcome());
    };
    let Some(lock) = controller.replacement_locks.claim(deployment, &key) else { return Outcome::Done };
    // What was seen may be older than what the last holder did. From here on nobody else decides for the deployment.
    let Some(machine) = controller.shared.machines.get(&key) else { return Outcome::Again { after: Duration::ZERO } };
    let (seen, plan) = decide(&controller, &key, machine);
    match act(&controller, &key, &seen, &plan).await {
        Ok(outcome) => outcome,
        Err(write_error) => {
            if write_error.leaves_doubt() {
                lock.keep();
            }
            write_error.outcome()
        }
    }
}

/// Does what the plan says.
async fn act(
    controller: &MachineController,
    key: &Key,
    seen: &MachineSnapshot,
    plan: &Plan,
) -> Result<Outcome, WriteError> {
    let decision = Decision::of(Subject::Machine, key, &plan.steps, &plan.because, plan.wake).in_life(Standing {
        machine: seen.machine.clone(),
        stage: stage(&seen.as_input(controller)),
        at: seen.now,
    });
    let done = act::carry_out(controller, key, seen, plan).await;
    let ending = match &done {
        Ok(_) if matches!(plan.steps.last(), Some(Step::Driver(_))) => Ending::UnderWay,
        Ok(_) => Ending::Done,
        Err(write_error) => write_error.ending(),
    };
    controller.shared.journal.decided(&decision.ended(ending));
    done.map(|again| {
        drain::settle(controller, key, plan);
        outcome(plan.wake.no_later_than(again), &controller.shared.policy, controller.shared.clock.now())
    })
}

/// Looks at everything, and decides.
fn decide(controller: &MachineController, key: &Key, machine: Arc<Machine>) -> (MachineSnapshot, Plan) {
    let seen = observe::observe(controller, key, machine);
    let plan = planner::machine::plan(&seen.as_input(controller));
    (seen, plan)
}
