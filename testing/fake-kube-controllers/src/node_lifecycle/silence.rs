//! Detects silent nodes.
//!
//! A kubelet renews its lease every few seconds. If it has not done so for the grace period, the conditions of its node
//! are set to `Unknown`, which is all that other components know of a dead machine. Renewals wake nothing; they only
//! postpone the check.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use runtime::{Key, Outcome, Queue};
use serde_json::json;

use crate::context::{ControllerContext, Duty};
use crate::node::{Health, condition, health};
use crate::supply::Supplies;
use crate::time::{again_at, later, whole_seconds};
use crate::write::{ObjectPart, WriteError, patch};

/// Sets the conditions of silent nodes to `Unknown`.
pub(crate) struct Silence(pub(crate) ControllerContext);

/// The next step for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contact {
    /// The conditions are already `Unknown`; its next heartbeat changes them.
    IsUnknown,
    /// The node is alive; check again at this time.
    Until(Timestamp),
    /// It is silent for too long.
    BecomesUnknown,
}

fn contact(node: &Node, lease: Option<&Lease>, grace: Duration, now: Timestamp) -> Contact {
    if health(node) == Health::Unreachable {
        return Contact::IsUnknown;
    }
    let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref()).map(|time| time.0);
    let spoke = condition(node, "Ready").and_then(|ready| ready.last_heartbeat_time.as_ref()).map(|time| time.0);
    let born = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let heard = [renewed, spoke, born].into_iter().flatten().max().unwrap_or(now);
    let until = later(heard, grace);
    if until <= now { Contact::BecomesUnknown } else { Contact::Until(until) }
}

/// The conditions of a node that has been called Unknown. Foreign ones stay as they are.
fn unknown(node: &Node, now: Timestamp) -> Vec<NodeCondition> {
    let mut conditions = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    for kind in ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"] {
        let at = whole_seconds(now);
        match conditions.iter_mut().find(|condition| condition.type_ == kind) {
            Some(said) if said.status == "Unknown" => {}
            Some(said) => {
                said.status = "Unknown".into();
                said.reason = Some("NodeStatusUnknown".into());
                said.message = Some("Kubelet stopped posting node status.".into());
                said.last_transition_time = Some(at);
            }
            None => conditions.push(NodeCondition {
                type_: kind.into(),
                status: "Unknown".into(),
                reason: Some("NodeStatusNeverUpdated".into()),
                message: Some("Kubelet never posted node status.".into()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(at),
            }),
        }
    }
    conditions
}

impl Duty for Silence {
    const NAME: &'static str = "node silence";

    fn wire(&self, supplies: &mut Supplies, queue: &Queue<Key>) {
        supplies.leases.read();
        supplies.nodes.wake_itself(queue);
    }

    async fn reconcile(&self, key: Key) -> Result<Outcome, WriteError> {
        let Some(node) = self.0.node(&key.name) else { return Ok(Outcome::Done) };
        let lease = self.0.views.leases.get(&Key::new("kube-node-lease", key.name.clone()));
        let now = self.0.now();
        match contact(&node, lease.as_deref(), self.0.policy.node_grace, now) {
            Contact::IsUnknown => Ok(Outcome::Done),
            Contact::Until(until) => Ok(again_at(Some(until), now)),
            Contact::BecomesUnknown => {
                let body = json!({
                    "metadata": { "uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version },
                    "status": { "conditions": unknown(&node, now) },
                });
                let what = "mark a silent node Unknown";
                patch(&self.0.client, &self.0.views.nodes, &key, (ObjectPart::Status, &body), what).await?;
                Ok(Outcome::Done)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::Value;

    const GRACE: Duration = Duration::from_secs(40);

    fn node(status: &str, heartbeat: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": { "name": "n", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "status": { "conditions": [{ "type": "Ready", "status": status, "lastHeartbeatTime": heartbeat, "lastTransitionTime": heartbeat }] },
        }))
        .unwrap()
    }

    fn lease(renewed: &str) -> Lease {
        serde_json::from_value(json!({ "metadata": {}, "spec": { "renewTime": renewed } })).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// Shows STN-4.
    #[rstest]
    #[case("True", "2026-01-01T00:00:39.000000Z", Contact::Until(at("2026-01-01T00:01:19Z")))]
    #[case("True", "2026-01-01T00:00:10.000000Z", Contact::BecomesUnknown)]
    #[case("False", "2026-01-01T00:00:10.000000Z", Contact::BecomesUnknown)]
    #[case("Unknown", "2026-01-01T00:00:10.000000Z", Contact::IsUnknown)]
    fn a_node_is_marked_failed_when_its_lease_is_too_old(
        #[case] status: &str,
        #[case] renewed: &str,
        #[case] expected: Contact,
    ) {
        let node = node(status, "2026-01-01T00:00:00Z");
        assert_eq!(contact(&node, Some(&lease(renewed)), GRACE, at("2026-01-01T00:01:00Z")), expected);
    }

    #[test]
    fn a_status_counts_like_a_renewal() {
        let node = node("True", "2026-01-01T00:00:50Z");
        let contact = contact(&node, None, GRACE, at("2026-01-01T00:01:00Z"));
        assert_eq!(contact, Contact::Until(at("2026-01-01T00:01:30Z")));
    }

    #[test]
    fn unknown_node_keeps_its_heartbeat_if_it_ever_had_one() {
        let conditions = unknown(&node("True", "2026-01-01T00:00:10Z"), at("2026-01-01T00:01:00Z"));
        let said = |kind: &str| json!(conditions.iter().find(|condition| condition.type_ == kind).unwrap());
        assert_eq!(said("Ready")["lastHeartbeatTime"], "2026-01-01T00:00:10Z");
        assert_eq!(said("Ready")["lastTransitionTime"], "2026-01-01T00:01:00Z");
        assert_eq!(said("Ready")["reason"], "NodeStatusUnknown");
        assert_eq!(said("DiskPressure")["reason"], Value::from("NodeStatusNeverUpdated"));
    }
}
