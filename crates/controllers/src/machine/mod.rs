//! The machine controller: one pass over one machine.

mod act;
mod observe;

use std::sync::Arc;
use std::time::Duration;

use api::Object;
use plan::Wake;
use runtime::cache::{Lookup, Trust};
use runtime::queue::Outcome;
use runtime::{Clock, Key};

use crate::{Cluster, Decision};

/// Looks at one machine and does what its plan says.
pub async fn pass(cluster: Arc<Cluster>, key: Key) -> Outcome {
    let machine = match cluster.machines.look_up(&key) {
        Lookup::Present(machine) => machine,
        Lookup::Absent => {
            cluster.knowledge.forget(&key);
            return Outcome::Done;
        }
        Lookup::Undecodable(remains) => {
            tracing::warn!(machine = %key, error = %remains.error, "cannot be read, so it is left alone");
            return Outcome::Done;
        }
    };
    if cluster.caches.trust() == Trust::Doubtful {
        // What we have seen and what the API server now shows are from two histories. Nothing is done until that is settled.
        return Outcome::Again { after: cluster.policy.short_retry };
    }
    let seen = match observe::observe(&cluster, &key, machine).await {
        Ok(seen) => seen,
        Err(why) => {
            tracing::warn!(machine = %key, %why, "could not look at everything a decision needs");
            return Outcome::Failed;
        }
    };
    let plan = plan::machine::plan(&seen.as_input(&cluster));
    tell(&cluster, &Decision::of(&key, &plan));
    match act::carry_out(&cluster, &key, &seen, &plan).await {
        Ok(()) => outcome(plan.wake, &cluster.clock),
        Err(stumble) => {
            tracing::info!(machine = %key, uid = %seen.machine.uid(), why = %stumble, "a step did not go through; planning afresh");
            stumble.outcome()
        }
    }
}

fn tell(cluster: &Cluster, decision: &Decision) {
    if decision.did.is_empty() {
        tracing::debug!(machine = %decision.key, because = %decision.because, awaits = %decision.awaits, "nothing to do");
        return;
    }
    tracing::info!(machine = %decision.key, did = %decision.did.join(", "), because = %decision.because, awaits = %decision.awaits, "decided");
    if let Some(listener) = &cluster.listener {
        listener(decision);
    }
}

fn outcome(wake: Wake, clock: &Clock) -> Outcome {
    match wake {
        Wake::Again => Outcome::Again { after: Duration::ZERO },
        Wake::On(_) => Outcome::Done,
        Wake::By { at, .. } => {
            Outcome::Again { after: Duration::try_from(at.duration_since(clock.now())).unwrap_or_default() }
        }
    }
}
