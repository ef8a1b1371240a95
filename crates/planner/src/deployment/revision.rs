//! Revisions, and the fields that a MachineSet takes over from its MachineDeployment.
//!
//! Each template of a MachineDeployment is kept in a MachineSet with a revision, for rollbacks. The newest MachineSet
//! has the highest revision. A MachineSet whose template is used again gets a new revision, and its earlier ones are
//! kept as its history. MCM extends that history for every annotation that the cluster-autoscaler changes, until the
//! object is too large to be stored. Here it is extended only for a new revision, and the oldest entries are dropped.
//!
//! Annotations, the node template, the configuration and the class kind are applied to the newest MachineSet without a
//! rollout. The maximum number of replacements is applied to every MachineSet with Machines.

use api::names::annotations::{
    DESIRED_REPLICAS, MAX_REPLACEMENTS, MAX_REPLICAS, NOT_COPIED_TO_SETS, PREFER_NO_SCHEDULE, REVISION,
    REVISION_HISTORY,
};
use api::names::{finalizers, labels};
use api::{MachineDeployment, MachineSet, MachineSetSpec, Object, ObjectMeta, TextMap, semantically_equal};

use super::builder::PlanBuilder;
use super::claim;
use super::draft::Draft;
use super::hash::TemplateHash;
use super::status::Progress;

/// Maximum length of a history. The oldest entries are dropped.
const LONGEST_HISTORY: usize = 2000;

/// Returns the revision of a MachineSet; 0 if it has none that can be parsed.
pub(super) fn of(set: &MachineSet) -> i64 {
    set.annotation(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Returns the revision for the newest MachineSet.
fn next(builder: &PlanBuilder<'_>) -> i64 {
    builder.sets.old.iter().map(|old| of(&old.set)).max().unwrap_or(0).saturating_add(1)
}

/// Updates the existing new MachineSet.
pub(super) fn update_new_set(builder: &mut PlanBuilder<'_>) {
    let wanted = next(builder);
    if let Some(limit) = builder.deployment.annotation(MAX_REPLACEMENTS) {
        // Machines of old MachineSets may become unhealthy too, and count for the same limit.
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
    let (spec, desired) = (&mut new.set.spec, &builder.deployment.spec);
    spec.min_ready_seconds = desired.min_ready_seconds;
    spec.auto_preserve_failed_machine_max = desired.auto_preserve_failed_machine_max;
    let (machine, desired) = (&mut spec.template.spec, &desired.template.spec);
    if !semantically_equal(&machine.node_template, &desired.node_template) {
        machine.node_template = desired.node_template.clone();
    }
    if !semantically_equal(&machine.configuration, &desired.configuration) {
        machine.configuration = desired.configuration.clone();
    }
    machine.class.kind.clone_from(&desired.class.kind);
    // It may have been an old MachineSet until now: its scale-up is enabled again, and its Nodes are no longer
    // outgoing. It starts with the Machines that it has, because its missing ones may have been created elsewhere.
    if new.creates_none() {
        let has = new.live().min(new.size());
        new.resize(has, &builder.limits);
        new.label(labels::SCALE_UP_DISABLED, None);
    }
    new.annotate(PREFER_NO_SCHEDULE, None);
    if builder.deployment.status.conditions.iter().all(|c| c.kind != api::names::conditions::deployment::PROGRESSING) {
        builder.progress = Some(Progress::Found(new.name().to_owned()));
    }
}

/// Creates the new MachineSet with this size.
pub(super) fn create_new(builder: &mut PlanBuilder<'_>, size: i32) {
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
    annotations.insert(MAX_REPLICAS, limits.recorded_maximum().to_string());
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

/// Selects a name that is not in use, because five digits collide easily.
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

/// Returns the annotations that a MachineSet takes over.
fn inherited(deployment: &MachineDeployment) -> impl Iterator<Item = (&str, &str)> {
    deployment.metadata.annotations.texts().filter(|(key, _)| is_inherited(key))
}

/// Returns whether an annotation is shared between a MachineDeployment and its MachineSets.
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
    fn history_is_limited_and_drops_the_oldest_entries() {
        assert_eq!(with(None, 1), "1");
        assert_eq!(with(Some("1,4"), 7), "1,4,7");
        let long = (0..5000).fold(String::new(), |history, revision| with(Some(&history), revision));
        assert!(long.len() <= LONGEST_HISTORY && long.ends_with(",4999"), "{}", long.len());
    }
}
