//! The stages of a life, in their order.

use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::world::World;

/// Passes until nothing is left to do, and tells each stage once.
fn stages(world: &mut World) -> Vec<Stage> {
    let mut seen = vec![world.stage()];
    while world.pass() && world.machine.is_some() {
        seen.push(world.stage());
    }
    seen.dedup();
    seen
}

#[test]
fn a_life_goes_through_its_stages_in_their_order() {
    let mut world = World::new();
    let mut seen = stages(&mut world);
    world.wait(Duration::from_secs(42));
    world.register("True");
    seen.extend(stages(&mut world));
    world.delete();
    seen.extend(stages(&mut world));
    seen.dedup();
    assert!(world.machine.is_none());
    let mut expected = vec![Stage::Ask, Stage::Create, Stage::Initialize, Stage::Join, Stage::Live, Stage::Drain];
    expected.extend([Stage::DeleteVm, Stage::DeleteNode, Stage::LetGo]);
    assert_eq!(seen, expected);
}

#[rstest]
#[case(Call::Status, Stage::Ask)]
#[case(Call::Create, Stage::Create)]
#[case(Call::Initialize, Stage::Initialize)]
fn a_call_under_way_is_its_stage(#[case] call: Call, #[case] expected: Stage) {
    let mut world = World::new();
    world.vm = VmState::Calling { call, until: Timestamp::MAX };
    assert_eq!(world.stage(), expected);
}

#[test]
fn a_machine_that_only_others_hold_is_let_go_of() {
    let mut world = World::running();
    world.delete();
    world.edit(|machine| machine["metadata"]["finalizers"] = json!(["someone/else"]));
    assert_eq!(world.stage(), Stage::LetGo);
}
