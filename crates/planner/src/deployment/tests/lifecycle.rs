//! Beginning and end, revisions, pause, going back, adoption, and deployments that make no sense.

use api::names::annotations::{REVISION, REVISION_HISTORY};
use api::{LabelSelector, Object, RollbackConfig, names};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::{DeploymentFixture, read, rolling};

/// Shows MD-D3, MD-D23.
#[test]
fn a_new_deployment_gets_a_finalizer_then_a_set_then_says_so() {
    let mut fixture = DeploymentFixture::new(3, &rolling(1, 0));
    let plan = fixture.reconcile();
    let words: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    let name = fixture.set_of("small").name().to_owned();
    assert_eq!(
        words,
        [
            "add our finalizer".to_owned(),
            format!("make set {name:?} of 3"),
            "tell: ScalingMachineSet".to_owned(),
            "show its revision".to_owned(),
            "write its status".to_owned(),
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
fn a_name_that_is_taken_is_passed_over_without_a_failed_reconcile() {
    let mut fixture = DeploymentFixture::new(1, &rolling(1, 0));
    let taken = TemplateHash::of(&fixture.deployment.spec.template, None).set_name("md");
    let foreign = json!({ "metadata": { "name": taken, "namespace": "ns", "uid": "u-x", "labels": { "other": "x" },
        "ownerReferences": [{ "apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true }] } });
    fixture.sets.insert(taken.clone(), read(foreign));
    fixture.reconcile();
    assert_eq!(fixture.deployment.status.collision_count, Some(1));
    let made = fixture.sets.keys().find(|name| **name != taken).unwrap();
    assert_eq!(*made, TemplateHash::of(&fixture.deployment.spec.template, Some(1)).set_name("md"));
}

/// Shows MD-D17, MD-S8.
#[test]
fn a_set_of_the_same_template_is_used_whatever_its_name_and_hash() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    let mut set = fixture.sets.pop_first().unwrap().1;
    set.metadata.name = "md-other".to_owned();
    for machine in fixture.machines.values_mut() {
        machine.metadata.owner_references[0].name = "md-other".into();
    }
    fixture.sets.insert("md-other".to_owned(), set);
    assert!(fixture.plan().steps.is_empty(), "taking over rolls nothing: {:#?}", fixture.plan().steps);
}

/// Shows MD-D5.
#[test]
fn what_needs_no_new_machine_reaches_the_set_without_a_roll_out() {
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
    assert_eq!(set.annotation(REVISION_HISTORY), None, "the revision did not change, so its history does not");
    fixture.settle();
    assert_eq!(fixture.sets.len(), 1);
}

#[test]
fn a_template_that_comes_back_gets_a_new_revision_and_keeps_its_old_one_as_history() {
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
fn empty_sets_are_kept_up_to_the_limit(#[case] limit: Option<i32>, #[case] left: usize) {
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
fn a_set_that_still_has_a_machine_is_not_history() {
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
fn going_back_restores_the_template_and_answers_once(#[case] revision: i64) {
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
    assert_eq!(fixture.told.last().unwrap(), "DeploymentRollback: Rolled back deployment \"md\" to revision 1");
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
fn a_wish_that_cannot_be_granted_is_answered_too(#[case] revision: i64, #[case] told: &str) {
    let mut fixture = DeploymentFixture::settled(1, &rolling(1, 0));
    fixture.edit(|deployment| deployment.spec.rollback_to = Some(RollbackConfig { revision }));
    fixture.reconcile();
    assert_eq!(fixture.told, [told]);
    assert_eq!(fixture.deployment.spec.rollback_to, None);
    fixture.settle();
}

/// Shows MD-S14.
#[test]
fn a_paused_deployment_is_scaled_and_nothing_else() {
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
fn a_pause_in_mid_roll_holds_everything_where_it_is() {
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
fn a_stuck_roll_out_is_not_said_to_be_paused() {
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
fn a_deleted_deployment_takes_its_sets_along() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.deployment.metadata.deletion_timestamp = Some(fixture.now.into());
    let plan = fixture.reconcile();
    assert_eq!(plan.because, Reason::SetsLeave(2));
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
fn a_deployment_deleted_without_its_sets_leaves_them_alone() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.deployment.metadata.deletion_timestamp = Some(fixture.now.into());
    fixture.deployment.metadata.finalizers.push("orphan".into());
    assert_eq!(fixture.plan().steps, []);
    for set in fixture.sets.values_mut() {
        set.metadata.owner_references = Vec::new(); // the garbage collector lets go of them
    }
    fixture.reconcile();
    assert_eq!(fixture.deployment.metadata.finalizers, ["orphan"]);
    assert!(fixture.sets.values().all(|set| !set.is_deleting()));
}

/// Shows MD-S18.
#[test]
fn a_set_that_may_have_been_let_go_of_is_deleted_only_as_the_version_that_was_seen_owned() {
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
fn an_invalid_deployment_is_told_once_keeps_its_other_conditions_and_can_still_be_deleted() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let before = (fixture.condition("Progressing"), fixture.condition("Available"));
    let strategy = std::mem::take(&mut fixture.deployment.spec.strategy);
    fixture.reconcile();
    assert_eq!(fixture.condition("Invalid"), Some(("True".into(), "InvalidSpec".into())));
    assert!(fixture.told.len() == 1 && fixture.told[0].contains("spec.strategy.type"), "{:?}", fixture.told);
    assert_eq!((fixture.condition("Progressing"), fixture.condition("Available")), before);
    assert!(fixture.plan().steps.is_empty());
    let mut mended = DeploymentFixture::settled(0, &rolling(1, 0));
    std::mem::swap(&mut mended, &mut fixture);
    mended.deployment.spec.strategy = strategy;
    mended.reconcile();
    assert_eq!(mended.condition("Invalid"), None);
    mended.deployment.spec.selector = None;
    mended.deployment.metadata.deletion_timestamp = Some(mended.now.into());
    mended.reconcile();
    assert!(mended.sets.values().all(Object::is_deleting));
}

#[test]
fn an_empty_selector_selects_nothing() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    fixture.edit(|deployment| deployment.spec.selector = Some(LabelSelector::default()));
    fixture.reconcile();
    assert_eq!(
        fixture.told,
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
    let message = "MachineSet \"md-1\" of this deployment cannot be decoded: invalid type; correct or delete it";
    assert_eq!(plan.because, Reason::Invalid(message.to_owned()));
    let [Step::Status(edit), Step::Tell(event)] = &plan.steps[..] else { panic!("{plan:#?}") };
    let condition = edit.status.conditions.iter().find(|condition| condition.kind == "Invalid").unwrap();
    assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("UndecodableMachineSet", message));
    assert_eq!(event.message, message);
}

/// Shows MD-D20.
#[test]
fn nothing_that_can_be_written_crashes() {
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
#[case::no_block(json!({ "strategy": { "rollingUpdate": null } }))]
#[case::no_limit(json!({ "strategy": { "rollingUpdate": { "maxSurge": null, "maxUnavailable": null } } }))]
#[case::in_place_without_a_block(json!({ "strategy": { "type": "InPlaceUpdate", "rollingUpdate": null } }))]
#[case::unknown_strategy(json!({ "strategy": { "type": "Sideways" } }))]
#[case::negative_history(json!({ "revisionHistoryLimit": -1 }))]
#[case::negative_replicas(json!({ "replicas": -4 }))]
#[case::negative_deadline(json!({ "progressDeadlineSeconds": -1, "minReadySeconds": -1 }))]
#[case::nothing_at_all(json!({ "replicas": null, "selector": null, "strategy": null, "template": null }))]
fn whatever_is_missing_touches_no_set_and_holds_up_no_deletion(#[case] change: serde_json::Value) {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let mut spec = serde_json::to_value(&fixture.deployment.spec).unwrap();
    json_patch::merge(&mut spec, &change);
    fixture.edit(|deployment| deployment.spec = read(spec));
    let sets = fixture.sets.clone();
    for _ in 0..3 {
        fixture.reconcile();
        fixture.later(60);
    }
    let refused = matches!(fixture.plan().because, Reason::Invalid(_));
    assert!(!refused || fixture.sets == sets, "who is refused is not acted on");
    assert_eq!(fixture.told.len(), usize::from(refused), "a fault is told, once: {:?}", fixture.told);
    assert_eq!((fixture.sets.len(), fixture.running_of("small")), (1, 2), "nobody leaves because of it");
    assert!(fixture.plan().steps.is_empty(), "it comes to rest: {:#?}", fixture.plan());

    fixture.deployment.metadata.deletion_timestamp = Some(fixture.now.into());
    for _ in 0..4 {
        fixture.reconcile();
        fixture.run_sets();
        fixture.run_machines();
    }
    assert!(fixture.sets.is_empty() && fixture.machines.is_empty(), "{:#?}", fixture.diary);
    fixture.reconcile();
    assert!(!fixture.deployment.has_finalizer(names::finalizers::MACHINE), "and nothing holds it any more");
}

#[test]
fn a_set_without_an_owner_is_adopted_and_one_that_lost_our_labels_let_go() {
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
fn an_adopted_set_without_a_hash_gets_one_in_three_moves() {
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
    assert!(fixture.reconcile().steps.is_empty(), "its controller has not seen the template yet");
    fixture.run_sets();
    fixture.reconcile();
    assert_eq!(fixture.sets[&name].label(names::labels::TEMPLATE_HASH), Some(hash.as_str()));
    fixture.settle();
    assert_eq!((fixture.sets.len(), fixture.live()), (1, 2));
}

/// Shows MD-D19.
#[test]
fn a_set_that_is_being_deleted_is_never_the_new_one() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let name = fixture.set_of("small").name().to_owned();
    fixture.sets.get_mut(&name).unwrap().metadata.deletion_timestamp = Some(fixture.now.into());
    fixture.settle();
    assert!(!fixture.sets.contains_key(&name));
    assert_eq!((fixture.sets.len(), fixture.live()), (1, 2));
}

/// Shows MD-D24.
#[test]
fn a_set_that_could_not_be_made_is_told_once() {
    let mut fixture = DeploymentFixture::new(1, &rolling(1, 0));
    let report = fixture.observe(|seen| creation_failed(seen, "md-x", "100% denied"));
    fixture.apply(&report.steps);
    assert_eq!(fixture.told, ["MachineSetCreateError: Failed to create new machine set \"md-x\": 100% denied"]);
    assert_eq!(fixture.condition("Progressing"), Some(("False".into(), "MachineSetCreateError".into())));
    assert!(fixture.observe(|seen| creation_failed(seen, "md-x", "100% denied")).steps.is_empty());
}

/// Shows MD-D15.
#[test]
fn a_status_is_written_when_it_says_something_new_and_only_then() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let name = fixture.set_of("small").name().to_owned();
    fixture.sets.get_mut(&name).unwrap().status.preserved_failed_replicas = 1;
    let plan = fixture.reconcile();
    assert!(matches!(plan.steps.as_slice(), [Step::Status(_)]), "{:#?}", plan.steps);
    assert_eq!(fixture.deployment.status.preserved_failed_replicas, 1);
    assert!(fixture.plan().steps.is_empty());
}

#[test]
fn what_kept_a_set_from_making_machines_is_shown_and_taken_back() {
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
fn how_many_may_be_replaced_at_once_reaches_every_set_that_has_machines() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    fixture.use_class("large");
    fixture.reconcile();
    fixture.run_sets();
    fixture.annotate(names::annotations::MAX_REPLACEMENTS, "50%");
    fixture.reconcile();
    let said = |fixture: &DeploymentFixture, class: &str| {
        fixture.set_of(class).annotation(names::annotations::MAX_REPLACEMENTS).map(str::to_owned)
    };
    assert_eq!((said(&fixture, "small").as_deref(), said(&fixture, "large").as_deref()), (Some("50%"), Some("50%")));
    fixture.settle();
    fixture.annotate(names::annotations::MAX_REPLACEMENTS, "2");
    fixture.settle();
    assert_eq!(said(&fixture, "large").as_deref(), Some("2"));
    assert_eq!(said(&fixture, "small").as_deref(), Some("50%"), "nobody reads it on an empty set");
}
