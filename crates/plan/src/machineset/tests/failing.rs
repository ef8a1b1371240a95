//! Failed machines, and those that are kept for a look.

use api::view::NodeView;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::world::{World, created, deleted};

const PRESERVE: &str = "node.machine.sapcloud.io/preserve";
const LAST_APPLIED: &str = "node.machine.sapcloud.io/last-applied-node-preserve-value";
const FUTURE: &str = "2026-01-02T00:00:00Z";
const PAST: &str = "2026-01-01T00:00:00Z";

fn node(annotations: &Value) -> NodeView {
    super::world::read(json!({ "metadata": { "name": "n", "annotations": annotations } }))
}

#[rstest]
#[case::nobody_asked(json!({}), None, None, false)]
#[case::until_later(json!({}), Some(FUTURE), None, true)]
#[case::until_before(json!({PRESERVE: "now"}), Some(PAST), None, false)]
#[case::the_machine_asks(json!({PRESERVE: "when-failed"}), None, None, true)]
#[case::now(json!({PRESERVE: "now"}), None, Some(node(&json!({}))), true)]
#[case::the_machine_asks_not(json!({PRESERVE: "false"}), None, None, false)]
#[case::nonsense(json!({PRESERVE: "please"}), None, None, false)]
#[case::the_node_asks(json!({}), None, Some(node(&json!({PRESERVE: "now"}))), true)]
#[case::the_node_wins(json!({PRESERVE: "now"}), None, Some(node(&json!({PRESERVE: "false"}))), false)]
#[case::the_node_fell_silent(json!({PRESERVE: "when-failed", LAST_APPLIED: "now"}), None, Some(node(&json!({}))), false)]
fn a_failed_machine_is_kept_when_somebody_wants_it(
    #[case] annotations: Value,
    #[case] expiry: Option<&str>,
    #[case] node: Option<NodeView>,
    #[case] kept: bool,
) {
    let mut world = World::new(1);
    world.add("m", "Failed", 0);
    world.edit("m", |m| {
        m["metadata"]["annotations"] = annotations;
        m["status"]["currentStatus"]["preserveExpiryTime"] = json!(expiry);
    });
    world.nodes = node.into_iter().map(|node| ("m".to_owned(), node)).collect();
    assert_eq!(deleted(&world.plan()).is_empty(), kept);
}

#[test]
fn a_node_that_refuses_beats_what_the_set_asks_for() {
    let mut world = World::new(1);
    world.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(1));
    world.add("m", "Failed", 0);
    assert_eq!(deleted(&world.plan()), [""; 0]);
    world.nodes = [("m".to_owned(), node(&json!({PRESERVE: "false"})))].into();
    assert_eq!(deleted(&world.plan()), ["m"]);
}

#[test]
fn a_machine_that_its_node_preserves_is_not_asked_for_by_its_set_as_well() {
    let mut world = World::new(1);
    world.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(1));
    world.add("m", "Failed", 0);
    world.nodes = [("m".to_owned(), node(&json!({PRESERVE: "now"})))].into();
    world.pass();
    assert_eq!(auto_preserved(&world), [""; 0], "or the machine's controller would take it back, and so on for ever");
    assert_eq!(deleted(&world.plan()), [""; 0]);
}

#[test]
fn the_end_of_a_preservation_wakes_its_set() {
    let mut world = World::new(1);
    world.add("m", "Failed", 0);
    world.edit("m", |m| m["status"]["currentStatus"]["preserveExpiryTime"] = json!(FUTURE));
    assert_eq!(world.plan().wake, Wake::By { awaited: Awaited::Machines, at: FUTURE.parse().unwrap() });
}

#[test]
fn a_preserved_machine_goes_last_and_goes_when_nobody_else_is_left() {
    let mut world = World::new(1);
    world.add("healthy", "Running", 0).add("kept", "Failed", 1);
    world.edit("kept", |m| m["status"]["currentStatus"]["preserveExpiryTime"] = json!(FUTURE));
    assert_eq!(deleted(&world.plan()), ["healthy"]);
    world.edit_set(|set| set["spec"]["replicas"] = json!(0));
    assert_eq!(deleted(&world.plan()), ["healthy", "kept"]);
}

fn auto_preserved(world: &World) -> Vec<&str> {
    let asks = |m: &&api::Machine| api::Object::annotation(*m, PRESERVE) == Some("auto-preserved");
    world.machines.values().filter(asks).map(api::Object::name).collect()
}

#[test]
fn the_newest_failures_are_kept_up_to_the_limit_and_the_rest_is_replaced() {
    let mut world = World::new(4);
    world.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(2));
    world.add("a", "Failed", 0).add("b", "Failed", 1).add("c", "Failed", 2).add("no", "Failed", 3);
    world.edit("no", |m| m["metadata"]["annotations"] = json!({ PRESERVE: "false" }));
    assert_eq!(deleted(&world.plan()), ["a", "no"]);
    world.pass();
    assert_eq!(auto_preserved(&world), ["b", "c"]);
    assert_eq!(world.set.status.auto_preserve_failed_machine_count, 2);
}

#[test]
fn a_lower_limit_lets_go_of_the_oldest_and_of_no_more_than_it_must() {
    let mut world = World::new(3);
    world.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(3));
    world.add("a", "Failed", 0).add("b", "Failed", 1).add("c", "Failed", 2);
    world.settle();
    assert_eq!(auto_preserved(&world), ["a", "b", "c"]);
    world.edit_set(|set| set["spec"]["autoPreserveFailedMachineMax"] = json!(2));
    world.pass();
    assert_eq!(auto_preserved(&world), ["b", "c"]);
    world.settle();
    assert_eq!(auto_preserved(&world), ["b", "c"], "the status of the pass before is not asked");
    assert_eq!(created(&world.plan()), [0usize; 0]);
}
