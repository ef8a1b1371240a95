//! Questions about nodes that several parts ask.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};

/// What a node's Ready condition comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Its kubelet says it can run pods.
    Ready,
    /// The kubelet reports not ready, or has not reported yet.
    NotReady,
    /// The kubelet is silent.
    Unreachable,
}

/// What a node's status says under this heading.
pub(crate) fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// How a node is.
pub(crate) fn health(node: &Node) -> Health {
    match condition(node, "Ready").map(|ready| ready.status.as_str()) {
        Some("True") => Health::Ready,
        Some("Unknown") => Health::Unreachable,
        _ => Health::NotReady,
    }
}

/// Since when it has been that way.
pub(crate) fn health_since(node: &Node) -> Option<Timestamp> {
    condition(node, "Ready")?.last_transition_time.as_ref().map(|time| time.0)
}

/// Returns whether the node is cordoned.
pub(crate) fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default()
}

/// The taints that are written on it.
pub(crate) fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Returns whether two states of a node differ only in heartbeats, which only the silence part needs.
pub(crate) fn differ_in_heartbeats_only(old: &Node, new: &Node) -> bool {
    let still = |node: &Node| {
        let mut node = node.clone();
        node.metadata.resource_version = None;
        node.metadata.managed_fields = None;
        for condition in node.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten()) {
            condition.last_heartbeat_time = None;
        }
        node
    };
    still(old) == still(new)
}
