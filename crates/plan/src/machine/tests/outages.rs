//! What a machine's plan makes of our not having seen.

use std::time::Duration;

use api::MachinePhase;
use serde_json::json;

use super::super::*;
use super::world::World;

const MINUTE: Duration = Duration::from_mins(1);

/// A machine whose node has just fallen ill.
fn ill() -> World {
    let mut world = World::new();
    world.settle();
    world.register("True");
    world.settle();
    world.register("False");
    world.settle();
    assert_eq!(*world.machine().phase(), MachinePhase::Unknown);
    world.diary.clear();
    world
}

fn disconnected_for(world: &mut World, time: Duration) {
    world.outages.begin(world.now);
    world.wait(time);
    world.outages.end(world.now);
}

#[test]
fn a_machine_that_became_unhealthy_before_we_were_disconnected_starts_over_without_being_called_healthy() {
    let mut world = ill();
    world.wait(9 * MINUTE);
    disconnected_for(&mut world, 30 * MINUTE);
    world.settle();
    let status = &world.machine().status;
    assert_eq!(status.current_status.phase, MachinePhase::Unknown, "nobody has seen that it runs");
    assert_eq!(
        status.last_operation.description,
        "Machine Health Timeout was reset due to APIServer being unreachable"
    );
    world.wait(9 * MINUTE);
    assert!(world.plan().steps.is_empty(), "written once");
    world.wait(2 * MINUTE);
    world.settle();
    assert_eq!(*world.machine().phase(), MachinePhase::Failed, "it is marked Failed when it stays ill before our eyes");
}

#[test]
fn a_machine_that_was_ill_and_is_well_when_we_see_again_just_runs() {
    let mut world = ill();
    disconnected_for(&mut world, 30 * MINUTE);
    world.register("True");
    world.settle();
    assert_eq!(*world.machine().phase(), MachinePhase::Running);
}

#[test]
fn a_machine_that_was_to_join_while_we_were_disconnected_gets_that_time_back() {
    let mut world = World::new();
    world.settle();
    world.wait(10 * MINUTE);
    disconnected_for(&mut world, 60 * MINUTE);
    world.settle();
    assert_eq!(*world.machine().phase(), MachinePhase::Pending);
    world.wait(10 * MINUTE + Duration::from_secs(1));
    world.settle();
    assert_eq!(*world.machine().phase(), MachinePhase::Failed);
}

#[test]
fn who_is_frozen_makes_nothing_and_gives_nobody_up() {
    let mut new = World::new();
    new.connectivity = Connectivity::Frozen;
    new.settle();
    assert_eq!((new.created, new.diary.as_slice()), (0, ["add our finalizer".to_owned()].as_slice()));
    let mut ill = ill();
    ill.connectivity = Connectivity::Frozen;
    ill.wait(60 * MINUTE);
    assert!(ill.plan().steps.is_empty());
}

#[test]
fn who_is_frozen_still_deletes_what_somebody_asked_to_delete() {
    let mut world = World::new();
    world.settle();
    world.register("True");
    world.settle();
    world.connectivity = Connectivity::Frozen;
    world.delete();
    world.settle();
    assert!(world.machine.is_none());
    assert_eq!((world.vms, world.node.is_none()), (0, true));
}

#[test]
fn who_is_frozen_deletes_no_machine_because_of_its_node() {
    let mut world = World::new();
    world.settle();
    world.register("True");
    world.settle();
    let mut node = serde_json::to_value(world.node.as_ref().unwrap()).unwrap();
    node["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    world.node = Some(super::world::read(node));
    world.connectivity = Connectivity::Frozen;
    assert!(world.plan().steps.is_empty(), "{:?}", world.plan());
}
