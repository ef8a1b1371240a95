//! What a deletion may conclude from a node that nobody has seen.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;
use crate::drain::Outlook;

const ASKED: &str = "ask for node \"node-1\"";

/// A machine whose VM runs and was written down, and of whose node nobody has heard.
fn pending() -> MachineFixture {
    let mut fixture = MachineFixture::new();
    fixture.settle();
    fixture.forget();
    fixture
}

fn asked(fixture: &MachineFixture) -> usize {
    fixture.diary.iter().filter(|line| *line == ASKED).count()
}

/// Shows MC-D6a.
#[test]
fn a_node_that_joined_unseen_is_found_emptied_and_deleted() {
    let mut fixture = pending();
    fixture.register("True");
    fixture.node_is_unseen = true;
    fixture.add_pod("web-1");
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_none(), "{:#?}", fixture.diary);
    assert_eq!(asked(&fixture), 1, "it is not asked for again once we have deleted it");
    let place = |what: &str| fixture.diary.iter().position(|line| line.starts_with(what)).unwrap();
    assert!(place(ASKED) < place("cordon"));
    assert!(place("cordon") < place("ask the cloud to delete"));
}

/// Shows MC-D6a.
#[test]
fn a_node_that_joins_after_the_drain_is_found_once_its_vm_is_gone() {
    let mut fixture = pending();
    fixture.delete();
    while !fixture.diary.iter().any(|line| line.ends_with("Initiate VM deletion")) {
        assert!(fixture.reconcile());
    }
    fixture.register("True");
    fixture.node_is_unseen = true;
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_none(), "{:#?}", fixture.diary);
}

/// Shows MC-D6a.
#[test]
fn a_node_that_was_seen_costs_no_question() {
    let mut fixture = MachineFixture::running();
    fixture.delete();
    fixture.settle();
    assert_eq!(asked(&fixture), 0);
}

#[test]
fn a_machine_that_never_joined_goes_after_two_questions() {
    let mut fixture = pending();
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
    assert_eq!(asked(&fixture), 2);
    assert_eq!(fixture.told, ["Terminating", "Gone"]);
}

/// Shows MC-D6a.
#[rstest]
#[case::marked("Set machine status to termination. Now, getting VM Status")]
#[case::draining("Initiate node drain")]
#[case::detaching("Force Drain successful. Delete Volume Attachments")]
#[case::at_its_node("VM deletion was successful. Initiate node object deletion")]
fn whoever_takes_over_asks_before_it_concludes_anything(#[case] text: &str) {
    let mut fixture = pending();
    fixture.delete();
    fixture.edit(|m| {
        m["status"]["currentStatus"]["phase"] = json!("Terminating");
        m["status"]["lastOperation"] = json!({ "description": text, "state": "Processing", "type": "Delete" });
    });
    fixture.reconcile();
    assert_eq!(fixture.diary, [ASKED]);
}

#[test]
fn what_cannot_be_said_is_asked_again_every_few_seconds_and_told_once() {
    let mut fixture = pending();
    fixture.mute = Some(Outlook::Passing);
    fixture.delete();
    fixture.settle();
    assert_eq!(
        fixture.text(),
        "Retrieval of Node Object \"node-1\" failed due to error: boom, Retrying. Initiate node drain"
    );
    let at = super::super::facts::later(fixture.now, Duration::from_secs(5));
    assert_eq!(fixture.plan().wake, Wake::By { awaited: Awaited::Retry, at });
    fixture.forget();
    fixture.now = at;
    fixture.settle();
    assert_eq!(fixture.diary, [ASKED], "it is still so, and was said");
    fixture.mute = None;
    fixture.wait(Duration::from_secs(5));
    fixture.settle();
    assert!(fixture.machine.is_none());
}

/// Shows MC-D6a.
#[rstest]
#[case::a_refusal_is_an_answer(Some(Outlook::Lasting), false, Duration::ZERO)]
#[case::force_waits_for_nobody(Some(Outlook::Passing), true, Duration::ZERO)]
#[case::nobody_waits_for_ever(Some(Outlook::Passing), false, Duration::from_hours(2))]
fn a_machine_goes_though_nobody_can_say_and_tells_it(
    #[case] mute: Option<Outlook>,
    #[case] force: bool,
    #[case] patience: Duration,
) {
    let mut fixture = pending();
    fixture.delete();
    while !fixture.diary.iter().any(|line| line.ends_with("Initiate VM deletion")) {
        assert!(fixture.reconcile());
    }
    fixture.mute = mute;
    if force {
        fixture.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("true"));
    }
    fixture.settle();
    if !patience.is_zero() {
        fixture.wait(patience.saturating_sub(Duration::from_secs(1)));
        fixture.settle();
        assert!(fixture.machine.is_some(), "not before its time");
        fixture.wait(Duration::from_secs(1));
        fixture.settle();
    }
    assert!(fixture.machine.is_none(), "{:#?}", fixture.diary);
    assert_eq!(fixture.told, ["Terminating", "NodeMayBeLeft"]);
    assert_eq!(
        fixture.said.last().unwrap(),
        "its VM is gone, but whether node \"node-1\" is registered could not be found out: boom; if it is, delete it by hand"
    );
}

#[test]
fn the_token_of_a_machine_whose_node_is_uncertain_goes_too() {
    let mut fixture = pending();
    (fixture.mute, fixture.token) = (Some(Outlook::Lasting), TokenRecord::Made);
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
    assert_eq!(fixture.token, TokenRecord::Gone);
}

#[test]
fn without_a_name_there_is_nothing_to_ask_for() {
    let mut fixture = MachineFixture::new();
    fixture.reconcile();
    fixture.delete();
    fixture.settle();
    assert!(fixture.machine.is_none());
    assert_eq!(asked(&fixture), 0);
}

/// The cache shows the Node, and nothing can be written to the API server of the target cluster.
/// Shows MC-D6c.
#[rstest]
#[case::for_as_long_as_a_drain_may_take(false, Duration::from_hours(2))]
#[case::twice_if_force_is_asked_for(true, Duration::from_secs(5))]
fn machine_goes_without_its_node_if_removal_keeps_failing(#[case] force: bool, #[case] after: Duration) {
    let mut fixture = MachineFixture::running();
    fixture.delete();
    while fixture.vms == 1 {
        assert!(fixture.reconcile());
    }
    fixture.keeps_node = Some("unreachable");
    if force {
        fixture.edit(|m| m["metadata"]["labels"]["force-deletion"] = json!("True"));
    }
    fixture.reconcile();
    let text = "Removal of finalizers from Node Object \"node-1\" failed due to error: unreachable, Retrying. \
                Initiate node object deletion";
    assert_eq!(fixture.text(), text);
    fixture.wait(after.saturating_sub(Duration::from_secs(1)));
    if !force {
        fixture.reconcile();
        assert!(fixture.machine.is_some(), "not before the drain timeout");
    }
    fixture.wait(Duration::from_secs(1));
    fixture.reconcile();
    fixture.settle();
    assert!(fixture.machine.is_none() && fixture.node.is_some(), "{:#?}", fixture.diary);
    assert_eq!(fixture.told.last(), Some(&"NodeMayBeLeft"));
    let said = "VM is deleted, but deletion of node \"node-1\" failed: unreachable; if the Node still exists, delete it by hand";
    assert_eq!(fixture.said.last().unwrap(), said);
}
