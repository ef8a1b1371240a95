//! What a roll-out writes on nodes, and takes back.

use api::{Object, names};
use rstest::rstest;

use super::super::*;
use super::world::{World, rolling};

fn tainted(world: &World, name: &str) -> bool {
    world.nodes[name].spec.taints.iter().any(|taint| taint.key == names::taints::PREFER_NO_SCHEDULE)
}

fn kept(world: &World, name: &str) -> (bool, bool) {
    let node = &world.nodes[name];
    (
        node.annotation(names::annotations::SCALE_DOWN_DISABLED).is_some(),
        node.annotation(names::annotations::SCALE_DOWN_DISABLED_BY_US).is_some(),
    )
}

#[test]
fn a_roll_out_marks_every_node_in_one_write_each() {
    let mut world = World::settled(3, &rolling(1, 0));
    world.use_class("large");
    let plan = world.reconcile();
    let nodes = plan.steps.iter().filter(|step| matches!(step, Step::Node(_))).count();
    assert_eq!(nodes, 3);
    for name in world.nodes.keys().cloned().collect::<Vec<_>>() {
        assert!(tainted(&world, &name));
        assert_eq!(kept(&world, &name), (true, true));
    }
    let old = world.set_of("small");
    assert_eq!(old.annotation(names::annotations::PREFER_NO_SCHEDULE), Some("True"));
    assert!(!world.plan().steps.iter().any(|step| matches!(step, Step::Node(_))), "once is enough");
}

#[test]
fn a_node_that_joins_late_is_marked_too() {
    let mut world = World::settled(2, &rolling(1, 0));
    let late = world.machines.keys().next().unwrap().clone();
    let node = world.nodes.remove(&late).unwrap();
    world.use_class("large");
    world.reconcile();
    world.nodes.insert(late.clone(), node);
    world.reconcile();
    assert!(tainted(&world, &late));
}

#[test]
fn going_back_takes_the_taint_off_at_once() {
    let mut world = World::settled(3, &rolling(1, 0));
    world.use_class("large");
    world.reconcile();
    world.use_class("small");
    world.reconcile();
    assert!(world.nodes.keys().all(|name| !tainted(&world, name)));
    assert_eq!(world.set_of("small").annotation(names::annotations::PREFER_NO_SCHEDULE), None);
}

#[test]
fn the_autoscaler_has_its_nodes_back_when_the_roll_out_is_complete_and_not_before() {
    let mut world = World::settled(2, &rolling(1, 0));
    world.use_class("large");
    let mut rolled = false;
    for _ in 0..30 {
        world.reconcile();
        world.run_sets();
        world.run_machines();
        world.run_sets();
        if world.size_of("small") == 0 && world.sets.len() == 2 {
            rolled = true;
        }
    }
    assert!(rolled);
    assert!(world.nodes.keys().all(|name| kept(&world, name) == (false, false)));
}

#[rstest]
#[case("true")]
#[case("false")]
fn a_user_s_own_annotation_is_neither_adopted_nor_removed(#[case] value: &str) {
    let mut world = World::settled(1, &rolling(1, 0));
    let name = world.nodes.keys().next().unwrap().clone();
    let annotations = world.nodes.get_mut(&name).unwrap().metadata.annotations.get_or_insert_default();
    annotations.insert(names::annotations::SCALE_DOWN_DISABLED.to_owned(), value.to_owned());
    world.use_class("large");
    world.reconcile();
    assert_eq!(world.nodes[&name].annotation(names::annotations::SCALE_DOWN_DISABLED), Some(value));
    assert_eq!(kept(&world, &name), (true, false));
    world.use_class("small");
    world.settle();
    assert_eq!(world.nodes[&name].annotation(names::annotations::SCALE_DOWN_DISABLED), Some(value));
}

#[test]
fn a_preserved_machine_s_node_stays_kept() {
    let mut world = World::settled(1, &rolling(1, 0));
    let name = world.nodes.keys().next().unwrap().clone();
    let annotations = world.nodes.get_mut(&name).unwrap().metadata.annotations.get_or_insert_default();
    for key in [names::annotations::SCALE_DOWN_DISABLED, names::annotations::SCALE_DOWN_DISABLED_BY_US] {
        annotations.insert(key.to_owned(), "true".to_owned());
    }
    let until = api::Time::from(world.now).plus(jiff::SignedDuration::from_hours(1));
    world.machines.get_mut(&name).unwrap().status.current_status.preserve_expiry_time = Some(until);
    world.reconcile();
    assert_eq!(kept(&world, &name), (true, true));
}

#[test]
fn the_flag_switches_the_autoscaler_s_guard_off() {
    let mut world = World::settled(2, &rolling(1, 0));
    world.policy.fleet.autoscaler_guard = AutoscalerGuard::Off;
    world.use_class("large");
    world.reconcile();
    assert!(world.nodes.keys().all(|name| kept(&world, name) == (false, false) && tainted(&world, name)));
}

#[test]
fn a_large_fleet_is_marked_in_portions() {
    let mut world = World::settled(7, &rolling(1, 0));
    world.policy.fleet.nodes_per_reconcile = 3;
    world.use_class("large");
    let plan = world.reconcile();
    assert_eq!(plan.steps.iter().filter(|step| matches!(step, Step::Node(_))).count(), 3);
    assert_eq!(plan.wake, Wake::Again);
    world.reconcile();
    world.reconcile();
    assert!(world.nodes.keys().all(|name| tainted(&world, name)));
}

#[test]
fn a_finished_roll_out_writes_no_node() {
    let mut world = World::settled(3, &rolling(1, 0));
    world.use_class("large");
    world.settle();
    assert!(world.plan().steps.is_empty());
}

#[test]
fn while_it_rolls_nodes_that_join_any_of_its_sets_are_to_be_kept_from_the_autoscaler() {
    let mut world = World::settled(2, &rolling(1, 0));
    assert!(world.plan().guarded.is_empty());
    world.use_class("large");
    world.reconcile();
    let uids: Vec<_> = ["small", "large"].map(|class| world.set_of(class).uid()).to_vec();
    assert_eq!(world.plan().guarded, uids);
    world.policy.fleet.autoscaler_guard = AutoscalerGuard::Off;
    assert!(world.plan().guarded.is_empty(), "the flag switches it off");
    world.policy.fleet.autoscaler_guard = AutoscalerGuard::On;
    world.settle();
    assert!(world.plan().guarded.is_empty(), "and so does the end of the roll-out");
}

#[test]
fn an_old_set_none_of_whose_nodes_was_tainted_does_not_say_so() {
    let mut world = World::settled(2, &rolling(1, 0));
    world.use_class("large");
    world.nodes.clear();
    world.reconcile();
    assert_eq!(world.set_of("small").annotation(names::annotations::PREFER_NO_SCHEDULE), None);
}
