//! The MachineSet controller: one reconcile of one set.

mod act;
mod memory;
mod observe;
pub(crate) mod wake;

use std::sync::Arc;

use api::MachineSet;
use planner::machineset::plan;
use runtime::Key;
use runtime::cache::{Lookup, Trust};
use runtime::queue::Outcome;

pub use memory::Memory;

use crate::Decision;
use crate::cluster::Shared;
use crate::decision::{Ending, Subject};
use crate::fleet::Fleet;
use crate::outcome::outcome;

/// Looks at one set and does what its plan says, then writes down what came of it.
pub(crate) async fn reconcile(shared: Arc<Shared>, fleet: Arc<Fleet>, key: Key) -> Outcome {
    let set = match fleet.sets.look_up(&key) {
        Lookup::Present(set) => set,
        Lookup::Absent => {
            shared.journal.gone(Subject::Set, &key);
            return Outcome::Done;
        }
        Lookup::Undecodable(object) => {
            tracing::warn!(set = %key, error = %object.error, "cannot be read, so it is left alone");
            crate::unreadable::tell::<MachineSet>(&fleet.events, &object);
            return Outcome::Done;
        }
    };
    if shared.caches.trust() == Trust::Doubtful {
        // Counting machines of two histories would make or delete too many. Nothing is done until that is settled.
        return Outcome::Again { after: shared.policy.short_retry };
    }
    let seen = observe::observe(&shared, &fleet, &key, set);
    let plan = plan(&seen.as_input(&seen.member(), &shared));
    let decision = Decision::of(Subject::Set, &key, &plan.steps, &plan.because, plan.wake);
    let mut acting = act::Acting::new(&shared, &fleet, &key, &seen);
    let done = acting.carry_out(&plan).await;
    let written = acting.write_status(&plan).await;
    let (ending, outcome) = match done.and(written) {
        Ok(unwritten) if acting.went_through() => {
            (Ending::Done, outcome(plan.wake.no_later_than(unwritten), &shared.policy, shared.clock.now()))
        }
        Ok(_) => (acting.ending(), acting.outcome()),
        Err(write_error) => (write_error.ending(), write_error.outcome()),
    };
    shared.journal.decided(&decision.ended(ending));
    outcome
}
