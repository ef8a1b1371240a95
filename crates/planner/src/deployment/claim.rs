//! Adopts and releases MachineSets.
//!
//! A MachineSet is owned through its controller reference and selected by its labels. A selected MachineSet without
//! controller is adopted. An owned one that is no longer selected is released. A MachineDeployment that is being
//! deleted does neither.

use api::names::API_VERSION;
use api::{LabelSelector, MachineDeployment, MachineSet, Object, OwnerReference, Uid, lists};
use serde_json::json;

use super::step::{SetChange, SetEdit, Step};
use super::{Observed, SeenSet};

/// The MachineSets of a MachineDeployment, oldest first, and the steps that adopt and release them.
#[derive(Debug, Default)]
pub(super) struct ClaimedSets<'a> {
    pub(super) sets: Vec<&'a SeenSet<'a>>,
    pub(super) steps: Vec<Step>,
}

pub(super) fn claim<'a>(seen: &Observed<'a>) -> ClaimedSets<'a> {
    let deployment = seen.deployment;
    let mut claim = ClaimedSets::default();
    for candidate in seen.sets {
        let set = candidate.set;
        let owned = match set.controller_owner() {
            Some(owner) => {
                if owner.uid != deployment.uid().as_str() {
                    continue;
                }
                true
            }
            None => false,
        };
        match (owned, member(deployment.spec.selector.as_ref(), candidate, owned)) {
            (true, true) => claim.sets.push(candidate),
            (true, false) if !deployment.is_deleting() => {
                let owners = lists::owners_without(&set.metadata.owner_references, &deployment.uid());
                claim.steps.push(owner_step(candidate, SetChange::Release, &owners));
            }
            (false, true) if !deployment.is_deleting() && !set.is_deleting() => {
                let owners = lists::owners_with(&set.metadata.owner_references, &reference_to(deployment));
                claim.steps.push(owner_step(candidate, SetChange::Adopt, &owners));
                claim.sets.push(candidate);
            }
            _ => {}
        }
    }
    claim.sets.sort_by(|a, b| super::draft::age(a.set).cmp(&super::draft::age(b.set)));
    claim
}

/// Returns whether the MachineSet is selected. A missing, empty or invalid selector neither releases nor adopts
/// MachineSets.
fn member(selector: Option<&LabelSelector>, candidate: &SeenSet<'_>, owned: bool) -> bool {
    match selector.filter(|selector| !selector.is_empty()).map(|s| s.matches(&candidate.set.metadata.labels)) {
        Some(Ok(matches)) => matches,
        Some(Err(_)) | None => owned,
    }
}

fn owner_step(candidate: &SeenSet<'_>, change: SetChange, owners: &[OwnerReference]) -> Step {
    let set = candidate.set;
    Step::Set(SetEdit {
        name: set.name().into(),
        uid: set.uid(),
        resource_version: Some(set.resource_version().to_owned()),
        change,
        changes: json!({ "metadata": { "ownerReferences": owners } }),
    })
}

/// Returns the controller reference to a MachineDeployment.
pub(super) fn reference_to(deployment: &MachineDeployment) -> OwnerReference {
    reference("MachineDeployment", deployment.name(), deployment.uid())
}

/// Returns the controller reference to a MachineSet.
pub(super) fn set_reference(set: &MachineSet) -> OwnerReference {
    reference("MachineSet", set.name(), set.uid())
}

fn reference(kind: &str, name: &str, uid: Uid) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.into(),
        kind: kind.into(),
        name: name.into(),
        uid,
        controller: Some(true),
        block_owner_deletion: Some(true),
        ..OwnerReference::default()
    }
}
