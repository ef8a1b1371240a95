//! The stages and their order.

use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;

/// Reconciles until nothing is left to do, and returns each stage once.
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
fn stages_follow_their_order() {
    let mut fixture = MachineFixture::new();
    let mut seen = stages(&mut fixture);
    fixture.wait(Duration::from_secs(42));
    fixture.register("True");
    seen.extend(stages(&mut fixture));
    fixture.delete();
    seen.extend(stages(&mut fixture));
    seen.dedup();
    assert!(fixture.machine.is_none());
    let mut expected = vec![Stage::LookUpVm, Stage::Create, Stage::Initialize, Stage::Join, Stage::Live, Stage::Drain];
    expected.extend([Stage::DeleteVm, Stage::DeleteNode, Stage::RemoveFinalizer]);
    assert_eq!(seen, expected);
}

#[rstest]
#[case(Call::Status, Stage::LookUpVm)]
#[case(Call::Create, Stage::Create)]
#[case(Call::Initialize, Stage::Initialize)]
fn driver_call_determines_the_stage(#[case] call: Call, #[case] expected: Stage) {
    let mut fixture = MachineFixture::new();
    fixture.call_under_way = Some(CallUnderWay { call, until: Timestamp::MAX });
    assert_eq!(fixture.stage(), expected);
}

#[test]
fn stage_is_remove_finalizer_when_only_others_remain() {
    let mut fixture = MachineFixture::running();
    fixture.delete();
    fixture.edit(|machine| machine["metadata"]["finalizers"] = json!(["someone/else"]));
    assert_eq!(fixture.stage(), Stage::RemoveFinalizer);
}

#[rstest]
#[case::neither_asked_for_nor_let_go_of(None, Some(api::names::finalizers::NODE), Stage::DeleteNode)]
#[case::not_yet_let_go_of(Some("2026-01-01T00:00:10Z"), Some(api::names::finalizers::NODE), Stage::DeleteNode)]
#[case::not_yet_asked_for(None, None, Stage::DeleteNode)]
#[case::left_to_others(Some("2026-01-01T00:00:10Z"), None, Stage::RemoveFinalizer)]
fn node_is_done_when_deleting_without_the_finalizer(
    #[case] deleted: Option<&str>,
    #[case] ours: Option<&str>,
    #[case] expected: Stage,
) {
    let mut fixture = MachineFixture::running();
    fixture.delete();
    while fixture.stage() != Stage::DeleteNode {
        assert!(fixture.reconcile(), "the Node is never deleted");
    }
    let finalizers: Vec<&str> = ours.into_iter().chain(["someone/else"]).collect();
    fixture.edit_node(|node| {
        node["metadata"]["deletionTimestamp"] = json!(deleted);
        node["metadata"]["finalizers"] = json!(finalizers);
    });
    assert_eq!(fixture.stage(), expected);
}
