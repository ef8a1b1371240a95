//! What a deletion may conclude from a node that nobody has seen.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::world::World;
use crate::drain::Outlook;

const ASKED: &str = "ask for node \"node-1\"";

/// A machine whose VM runs and was written down, and of whose node nobody has heard.
fn pending() -> World {
    let mut world = World::new();
    world.settle();
    world.forget();
    world
}

fn asked(world: &World) -> usize {
    world.diary.iter().filter(|line| *line == ASKED).count()
}

#[test]
fn a_node_that_joined_unseen_is_found_emptied_and_deleted() {
    let mut world = pending();
    world.register("True");
    world.node_is_unseen = true;
    world.add_pod("web-1");
    world.delete();
    world.settle();
    assert!(world.machine.is_none() && world.node.is_none(), "{:#?}", world.diary);
    assert_eq!(asked(&world), 1, "it is not asked for again once we have deleted it");
    let place = |what: &str| world.diary.iter().position(|line| line.starts_with(what)).unwrap();
    assert!(place(ASKED) < place("cordon"));
    assert!(place("cordon") < place("ask the cloud to delete"));
}

#[test]
fn a_node_that_joins_after_the_drain_is_found_once_its_vm_is_gone() {
    let mut world = pending();
    world.delete();
    while !world.diary.iter().any(|line| line.ends_with("Initiate VM deletion")) {
        assert!(world.reconcile());
    }
    world.register("True");
    world.node_is_unseen = true;
    world.settle();
    assert!(world.machine.is_none() && world.node.is_none(), "{:#?}", world.diary);
}

#[test]
fn a_node_that_was_seen_costs_no_question() {
    let mut world = World::running();
    world.delete();
    world.settle();
    assert_eq!(asked(&world), 0);
}

#[test]
fn a_machine_that_never_joined_goes_after_two_questions() {
    let mut world = pending();
    world.delete();
    world.settle();
    assert!(world.machine.is_none());
    assert_eq!(asked(&world), 2);
    assert_eq!(world.told, ["Terminating", "Gone"]);
}

#[rstest]
#[case::marked("Set machine status to termination. Now, getting VM Status")]
#[case::draining("Initiate node drain")]
#[case::detaching("Force Drain successful. Delete Volume Attachments")]
#[case::at_its_node("VM deletion was successful. Initiate node object deletion")]
fn whoever_takes_over_asks_before_it_concludes_anything(#[case] text: &str) {
    let mut world = pending();
    world.delete();
    world.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] = json!({ "description": text, "state": "Processing", "type": "Delete" });
    });
    world.reconcile();
    assert_eq!(world.diary, [ASKED]);
}

#[test]
fn what_cannot_be_said_is_asked_again_every_few_seconds_and_told_once() {
    let mut world = pending();
    world.mute = Some(Outlook::Passing);
    world.delete();
    world.settle();
    assert_eq!(
        world.text(),
        "Retrieval of Node Object \"node-1\" failed due to error: boom, Retrying. Initiate node drain"
    );
    let at = super::super::facts::later(world.now, Duration::from_secs(5));
    assert_eq!(world.plan().wake, Wake::By { awaited: Awaited::Retry, at });
    world.forget();
    world.now = at;
    world.settle();
    assert_eq!(world.diary, [ASKED], "it is still so, and was said");
    world.mute = None;
    world.wait(Duration::from_secs(5));
    world.settle();
    assert!(world.machine.is_none());
}

#[rstest]
#[case::a_refusal_is_an_answer(Some(Outlook::Lasting), false, Duration::ZERO)]
#[case::force_waits_for_nobody(Some(Outlook::Passing), true, Duration::ZERO)]
#[case::nobody_waits_for_ever(Some(Outlook::Passing), false, Duration::from_hours(2))]
fn a_machine_goes_though_nobody_can_say_and_tells_it(
    #[case] mute: Option<Outlook>,
    #[case] force: bool,
    #[case] patience: Duration,
) {
    let mut world = pending();
    world.delete();
    while !world.diary.iter().any(|line| line.ends_with("Initiate VM deletion")) {
        assert!(world.reconcile());
    }
    world.mute = mute;
    if force {
        world.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("true"));
    }
    world.settle();
    if !patience.is_zero() {
        world.wait(patience.saturating_sub(Duration::from_secs(1)));
        world.settle();
        assert!(world.machine.is_some(), "not before its time");
        world.wait(Duration::from_secs(1));
        world.settle();
    }
    assert!(world.machine.is_none(), "{:#?}", world.diary);
    assert_eq!(world.told, ["Terminating", "NodeMayBeLeft"]);
    assert_eq!(
        world.said.last().unwrap(),
        "its VM is gone, but whether node \"node-1\" is registered could not be found out: boom; if it is, delete it by hand"
    );
}

#[test]
fn the_token_of_a_machine_whose_node_is_uncertain_goes_too() {
    let mut world = pending();
    (world.mute, world.token) = (Some(Outlook::Lasting), TokenRecord::Made);
    world.delete();
    world.settle();
    assert!(world.machine.is_none());
    assert_eq!(world.token, TokenRecord::Gone);
}

#[test]
fn without_a_name_there_is_nothing_to_ask_for() {
    let mut world = World::new();
    world.reconcile();
    world.delete();
    world.settle();
    assert!(world.machine.is_none());
    assert_eq!(asked(&world), 0);
}
