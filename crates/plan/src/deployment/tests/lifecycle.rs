//! Beginning and end, revisions, pause, going back, adoption, and deployments that make no sense.

use api::names::annotations::{REVISION, REVISION_HISTORY};
use api::{LabelSelector, Object, RollbackConfig, names};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::world::{World, read, rolling};

#[test]
fn a_new_deployment_gets_a_finalizer_then_a_set_then_says_so() {
    let mut world = World::new(3, &rolling(1, 0));
    let plan = world.reconcile();
    let words: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    let name = world.set_of("small").name().to_owned();
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
    assert_eq!(world.deployment.annotation(REVISION), Some("1"));
    assert_eq!(world.condition("Progressing"), Some(("True".into(), "NewMachineSetCreated".into())));
    let set = world.set_of("small");
    assert_eq!(
        set.label(names::labels::TEMPLATE_HASH),
        set.spec.selector.as_ref().unwrap().match_labels.get(names::labels::TEMPLATE_HASH).map(String::as_str)
    );
    assert_eq!(set.annotation(names::annotations::DESIRED_REPLICAS), Some("3"));
    assert_eq!(set.annotation(names::annotations::MAX_REPLICAS), Some("4"));
}

#[test]
fn a_name_that_is_taken_is_passed_over_without_a_failed_reconcile() {
    let mut world = World::new(1, &rolling(1, 0));
    let taken = TemplateHash::of(&world.deployment.spec.template, None).set_name("md");
    let foreign = json!({ "metadata": { "name": taken, "namespace": "ns", "uid": "u-x", "labels": { "other": "x" },
        "ownerReferences": [{ "apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true }] } });
    world.sets.insert(taken.clone(), read(foreign));
    world.reconcile();
    assert_eq!(world.deployment.status.collision_count, Some(1));
    let made = world.sets.keys().find(|name| **name != taken).unwrap();
    assert_eq!(*made, TemplateHash::of(&world.deployment.spec.template, Some(1)).set_name("md"));
}

#[test]
fn a_set_of_the_same_template_is_used_whatever_its_name_and_hash() {
    let mut world = World::settled(3, &rolling(1, 0));
    let mut set = world.sets.pop_first().unwrap().1;
    set.metadata.name = Some("md-other".to_owned());
    for machine in world.machines.values_mut() {
        machine.metadata.owner_references.as_mut().unwrap()[0].name = "md-other".to_owned();
    }
    world.sets.insert("md-other".to_owned(), set);
    assert!(world.plan().steps.is_empty(), "taking over rolls nothing: {:#?}", world.plan().steps);
}

#[test]
fn what_needs_no_new_machine_reaches_the_set_without_a_roll_out() {
    let mut world = World::settled(2, &rolling(1, 0));
    world.annotate("team", "blue");
    world.edit(|deployment| {
        let spec = &mut deployment.spec.template.spec;
        spec.node_template.metadata.labels = Some([("zone", "a")].into());
        spec.configuration.drain_timeout = Some("1h".into());
        deployment.spec.min_ready_seconds = 500;
    });
    let plan = world.reconcile();
    assert_eq!(plan.steps.iter().filter(|step| matches!(step, Step::Set(_))).count(), 1, "{:#?}", plan.steps);
    let set = world.set_of("small");
    assert_eq!(set.annotation("team"), Some("blue"));
    assert_eq!(set.spec.template.spec.node_template.metadata.labels.as_ref().unwrap().text("zone"), Some("a"));
    assert_eq!(set.spec.min_ready_seconds, 500);
    assert_eq!(set.annotation(REVISION_HISTORY), None, "the revision did not change, so its history does not");
    world.settle();
    assert_eq!(world.sets.len(), 1);
}

#[test]
fn a_template_that_comes_back_gets_a_new_revision_and_keeps_its_old_one_as_history() {
    let mut world = World::settled(1, &rolling(1, 0));
    world.use_class("large");
    world.settle();
    assert_eq!(world.set_of("large").annotation(REVISION), Some("2"));
    world.use_class("small");
    world.settle();
    let back = world.set_of("small");
    assert_eq!((back.annotation(REVISION), back.annotation(REVISION_HISTORY)), (Some("3"), Some("1")));
    assert_eq!(world.deployment.annotation(REVISION), Some("3"));
}

#[rstest]
#[case(Some(1), 2)]
#[case(Some(0), 1)]
#[case(Some(-3), 1)]
#[case(None, 4)]
fn empty_sets_are_kept_up_to_the_limit(#[case] limit: Option<i32>, #[case] left: usize) {
    let mut world = World::settled(2, &rolling(1, 0));
    for class in ["b", "c", "d"] {
        world.later(60);
        world.use_class(class);
        world.settle();
    }
    world.edit(|deployment| deployment.spec.revision_history_limit = limit);
    world.settle();
    assert_eq!(world.sets.len(), left);
    assert_eq!(world.running_of("d"), 2);
}

#[test]
fn a_set_that_still_has_a_machine_is_not_history() {
    let mut world = World::settled(2, &rolling(1, 0));
    world.use_class("large");
    world.edit(|deployment| deployment.spec.revision_history_limit = Some(0));
    for _ in 0..6 {
        world.reconcile();
        world.run_sets();
        assert!(world.sets.values().all(|set| !set.is_deleting() || world.machines_of(set).next().is_none()));
        world.run_machines();
    }
}

#[rstest]
#[case(0)]
#[case(1)]
fn going_back_restores_the_template_and_answers_once(#[case] revision: i64) {
    let mut world = World::settled(2, &rolling(1, 0));
    world.annotate("team", "blue");
    world.settle();
    world.use_class("large");
    world.settle();
    world.annotate("team", "red");
    world.edit(|deployment| deployment.spec.rollback_to = Some(RollbackConfig { revision }));
    world.reconcile();
    assert_eq!(world.deployment.spec.template.spec.class.name, "small");
    assert_eq!(world.deployment.spec.rollback_to, None);
    assert_eq!(world.deployment.annotation("team"), Some("blue"));
    assert_eq!(world.told.last().unwrap(), "DeploymentRollback: Rolled back deployment \"md\" to revision 1");
    assert_eq!(
        world.deployment.spec.template.metadata.labels.as_ref().unwrap().text(names::labels::TEMPLATE_HASH),
        None
    );
    world.settle();
    assert_eq!((world.running_of("small"), world.live()), (2, 2));
}

#[rstest]
#[case(0, "DeploymentRollbackRevisionNotFound: Unable to find last revision.")]
#[case(7, "DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to.")]
#[case(
    1,
    "DeploymentRollbackTemplateUnchanged: The rollback revision contains the same template as current deployment \"md\""
)]
fn a_wish_that_cannot_be_granted_is_answered_too(#[case] revision: i64, #[case] told: &str) {
    let mut world = World::settled(1, &rolling(1, 0));
    world.edit(|deployment| deployment.spec.rollback_to = Some(RollbackConfig { revision }));
    world.reconcile();
    assert_eq!(world.told, [told]);
    assert_eq!(world.deployment.spec.rollback_to, None);
    world.settle();
}

#[test]
fn a_paused_deployment_is_scaled_and_nothing_else() {
    let mut world = World::settled(3, &rolling(1, 0));
    world.edit(|deployment| deployment.spec.paused = true);
    world.reconcile();
    assert_eq!(world.condition("Progressing"), Some(("Unknown".into(), "DeploymentPaused".into())));
    world.use_class("large");
    world.edit(|deployment| deployment.spec.replicas = 4);
    world.settle();
    assert_eq!((world.sets.len(), world.running_of("small")), (1, 4));
    world.edit(|deployment| deployment.spec.paused = false);
    let resumed = world.observe(plan);
    world.apply(&resumed.steps);
    world.settle();
    assert_eq!((world.running_of("large"), world.live()), (4, 4));
}

#[test]
fn a_pause_in_mid_roll_holds_everything_where_it_is() {
    let mut world = World::settled(4, &rolling(1, 1));
    world.use_class("large");
    world.reconcile();
    world.run_sets();
    world.run_machines();
    world.run_sets();
    world.edit(|deployment| deployment.spec.paused = true);
    world.reconcile();
    let sizes = (world.size_of("small"), world.size_of("large"));
    for _ in 0..5 {
        world.reconcile();
        world.run_sets();
        world.run_machines();
    }
    assert_eq!((world.size_of("small"), world.size_of("large")), sizes);
    world.edit(|deployment| deployment.spec.paused = false);
    world.settle();
    assert_eq!((world.running_of("large"), world.live()), (4, 4));
}

#[test]
fn a_stuck_roll_out_is_not_said_to_be_paused() {
    let mut world = World::settled(2, &rolling(1, 0));
    world.broken.insert("broken".to_owned());
    world.edit(|deployment| deployment.spec.progress_deadline_seconds = Some(10));
    world.use_class("broken");
    for _ in 0..10 {
        world.reconcile();
        world.run_sets();
        world.later(10);
    }
    world.edit(|deployment| deployment.spec.paused = true);
    world.reconcile();
    assert_eq!(world.condition("Progressing"), Some(("False".into(), "ProgressDeadlineExceeded".into())));
}

#[test]
fn a_deleted_deployment_takes_its_sets_along() {
    let mut world = World::settled(2, &rolling(1, 0));
    world.use_class("large");
    world.reconcile();
    world.deployment.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now));
    let plan = world.reconcile();
    assert_eq!(plan.because, Reason::SetsLeave(2));
    assert!(world.sets.values().all(Object::is_deleting));
    assert!(world.deployment.has_finalizer(names::finalizers::MACHINE));
    for _ in 0..3 {
        world.run_sets();
        world.run_machines();
    }
    world.run_sets();
    world.reconcile();
    assert!(!world.deployment.has_finalizer(names::finalizers::MACHINE) && world.machines.is_empty());
    assert!(world.plan().steps.is_empty());
}

#[test]
fn a_deployment_deleted_without_its_sets_leaves_them_alone() {
    let mut world = World::settled(2, &rolling(1, 0));
    world.deployment.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now));
    world.deployment.metadata.finalizers.as_mut().unwrap().push("orphan".to_owned());
    assert_eq!(world.plan().steps, []);
    for set in world.sets.values_mut() {
        set.metadata.owner_references = None; // the garbage collector lets go of them
    }
    world.reconcile();
    assert_eq!(world.deployment.metadata.finalizers.as_deref(), Some(["orphan".to_owned()].as_slice()));
    assert!(world.sets.values().all(|set| !set.is_deleting()));
}

#[test]
fn a_set_that_may_have_been_let_go_of_is_deleted_only_as_the_version_that_was_seen_owned() {
    let mut world = World::settled(2, &rolling(1, 0));
    world.deployment.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now));
    let seen: Vec<_> = world.sets.values().map(|set| Some(set.resource_version().to_owned())).collect();
    let guards = world.plan().steps.into_iter().filter_map(|step| match step {
        Step::DeleteSet { resource_version, .. } => Some(resource_version),
        _ => None,
    });
    assert_eq!(guards.collect::<Vec<_>>(), seen);
}

#[test]
fn an_invalid_deployment_is_told_once_keeps_its_other_conditions_and_can_still_be_deleted() {
    let mut world = World::settled(2, &rolling(1, 0));
    let before = (world.condition("Progressing"), world.condition("Available"));
    let strategy = std::mem::take(&mut world.deployment.spec.strategy);
    world.reconcile();
    assert_eq!(world.condition("Invalid"), Some(("True".into(), "InvalidSpec".into())));
    assert!(world.told.len() == 1 && world.told[0].contains("spec.strategy.type"), "{:?}", world.told);
    assert_eq!((world.condition("Progressing"), world.condition("Available")), before);
    assert!(world.plan().steps.is_empty());
    let mut mended = World::settled(0, &rolling(1, 0));
    std::mem::swap(&mut mended, &mut world);
    mended.deployment.spec.strategy = strategy;
    mended.reconcile();
    assert_eq!(mended.condition("Invalid"), None);
    mended.deployment.spec.selector = None;
    mended.deployment.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(mended.now));
    mended.reconcile();
    assert!(mended.sets.values().all(Object::is_deleting));
}

#[test]
fn an_empty_selector_selects_nothing() {
    let mut world = World::settled(2, &rolling(1, 0));
    world.edit(|deployment| deployment.spec.selector = Some(LabelSelector::default()));
    world.reconcile();
    assert_eq!(
        world.told,
        ["SelectingAll: This deployment is selecting all machines. A non-empty selector is required."]
    );
    assert_eq!(world.deployment.status.observed_generation, world.deployment.metadata.generation.unwrap());
    assert!(world.plan().steps.is_empty());
    assert_eq!(world.sets.len(), 1);
}

#[test]
fn nothing_that_can_be_written_crashes() {
    for spec in [
        json!({}),
        json!({ "replicas": -4 }),
        json!({ "strategy": { "type": "RollingUpdate" }, "selector": {} }),
        json!({ "revisionHistoryLimit": -1, "strategy": { "type": "InPlaceUpdate" } }),
    ] {
        let mut world = World::new(1, &rolling(1, 0));
        world.deployment.spec = read(spec);
        world
            .sets
            .insert("bare".into(), read(json!({ "metadata": { "name": "bare", "namespace": "ns", "uid": "u" } })));
        let plan = world.reconcile();
        assert!(matches!(plan.because, Reason::Invalid(_)), "{plan:#?}");
    }
}

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
    let mut world = World::settled(2, &rolling(1, 0));
    let mut spec = serde_json::to_value(&world.deployment.spec).unwrap();
    json_patch::merge(&mut spec, &change);
    world.edit(|deployment| deployment.spec = read(spec));
    let sets = world.sets.clone();
    for _ in 0..3 {
        world.reconcile();
        world.later(60);
    }
    let refused = matches!(world.plan().because, Reason::Invalid(_));
    assert!(!refused || world.sets == sets, "who is refused is not acted on");
    assert_eq!(world.told.len(), usize::from(refused), "a fault is told, once: {:?}", world.told);
    assert_eq!((world.sets.len(), world.running_of("small")), (1, 2), "nobody leaves because of it");
    assert!(world.plan().steps.is_empty(), "it comes to rest: {:#?}", world.plan());

    world.deployment.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now));
    for _ in 0..4 {
        world.reconcile();
        world.run_sets();
        world.run_machines();
    }
    assert!(world.sets.is_empty() && world.machines.is_empty(), "{:#?}", world.diary);
    world.reconcile();
    assert!(!world.deployment.has_finalizer(names::finalizers::MACHINE), "and nothing holds it any more");
}

#[test]
fn a_set_without_an_owner_is_adopted_and_one_that_lost_our_labels_let_go() {
    let mut world = World::settled(2, &rolling(1, 0));
    let name = world.set_of("small").name().to_owned();
    let set = world.sets.get_mut(&name).unwrap();
    set.metadata.owner_references = Some(vec![k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
        api_version: "v1".into(),
        kind: "Other".into(),
        name: "o".into(),
        uid: "o".into(),
        ..Default::default()
    }]);
    let plan = world.reconcile();
    assert!(
        matches!(&plan.steps[0], Step::Set(edit) if edit.change == SetChange::Adopt && edit.resource_version.is_some())
    );
    let owners = world.sets[&name].metadata.owner_references.clone().unwrap();
    assert_eq!(owners.iter().map(|owner| owner.name.as_str()).collect::<Vec<_>>(), ["o", "md"], "other owners stay");
    assert!(world.plan().steps.is_empty());
    world.sets.get_mut(&name).unwrap().metadata.labels.as_mut().unwrap().insert("name".into(), "else".into());
    world.reconcile();
    let owners = world.sets[&name].metadata.owner_references.clone().unwrap();
    assert_eq!(owners.iter().map(|owner| owner.name.as_str()).collect::<Vec<_>>(), ["o"]);
}

#[test]
fn an_adopted_set_without_a_hash_gets_one_in_three_moves() {
    let mut world = World::settled(2, &rolling(1, 0));
    let name = world.set_of("small").name().to_owned();
    let hash = world.sets[&name].label(names::labels::TEMPLATE_HASH).unwrap().to_owned();
    let set = world.sets.get_mut(&name).unwrap();
    set.metadata.labels.as_mut().unwrap().remove(names::labels::TEMPLATE_HASH);
    set.spec.selector.as_mut().unwrap().match_labels.remove(names::labels::TEMPLATE_HASH);
    set.spec.template.metadata.labels.as_mut().unwrap().remove(names::labels::TEMPLATE_HASH);
    for machine in world.machines.values_mut() {
        machine.metadata.labels.as_mut().unwrap().remove(names::labels::TEMPLATE_HASH);
    }
    assert_eq!(world.reconcile().because, Reason::HashMissing(name.clone()));
    assert!(world.machines.values().all(|machine| machine.label(names::labels::TEMPLATE_HASH).is_none()));
    world.reconcile();
    assert!(world.machines.values().all(|machine| machine.label(names::labels::TEMPLATE_HASH) == Some(&hash)));
    assert!(world.reconcile().steps.is_empty(), "its controller has not seen the template yet");
    world.run_sets();
    world.reconcile();
    assert_eq!(world.sets[&name].label(names::labels::TEMPLATE_HASH), Some(hash.as_str()));
    world.settle();
    assert_eq!((world.sets.len(), world.live()), (1, 2));
}

#[test]
fn a_set_that_is_being_deleted_is_never_the_new_one() {
    let mut world = World::settled(2, &rolling(1, 0));
    let name = world.set_of("small").name().to_owned();
    world.sets.get_mut(&name).unwrap().metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now));
    world.settle();
    assert!(!world.sets.contains_key(&name));
    assert_eq!((world.sets.len(), world.live()), (1, 2));
}

#[test]
fn a_set_that_could_not_be_made_is_told_once() {
    let mut world = World::new(1, &rolling(1, 0));
    let report = world.observe(|seen| creation_failed(seen, "md-x", "100% denied"));
    world.apply(&report.steps);
    assert_eq!(world.told, ["MachineSetCreateError: Failed to create new machine set \"md-x\": 100% denied"]);
    assert_eq!(world.condition("Progressing"), Some(("False".into(), "MachineSetCreateError".into())));
    assert!(world.observe(|seen| creation_failed(seen, "md-x", "100% denied")).steps.is_empty());
}

#[test]
fn a_status_is_written_when_it_says_something_new_and_only_then() {
    let mut world = World::settled(2, &rolling(1, 0));
    let name = world.set_of("small").name().to_owned();
    world.sets.get_mut(&name).unwrap().status.preserved_failed_replicas = 1;
    let plan = world.reconcile();
    assert!(matches!(plan.steps.as_slice(), [Step::Status(_)]), "{:#?}", plan.steps);
    assert_eq!(world.deployment.status.preserved_failed_replicas, 1);
    assert!(world.plan().steps.is_empty());
}

#[test]
fn what_kept_a_set_from_making_machines_is_shown_and_taken_back() {
    let mut world = World::settled(2, &rolling(1, 0));
    let name = world.set_of("small").name().to_owned();
    let failure = read(
        json!({ "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no", "lastTransitionTime": "2026-01-01T00:00:00Z" }),
    );
    world.sets.get_mut(&name).unwrap().status.conditions.push(failure);
    world.reconcile();
    assert_eq!(world.condition("ReplicaFailure"), Some(("True".into(), "FailedCreate".into())));
    world.sets.get_mut(&name).unwrap().status.conditions.clear();
    world.reconcile();
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[test]
fn how_many_may_be_replaced_at_once_reaches_every_set_that_has_machines() {
    let mut world = World::settled(3, &rolling(1, 0));
    world.use_class("large");
    world.reconcile();
    world.run_sets();
    world.annotate(names::annotations::MAX_REPLACEMENTS, "50%");
    world.reconcile();
    let said = |world: &World, class: &str| {
        world.set_of(class).annotation(names::annotations::MAX_REPLACEMENTS).map(str::to_owned)
    };
    assert_eq!((said(&world, "small").as_deref(), said(&world, "large").as_deref()), (Some("50%"), Some("50%")));
    world.settle();
    world.annotate(names::annotations::MAX_REPLACEMENTS, "2");
    world.settle();
    assert_eq!(said(&world, "large").as_deref(), Some("2"));
    assert_eq!(said(&world, "small").as_deref(), Some("50%"), "nobody reads it on an empty set");
}
