//! The stages of a life, in their order.

use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;

/// Reconciles until nothing is left to do, and tells each stage once.
fn stages(fixture: &mut MachineFixture) -> Vec<Stage> {
    let mut seen = vec![fixture.stage()];
    while fixture.reconcile() && fixture.machine.is_some() {
        seen.push(fixture.stage());
    }
    seen.dedup();
    seen
}

/// Shows TRC-1.
#[test]
fn a_life_goes_through_its_stages_in_their_order() {
    let mut fixture = MachineFixture::new();
    let mut seen = stages(&mut fixture);
    fixture.wait(Duration::from_secs(42));
    fixture.register("True");
    seen.extend(stages(&mut fixture));
    fixture.delete();
    seen.extend(stages(&mut fixture));
    seen.dedup();
    assert!(fixture.machine.is_none());
    let mut expected = vec![Stage::Ask, Stage::Create, Stage::Initialize, Stage::Join, Stage::Live, Stage::Drain];
    expected.extend([Stage::DeleteVm, Stage::DeleteNode, Stage::LetGo]);
    assert_eq!(seen, expected);
}

#[rstest]
#[case(Call::Status, Stage::Ask)]
#[case(Call::Create, Stage::Create)]
#[case(Call::Initialize, Stage::Initialize)]
fn a_call_under_way_is_its_stage(#[case] call: Call, #[case] expected: Stage) {
    let mut fixture = MachineFixture::new();
    fixture.call_under_way = Some(CallUnderWay { call, until: Timestamp::MAX });
    assert_eq!(fixture.stage(), expected);
}

#[test]
fn a_machine_that_only_others_hold_is_let_go_of() {
    let mut fixture = MachineFixture::running();
    fixture.delete();
    fixture.edit(|machine| machine["metadata"]["finalizers"] = json!(["someone/else"]));
    assert_eq!(fixture.stage(), Stage::LetGo);
}

#[rstest]
#[case::neither_asked_for_nor_let_go_of(None, Some(api::names::finalizers::NODE), Stage::DeleteNode)]
#[case::not_yet_let_go_of(Some("2026-01-01T00:00:10Z"), Some(api::names::finalizers::NODE), Stage::DeleteNode)]
#[case::not_yet_asked_for(None, None, Stage::DeleteNode)]
#[case::left_to_others(Some("2026-01-01T00:00:10Z"), None, Stage::LetGo)]
fn a_node_is_done_with_once_it_is_being_deleted_and_our_finalizer_is_gone(
    #[case] deleted: Option<&str>,
    #[case] ours: Option<&str>,
    #[case] expected: Stage,
) {
    let mut fixture = MachineFixture::running();
    fixture.delete();
    while fixture.stage() != Stage::DeleteNode {
        assert!(fixture.reconcile(), "it never comes to its node");
    }
    let finalizers: Vec<&str> = ours.into_iter().chain(["someone/else"]).collect();
    fixture.edit_node(|node| {
        node["metadata"]["deletionTimestamp"] = json!(deleted);
        node["metadata"]["finalizers"] = json!(finalizers);
    });
    assert_eq!(fixture.stage(), expected);
}
