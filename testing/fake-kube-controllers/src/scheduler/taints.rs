//! Taints and tolerations.
//!
//! In addition to the taints of a node, its state implies taints that their controller may not have written yet.
//! Checking only written taints would bind pods to nodes that were just cordoned or lost.

use k8s_openapi::api::core::v1::{Node, Taint, Toleration};

use crate::node::{self, Health};

/// Says that a node is not ready.
pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Taint of a node whose kubelet is silent.
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Says that a node is cordoned.
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Says that a node is off for sure, by hand.
pub(crate) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Keeps new pods away.
pub(crate) const NO_SCHEDULE: &str = "NoSchedule";
/// Sends pods away.
pub(crate) const NO_EXECUTE: &str = "NoExecute";

/// Whether a toleration is for a taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |field: &Option<String>| field.as_deref().unwrap_or_default().to_owned();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    if !effect.is_empty() && effect != taint.effect || !key.is_empty() && key != taint.key {
        return false;
    }
    match text(&toleration.operator).as_str() {
        "" | "Equal" => text(&toleration.value) == text(&taint.value),
        "Exists" => true,
        _ => false,
    }
}

/// The `NoSchedule` taints that follow from a node's conditions and from its being cordoned.
pub(crate) fn implied(node: &Node) -> Vec<Taint> {
    let taint = |key: &str| Taint { key: key.to_owned(), effect: NO_SCHEDULE.to_owned(), ..Taint::default() };
    let pressure = [
        ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
        ("DiskPressure", "node.kubernetes.io/disk-pressure"),
        ("PIDPressure", "node.kubernetes.io/pid-pressure"),
        ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
    ];
    let health = match node::health(node) {
        Health::Ready => None,
        // A node without a report is not tainted for it; it has no capacity for pods anyway.
        Health::NotReady => node::condition(node, "Ready").map(|_| NOT_READY),
        Health::Unreachable => Some(UNREACHABLE),
    };
    let pressed = |kind: &str| node::condition(node, kind).is_some_and(|condition| condition.status == "True");
    let pressed = pressure.into_iter().filter(|(kind, _)| pressed(kind)).map(|(_, key)| key);
    let cordoned = node::is_cordoned(node).then_some(UNSCHEDULABLE);
    health.into_iter().chain(pressed).chain(cordoned).map(taint).collect()
}

/// The first taint, written or implied, with one of these effects that nothing here tolerates.
pub(crate) fn untolerated(node: &Node, tolerations: &[Toleration], effects: &[&str]) -> Option<Taint> {
    let all = node::taints(node).iter().cloned().chain(implied(node));
    all.filter(|taint| effects.contains(&taint.effect.as_str()))
        .find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case(json!({ "operator": "Exists" }), true)]
    #[case(json!({ "key": "k", "operator": "Exists" }), true)]
    #[case(json!({ "key": "k", "value": "v" }), true)]
    #[case(json!({ "key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule" }), true)]
    #[case(json!({ "key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute" }), false)]
    #[case(json!({ "key": "k" }), false)]
    #[case(json!({ "key": "other", "operator": "Exists" }), false)]
    #[case(json!({ "key": "k", "operator": "Near" }), false)]
    fn a_toleration_is_for_a_taint(#[case] toleration: Value, #[case] expected: bool) {
        let toleration: Toleration = serde_json::from_value(toleration).unwrap();
        let taint = Taint { key: "k".into(), value: Some("v".into()), effect: "NoSchedule".into(), time_added: None };
        assert_eq!(tolerates(&toleration, &taint), expected);
    }

    #[rstest]
    #[case(json!({}), json!({ "conditions": [{ "type": "Ready", "status": "True" }] }), &[])]
    #[case(json!({ "unschedulable": true }), json!({ "conditions": [{ "type": "Ready", "status": "True" }] }), &[UNSCHEDULABLE])]
    #[case(json!({}), json!({}), &[])]
    #[case(json!({}), json!({ "conditions": [{ "type": "Ready", "status": "False" }] }), &[NOT_READY])]
    #[case(json!({}), json!({ "conditions": [{ "type": "Ready", "status": "Unknown" }] }), &[UNREACHABLE])]
    #[case(
        json!({}),
        json!({ "conditions": [{ "type": "Ready", "status": "True" }, { "type": "DiskPressure", "status": "True" }] }),
        &["node.kubernetes.io/disk-pressure"]
    )]
    fn a_state_implies_taints(#[case] spec: Value, #[case] status: Value, #[case] expected: &[&str]) {
        let node: Node = serde_json::from_value(json!({ "metadata": {}, "spec": spec, "status": status })).unwrap();
        assert_eq!(implied(&node).iter().map(|taint| taint.key.as_str()).collect::<Vec<_>>(), expected);
    }
}
