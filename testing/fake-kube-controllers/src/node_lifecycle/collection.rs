//! Garbage-collects pods that no kubelet will end.
//!
//! A pod is ended by its kubelet. If its node is gone, the pod would stay Running and Ready, and its owner would not
//! replace it. After the node has been gone for a while, confirmed by a final get (a lagging watch must not cost
//! running pods), its pods are marked Failed and deleted. The same applies to deleted pods that were never bound, and
//! to pods of a node that is out of service.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use crate::context::{ControllerContext, Duty};
use crate::node::{self, Health, health};
use crate::pod::{BY_NODE, condition_patch, is_leaving, is_terminal, key_of, node_of};
use crate::scheduler::taints::OUT_OF_SERVICE;
use crate::supply::Supplies;
use crate::time::{again_at, later};
use crate::write::{Farewell, Kind, ObjectPart, WriteError, delete, patch};

/// Collects the pods of nodes that are gone.
pub(crate) struct Collection {
    context: ControllerContext,
    /// Since when we miss which nodes.
    missing: Mutex<BTreeMap<String, Timestamp>>,
}

/// Returns the pods under a node name that no kubelet will end, given the node.
fn abandoned(node: &str, known: Option<&Node>, pods: Vec<Arc<Pod>>) -> (Vec<Arc<Pod>>, &'static str) {
    let leaving = |pods: Vec<Arc<Pod>>| pods.into_iter().filter(|pod| is_leaving(&pod.metadata)).collect();
    match known {
        _ if node.is_empty() => (leaving(pods), ""),
        Some(node) => {
            let off = node::taints(node).iter().any(|taint| taint.key == OUT_OF_SERVICE);
            let lost = off && health(node) != Health::Ready;
            (if lost { leaving(pods) } else { Vec::new() }, "")
        }
        None => (pods, "PodGC: node no longer exists"),
    }
}

impl Collection {
    pub(crate) fn new(context: ControllerContext) -> Self {
        Self { context, missing: Mutex::default() }
    }

    async fn is_really_gone(&self, node: &str) -> Result<bool, WriteError> {
        let found = Node::api(&self.context.client, "").get_opt(node).await;
        found.map(|node| node.is_none()).map_err(|source| WriteError::new("ask for a node that seems gone", source))
    }

    async fn collect(&self, pod: &Pod, why: &str) -> Result<(), WriteError> {
        let (client, views, key) = (&self.context.client, &self.context.views, key_of(&pod.metadata));
        if !is_terminal(pod) {
            let body = failed(pod, why, self.context.now());
            patch(client, &views.pods, &key, (ObjectPart::Status, &body), "say that an orphaned pod has failed")
                .await?;
        }
        delete(client, &views.pods, pod, Farewell::Forced, "collect an orphaned pod").await
    }
}

fn failed(pod: &Pod, why: &str, now: Timestamp) -> Value {
    let mut body = if why.is_empty() {
        json!({ "metadata": { "uid": pod.metadata.uid }, "status": {} })
    } else {
        condition_patch(pod, "DisruptionTarget", "True", ("DeletionByPodGC", why), now)
    };
    if let Some(status) = body.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("phase".into(), "Failed".into());
    }
    body
}

impl Duty for Collection {
    const NAME: &'static str = "pod collection";

    fn wire(&self, supplies: &mut Supplies, queue: &Queue<Key>) {
        supplies.nodes.wake_itself(queue);
        let woken = queue.clone();
        supplies.pods.tell(move |_, delta| {
            if let Some(pod) = delta.now() {
                woken.add(Key::cluster(node_of(pod).unwrap_or_default()));
            }
        });
    }

    async fn reconcile(&self, key: Key) -> Result<Outcome, WriteError> {
        let node = self.context.node(&key.name);
        let pods = self.context.views.pods.find(&BY_NODE, &key.name);
        let orphaned = node.is_none() && !key.name.is_empty() && !pods.is_empty();
        if orphaned {
            let now = self.context.now();
            let since = *self.missing.lock().entry(key.name.to_string()).or_insert(now);
            let due = later(since, self.context.policy.orphan_quarantine);
            if due > now {
                return Ok(again_at(Some(due), now));
            }
            if !self.is_really_gone(&key.name).await? {
                return Ok(Outcome::Failed);
            }
        } else {
            self.missing.lock().remove(&*key.name);
        }
        let (pods, why) = abandoned(&key.name, node.as_deref(), pods);
        for pod in pods {
            self.collect(&pod, why).await?;
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn pods() -> Vec<Arc<Pod>> {
        let pod = |name: &str, leaving: Option<&str>| {
            let pod = json!({ "metadata": { "name": name, "deletionTimestamp": leaving } });
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        vec![pod("stays", None), pod("leaves", Some("2026-01-01T00:00:00Z"))]
    }

    fn node(ready: &str, taints: &Value) -> Node {
        serde_json::from_value(json!({
            "metadata": { "name": "n" }, "spec": { "taints": taints },
            "status": { "conditions": [{ "type": "Ready", "status": ready }] } }))
        .unwrap()
    }

    #[rstest]
    #[case("n", None, &["stays", "leaves"])]
    #[case("n", Some(node("True", &json!([]))), &[])]
    #[case("n", Some(node("Unknown", &json!([]))), &[])]
    #[case("n", Some(node("Unknown", &json!([{ "key": OUT_OF_SERVICE, "effect": "NoExecute" }]))), &["leaves"])]
    #[case("n", Some(node("True", &json!([{ "key": OUT_OF_SERVICE, "effect": "NoExecute" }]))), &[])]
    #[case("", None, &["leaves"])]
    fn only_pods_without_a_kubelet_are_garbage_collected(
        #[case] name: &str,
        #[case] known: Option<Node>,
        #[case] expected: &[&str],
    ) {
        let (pods, _) = abandoned(name, known.as_ref(), pods());
        assert_eq!(pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_collected_pod_is_failed_and_told_why() {
        let pod = pods().remove(0);
        let body = failed(&pod, "PodGC: node no longer exists", Timestamp::UNIX_EPOCH);
        assert_eq!(body["status"]["phase"], "Failed");
        assert_eq!(body["status"]["conditions"][0]["reason"], "DeletionByPodGC");
    }
}
