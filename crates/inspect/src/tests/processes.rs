//! `millwright explain` with a queried leader: its state, or why it is unavailable.

use rstest::rstest;
use serde_json::{Value, json};

use super::explanations::{failed_creation, pod, told};
use super::fixture::{SET, World, same_as};
use crate::explain::Explained;
use crate::process::Process;

const THIRD: &str = "default/pool-6c9f-c";

fn tells(state: &Value) -> Process {
    Process::Reported(Box::new(serde_json::from_value(state.clone()).unwrap()))
}

fn credential(out: usize, waiting: usize, paused: bool) -> Value {
    json!([{ "secret": "bootstrap", "out": out, "waiting": waiting, "paused": paused }])
}

fn call(verb: &str) -> Value {
    json!([{ "machine": THIRD, "call": verb, "until": "2026-03-01T12:05:00Z" }])
}

fn drained(world: &mut World) {
    *world = World::shrinking(5);
    world.pods = vec![pod("db-0", &json!([]))];
}

/// Shows OPR-18.
#[rstest]
#[case::creating("creating", |_: &mut World| (), json!({
    "leader": "yes", "limiter": { "calls": call("create"), "credentials": credential(1, 0, false) },
    "objects": { "machine": { THIRD: {
        "decided": "2026-03-01T11:59:40Z", "because": "it has no VM yet", "did": ["call the driver to create the VM"], "awaits": "the driver call to end",
    } } },
}))]
#[case::waiting_for_its_turn("turn", |_: &mut World| (), json!({
    "leader": "yes", "limiter": { "calls": call("look up"), "credentials": credential(10, 37, false) },
}))]
#[case::throttled("throttled", |world: &mut World| world.machines[2]["status"] = failed_creation("Unavailable", 1), json!({
    "leader": "yes", "limiter": { "credentials": credential(0, 12, true) },
}))]
#[case::no_room("no-room", |world: &mut World| world.machines[2]["status"] = failed_creation("ResourceExhausted", 2), json!({
    "leader": "yes", "limiter": { "classesHeldBack": ["small"] },
}))]
#[case::frozen("blind", |_: &mut World| (), json!({ "leader": "yes", "frozen": "since 2026-03-01T11:50:00Z: the API server of the nodes cannot be reached" }))]
#[case::deposed("not-the-leader", |_: &mut World| (), json!({ "leader": "no, it is host_2" }))]
#[case::drain_runs("drain-runs", drained, json!({
    "leader": "yes", "drains": [{ "machine": THIRD, "since": "2026-03-01T11:56:00Z", "pods": 1 }],
}))]
#[case::drain_waits("drain-waits", drained, json!({
    "leader": "yes", "drains": [{ "machine": THIRD, "since": "2026-03-01T11:56:00Z", "ahead": 4 }],
}))]
#[case::deleting("deleting", |world: &mut World| {
    *world = World::shrinking(5);
    world.machines[2]["status"]["lastOperation"]["description"] = json!("Initiate VM deletion");
}, json!({ "leader": "yes", "limiter": { "calls": call("delete") } }))]
fn machine_with_a_report_of_the_leader(#[case] name: &str, #[case] spoil: fn(&mut World), #[case] state: Value) {
    let mut world = World::growing();
    spoil(&mut world);
    let mut snapshot = world.snapshot();
    snapshot.process = tells(&state);
    same_as(&format!("explain-told-{name}"), &told(&snapshot, Explained::Machine, &format!("{SET}-c")));
}

/// Shows OPR-18.
#[rstest]
#[case::no_right(
    "no-right",
    "missing permission to get pods/proxy in namespace \"default\". Request a role that allows it"
)]
#[case::no_page("no-page", "the leader runs without --profiling")]
fn unavailable_leader_is_reported_with_the_reason(#[case] name: &str, #[case] why: &str) {
    let mut snapshot = World::growing().snapshot();
    snapshot.process = Process::Unavailable(why.to_owned());
    same_as(&format!("explain-silent-{name}"), &told(&snapshot, Explained::Machine, &format!("{SET}-c")));
}

/// Shows OPR-18.
#[test]
fn unavailable_leader_is_reported_for_a_deployment() {
    let mut snapshot = World::healthy().snapshot();
    snapshot.process = Process::Unavailable("the leader \"laptop\" is not a pod in namespace \"default\"".to_owned());
    same_as("explain-silent-deployment", &told(&snapshot, Explained::MachineDeployment, "pool"));
}

/// Shows OPR-18.
#[test]
fn deployment_shows_the_last_decision_of_the_manager() {
    let mut snapshot = World::healthy().snapshot();
    snapshot.process = tells(&json!({
        "leader": "yes, without an election",
        "objects": { "machine deployment": { "default/pool": { "decided": "2026-03-01T11:59:00Z", "because": "up to date" } } },
    }));
    same_as("explain-told-deployment", &told(&snapshot, Explained::MachineDeployment, "pool"));
}
