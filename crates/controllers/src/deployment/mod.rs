//! The MachineDeployment controller: one reconcile of one MachineDeployment.

mod act;
mod lookups;
mod observe;
mod rollouts;
mod status_writes;
pub(crate) mod wake;

use std::sync::Arc;

use api::{MachineDeployment, Object};
use planner::deployment::{Step, creation_failed, plan};
use runtime::Key;
use runtime::cache::{Lookup, Trust};
use runtime::queue::Outcome;

use crate::Decision;
use crate::cluster::Shared;
use crate::decision::{Ending, Subject};
use crate::manager::Manager;
use crate::outcome::outcome;
use act::Executor;
pub use lookups::MachineLookups;
pub use rollouts::Rollouts;
pub use status_writes::StatusWrites;

/// Plans one MachineDeployment and carries out the plan.
pub(crate) async fn reconcile(shared: Arc<Shared>, manager: Arc<Manager>, key: Key) -> Outcome {
    let deployment = match manager.deployments.look_up(&key) {
        Lookup::Present(deployment) => deployment,
        Lookup::Absent => {
            shared.journal.deleted(Subject::Deployment, &key);
            return Outcome::Done;
        }
        Lookup::Undecodable(object) => {
            tracing::warn!(deployment = %key, error = %object.error, "failed to decode object; skipping");
            crate::unreadable::report::<MachineDeployment>(&manager.events, &object);
            return Outcome::Done;
        }
    };
    if shared.caches.trust() == Trust::Doubtful {
        // The cache may mix Machines of two histories of the API server. Sizes computed from them would create or delete too many.
        return Outcome::Again { after: shared.policy.short_retry };
    }
    let uid = deployment.uid();
    let missing = manager.lookups.completed(&uid, |list| shared.machines.has_refreshed(list));
    let seen = observe::observe(&shared, &manager, deployment.clone(), &missing);
    let (sets, named) = (seen.sets(), seen.named());
    let input = seen.as_input(&sets, &named, &shared);
    let plan = plan(&input);
    if !plan.steps.iter().any(|step| matches!(step, Step::LookUpMachines(_))) {
        manager.lookups.forget(&uid);
        // Before any step: at the end of a rollout, the machine controller must not annotate a Node again after the annotation was
        // removed.
        manager.rollouts.set_guarded(uid, plan.guarded.clone());
    }
    let wake = plan.wake.no_later_than(seen.until());
    let decision = Decision::of(Subject::Deployment, &key, &plan.steps, &plan.because, wake);
    let mut executor = Executor::new(&shared, &manager, deployment, missing);
    let (ending, outcome) = match executor.carry_out(&plan).await {
        Ok(()) => match executor.ending() {
            Ending::Done => (Ending::Done, outcome(wake, &shared.policy, shared.clock.now())),
            postponed @ Ending::Postponed(_) => (postponed, Outcome::Again { after: shared.policy.short_retry }),
            failed => (failed, Outcome::Failed),
        },
        Err(write_error) => {
            let report = executor.rejected_set().map(|(set, error)| creation_failed(&input, set, error));
            if let Some(report) = report
                && let Err(error) = executor.carry_out(&report).await
            {
                tracing::info!(deployment = %key, %error, "failed to report that the MachineSet was not created");
            }
            (write_error.ending(), write_error.outcome())
        }
    };
    shared.journal.decided(&decision.ended(ending));
    outcome
}
