//! Updating without replacing.

use api::{MachinePhase, Object, names};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::world::{World, in_place};

fn chosen(world: &World) -> Vec<String> {
    let chosen = world.nodes.iter().filter(|(_, node)| node.label(names::labels::SELECTED_FOR_UPDATE).is_some());
    chosen.map(|(name, _)| name.clone()).collect()
}

#[rstest]
#[case(0, 1)]
#[case(1, 0)]
#[case(2, 2)]
fn machines_are_kept_and_move_to_the_new_set(#[case] surge: i32, #[case] unavailable: i32) {
    let mut world = World::settled(5, &in_place("Auto", surge, unavailable));
    let before: Vec<String> = world.machines.keys().cloned().collect();
    world.use_class("large");
    world.settle();
    let kept = before.iter().filter(|name| world.machines.contains_key(*name)).count();
    assert!(
        kept >= 5 - usize::try_from(surge).unwrap(),
        "only what the surge replaced is new: {:?}",
        world.machines.keys()
    );
    assert_eq!((world.live(), world.size_of("large"), world.size_of("small")), (5, 5, 0));
    let new = world.set_of("large");
    for seen in world.machines_of(new).collect::<Vec<_>>() {
        assert_eq!(seen.machine.label(names::labels::UPDATE_RESULT), None);
        assert_eq!(seen.machine.label(names::labels::TEMPLATE_HASH), new.label(names::labels::TEMPLATE_HASH));
    }
}

#[test]
fn no_more_are_chosen_at_once_than_may_be_unavailable() {
    let mut world = World::settled(5, &in_place("Auto", 0, 2));
    world.use_class("large");
    for _ in 0..4 {
        world.reconcile();
    }
    assert_eq!(chosen(&world).len(), 2);
    world.run_machines();
    world.reconcile();
    assert_eq!(chosen(&world).len(), 2, "those being updated are counted once");
}

#[test]
fn what_does_not_run_anyway_is_chosen_first() {
    let mut world = World::settled(4, &in_place("Auto", 0, 1));
    let sick = world.machines.keys().nth(2).unwrap().clone();
    world.set_phase(&sick, MachinePhase::Unknown);
    world.run_sets();
    world.use_class("large");
    for _ in 0..3 {
        world.reconcile();
    }
    assert_eq!(chosen(&world), [sick]);
}

#[rstest]
#[case((2, 2), (1, 1), 0, 1)]
#[case((2, 2), (1, 0), 0, 0)]
#[case((2, 2), (1, 1), 1, 1)]
fn the_budget_is_the_table_s(
    #[case] old: (usize, usize),
    #[case] new: (usize, usize),
    #[case] selected: usize,
    #[case] total: usize,
) {
    let mut world = World::settled(3, &in_place("Auto", 0, 1));
    world.use_class("large");
    world.reconcile();
    world.reconcile();
    // One machine has moved already.
    let first = chosen(&world).remove(0);
    world.run_machine(&first);
    world.run_machine(&first);
    world.reconcile();
    world.run_machine(&first);
    assert_eq!((old.0, new.0), (2, 1));
    if new.1 == 0 {
        world.set_phase(&first, MachinePhase::Unknown);
    }
    world.run_sets();
    let clear: Vec<String> = chosen(&world);
    for name in clear.iter().skip(selected) {
        world.nodes.get_mut(name).unwrap().metadata.labels.as_mut().unwrap().remove(names::labels::SELECTED_FOR_UPDATE);
    }
    world.reconcile();
    world.reconcile();
    assert!(chosen(&world).len() >= selected);
    assert_eq!(chosen(&world).len(), total.max(selected));
}

#[test]
fn under_manual_orchestration_the_user_chooses() {
    let mut world = World::settled(3, &in_place("Manual", 1, 1));
    world.use_class("large");
    for _ in 0..5 {
        world.reconcile();
        world.run_sets();
    }
    assert!(chosen(&world).is_empty() && world.size_of("large") == 0);
    let wished = world.nodes.keys().nth(1).unwrap().clone();
    let labels = world.nodes.get_mut(&wished).unwrap().metadata.labels.get_or_insert_default();
    labels.insert(names::labels::SELECTED_FOR_UPDATE.to_owned(), "true".to_owned());
    world.settle();
    assert_eq!((world.size_of("large"), world.size_of("small"), world.live()), (1, 2, 3));
    let new = world.set_of("large").clone();
    assert_eq!(world.machines_of(&new).next().unwrap().machine.name(), wished);
}

#[test]
fn a_failed_update_halts_the_roll_out_and_a_later_success_carries_on() {
    let mut world = World::settled(3, &in_place("Auto", 0, 1));
    world.use_class("large");
    world.reconcile();
    world.reconcile();
    let name = chosen(&world).remove(0);
    world.run_machine(&name);
    world.finish_update(&name, "failed");
    for _ in 0..5 {
        world.run_sets();
        world.reconcile();
    }
    assert_eq!(chosen(&world), std::slice::from_ref(&name), "nobody else is touched");
    assert_eq!(world.size_of("large"), 0);
    world.finish_update(&name, "successful");
    world.settle();
    assert_eq!((world.size_of("large"), world.live()), (3, 3));
}

#[test]
fn a_machine_that_never_joins_holds_up_only_itself() {
    let mut world = World::settled(3, &in_place("Auto", 1, 0));
    world.broken.insert("large".to_owned());
    world.use_class("large");
    for _ in 0..40 {
        world.reconcile();
        world.run_sets();
        world.run_machines();
        world.run_sets();
    }
    // The surge machine never comes, so nothing may be taken away; but nothing that was updated is lost, and nobody is stuck half-way.
    assert_eq!(world.machines.values().filter(|m| *m.phase() == MachinePhase::Running).count(), 3);
    let never = world.machines.iter().find(|(_, m)| *m.phase() == MachinePhase::Pending).unwrap().0.clone();
    world.set_phase(&never, MachinePhase::Failed);
    world.broken.clear();
    world.settle();
    assert_eq!((world.live(), world.size_of("large")), (3, 3));
}

#[test]
fn a_crash_between_move_and_sizes_loses_no_machine() {
    for until in 0..12 {
        let mut world = World::settled(3, &in_place("Auto", 0, 1));
        world.use_class("large");
        world.reconcile();
        world.reconcile();
        let name = chosen(&world).remove(0);
        world.run_machine(&name);
        world.run_machine(&name);
        let plan = world.plan();
        let steps: Vec<Step> = plan.steps.iter().take(until).cloned().collect();
        world.apply(&steps);
        world.run_sets(); // the sets' controller looks at the half-done work
        assert_eq!(world.live(), 3, "after {until} of {:#?}", plan.steps);
        world.settle();
        assert!(world.machines.contains_key(&name), "after {until} of {:#?}", plan.steps);
    }
}

#[test]
fn an_old_set_is_forbidden_to_replace_before_anything_leaves_it() {
    let mut world = World::settled(2, &in_place("Auto", 0, 1));
    world.use_class("large");
    world.reconcile();
    assert_eq!(world.set_of("small").label(names::labels::SCALE_UP_DISABLED), Some("true"));
    world.use_class("small");
    world.settle();
    assert_eq!(
        world.set_of("small").label(names::labels::SCALE_UP_DISABLED),
        None,
        "and free again when it is the new one"
    );
    assert!(world.nodes.values().all(|node| node.label(names::labels::CANDIDATE_FOR_UPDATE).is_none()));
}

#[test]
fn an_updated_node_is_given_back_in_one_write_without_a_second_taint() {
    let mut world = World::settled(1, &in_place("Auto", 0, 1));
    world.use_class("large");
    world.reconcile();
    world.reconcile();
    let name = chosen(&world).remove(0);
    world.run_machine(&name);
    world.run_machine(&name);
    let node = world.nodes.get_mut(&name).unwrap();
    node.spec.taints.push(
        serde_json::from_value(
            json!({ "key": names::taints::CRITICAL_COMPONENTS, "effect": "NoSchedule", "value": "x" }),
        )
        .unwrap(),
    );
    node.metadata
        .annotations
        .get_or_insert_default()
        .insert(names::annotations::UPDATE_FAILED_REASON.to_owned(), "once".to_owned());
    let plan = world.reconcile();
    assert_eq!(plan.steps.iter().filter(|step| matches!(step, Step::Node(_))).count(), 1);
    let node = &world.nodes[&name];
    let keys: Vec<&str> = node.spec.taints.iter().map(|taint| taint.key.as_str()).collect();
    assert_eq!(keys, [names::taints::CRITICAL_COMPONENTS]);
    assert!(!node.spec.unschedulable && node.label(names::labels::UPDATE_RESULT).is_none());
    assert_eq!(node.annotation(names::annotations::UPDATE_FAILED_REASON), None);
}

#[test]
fn without_a_target_cluster_it_is_refused_with_the_fix() {
    let mut world = World::new(1, &in_place("Auto", 0, 1));
    world.target = TargetCluster::None;
    world.reconcile();
    assert!(world.told.iter().any(|told| told.contains("without a target cluster")), "{:?}", world.told);
    assert!(world.sets.is_empty());
}
