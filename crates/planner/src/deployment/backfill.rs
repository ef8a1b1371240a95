//! Sets without a hash.
//!
//! A set that was made by hand and adopted carries no hash, so its machines would also match the selector of every other set of the
//! deployment. It gets one in three moves, each of which must be seen before the next: its template, so that machines to come have
//! it; its machines; and only then its selector, which would disown a machine that does not have it yet. Nobody waits in between:
//! the sets' and machines' own events bring the deployment back.

use api::names::labels::TEMPLATE_HASH;
use api::{MachineSet, Object};
use serde_json::{Value, json};

use super::hash::TemplateHash;
use super::step::{MachineChange, MachineEdit, SetChange, SetEdit, Step};
use super::template::without_hash;
use super::{Observed, SeenSet};

/// The next move, and for which set; `None` if all sets have their hash.
pub(super) fn steps(seen: &Observed<'_>, claimed: &[&SeenSet<'_>]) -> Option<(String, Vec<Step>)> {
    let lacking: Vec<&&SeenSet<'_>> = claimed.iter().filter(|candidate| lacks_hash(candidate.set)).collect();
    let first = lacking.first()?.set.name().to_owned();
    let collisions = seen.deployment.status.collision_count;
    Some((first, lacking.into_iter().flat_map(|candidate| moves(candidate, collisions)).collect()))
}

/// A set without a selector is invalid, and its own business.
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
            Step::Machine(MachineEdit {
                name: seen.machine.name().to_owned(),
                uid: seen.machine.uid(),
                resource_version: None,
                change: MachineChange::Label,
                changes: json!({ "metadata": { "labels": { TEMPLATE_HASH: hash } } }),
            })
        })
        .collect();
    if !labels.is_empty() {
        return labels;
    }
    if set.status.observed_generation < set.generation() {
        return Vec::new(); // its controller may still be making machines from the template before
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
