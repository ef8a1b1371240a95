//! Deletion of a MachineDeployment.
//!
//! Its MachineSets are deleted first, and they delete their Machines. The finalizer stays until the last MachineSet is
//! gone. With `kubectl delete --cascade=orphan` the MachineSets stay: the garbage collector orphans them and then
//! removes its finalizer. That removal may be visible before the change of the MachineSets. So each delete has the
//! observed version of the MachineSet as precondition: an orphaned MachineSet has another one.
//!
//! The spec is not validated here, because the objects of an invalid MachineDeployment must be deleted as well.

use api::names::finalizers;
use api::{Object, lists};
use serde_json::json;

use super::Observed;
use super::claim::ClaimedSets;
use super::reason::Reason;
use super::status;
use super::step::{DeploymentEdit, Plan, Purpose, Step};
use crate::{Awaited, Wake};

/// Finalizer of the garbage collector for owners whose dependents are orphaned.
const ORPHAN_DEPENDENTS: &str = "orphan";

pub(super) fn plan(seen: &Observed<'_>, claim: &ClaimedSets<'_>) -> Plan {
    let deployment = seen.deployment;
    let finalizers = &deployment.metadata.finalizers;
    let Some(remaining) = lists::finalizers_without(finalizers, finalizers::MACHINE) else {
        return Plan::of(Vec::new(), Wake::On(Awaited::Change), Reason::Deleted);
    };
    if claim.sets.is_empty() {
        let changes = json!({ "metadata": { "finalizers": remaining } });
        let edit = DeploymentEdit { purpose: Purpose::RemoveFinalizer, changes };
        return Plan::of(vec![Step::Deployment(edit)], Wake::On(Awaited::Change), Reason::Deleted);
    }
    if deployment.has_finalizer(ORPHAN_DEPENDENTS) {
        return Plan::of(Vec::new(), Wake::On(Awaited::Sets), Reason::Orphaning);
    }
    let staying = claim.sets.iter().filter(|candidate| !candidate.set.is_deleting());
    let mut steps: Vec<Step> = staying
        .map(|candidate| Step::DeleteSet {
            name: candidate.set.name().to_owned(),
            uid: candidate.set.uid(),
            resource_version: Some(candidate.set.resource_version().to_owned()),
        })
        .collect();
    steps.extend(status::of_deleting(seen, claim));
    Plan::of(steps, Wake::On(Awaited::Sets), Reason::Deleting(claim.sets.len()))
}
