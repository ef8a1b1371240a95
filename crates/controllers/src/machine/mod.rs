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
use plan::machine::{Plan, Step, stage};
use runtime::Key;
use runtime::cache::{Lookup, Trust};
use runtime::queue::Outcome;

use crate::decision::{Ending, Standing, Subject};
use crate::outcome::outcome;
use crate::write::WriteError;
use crate::{Cluster, Decision};

/// Looks at one machine and does what its plan says.
pub async fn reconcile(cluster: Arc<Cluster>, key: Key) -> Outcome {
    let machine = match cluster.machines.look_up(&key) {
        Lookup::Present(machine) => machine,
        Lookup::Absent => {
            cluster.vm_states.forget(&key);
            cluster.journal.gone(Subject::Machine, &key);
            cluster.replacement_locks.settle(&key);
            if let Some(drains) = &cluster.drains {
                drains.release(&key);
            }
            return Outcome::Done;
        }
        Lookup::Undecodable(object) => {
            cluster.replacement_locks.settle(&key);
            tracing::warn!(machine = %key, error = %object.error, "cannot be read, so it is left alone");
            crate::unreadable::tell::<Machine>(&cluster.events, &object);
            return Outcome::Done;
        }
    };
    if cluster.caches.trust() == Trust::Doubtful {
        // What we have seen and what the API server now shows are from two histories. Nothing is done until that is settled.
        return Outcome::Again { after: cluster.policy.short_retry };
    }
    let (seen, plan) = decide(&cluster, &key, machine);
    let Some(deployment) = &plan.exclusive_in else {
        cluster.replacement_locks.settle(&key);
        return act(&cluster, &key, &seen, &plan).await.unwrap_or_else(|write_error| write_error.outcome());
    };
    let Some(lock) = cluster.replacement_locks.claim(deployment, &key) else { return Outcome::Done };
    // What was seen may be older than what the last holder did. From here on nobody else decides for the deployment.
    let Some(machine) = cluster.machines.get(&key) else { return Outcome::Again { after: Duration::ZERO } };
    let (seen, plan) = decide(&cluster, &key, machine);
    match act(&cluster, &key, &seen, &plan).await {
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
async fn act(cluster: &Cluster, key: &Key, seen: &MachineSnapshot, plan: &Plan) -> Result<Outcome, WriteError> {
    let decision = Decision::of(Subject::Machine, key, &plan.steps, &plan.because, plan.wake).in_life(Standing {
        machine: seen.machine.clone(),
        stage: stage(&seen.as_input(cluster)),
        at: seen.now,
    });
    let done = act::carry_out(cluster, key, seen, plan).await;
    let ending = match &done {
        Ok(()) if matches!(plan.steps.last(), Some(Step::Driver(_))) => Ending::UnderWay,
        Ok(()) => Ending::Done,
        Err(write_error) => write_error.ending(),
    };
    cluster.journal.decided(&decision.ended(ending));
    done.map(|()| {
        drain::settle(cluster, key, plan);
        outcome(plan.wake, &cluster.clock)
    })
}

/// Looks at everything, and decides.
fn decide(cluster: &Cluster, key: &Key, machine: Arc<Machine>) -> (MachineSnapshot, Plan) {
    let seen = observe::observe(cluster, key, machine);
    let plan = plan::machine::plan(&seen.as_input(cluster));
    (seen, plan)
}
