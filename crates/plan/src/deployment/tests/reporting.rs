//! When what a roll-out has come to is written.

use api::{MachinePhase, Object};
use serde_json::json;

use super::super::*;
use super::world::{World, rolling};

fn writes_status(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| matches!(step, Step::Status(_)))
}

/// Thirty machines with eight new ones on their way, and a status that was written just now.
fn rolling_thirty() -> World {
    let mut world = World::settled(30, &rolling(8, 0));
    world.use_class("large");
    world.reconcile();
    world.run_sets();
    while !world.reconcile().steps.is_empty() {}
    world.reported = Some(world.now);
    world
}

/// One more of them runs, and its set has counted it.
fn one_more(world: &mut World) {
    let pending = world.machines.values().find(|machine| *machine.phase() == MachinePhase::Pending).unwrap();
    let name = pending.name().to_owned();
    world.run_machine(&name);
    let set = world.set_of("large").name().to_owned();
    world.run_set(&set);
}

#[test]
fn one_machine_of_thirty_is_acted_on_at_once_and_written_with_others_or_after_a_while() {
    let mut world = rolling_thirty();
    let before = world.plan();
    assert!(before.steps.is_empty(), "{:#?}", before.steps);
    one_more(&mut world);
    let plan = world.plan();
    assert!(plan.steps.iter().any(|step| matches!(step, Step::Set(_))), "the roll-out goes on: {:#?}", plan.steps);
    assert!(!writes_status(&plan), "{:#?}", plan.steps);
    let Wake::By { at, .. } = plan.wake else { panic!("{:?}", plan.wake) };
    assert_eq!(at, world.now + world.policy.report_delay, "nobody has to wait for another change");
    world.later(5);
    assert!(writes_status(&world.plan()));
}

#[test]
fn a_fifth_of_the_machines_is_written_at_once() {
    let mut world = rolling_thirty();
    for _ in 0..3 {
        one_more(&mut world);
    }
    assert!(!writes_status(&world.plan()), "three of thirty-eight that are there");
    for _ in 0..5 {
        one_more(&mut world);
    }
    assert!(writes_status(&world.plan()), "eight of them");
}

#[test]
fn what_is_no_count_is_written_at_once() {
    let mut world = rolling_thirty();
    one_more(&mut world);
    world.edit(|deployment| deployment.spec.replicas = 31);
    assert!(writes_status(&world.plan()), "whoever scales waits for observedGeneration");

    let mut world = rolling_thirty();
    let name = world.set_of("large").name().to_owned();
    let failed = super::world::read(json!({ "name": "m", "lastOperation": { "state": "Failed" } }));
    world.sets.get_mut(&name).unwrap().status.failed_machines.push(failed);
    assert!(writes_status(&world.plan()), "the autoscaler reads failedMachines");

    let mut world = rolling_thirty();
    let name = world.set_of("small").name().to_owned();
    world.sets.get_mut(&name).unwrap().status.available_replicas -= 5;
    assert!(writes_status(&world.plan()), "too few are available");
}

#[test]
fn the_end_of_a_roll_out_is_written_at_once() {
    let mut world = World::settled(30, &rolling(3, 3));
    world.use_class("large");
    let mut seen = false;
    for _ in 0..200 {
        world.reported = Some(world.now);
        world.reconcile();
        world.run_sets();
        world.run_machines();
        world.run_sets();
        let running = world.set_of("large").status.available_replicas;
        if running == 30 && world.machines.len() == 30 && !seen {
            seen = true;
            world.reported = Some(world.now);
            world.reconcile();
            assert_eq!(world.condition("Progressing"), Some(("True".into(), "NewMachineSetAvailable".into())));
            assert_eq!(world.deployment.status.updated_replicas, 30);
        }
    }
    assert!(seen);
}
