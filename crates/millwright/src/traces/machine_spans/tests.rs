//! Tests that turn decisions and calls into spans.

use std::sync::Arc;

use api::Code;
use controllers::decision::{Ending, MachineState, Subject};
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
    Decision::of(Subject::Machine, &key(), &["do it"], &"a reason", Wake::On(Awaited::Node))
        .ended(Ending::Done)
        .with_machine(MachineState { machine: machine.clone(), stage, at: at(second) })
}

fn call(machine: &Arc<Machine>, call: Call, second: i64, code: Code) -> DriverCall {
    DriverCall {
        machine: machine.clone(),
        call,
        queued: at(second),
        sent: at(second),
        ended: at(second + 1),
        code,
        result: if matches!(code, Code::Ok | Code::NotFound) {
            DriverCallResult::Success
        } else {
            DriverCallResult::Failure
        },
        provider_id: (call == Call::Create && code == Code::Ok).then(|| "virtual:///vm-1".to_owned()),
    }
}

fn machine_spans_since(since: i64) -> MachineSpans {
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

/// Returns the spans of a creation with one failed create call.
fn creation(machine_spans: &mut MachineSpans) -> Vec<Span> {
    let (new, pending, running) =
        (machine("u", "", None), machine("u", "Pending", None), machine("u", "Running", None));
    let mut spans = machine_spans.decided(&decision(&new, Stage::LookUpVm, 1));
    spans.extend(machine_spans.called(&call(&new, Call::Status, 1, Code::NotFound)));
    spans.extend(machine_spans.decided(&decision(&new, Stage::Create, 2)));
    spans.extend(machine_spans.called(&call(&new, Call::Create, 2, Code::Unavailable)));
    spans.extend(machine_spans.decided(&decision(&new, Stage::LookUpVm, 8)));
    spans.extend(machine_spans.called(&call(&new, Call::Status, 8, Code::NotFound)));
    spans.extend(machine_spans.called(&call(&new, Call::Create, 9, Code::Ok)));
    spans.extend(machine_spans.decided(&decision(&pending, Stage::Join, 12)));
    spans.extend(machine_spans.decided(&decision(&running, Stage::Live, 30)));
    spans
}

/// Shows TRC-1.
#[test]
fn creation_is_one_trace_with_consecutive_stages() {
    let spans = creation(&mut machine_spans_since(0));
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
        "a repeated status call is part of the stage create"
    );
    let root = spans.last().unwrap();
    assert_eq!((root.parent, root.start, root.end), (None, at(0), at(30)));
    assert_eq!(text(root, "millwright.outcome"), "running");
    assert_eq!(text(root, "millwright.deployment"), "workers");
    assert_eq!(text(root, "millwright.class"), "small");
    assert_eq!(text(root, "millwright.provider_id"), "virtual:///vm-1", "known before it is in the spec");
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
fn next_leader_continues_the_trace_with_its_own_spans() {
    let first = {
        let (mut machine_spans, new) = (machine_spans_since(0), machine("u", "", None));
        machine_spans.decided(&decision(&new, Stage::LookUpVm, 1));
        machine_spans.interrupted(at(3))
    };
    assert_eq!((names(&first), text(&first[0], "millwright.outcome")), (vec!["ask"], "interrupted"));
    let second = creation(&mut machine_spans_since(1));
    let root = second.last().unwrap();
    assert_eq!((root.trace, Some(root.id)), (first[0].trace, first[0].parent));
    assert_eq!(root.start, at(0), "the trace starts with the creation of the Machine");
    let ask = second.iter().find(|span| span.name == "ask").unwrap();
    assert_ne!(ask.id, first[0].id);
    assert_eq!(ask.start, at(1), "its first span starts when it takes over");
}

/// Shows TRC-1.
#[test]
fn deletion_is_a_separate_trace() {
    let mut machine_spans = machine_spans_since(0);
    let born = creation(&mut machine_spans);
    let terminating = machine("u", "Terminating", Some(40));
    let mut spans = Vec::new();
    for (stage, second) in
        [(Stage::Drain, 40), (Stage::DeleteVm, 41), (Stage::DeleteNode, 45), (Stage::RemoveFinalizer, 46)]
    {
        spans.extend(machine_spans.decided(&decision(&terminating, stage, second)));
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
fn machine_created_in_the_start_second_is_traced_fully() {
    let began = at(0).checked_add(jiff::SignedDuration::from_millis(400)).unwrap();
    let spans = creation(&mut MachineSpans::new(Sampling::new(1.0), began));
    let (first, root) = (spans.iter().find(|span| span.name == "ask").unwrap(), spans.last().unwrap());
    assert_eq!((first.start, root.start), (at(0), at(0)));
}

#[test]
fn deletion_before_running_ends_the_creation_trace() {
    let mut machine_spans = machine_spans_since(0);
    machine_spans.decided(&decision(&machine("u", "", None), Stage::Create, 1));
    let spans = machine_spans.decided(&decision(&machine("u", "Terminating", Some(5)), Stage::Drain, 5));
    assert_eq!(names(&spans), ["create", "create machine"]);
    assert_eq!(text(&spans[1], "millwright.outcome"), "deleted");
    assert_eq!(spans[1].status, Status::Error("deleted".into()));
}

#[test]
fn machine_with_the_same_name_has_its_own_trace() {
    let mut machine_spans = machine_spans_since(0);
    machine_spans.decided(&decision(&machine("old", "", None), Stage::Create, 1));
    let spans = machine_spans.decided(&decision(&machine("new", "", None), Stage::LookUpVm, 5));
    assert_eq!(text(&spans[1], "millwright.machine.uid"), "old");
    assert_eq!(machine_spans.open[&key()].uid, "new");
}

/// Shows TRC-5.
#[test]
fn running_and_unsampled_machines_are_not_tracked() {
    let mut machine_spans = machine_spans_since(0);
    assert!(machine_spans.decided(&decision(&machine("u", "Running", None), Stage::Live, 1)).is_empty());
    let mut none = MachineSpans::new(Sampling::new(0.0), at(0));
    assert!(creation(&mut none).is_empty());
    assert!(machine_spans.open.is_empty() && none.open.is_empty());
}

/// Shows TRC-3.
#[test]
fn spans_and_events_per_trace_are_limited() {
    let (mut machine_spans, new) = (machine_spans_since(0), machine("u", "", None));
    for second in 0..200 {
        machine_spans.decided(&decision(&new, Stage::Create, second));
        machine_spans.called(&call(&new, Call::Create, second, Code::Internal));
    }
    let phase = &machine_spans.open[&key()].phase;
    assert_eq!((phase.events.len(), phase.events_left_out), (MAX_EVENTS, 200 - 32));
    assert_eq!(machine_spans.take_left_out(), 200 - u64::from(MAX_CALLS));
}
