//! Adds the taints that follow from a node's conditions.
//!
//! Foreign taints are kept, and an existing taint keeps the time it was added, from which tolerations count. The real
//! controller adds `NoExecute` taints slowly, one node in ten seconds, and none if a whole zone is silent. Here they
//! are added immediately, so that tests need not wait and a simulation covers the worse case.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use runtime::{Key, Outcome, Queue};
use serde_json::json;

use crate::context::{ControllerContext, Duty};
use crate::node::{self, Health, health, health_since};
use crate::pod::{BY_NODE, condition, condition_patch, is_ready, key_of};
use crate::scheduler::taints::{NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE, UNSCHEDULABLE, implied};
use crate::supply::Supplies;
use crate::time::whole_seconds;
use crate::write::{ObjectPart, WriteError, patch};

/// Keeps taints in step with conditions.
pub(crate) struct Taints(pub(crate) ControllerContext);

/// The keys that are ours with `NoSchedule`.
const KEPT: [&str; 7] = [
    NOT_READY,
    UNREACHABLE,
    UNSCHEDULABLE,
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
];

fn is_ours(taint: &Taint) -> bool {
    match taint.effect.as_str() {
        NO_SCHEDULE => KEPT.contains(&taint.key.as_str()),
        NO_EXECUTE => [NOT_READY, UNREACHABLE].contains(&taint.key.as_str()),
        _ => false,
    }
}

/// The taints a node should have.
fn wanted(node: &Node, now: Timestamp) -> Vec<Taint> {
    let lost = match health(node) {
        Health::Ready => None,
        Health::NotReady => node::condition(node, "Ready").map(|_| NOT_READY),
        Health::Unreachable => Some(UNREACHABLE),
    };
    let lost = lost.map(|key| Taint { key: key.into(), effect: NO_EXECUTE.into(), ..Taint::default() });
    let present = node::taints(node);
    let alike = |a: &Taint, b: &Taint| a.key == b.key && a.effect == b.effect;
    let ours: Vec<Taint> = implied(node).into_iter().chain(lost).collect();
    let kept = present.iter().filter(|taint| !is_ours(taint) || ours.iter().any(|wanted| alike(wanted, taint)));
    let new = ours.iter().filter(|wanted| !present.iter().any(|taint| alike(wanted, taint)));
    let new = new.map(|taint| Taint { time_added: Some(whole_seconds(now)), ..taint.clone() });
    kept.cloned().chain(new).collect()
}

/// Returns whether a pod's readiness is older than the loss of its node. A later report of a running kubelet is kept; a
/// silent one cannot have reported in the same second.
fn is_outdated(pod: &Pod, node: &Node) -> bool {
    let Some(lost) = health_since(node) else { return false };
    let said = condition(pod, "Ready").and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0);
    is_ready(pod)
        && said.is_none_or(|said| match health(node) {
            Health::Ready => false,
            Health::NotReady => said < lost,
            Health::Unreachable => said <= lost,
        })
}

impl Duty for Taints {
    const NAME: &'static str = "node taints";

    fn wire(&self, supplies: &mut Supplies, queue: &Queue<Key>) {
        supplies.pods.read();
        supplies.nodes.wake_itself(queue);
    }

    async fn reconcile(&self, key: Key) -> Result<Outcome, WriteError> {
        let (client, views) = (&self.0.client, &self.0.views);
        let Some(node) = self.0.node(&key.name) else { return Ok(Outcome::Done) };
        let now = self.0.now();
        let wanted = wanted(&node, now);
        if wanted != node::taints(&node) {
            let body = json!({
                "metadata": { "uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version },
                "spec": { "taints": wanted },
            });
            patch(client, &views.nodes, &key, (ObjectPart::Main, &body), "taint a node").await?;
        }
        for pod in views.pods.find(&BY_NODE, &key.name) {
            if is_outdated(&pod, &node) {
                let body = condition_patch(&pod, "Ready", "False", ("", ""), now);
                let what = "say that a pod of a lost node is not ready";
                patch(client, &views.pods, &key_of(&pod.metadata), (ObjectPart::Status, &body), what).await?;
            }
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::Value;

    fn now() -> Timestamp {
        "2026-01-01T00:01:00Z".parse().unwrap()
    }

    fn node(ready: Option<&str>, spec: &Value) -> Node {
        let conditions: Vec<Value> = ready
            .map(|status| json!({ "type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:30Z" }))
            .into_iter()
            .collect();
        serde_json::from_value(
            json!({ "metadata": { "name": "n" }, "spec": spec, "status": { "conditions": conditions } }),
        )
        .unwrap()
    }

    fn names(taints: &[Taint]) -> Vec<String> {
        let short = |key: &str| key.trim_start_matches("node.kubernetes.io/").to_owned();
        taints.iter().map(|taint| format!("{}:{}", short(&taint.key), taint.effect)).collect()
    }

    /// Shows STN-4.
    #[rstest]
    #[case(Some("True"), json!({}), &[])]
    #[case(Some("True"), json!({ "unschedulable": true }), &["unschedulable:NoSchedule"])]
    #[case(Some("False"), json!({}), &["not-ready:NoSchedule", "not-ready:NoExecute"])]
    #[case(Some("Unknown"), json!({}), &["unreachable:NoSchedule", "unreachable:NoExecute"])]
    #[case(None, json!({}), &[])]
    #[case(Some("True"), json!({ "taints": [{ "key": NOT_READY, "effect": "NoExecute" }, { "key": "mine", "effect": "NoExecute" }] }), &["mine:NoExecute"])]
    #[case(Some("True"), json!({ "taints": [{ "key": UNSCHEDULABLE, "effect": "NoSchedule" }] }), &[])]
    fn taints_follow_conditions(#[case] ready: Option<&str>, #[case] spec: Value, #[case] expected: &[&str]) {
        assert_eq!(names(&wanted(&node(ready, &spec), now())), expected);
    }

    #[test]
    fn a_taint_that_stays_keeps_the_time_it_was_added() {
        let before = wanted(&node(Some("Unknown"), &json!({})), now());
        let tainted = node(Some("Unknown"), &json!({ "taints": before }));
        assert_eq!(wanted(&tainted, "2026-01-01T02:00:00Z".parse().unwrap()), before);
    }

    #[rstest]
    #[case("True", "2026-01-01T00:00:00Z", false)]
    #[case("False", "2026-01-01T00:00:29Z", true)]
    #[case("False", "2026-01-01T00:00:30Z", false)]
    #[case("Unknown", "2026-01-01T00:00:30Z", true)]
    #[case("Unknown", "2026-01-01T00:00:31Z", false)]
    fn readiness_from_before_the_loss_is_outdated(#[case] ready: &str, #[case] said: &str, #[case] expected: bool) {
        let pod = serde_json::from_value(json!({ "metadata": {}, "status": { "conditions": [
            { "type": "Ready", "status": "True", "lastTransitionTime": said }] } }))
        .unwrap();
        assert_eq!(is_outdated(&pod, &node(Some(ready), &json!({}))), expected);
    }
}
