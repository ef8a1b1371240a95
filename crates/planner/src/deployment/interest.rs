//! Which changes of machines and nodes could make a deployment's plan another one.
//!
//! All other changes of a Machine reach the deployment through the status of its set, which counts many of them at once.

use api::names::conditions::in_place;
use api::names::{finalizers, labels};
use api::view::NodeView;
use api::{Machine, MachinePhase, Object};

/// Whether something happened to a machine that its set's numbers do not show.
pub fn in_machine(before: Option<&Machine>, now: Option<&Machine>) -> bool {
    before.map(turning_point) != now.map(turning_point)
}

/// Whether a node has just been taken into care, or an in-place update got on.
pub fn in_node(before: Option<&NodeView>, now: Option<&NodeView>) -> bool {
    before.map(update_state) != now.map(update_state)
}

/// What of a machine a deployment looks at itself.
fn turning_point(machine: &Machine) -> impl PartialEq {
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

/// What of a node a roll-out looks at.
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
    #[case::nothing(json!({}), json!({}), false)]
    #[case::it_runs(json!({}), json!({ "currentStatus": { "phase": "Running" } }), false)]
    #[case::a_condition_of_its_node(json!({}), json!({ "conditions": [{ "type": "Ready", "status": "True" }] }), false)]
    #[case::an_annotation(json!({ "annotations": { "a": "1" } }), json!({}), false)]
    #[case::it_failed(json!({}), json!({ "currentStatus": { "phase": "Failed" } }), true)]
    #[case::it_is_updated_in_place(json!({}), json!({ "currentStatus": { "phase": "InPlaceUpdating" } }), true)]
    #[case::its_update_gets_on(json!({}), json!({ "conditions": [{ "type": in_place::TYPE, "status": "True", "reason": "r" }] }), true)]
    #[case::it_is_deleted(json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), json!({}), true)]
    #[case::it_moves(json!({ "labels": { labels::TEMPLATE_HASH: "h" } }), json!({}), true)]
    #[case::its_update_ended(json!({ "labels": { labels::UPDATE_RESULT: "successful" } }), json!({}), true)]
    #[case::another_owner(json!({ "ownerReferences": [{ "apiVersion": "v", "kind": "k", "name": "n", "uid": "u" }] }), json!({}), true)]
    fn a_deployment_is_woken_by_what_its_sets_do_not_count(
        #[case] metadata: Value,
        #[case] status: Value,
        #[case] expected: bool,
    ) {
        let (before, now) = (machine(&json!({}), &json!({})), machine(&metadata, &status));
        assert_eq!(in_machine(Some(&before), Some(&now)), expected);
        assert!(in_machine(None, Some(&now)) && in_machine(Some(&now), None), "it comes or goes");
    }

    #[rstest]
    #[case::a_heartbeat(json!({}), json!({ "conditions": [{ "type": "Ready", "status": "True" }] }), false)]
    #[case::taken_into_care(json!({ "finalizers": [finalizers::NODE] }), json!({}), true)]
    #[case::a_candidate(json!({ "labels": { labels::CANDIDATE_FOR_UPDATE: "true" } }), json!({}), true)]
    #[case::selected(json!({ "labels": { labels::SELECTED_FOR_UPDATE: "true" } }), json!({}), true)]
    #[case::updated(json!({ "labels": { labels::UPDATE_RESULT: "successful" } }), json!({}), true)]
    #[case::drained(json!({}), json!({ "conditions": [{ "type": in_place::TYPE, "status": "True", "reason": "r" }] }), true)]
    fn a_deployment_is_woken_when_an_update_of_a_node_gets_on(
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
