//! Decisions and calls go in, spans come out.

use std::sync::Arc;

use api::Code;
use controllers::decision::{Ending, Standing, Subject};
use planner::{Awaited, Wake};
use serde_json::json;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn machine(uid: &str, phase: &str, deleted: Option<i64>) -> Arc<Machine> {
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {
                "name": "m-1", "namespace": "pool", "uid": uid, "labels": { "name": "workers" },
                "creationTimestamp": at(0), "deletionTimestamp": deleted.map(at),
            },
            "spec": { "class": { "kind": "MachineClass", "name": "small" } },
            "status": { "currentStatus": { "phase": phase } },
        }))
        .unwrap(),
    )
}

fn key() -> Key {
    Key::new("pool", "m-1")
}

fn decision(machine: &Arc<Machine>, stage: Stage, second: i64) -> Decision {
    Decision::of(Subject::Machine, &key(), &["do it"], &"it must be", Wake::On(Awaited::Node))
        .ended(Ending::Done)
        .in_life(Standing { machine: machine.clone(), stage, at: at(second) })
}

fn call(machine: &Arc<Machine>, call: Call, second: i64, code: Code) -> DriverCall {
    DriverCall {
        machine: machine.clone(),
        call,
        asked: at(second),
        left: at(second),
        ended: at(second + 1),
        code,
        taught: if matches!(code, Code::Ok | Code::NotFound) { Taught::Answer } else { Taught::Failure },
        provider_id: (call == Call::Create && code == Code::Ok).then(|| "virtual:///vm-1".to_owned()),
    }
}

fn lives(since: i64) -> MachineSpans {
    MachineSpans::new(Sampling::new(1.0), at(since))
}

fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name).collect()
}

fn text<'a>(span: &'a Span, key: &str) -> &'a str {
    match span.attributes.iter().find(|(name, _)| *name == key) {
        Some((_, Value::Text(text))) => text,
        other => panic!("{key} of {} is {other:?}", span.name),
    }
}

/// From its creation until it runs, with a create that fails once.
fn come(machine_spans: &mut MachineSpans) -> Vec<Span> {
    let (new, pending, running) =
        (machine("u", "", None), machine("u", "Pending", None), machine("u", "Running", None));
    let mut spans = machine_spans.decided(&decision(&new, Stage::Ask, 1));
    spans.extend(machine_spans.called(&call(&new, Call::Status, 1, Code::NotFound)));
    spans.extend(machine_spans.decided(&decision(&new, Stage::Create, 2)));
    spans.extend(machine_spans.called(&call(&new, Call::Create, 2, Code::Unavailable)));
    spans.extend(machine_spans.decided(&decision(&new, Stage::Ask, 8)));
    spans.extend(machine_spans.called(&call(&new, Call::Status, 8, Code::NotFound)));
    spans.extend(machine_spans.called(&call(&new, Call::Create, 9, Code::Ok)));
    spans.extend(machine_spans.decided(&decision(&pending, Stage::Join, 12)));
    spans.extend(machine_spans.decided(&decision(&running, Stage::Live, 30)));
    spans
}

/// Shows TRC-1.
#[test]
fn a_creation_is_one_trace_whose_stages_follow_each_other_without_a_gap() {
    let spans = come(&mut lives(0));
    assert_eq!(
        names(&spans),
        [
            "GetMachineStatus",
            "ask",
            "CreateMachine",
            "GetMachineStatus",
            "CreateMachine",
            "create",
            "join",
            "create machine"
        ],
        "to ask again is part of creating it"
    );
    let root = spans.last().unwrap();
    assert_eq!((root.parent, root.start, root.end), (None, at(0), at(30)));
    assert_eq!(text(root, "millwright.outcome"), "running");
    assert_eq!(text(root, "millwright.deployment"), "workers");
    assert_eq!(text(root, "millwright.class"), "small");
    assert_eq!(text(root, "millwright.provider_id"), "virtual:///vm-1", "known before it is written down");
    assert!(spans.iter().all(|span| span.trace == root.trace && text(span, "millwright.machine") == "m-1"));
    let stages: Vec<_> = spans.iter().filter(|span| span.parent == Some(root.id)).collect();
    let times: Vec<_> = stages.iter().map(|span| (span.start, span.end)).collect();
    assert_eq!(times, [(at(0), at(2)), (at(2), at(12)), (at(12), at(30))]);
    let failed = &spans[2];
    assert_eq!(failed.status, Status::Error("Unavailable".into()));
    assert_eq!((text(failed, "millwright.code"), failed.parent), ("Unavailable", Some(stages[1].id)));
    assert_eq!(stages[1].events[0].name, "do it");
}

/// Shows TRC-2.
#[test]
fn a_process_that_takes_over_carries_on_the_same_trace_with_spans_of_its_own() {
    let first = {
        let (mut machine_spans, new) = (lives(0), machine("u", "", None));
        machine_spans.decided(&decision(&new, Stage::Ask, 1));
        machine_spans.interrupted(at(3))
    };
    assert_eq!((names(&first), text(&first[0], "millwright.outcome")), (vec!["ask"], "interrupted"));
    let second = come(&mut lives(1));
    let root = second.last().unwrap();
    assert_eq!((root.trace, Some(root.id)), (first[0].trace, first[0].parent));
    assert_eq!(root.start, at(0), "the life began when the machine was made");
    let ask = second.iter().find(|span| span.name == "ask").unwrap();
    assert_ne!(ask.id, first[0].id);
    assert_eq!(ask.start, at(1), "and its own part when it took over");
}

/// Shows TRC-1.
#[test]
fn a_deletion_is_a_trace_of_its_own_that_ends_when_the_machine_is_gone() {
    let mut machine_spans = lives(0);
    let born = come(&mut machine_spans);
    let going = machine("u", "Terminating", Some(40));
    let mut spans = Vec::new();
    for (stage, second) in [(Stage::Drain, 40), (Stage::DeleteVm, 41), (Stage::DeleteNode, 45), (Stage::LetGo, 46)] {
        spans.extend(machine_spans.decided(&decision(&going, stage, second)));
    }
    spans.extend(machine_spans.gone(&key(), at(47)));
    assert_eq!(names(&spans), ["drain", "delete VM", "delete node", "remove finalizer", "delete machine"]);
    let root = spans.last().unwrap();
    assert_ne!(root.trace, born[0].trace);
    assert_eq!((root.start, root.end, &root.status), (at(40), at(47), &Status::Ok));
    assert!(machine_spans.open.is_empty());
}

/// Shows TRC-1.
#[test]
fn a_machine_made_in_the_second_in_which_we_began_is_ours_from_its_beginning() {
    let began = at(0).checked_add(jiff::SignedDuration::from_millis(400)).unwrap();
    let spans = come(&mut MachineSpans::new(Sampling::new(1.0), began));
    let (first, root) = (spans.iter().find(|span| span.name == "ask").unwrap(), spans.last().unwrap());
    assert_eq!((first.start, root.start), (at(0), at(0)));
}

#[test]
fn a_machine_deleted_before_it_ran_ends_its_creation_as_deleted() {
    let mut machine_spans = lives(0);
    machine_spans.decided(&decision(&machine("u", "", None), Stage::Create, 1));
    let spans = machine_spans.decided(&decision(&machine("u", "Terminating", Some(5)), Stage::Drain, 5));
    assert_eq!(names(&spans), ["create", "create machine"]);
    assert_eq!(text(&spans[1], "millwright.outcome"), "deleted");
    assert_eq!(spans[1].status, Status::Error("deleted".into()));
}

#[test]
fn a_machine_of_the_same_name_is_another_life() {
    let mut machine_spans = lives(0);
    machine_spans.decided(&decision(&machine("old", "", None), Stage::Create, 1));
    let spans = machine_spans.decided(&decision(&machine("new", "", None), Stage::Ask, 5));
    assert_eq!(text(&spans[1], "millwright.machine.uid"), "old");
    assert_eq!(machine_spans.open[&key()].uid, "new");
}

/// Shows TRC-5.
#[test]
fn a_machine_that_lives_is_not_remembered_and_one_that_is_not_sampled_neither() {
    let mut machine_spans = lives(0);
    assert!(machine_spans.decided(&decision(&machine("u", "Running", None), Stage::Live, 1)).is_empty());
    let mut none = MachineSpans::new(Sampling::new(0.0), at(0));
    assert!(come(&mut none).is_empty());
    assert!(machine_spans.open.is_empty() && none.open.is_empty());
}

/// Shows TRC-3.
#[test]
fn a_life_that_never_gets_on_has_bounded_memory_and_counts_what_it_leaves_out() {
    let (mut machine_spans, new) = (lives(0), machine("u", "", None));
    for second in 0..200 {
        machine_spans.decided(&decision(&new, Stage::Create, second));
        machine_spans.called(&call(&new, Call::Create, second, Code::Internal));
    }
    let phase = &machine_spans.open[&key()].phase;
    assert_eq!((phase.events.len(), phase.events_left_out), (EVENTS, 200 - 32));
    assert_eq!(machine_spans.take_left_out(), 200 - u64::from(CALLS));
}
