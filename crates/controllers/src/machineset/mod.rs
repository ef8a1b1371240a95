//! The MachineSet controller: one reconcile of one MachineSet.

mod act;
mod counts;
mod memory;
mod observe;
pub(crate) mod wake;

use std::sync::Arc;

use api::MachineSet;
use planner::machineset::plan;
use runtime::Key;
use runtime::cache::{Lookup, Trust};
use runtime::queue::Outcome;

pub use counts::MachineCounts;
pub use memory::SetMemory;

use crate::Decision;
use crate::cluster::Shared;
use crate::decision::{Ending, Subject};
use crate::manager::Manager;
use crate::outcome::outcome;

/// Plans one MachineSet, carries out the plan and writes the status.
pub(crate) async fn reconcile(shared: Arc<Shared>, manager: Arc<Manager>, key: Key) -> Outcome {
    let set = match manager.sets.look_up(&key) {
        Lookup::Present(set) => set,
        Lookup::Absent => {
            shared.journal.deleted(Subject::Set, &key);
            return Outcome::Done;
        }
        Lookup::Undecodable(object) => {
            tracing::warn!(set = %key, error = %object.error, "failed to decode object; skipping");
            crate::unreadable::report::<MachineSet>(&manager.events, &object);
            return Outcome::Done;
        }
    };
    if shared.caches.trust() == Trust::Doubtful {
        // The cache may mix Machines of two histories of the API server. Counting them would create or delete too many.
        return Outcome::Again { after: shared.policy.short_retry };
    }
    let seen = observe::observe(&shared, &manager, &key, set);
    let plan = plan(&seen.as_input(&seen.members(), &shared));
    let decision = Decision::of(Subject::Set, &key, &plan.steps, &plan.because, plan.wake);
    let mut executor = act::Executor::new(&shared, &manager, &key, &seen);
    let done = executor.carry_out(&plan).await;
    let written = executor.write_status(&plan).await;
    let (ending, outcome) = match (done.and(written), executor.retry()) {
        (Err(write_error), _) => (write_error.ending(), write_error.outcome()),
        (Ok(_), Some(retry)) => (executor.ending(), retry),
        (Ok(status_due), None) => {
            (Ending::Done, outcome(plan.wake.no_later_than(status_due), &shared.policy, shared.clock.now()))
        }
    };
    shared.journal.decided(&decision.ended(ending));
    outcome
}
