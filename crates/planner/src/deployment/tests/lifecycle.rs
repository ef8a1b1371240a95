//! Creation and deletion, revisions, pause, rollback, adoption, and invalid MachineDeployments.

use api::names::annotations::{REVISION, REVISION_HISTORY};
use api::{LabelSelector, Object, RollbackConfig, names};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::{DeploymentFixture, read, rolling};

/// Shows MD-D3, MD-D23.
#[test]
fn new_deployment_gets_finalizer_set_and_status() {
    let mut fixture = DeploymentFixture::new(3, &rolling(1, 0));
    let plan = fixture.reconcile();
    let words: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    let name = fixture.set_of("small").name().to_owned();
    assert_eq!(
        words,
        [
            "add the finalizer".to_owned(),
            format!("create MachineSet {name:?} with 3 replicas"),
            "emit Event ScalingMachineSet".to_owned(),
            "set the revision".to_owned(),
            "update the status".to_owned(),
        ]
    );
    assert_eq!(fixture.deployment.annotation(REVISION), Some("1"));
    assert_eq!(fixture.condition("Progressing"), Some(("True".into(), "NewMachineSetCreated".into())));
    let set = fixture.set_of("small");
    assert_eq!(
        set.label(names::labels::TEMPLATE_HASH),
        set.spec.selector.as_ref().unwrap().match_labels.get(names::labels::TEMPLATE_HASH).map(String::as_str)
    );
    assert_eq!(set.annotation(names::annotations::DESIRED_REPLICAS), Some("3"));
    assert_eq!(set.annotation(names::annotations::MAX_REPLICAS), Some("4"));
}

/// Shows MD-D16.
#[test]
fn name_in_use_is_skipped() {
    let mut fixture = DeploymentFixture::new(1, &rolling(1, 0));
    let taken = TemplateHash::of(&fixture.deployment.spec.template, None).set_name("md");
    let foreign = json!({ "metadata": { "name": taken, "namespace": "ns", "uid": "u-x", "labels": { "other": "x" },
        "ownerReferences": [{ "apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true }] } });
    fixture.sets.insert(taken.clone(), read(foreign));
    fixture.reconcile();
    assert_eq!(fixture.deployment.status.collision_count, Some(1));
    let created = fixture.sets.keys().find(|name| **name != taken).unwrap();
    assert_eq!(*created, TemplateHash::of(&fixture.deployment.spec.template, Some(1)).set_name("md"));
}

/// Shows MD-D17, MD-S8.
#[test]
fn set_of_the_same_template_is_reused() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    let mut set = fixture.sets.pop_first().unwrap().1;
    set.metadata.name = "md-other".to_owned();
    for machine in fixture.machines.values_mut() {
        machine.metadata.owner_references[0].name = "md-other".into();
    }
    fixture.sets.insert("md-other".to_owned(), set);
    assert!(fixture.plan().steps.is_empty(), "the migration starts no rollout: {:#?}", fixture.plan().steps);
}

/// Shows MD-D5.
#[test]
fn fields_of_existing_machines_are_applied_without_a_rollout() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.annotate("team", "blue");
    fixture.edit(|deployment| {
        let spec = &mut deployment.spec.template.spec;
        spec.node_template.metadata.labels = Some([("zone", "a")].into());
        spec.configuration.drain_timeout = Some("1h".into());
        deployment.spec.min_ready_seconds = 500;
    });
    let plan = fixture.reconcile();
    assert_eq!(plan.steps.iter().filter(|step| matches!(step, Step::Set(_))).count(), 1, "{:#?}", plan.steps);
    let set = fixture.set_of("small");
    assert_eq!(set.annotation("team"), Some("blue"));
    assert_eq!(set.spec.template.spec.node_template.metadata.labels.as_ref().unwrap().text("zone"), Some("a"));
    assert_eq!(set.spec.min_ready_seconds, 500);
    assert_eq!(set.annotation(REVISION_HISTORY), None, "the revision and its history are unchanged");
    fixture.settle();
    assert_eq!(fixture.sets.len(), 1);
}

#[test]
fn reused_template_gets_a_new_revision_and_a_history() {
    let mut fixture = DeploymentFixture::settled(1, &rolling(1, 0));
    fixture.use_class("large");
    fixture.settle();
    assert_eq!(fixture.set_of("large").annotation(REVISION), Some("2"));
    fixture.use_class("small");
    fixture.settle();
    let back = fixture.set_of("small");
    assert_eq!((back.annotation(REVISION), back.annotation(REVISION_HISTORY)), (Some("3"), Some("1")));
    assert_eq!(fixture.deployment.annotation(REVISION), Some("3"));
}

/// Shows MD-D20.
#[rstest]
#[case(Some(1), 2)]
#[case(Some(0), 1)]
#[case(Some(-3), 1)]
#[case(None, 4)]
fn empty_sets_are_kept_up_to_the_history_limit(#[case] limit: Option<i32>, #[case] left: usize) {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    for class in ["b", "c", "d"] {
        fixture.later(60);
        fixture.use_class(class);
        fixture.settle();
    }
    fixture.edit(|deployment| deployment.spec.revision_history_limit = limit);
    fixture.settle();
    assert_eq!(fixture.sets.len(), left);
    assert_eq!(fixture.running_of("d"), 2);
}

#[test]
fn old_set_with_a_machine_is_not_deleted() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.use_class("large");
    fixture.edit(|deployment| deployment.spec.revision_history_limit = Some(0));
    for _ in 0..6 {
        fixture.reconcile();
        fixture.run_sets();
        assert!(fixture.sets.values().all(|set| !set.is_deleting() || fixture.machines_of(set).next().is_none()));
        fixture.run_machines();
    }
}

/// Shows MD-S15.
#[rstest]
#[case(0)]
#[case(1)]
fn rollback_restores_the_template_once(#[case] revision: i64) {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.annotate("team", "blue");
    fixture.settle();
    fixture.use_class("large");
    fixture.settle();
    fixture.annotate("team", "red");
    fixture.edit(|deployment| deployment.spec.rollback_to = Some(RollbackConfig { revision }));
    fixture.reconcile();
    assert_eq!(fixture.deployment.spec.template.spec.class.name, "small");
    assert_eq!(fixture.deployment.spec.rollback_to, None);
    assert_eq!(fixture.deployment.annotation("team"), Some("blue"));
    assert_eq!(fixture.events.last().unwrap(), "DeploymentRollback: Rolled back deployment \"md\" to revision 1");
    assert_eq!(
        fixture.deployment.spec.template.metadata.labels.as_ref().unwrap().text(names::labels::TEMPLATE_HASH),
        None
    );
    fixture.settle();
    assert_eq!((fixture.running_of("small"), fixture.live()), (2, 2));
}

/// Shows MD-S15.
#[rstest]
#[case(0, "DeploymentRollbackRevisionNotFound: Unable to find last revision.")]
#[case(7, "DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to.")]
#[case(
    1,
    "DeploymentRollbackTemplateUnchanged: The rollback revision contains the same template as current deployment \"md\""
)]
fn impossible_rollback_is_reported_and_removed(#[case] revision: i64, #[case] expected: &str) {
    let mut fixture = DeploymentFixture::settled(1, &rolling(1, 0));
    fixture.edit(|deployment| deployment.spec.rollback_to = Some(RollbackConfig { revision }));
    fixture.reconcile();
    assert_eq!(fixture.events, [expected]);
    assert_eq!(fixture.deployment.spec.rollback_to, None);
    fixture.settle();
}

/// Shows MD-S14.
#[test]
fn paused_deployment_is_only_scaled() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    fixture.edit(|deployment| deployment.spec.paused = true);
    fixture.reconcile();
    assert_eq!(fixture.condition("Progressing"), Some(("Unknown".into(), "DeploymentPaused".into())));
    fixture.use_class("large");
    fixture.edit(|deployment| deployment.spec.replicas = 4);
    fixture.settle();
    assert_eq!((fixture.sets.len(), fixture.running_of("small")), (1, 4));
    fixture.edit(|deployment| deployment.spec.paused = false);
    let resumed = fixture.observe(plan);
    fixture.apply(&resumed.steps);
    fixture.settle();
    assert_eq!((fixture.running_of("large"), fixture.live()), (4, 4));
}

/// Shows MD-S14.
#[test]
fn pause_stops_a_rollout() {
    let mut fixture = DeploymentFixture::settled(4, &rolling(1, 1));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.run_sets();
    fixture.run_machines();
    fixture.run_sets();
    fixture.edit(|deployment| deployment.spec.paused = true);
    fixture.reconcile();
    let sizes = (fixture.size_of("small"), fixture.size_of("large"));
    for _ in 0..5 {
        fixture.reconcile();
        fixture.run_sets();
        fixture.run_machines();
    }
    assert_eq!((fixture.size_of("small"), fixture.size_of("large")), sizes);
    fixture.edit(|deployment| deployment.spec.paused = false);
    fixture.settle();
    assert_eq!((fixture.running_of("large"), fixture.live()), (4, 4));
}

#[test]
fn stuck_rollout_is_not_reported_as_paused() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.broken.insert("broken".to_owned());
    fixture.edit(|deployment| deployment.spec.progress_deadline_seconds = Some(10));
    fixture.use_class("broken");
    for _ in 0..10 {
        fixture.reconcile();
        fixture.run_sets();
        fixture.later(10);
    }
    fixture.edit(|deployment| deployment.spec.paused = true);
    fixture.reconcile();
    assert_eq!(fixture.condition("Progressing"), Some(("False".into(), "ProgressDeadlineExceeded".into())));
}

/// Shows MD-S18.
#[test]
fn deleted_deployment_deletes_its_sets() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.deployment.metadata.deletion_timestamp = Some(fixture.now.into());
    let plan = fixture.reconcile();
    assert_eq!(plan.because, Reason::Deleting(2));
    assert!(fixture.sets.values().all(Object::is_deleting));
    assert!(fixture.deployment.has_finalizer(names::finalizers::MACHINE));
    for _ in 0..3 {
        fixture.run_sets();
        fixture.run_machines();
    }
    fixture.run_sets();
    fixture.reconcile();
    assert!(!fixture.deployment.has_finalizer(names::finalizers::MACHINE) && fixture.machines.is_empty());
    assert!(fixture.plan().steps.is_empty());
}

/// Shows MD-S18.
#[test]
fn sets_stay_when_the_deployment_is_deleted_with_orphan() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.deployment.metadata.deletion_timestamp = Some(fixture.now.into());
    fixture.deployment.metadata.finalizers.push("orphan".into());
    assert_eq!(fixture.plan().steps, []);
    for set in fixture.sets.values_mut() {
        set.metadata.owner_references = Vec::new(); // the garbage collector orphans them
    }
    fixture.reconcile();
    assert_eq!(fixture.deployment.metadata.finalizers, ["orphan"]);
    assert!(fixture.sets.values().all(|set| !set.is_deleting()));
}

/// Shows MD-S18.
#[test]
fn set_is_deleted_only_in_the_version_observed_as_owned() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.deployment.metadata.deletion_timestamp = Some(fixture.now.into());
    let seen: Vec<_> = fixture.sets.values().map(|set| Some(set.resource_version().to_owned())).collect();
    let guards = fixture.plan().steps.into_iter().filter_map(|step| match step {
        Step::DeleteSet { resource_version, .. } => Some(resource_version),
        _ => None,
    });
    assert_eq!(guards.collect::<Vec<_>>(), seen);
}

/// Shows MD-D20.
#[test]
fn invalid_deployment_is_reported_once_and_can_be_deleted() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let before = (fixture.condition("Progressing"), fixture.condition("Available"));
    let strategy = std::mem::take(&mut fixture.deployment.spec.strategy);
    fixture.reconcile();
    assert_eq!(fixture.condition("Invalid"), Some(("True".into(), "InvalidSpec".into())));
    assert!(fixture.events.len() == 1 && fixture.events[0].contains("spec.strategy.type"), "{:?}", fixture.events);
    assert_eq!((fixture.condition("Progressing"), fixture.condition("Available")), before);
    assert!(fixture.plan().steps.is_empty());
    let mut fixed = DeploymentFixture::settled(0, &rolling(1, 0));
    std::mem::swap(&mut fixed, &mut fixture);
    fixed.deployment.spec.strategy = strategy;
    fixed.reconcile();
    assert_eq!(fixed.condition("Invalid"), None);
    fixed.deployment.spec.selector = None;
    fixed.deployment.metadata.deletion_timestamp = Some(fixed.now.into());
    fixed.reconcile();
    assert!(fixed.sets.values().all(Object::is_deleting));
}

#[test]
fn empty_selector_selects_nothing() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.edit(|deployment| deployment.spec.selector = Some(LabelSelector::default()));
    fixture.reconcile();
    assert_eq!(
        fixture.events,
        ["SelectingAll: This deployment is selecting all machines. A non-empty selector is required."]
    );
    assert_eq!(fixture.deployment.status.observed_generation, fixture.deployment.metadata.generation);
    assert!(fixture.plan().steps.is_empty());
    assert_eq!(fixture.sets.len(), 1);
}

/// Shows MD-S23.
#[test]
fn no_second_set_is_created_when_a_set_cannot_be_decoded() {
    let fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let undecodable = [UndecodableSet { name: "md-1".into(), error: "invalid type".into() }];
    let plan = fixture.observe(|seen| plan(&Observed { sets: &[], undecodable_sets: &undecodable, ..*seen }));
    let message = "MachineSet \"md-1\" of this MachineDeployment cannot be decoded: invalid type; correct or delete it";
    assert_eq!(plan.because, Reason::Invalid(message.to_owned()));
    let [Step::Status(edit), Step::EmitEvent(event)] = &plan.steps[..] else { panic!("{plan:#?}") };
    let condition = edit.status.conditions.iter().find(|condition| condition.kind == "Invalid").unwrap();
    assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("UndecodableMachineSet", message));
    assert_eq!(event.message, message);
}

/// Shows MD-D20.
#[test]
fn no_spec_causes_a_panic() {
    for spec in [
        json!({}),
        json!({ "replicas": -4 }),
        json!({ "strategy": { "type": "RollingUpdate" }, "selector": {} }),
        json!({ "revisionHistoryLimit": -1, "strategy": { "type": "InPlaceUpdate" } }),
    ] {
        let mut fixture = DeploymentFixture::new(1, &rolling(1, 0));
        fixture.deployment.spec = read(spec);
        fixture
            .sets
            .insert("bare".into(), read(json!({ "metadata": { "name": "bare", "namespace": "ns", "uid": "u" } })));
        let plan = fixture.reconcile();
        assert!(matches!(plan.because, Reason::Invalid(_)), "{plan:#?}");
    }
}

/// Shows MD-D20.
#[rstest]
#[case::no_selector(json!({ "selector": null }))]
#[case::no_strategy(json!({ "strategy": null }))]
#[case::no_strategy_settings(json!({ "strategy": { "rollingUpdate": null } }))]
#[case::no_limit(json!({ "strategy": { "rollingUpdate": { "maxSurge": null, "maxUnavailable": null } } }))]
#[case::in_place_without_settings(json!({ "strategy": { "type": "InPlaceUpdate", "rollingUpdate": null } }))]
#[case::unknown_strategy(json!({ "strategy": { "type": "Sideways" } }))]
#[case::negative_history(json!({ "revisionHistoryLimit": -1 }))]
#[case::negative_replicas(json!({ "replicas": -4 }))]
#[case::negative_deadline(json!({ "progressDeadlineSeconds": -1, "minReadySeconds": -1 }))]
#[case::no_fields(json!({ "replicas": null, "selector": null, "strategy": null, "template": null }))]
fn missing_fields_change_no_set_and_block_no_deletion(#[case] change: serde_json::Value) {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let mut spec = serde_json::to_value(&fixture.deployment.spec).unwrap();
    json_patch::merge(&mut spec, &change);
    fixture.edit(|deployment| deployment.spec = read(spec));
    let sets = fixture.sets.clone();
    for _ in 0..3 {
        fixture.reconcile();
        fixture.later(60);
    }
    let rejected = matches!(fixture.plan().because, Reason::Invalid(_));
    assert!(!rejected || fixture.sets == sets, "an invalid MachineDeployment is not reconciled");
    assert_eq!(fixture.events.len(), usize::from(rejected), "the error is reported once: {:?}", fixture.events);
    assert_eq!((fixture.sets.len(), fixture.running_of("small")), (1, 2), "no Machine is deleted");
    assert!(fixture.plan().steps.is_empty(), "it converges: {:#?}", fixture.plan());

    fixture.deployment.metadata.deletion_timestamp = Some(fixture.now.into());
    for _ in 0..4 {
        fixture.reconcile();
        fixture.run_sets();
        fixture.run_machines();
    }
    assert!(fixture.sets.is_empty() && fixture.machines.is_empty(), "{:#?}", fixture.diary);
    fixture.reconcile();
    assert!(!fixture.deployment.has_finalizer(names::finalizers::MACHINE), "no finalizer is left");
}

#[test]
fn selected_set_is_adopted_and_unselected_one_released() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let name = fixture.set_of("small").name().to_owned();
    let set = fixture.sets.get_mut(&name).unwrap();
    set.metadata.owner_references = vec![api::OwnerReference {
        api_version: "v1".into(),
        kind: "Other".into(),
        name: "o".into(),
        uid: "o".into(),
        ..Default::default()
    }];
    let plan = fixture.reconcile();
    assert!(
        matches!(&plan.steps[0], Step::Set(edit) if edit.change == SetChange::Adopt && edit.resource_version.is_some())
    );
    let owners = fixture.sets[&name].metadata.owner_references.clone();
    assert_eq!(owners.iter().map(|owner| owner.name.as_str()).collect::<Vec<_>>(), ["o", "md"], "other owners stay");
    assert!(fixture.plan().steps.is_empty());
    fixture.sets.get_mut(&name).unwrap().metadata.labels.insert("name", "else");
    fixture.reconcile();
    let owners = fixture.sets[&name].metadata.owner_references.clone();
    assert_eq!(owners.iter().map(|owner| owner.name.as_str()).collect::<Vec<_>>(), ["o"]);
}

/// Shows MD-D12.
#[test]
fn adopted_set_gets_its_hash_in_three_steps() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let name = fixture.set_of("small").name().to_owned();
    let hash = fixture.sets[&name].label(names::labels::TEMPLATE_HASH).unwrap().to_owned();
    let set = fixture.sets.get_mut(&name).unwrap();
    set.metadata.labels.remove(names::labels::TEMPLATE_HASH);
    set.spec.selector.as_mut().unwrap().match_labels.remove(names::labels::TEMPLATE_HASH);
    set.spec.template.metadata.labels.as_mut().unwrap().remove(names::labels::TEMPLATE_HASH);
    for machine in fixture.machines.values_mut() {
        machine.metadata.labels.remove(names::labels::TEMPLATE_HASH);
    }
    assert_eq!(fixture.reconcile().because, Reason::HashMissing(name.clone()));
    assert!(fixture.machines.values().all(|machine| machine.label(names::labels::TEMPLATE_HASH).is_none()));
    fixture.reconcile();
    assert!(fixture.machines.values().all(|machine| machine.label(names::labels::TEMPLATE_HASH) == Some(&hash)));
    assert!(fixture.reconcile().steps.is_empty(), "its controller has not observed the template yet");
    fixture.run_sets();
    fixture.reconcile();
    assert_eq!(fixture.sets[&name].label(names::labels::TEMPLATE_HASH), Some(hash.as_str()));
    fixture.settle();
    assert_eq!((fixture.sets.len(), fixture.live()), (1, 2));
}

/// Shows MD-D19.
#[test]
fn set_that_is_being_deleted_is_never_the_new_one() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let name = fixture.set_of("small").name().to_owned();
    fixture.sets.get_mut(&name).unwrap().metadata.deletion_timestamp = Some(fixture.now.into());
    fixture.settle();
    assert!(!fixture.sets.contains_key(&name));
    assert_eq!((fixture.sets.len(), fixture.live()), (1, 2));
}

/// Shows MD-D24.
#[test]
fn failed_creation_of_a_set_is_reported_once() {
    let mut fixture = DeploymentFixture::new(1, &rolling(1, 0));
    let report = fixture.observe(|seen| creation_failed(seen, "md-x", "100% denied"));
    fixture.apply(&report.steps);
    assert_eq!(fixture.events, ["MachineSetCreateError: Failed to create new machine set \"md-x\": 100% denied"]);
    assert_eq!(fixture.condition("Progressing"), Some(("False".into(), "MachineSetCreateError".into())));
    assert!(fixture.observe(|seen| creation_failed(seen, "md-x", "100% denied")).steps.is_empty());
}

/// Shows MD-D15.
#[test]
fn status_is_written_only_when_it_changes() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let name = fixture.set_of("small").name().to_owned();
    fixture.sets.get_mut(&name).unwrap().status.preserved_failed_replicas = 1;
    let plan = fixture.reconcile();
    assert!(matches!(plan.steps.as_slice(), [Step::Status(_)]), "{:#?}", plan.steps);
    assert_eq!(fixture.deployment.status.preserved_failed_replicas, 1);
    assert!(fixture.plan().steps.is_empty());
}

#[test]
fn set_failure_is_copied_to_the_status_and_removed() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let name = fixture.set_of("small").name().to_owned();
    let failure = read(
        json!({ "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no", "lastTransitionTime": "2026-01-01T00:00:00Z" }),
    );
    fixture.sets.get_mut(&name).unwrap().status.conditions.push(failure);
    fixture.reconcile();
    assert_eq!(fixture.condition("ReplicaFailure"), Some(("True".into(), "FailedCreate".into())));
    fixture.sets.get_mut(&name).unwrap().status.conditions.clear();
    fixture.reconcile();
    assert_eq!(fixture.condition("ReplicaFailure"), None);
}

/// Shows MC-W71.
#[test]
fn replacement_limit_is_applied_to_sets_with_machines() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.run_sets();
    fixture.annotate(names::annotations::MAX_REPLACEMENTS, "50%");
    fixture.reconcile();
    let limit = |fixture: &DeploymentFixture, class: &str| {
        fixture.set_of(class).annotation(names::annotations::MAX_REPLACEMENTS).map(str::to_owned)
    };
    assert_eq!((limit(&fixture, "small").as_deref(), limit(&fixture, "large").as_deref()), (Some("50%"), Some("50%")));
    fixture.settle();
    fixture.annotate(names::annotations::MAX_REPLACEMENTS, "2");
    fixture.settle();
    assert_eq!(limit(&fixture, "large").as_deref(), Some("2"));
    assert_eq!(limit(&fixture, "small").as_deref(), Some("50%"), "an empty MachineSet does not need it");
}
