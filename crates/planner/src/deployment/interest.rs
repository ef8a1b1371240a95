//! Which changes of Machines and Nodes affect the plan of a MachineDeployment.
//!
//! All other changes of Machines reach the MachineDeployment through the status of its MachineSets, which combines many
//! of them.

use api::names::conditions::in_place;
use api::names::{finalizers, labels};
use api::view::NodeView;
use api::{Machine, MachinePhase, Object};

/// Returns whether a Machine changed in a way that the counts of its MachineSet do not show.
pub fn in_machine(before: Option<&Machine>, now: Option<&Machine>) -> bool {
    before.map(relevant_state) != now.map(relevant_state)
}

/// Returns whether a Node was just labelled by the machine controller, or its in-place update progressed.
pub fn in_node(before: Option<&NodeView>, now: Option<&NodeView>) -> bool {
    before.map(update_state) != now.map(update_state)
}

/// The state of a Machine that affects its MachineDeployment.
fn relevant_state(machine: &Machine) -> impl PartialEq {
    let update = machine.status.conditions.iter().rfind(|condition| *condition.kind == *in_place::TYPE);
    (
        machine.is_deleting(),
        *machine.phase() == MachinePhase::Failed,
        *machine.phase() == MachinePhase::InPlaceUpdating,
        &machine.metadata.owner_references,
        [labels::TEMPLATE_HASH, labels::UPDATE_RESULT].map(|key| machine.label(key)),
        update.map(|condition| &condition.reason),
    )
}

/// The state of a Node that affects a rollout.
fn update_state(node: &NodeView) -> impl PartialEq {
    let keys = [labels::CANDIDATE_FOR_UPDATE, labels::SELECTED_FOR_UPDATE, labels::UPDATE_RESULT];
    (
        keys.map(|key| node.label(key)),
        node.has_finalizer(finalizers::NODE),
        node.condition(in_place::TYPE).map(|condition| &condition.reason),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn machine(metadata: &Value, status: &Value) -> Machine {
        serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap()
    }

    #[rstest]
    #[case::unchanged(json!({}), json!({}), false)]
    #[case::running(json!({}), json!({ "currentStatus": { "phase": "Running" } }), false)]
    #[case::node_condition(json!({}), json!({ "conditions": [{ "type": "Ready", "status": "True" }] }), false)]
    #[case::annotation(json!({ "annotations": { "a": "1" } }), json!({}), false)]
    #[case::failed(json!({}), json!({ "currentStatus": { "phase": "Failed" } }), true)]
    #[case::in_place_update(json!({}), json!({ "currentStatus": { "phase": "InPlaceUpdating" } }), true)]
    #[case::in_place_condition(json!({}), json!({ "conditions": [{ "type": in_place::TYPE, "status": "True", "reason": "r" }] }), true)]
    #[case::deletion(json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), json!({}), true)]
    #[case::template_hash(json!({ "labels": { labels::TEMPLATE_HASH: "h" } }), json!({}), true)]
    #[case::update_result(json!({ "labels": { labels::UPDATE_RESULT: "successful" } }), json!({}), true)]
    #[case::owner(json!({ "ownerReferences": [{ "apiVersion": "v", "kind": "k", "name": "n", "uid": "u" }] }), json!({}), true)]
    fn deployment_is_requeued_for_changes_that_sets_do_not_count(
        #[case] metadata: Value,
        #[case] status: Value,
        #[case] expected: bool,
    ) {
        let (before, now) = (machine(&json!({}), &json!({})), machine(&metadata, &status));
        assert_eq!(in_machine(Some(&before), Some(&now)), expected);
        assert!(in_machine(None, Some(&now)) && in_machine(Some(&now), None), "created or deleted");
    }

    #[rstest]
    #[case::heartbeat(json!({}), json!({ "conditions": [{ "type": "Ready", "status": "True" }] }), false)]
    #[case::finalizer(json!({ "finalizers": [finalizers::NODE] }), json!({}), true)]
    #[case::candidate(json!({ "labels": { labels::CANDIDATE_FOR_UPDATE: "true" } }), json!({}), true)]
    #[case::selected(json!({ "labels": { labels::SELECTED_FOR_UPDATE: "true" } }), json!({}), true)]
    #[case::updated(json!({ "labels": { labels::UPDATE_RESULT: "successful" } }), json!({}), true)]
    #[case::drained(json!({}), json!({ "conditions": [{ "type": in_place::TYPE, "status": "True", "reason": "r" }] }), true)]
    fn deployment_is_requeued_when_a_node_update_progresses(
        #[case] metadata: Value,
        #[case] status: Value,
        #[case] expected: bool,
    ) {
        let node = |metadata: &Value, status: &Value| -> NodeView {
            serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap()
        };
        assert_eq!(in_node(Some(&node(&json!({}), &json!({}))), Some(&node(&metadata, &status))), expected);
    }
}
