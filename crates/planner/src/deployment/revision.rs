//! Revisions, and what a set takes over from its deployment.
//!
//! Each template a deployment had is kept as a set with a number, so that one can go back to it. The newest set has the highest
//! number; a set whose template comes back gets a new number, and its earlier ones are kept as its history. The reference adds to
//! that history for every annotation the autoscaler touches, until the object is too big to be stored; here only a new number does,
//! and the oldest are forgotten.
//!
//! Annotations, the node template, the configuration and the kind of the class reach the newest set without a roll-out. How many
//! machines may be replaced at once reaches every set that has machines.

use api::names::annotations::{
    DESIRED_REPLICAS, MAX_REPLACEMENTS, MAX_REPLICAS, NOT_COPIED_TO_SETS, PREFER_NO_SCHEDULE, REVISION,
    REVISION_HISTORY,
};
use api::names::{finalizers, labels};
use api::{MachineDeployment, MachineSet, MachineSetSpec, Object, ObjectMeta, TextMap, same_meaning};

use super::builder::PlanBuilder;
use super::claim;
use super::draft::Draft;
use super::hash::TemplateHash;
use super::status::Progress;

/// A history longer than this forgets its beginning.
const LONGEST_HISTORY: usize = 2000;

/// The revision of a set; 0 if it has none that can be read.
pub(super) fn of(set: &MachineSet) -> i64 {
    set.annotation(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The revision that the newest set is to have.
fn next(builder: &PlanBuilder<'_>) -> i64 {
    builder.sets.old.iter().map(|old| of(&old.set)).max().unwrap_or(0).saturating_add(1)
}

/// Brings an existing new set up to date.
pub(super) fn keep_up(builder: &mut PlanBuilder<'_>) {
    let wanted = next(builder);
    if let Some(limit) = builder.deployment.annotation(MAX_REPLACEMENTS) {
        // The machines of old sets fall ill too, and count among those of the deployment.
        for old in builder.sets.old.iter_mut().filter(|old| old.is_populated()) {
            old.annotate(MAX_REPLACEMENTS, Some(limit));
        }
    }
    let Some(new) = &mut builder.sets.new else { return };
    for (key, value) in inherited(&builder.deployment) {
        new.annotate(key, Some(value));
    }
    let current = of(&new.set);
    if current < wanted {
        if current > 0 {
            let history = with(new.set.annotation(REVISION_HISTORY), current);
            new.annotate(REVISION_HISTORY, Some(&history));
        }
        new.annotate(REVISION, Some(&wanted.to_string()));
    }
    let (spec, wish) = (&mut new.set.spec, &builder.deployment.spec);
    spec.min_ready_seconds = wish.min_ready_seconds;
    spec.auto_preserve_failed_machine_max = wish.auto_preserve_failed_machine_max;
    let (machine, wish) = (&mut spec.template.spec, &wish.template.spec);
    if !same_meaning(&machine.node_template, &wish.node_template) {
        machine.node_template = wish.node_template.clone();
    }
    if !same_meaning(&machine.configuration, &wish.configuration) {
        machine.configuration = wish.configuration.clone();
    }
    machine.class.kind.clone_from(&wish.class.kind);
    // It may have been an old set until a moment ago: it makes machines again, and its nodes are no longer outgoing. It begins
    // with what it has, because what it was short of may have been made elsewhere.
    if new.makes_none() {
        let has = new.live().min(new.size());
        new.resize(has, &builder.limits);
        new.label(labels::SCALE_UP_DISABLED, None);
    }
    new.annotate(PREFER_NO_SCHEDULE, None);
    if builder.deployment.status.conditions.iter().all(|c| c.kind != api::names::conditions::deployment::PROGRESSING) {
        builder.progress = Some(Progress::Found(new.name().to_owned()));
    }
}

/// Makes the new set, of this size.
pub(super) fn make_new(builder: &mut PlanBuilder<'_>, size: i32) {
    let deployment = &builder.deployment;
    let (hash, name, collisions) = free_name(builder);
    let label = hash.label();
    let mut template = deployment.spec.template.clone();
    template.metadata.labels.get_or_insert_default().insert(labels::TEMPLATE_HASH, label.as_str());
    let mut selector = deployment.spec.selector.clone().unwrap_or_default();
    selector.match_labels.insert(labels::TEMPLATE_HASH.to_owned(), label);
    let mut annotations: TextMap = inherited(deployment).collect();
    let limits = &builder.limits;
    annotations.insert(REVISION, next(builder).to_string());
    annotations.insert(DESIRED_REPLICAS, limits.replicas.to_string());
    annotations.insert(MAX_REPLICAS, limits.booked_most().to_string());
    let set = MachineSet {
        metadata: ObjectMeta {
            name: name.clone(),
            namespace: deployment.namespace().into(),
            labels: template.metadata.labels.clone().unwrap_or_default(),
            annotations,
            finalizers: vec![finalizers::MACHINE.into()],
            owner_references: vec![claim::reference_to(deployment)],
            ..ObjectMeta::default()
        },
        spec: MachineSetSpec {
            replicas: size,
            selector: Some(selector),
            template,
            min_ready_seconds: deployment.spec.min_ready_seconds,
            auto_preserve_failed_machine_max: deployment.spec.auto_preserve_failed_machine_max,
            ..MachineSetSpec::default()
        },
        ..MachineSet::default()
    };
    builder.deployment.status.collision_count = collisions;
    builder.progress = Some(Progress::Created(name));
    builder.sets.new = Some(Draft { before: None, set, machines: &[], unseen: 0, preserved: 0, available: 0 });
}

/// Five digits clash easily. A name that is taken is passed over at once, instead of being found out by failing.
fn free_name(builder: &PlanBuilder<'_>) -> (TemplateHash, String, Option<i32>) {
    let deployment = &builder.deployment;
    let mut collisions = deployment.status.collision_count;
    for _ in 0..=builder.seen.names_in_use.len() {
        let hash = TemplateHash::of(&deployment.spec.template, collisions);
        let name = hash.set_name(deployment.name());
        if !builder.seen.names_in_use.contains(&name) {
            return (hash, name, collisions);
        }
        collisions = Some(collisions.unwrap_or(0).saturating_add(1));
    }
    let hash = TemplateHash::of(&deployment.spec.template, collisions);
    (hash, hash.set_name(deployment.name()), collisions)
}

/// The annotations that a set takes over.
fn inherited(deployment: &MachineDeployment) -> impl Iterator<Item = (&str, &str)> {
    deployment.metadata.annotations.texts().filter(|(key, _)| is_inherited(key))
}

/// Whether an annotation is shared between a deployment and its sets.
pub(super) fn is_inherited(key: &str) -> bool {
    !NOT_COPIED_TO_SETS.contains(&key)
}

fn with(history: Option<&str>, revision: i64) -> String {
    let mut list: Vec<&str> = history.unwrap_or_default().split(',').filter(|entry| !entry.is_empty()).collect();
    let revision = revision.to_string();
    list.push(&revision);
    while list.len() > 1 && list.iter().map(|entry| entry.len() + 1).sum::<usize>() > LONGEST_HISTORY {
        list.remove(0);
    }
    list.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows MD-D5.
    #[test]
    fn a_history_is_bounded_and_forgets_the_oldest() {
        assert_eq!(with(None, 1), "1");
        assert_eq!(with(Some("1,4"), 7), "1,4,7");
        let long = (0..5000).fold(String::new(), |history, revision| with(Some(&history), revision));
        assert!(long.len() <= LONGEST_HISTORY && long.ends_with(",4999"), "{}", long.len());
    }
}
