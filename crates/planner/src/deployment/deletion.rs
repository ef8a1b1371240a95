//! The end of a deployment.
//!
//! Its sets go first, and they take their machines along; our finalizer keeps the deployment until the last one is gone. Who deletes
//! a deployment with `--cascade=orphan` wants to keep its sets: then nothing is deleted, and the garbage collector lets go of them.
//! When it has done so it takes its finalizer away, and we may hear of that before we hear of the sets. So each set is deleted only as
//! the version that we saw owned: one that was let go of since is refused to us.
//!
//! None of this asks whether the spec is valid: what was made must be cleaned up, whatever it was made from.

use api::names::finalizers;
use api::{Object, lists};
use serde_json::json;

use super::Observed;
use super::claim::ClaimedSets;
use super::reason::Reason;
use super::status;
use super::step::{DeploymentEdit, Plan, Purpose, Step};
use crate::{Awaited, Wake};

/// The garbage collector's own finalizer: dependents are to be kept.
const ORPHAN_DEPENDENTS: &str = "orphan";

pub(super) fn plan(seen: &Observed<'_>, claim: &ClaimedSets<'_>) -> Plan {
    let deployment = seen.deployment;
    let finalizers = &deployment.metadata.finalizers;
    let Some(without_ours) = lists::finalizers_without(finalizers, finalizers::MACHINE) else {
        return Plan::of(Vec::new(), Wake::On(Awaited::Change), Reason::Empty);
    };
    if claim.sets.is_empty() {
        let changes = json!({ "metadata": { "finalizers": without_ours } });
        let edit = DeploymentEdit { purpose: Purpose::RemoveFinalizer, changes };
        return Plan::of(vec![Step::Deployment(edit)], Wake::On(Awaited::Change), Reason::Empty);
    }
    if deployment.has_finalizer(ORPHAN_DEPENDENTS) {
        return Plan::of(Vec::new(), Wake::On(Awaited::Sets), Reason::SetsLetGo);
    }
    let staying = claim.sets.iter().filter(|candidate| !candidate.set.is_deleting());
    let mut steps: Vec<Step> = staying
        .map(|candidate| Step::DeleteSet {
            name: candidate.set.name().to_owned(),
            uid: candidate.set.uid(),
            resource_version: Some(candidate.set.resource_version().to_owned()),
        })
        .collect();
    steps.extend(status::of_leaving(seen, claim));
    Plan::of(steps, Wake::On(Awaited::Sets), Reason::SetsLeave(claim.sets.len()))
}
