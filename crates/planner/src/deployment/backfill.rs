//! Adds the template hash to adopted MachineSets.
//!
//! A MachineSet that was created manually and adopted has no hash, so its Machines match the selectors of all other
//! MachineSets of the MachineDeployment. The hash is added in three steps, each of which must be observed before the
//! next: to the template, so that new Machines have it; to the Machines; and to the selector, because a selector with
//! the hash releases Machines without it. The events of the MachineSets and Machines trigger the next step.

use api::names::labels::TEMPLATE_HASH;
use api::{MachineSet, Object};
use serde_json::{Value, json};

use super::hash::TemplateHash;
use super::step::{MachineChange, MachineEdit, SetChange, SetEdit, Step};
use super::template::without_hash;
use super::{Observed, SeenSet};
use crate::{GuardedPatch, MachinePatch};

/// Returns the next step and the first MachineSet; `None` if all MachineSets have the hash.
pub(super) fn steps(seen: &Observed<'_>, claimed: &[&SeenSet<'_>]) -> Option<(String, Vec<Step>)> {
    let lacking: Vec<&&SeenSet<'_>> = claimed.iter().filter(|candidate| lacks_hash(candidate.set)).collect();
    let first = lacking.first()?.set.name().to_owned();
    let collisions = seen.deployment.status.collision_count;
    Some((first, lacking.into_iter().flat_map(|candidate| moves(candidate, collisions)).collect()))
}

/// Returns whether the MachineSet needs the hash. A MachineSet without a selector is invalid and ignored.
fn lacks_hash(set: &MachineSet) -> bool {
    let selects = |labels: &std::collections::BTreeMap<String, String>| {
        labels.get(TEMPLATE_HASH).is_some_and(|hash| !hash.is_empty())
    };
    !set.is_deleting() && set.spec.selector.as_ref().is_some_and(|selector| !selects(&selector.match_labels))
}

fn moves(candidate: &SeenSet<'_>, collisions: Option<i32>) -> Vec<Step> {
    let set = candidate.set;
    let hash = TemplateHash::of(&without_hash(&set.spec.template), collisions).label();
    let in_template = set.spec.template.metadata.labels.as_ref().and_then(|labels| labels.text(TEMPLATE_HASH));
    let Some(hash) = in_template.filter(|label| !label.is_empty()) else {
        return vec![edit(
            set,
            json!({ "spec": { "template": { "metadata": { "labels": { TEMPLATE_HASH: hash } } } } }),
        )];
    };
    let unlabelled = candidate.machines.iter().filter(|seen| seen.machine.label(TEMPLATE_HASH) != Some(hash));
    let labels: Vec<Step> = unlabelled
        .map(|seen| {
            let labels = [(TEMPLATE_HASH.to_owned(), Some(hash.to_owned()))].into();
            let patch = MachinePatch { labels, ..MachinePatch::default() };
            let patch = GuardedPatch::any_version(seen.machine, patch);
            Step::Machine(MachineEdit { change: MachineChange::Label, patch })
        })
        .collect();
    if !labels.is_empty() {
        return labels;
    }
    if set.status.observed_generation < set.generation() {
        return Vec::new(); // its controller may still create Machines from the previous template
    }
    vec![edit(
        set,
        json!({
            "metadata": { "labels": { TEMPLATE_HASH: hash } },
            "spec": { "selector": { "matchLabels": { TEMPLATE_HASH: hash } } },
        }),
    )]
}

fn edit(set: &MachineSet, changes: Value) -> Step {
    Step::Set(SetEdit {
        name: set.name().to_owned(),
        uid: set.uid(),
        resource_version: None,
        change: SetChange::Update,
        changes,
    })
}
