//! The MachineDeployment controller: one reconcile of one deployment.

mod act;
mod lookups;
mod observe;
mod reported;
mod rollouts;
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
use crate::fleet::Fleet;
use crate::outcome::outcome;
use act::Acting;
pub use lookups::Lookups;
pub use reported::Reported;
pub use rollouts::RollOuts;

/// Looks at one deployment and does what its plan says.
pub(crate) async fn reconcile(shared: Arc<Shared>, fleet: Arc<Fleet>, key: Key) -> Outcome {
    let deployment = match fleet.deployments.look_up(&key) {
        Lookup::Present(deployment) => deployment,
        Lookup::Absent => {
            shared.journal.gone(Subject::Deployment, &key);
            return Outcome::Done;
        }
        Lookup::Undecodable(object) => {
            tracing::warn!(deployment = %key, error = %object.error, "cannot be read, so it is left alone");
            crate::unreadable::tell::<MachineDeployment>(&fleet.events, &object);
            return Outcome::Done;
        }
    };
    if shared.caches.trust() == Trust::Doubtful {
        // Sizes that follow from machines of two histories would make or delete too many. Nothing is done until that is settled.
        return Outcome::Again { after: shared.policy.short_retry };
    }
    let mut acting = Acting::new(&shared, &fleet, deployment.clone());
    let mut gone = fleet.lookups.listed(&deployment.uid(), |ticket| shared.machines.has_refreshed(ticket));
    loop {
        let seen = observe::observe(&shared, &fleet, deployment.clone(), &gone);
        let (sets, named) = (seen.sets(), seen.named());
        let input = seen.as_input(&sets, &named, &shared);
        let plan = plan(&input);
        if let [Step::AskForMachines(names)] = plan.steps.as_slice() {
            if names.len() > shared.policy.fleet.lookups_per_reconcile {
                fleet.lookups.request(deployment.uid(), names, || shared.machines.request_refresh());
                let ending = Ending::Postponed(format!("listing all Machines to look up {} names", names.len()));
                let decision = Decision::prevented(Subject::Deployment, &key, &plan.because, ending);
                shared.journal.decided(&decision);
                return Outcome::Again { after: shared.policy.short_retry };
            }
            match acting.ask_for(names).await {
                Ok(missing) => gone.extend(missing),
                Err(write_error) => {
                    let because = "the API server has to be asked about machines that it names";
                    shared.journal.decided(&Decision::prevented(
                        Subject::Deployment,
                        &key,
                        &because,
                        write_error.ending(),
                    ));
                    return write_error.outcome();
                }
            }
            continue; // every name is either in sight now or known to be gone, so this happens once
        }
        fleet.lookups.forget(&deployment.uid());
        // Before anything is done: at the end of a roll-out nobody may annotate a node after it was given back.
        fleet.rollouts.note(deployment.uid(), plan.guarded.clone());
        let wake = plan.wake.no_later_than(seen.until());
        let decision = Decision::of(Subject::Deployment, &key, &plan.steps, &plan.because, wake);
        let (ending, outcome) = match acting.carry_out(&plan).await {
            Ok(()) if acting.went_through() => (Ending::Done, outcome(wake, &shared.policy, shared.clock.now())),
            Ok(()) => (acting.ending(), Outcome::Failed),
            Err(write_error) => {
                let report = acting.set_not_made().map(|(set, why)| creation_failed(&input, set, why));
                if let Some(report) = report
                    && let Err(second) = acting.carry_out(&report).await
                {
                    tracing::info!(deployment = %key, why = %second, "could not say why its set was not made");
                }
                (write_error.ending(), write_error.outcome())
            }
        };
        shared.journal.decided(&decision.ended(ending));
        return outcome;
    }
}
