//! ReplicaSets: as many pods as wanted, whichever.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use runtime::{Key, Outcome, Queue};
use serde_json::json;

use super::{Naming, count, pod_of, status_patch, wake_owner_of_pods};
use crate::context::{ControllerContext, Duty};
use crate::pod::{
    BY_CONTROLLER, available_from, is_active, is_leaving, is_ready, is_terminal, key_of, node_of, phase_of,
};
use crate::supply::Supplies;
use crate::time::again_at;
use crate::write::{Farewell, ObjectPart, WriteError, create, delete, patch};

/// Keeps ReplicaSets at their size.
pub(crate) struct ReplicaSets(pub(crate) ControllerContext);

/// At most this many pods are made or removed in one reconcile.
const BURST: usize = 500;

/// The pods a set has too many, those that would be missed least first: on no node, not running, not ready, cheap by their owner's
/// word, beside the most of their like, ready for the shortest time, youngest.
fn surplus(pods: &[Arc<Pod>], wanted: usize) -> Vec<Arc<Pod>> {
    let mut neighbours: BTreeMap<&str, usize> = BTreeMap::new();
    for node in pods.iter().filter_map(|pod| node_of(pod)) {
        *neighbours.entry(node).or_default() += 1;
    }
    let mut ranked: Vec<&Arc<Pod>> = pods.iter().collect();
    ranked.sort_by_key(|pod| {
        let stage = match phase_of(pod) {
            "Pending" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let cost =
            pod.metadata.annotations.as_ref().and_then(|all| all.get("controller.kubernetes.io/pod-deletion-cost"));
        let cost: i64 = cost.and_then(|cost| cost.parse().ok()).unwrap_or_default();
        let beside = node_of(pod).and_then(|node| neighbours.get(node)).copied().unwrap_or_default();
        let ready_since = crate::pod::condition(pod, "Ready").and_then(|ready| ready.last_transition_time.as_ref());
        let born = pod.metadata.creation_timestamp.as_ref();
        (
            node_of(pod).is_some(),
            stage,
            is_ready(pod),
            cost,
            Reverse(beside),
            Reverse(ready_since.map(|time| time.0)),
            (Reverse(born.map(|time| time.0)), key_of(&pod.metadata)),
        )
    });
    ranked.into_iter().take(pods.len().saturating_sub(wanted)).cloned().collect()
}

fn wanted(set: &ReplicaSet) -> usize {
    usize::try_from(set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)).unwrap_or_default()
}

/// What a set says of its pods, and when that will change by the passing of time.
fn status(set: &ReplicaSet, pods: &[Arc<Pod>], now: Timestamp) -> (ReplicaSetStatus, Option<Timestamp>) {
    let patience = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or_default();
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref()?.metadata.as_ref()?.labels.as_ref());
    let active: Vec<&Arc<Pod>> = pods.iter().filter(|pod| is_active(pod)).collect();
    let labelled = |pod: &&&Arc<Pod>| {
        let labels = pod.metadata.labels.as_ref();
        template.into_iter().flatten().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    };
    let available: Vec<Timestamp> = active.iter().filter_map(|pod| available_from(pod, patience)).collect();
    let status = ReplicaSetStatus {
        replicas: count(active.iter()),
        fully_labeled_replicas: some(count(active.iter().filter(labelled))),
        ready_replicas: some(count(active.iter().filter(|pod| is_ready(pod)))),
        available_replicas: some(count(available.iter().filter(|from| **from <= now))),
        terminating_replicas: Some(count(pods.iter().filter(|pod| is_leaving(&pod.metadata) && !is_terminal(pod)))),
        observed_generation: set.metadata.generation,
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
    };
    (status, available.into_iter().filter(|from| *from > now).min())
}

/// Zero is omitted, as in the real controllers.
pub(super) fn some(number: i32) -> Option<i32> {
    Some(number).filter(|number| *number != 0)
}

impl Duty for ReplicaSets {
    const NAME: &'static str = "replicasets";

    fn wire(&self, supplies: &mut Supplies, queue: &Queue<Key>) {
        supplies.replica_sets.wake_itself(queue);
        wake_owner_of_pods(supplies, "ReplicaSet", queue);
    }

    async fn reconcile(&self, key: Key) -> Result<Outcome, WriteError> {
        let (client, views) = (&self.0.client, &self.0.views);
        let Some(set) = views.replica_sets.get(&key) else { return Ok(Outcome::Done) };
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
        if let Some(template) = template.filter(|_| !is_leaving(&set.metadata)) {
            let mut active = views.pods.find(&BY_CONTROLLER, uid);
            active.retain(|pod| is_active(pod));
            let wanted = wanted(&set);
            for _ in active.len()..wanted.min(active.len() + BURST) {
                let pod = pod_of(template, "ReplicaSet", &set.metadata, Naming::Generated);
                create(client, &views.pods, &pod, "make a pod of a ReplicaSet").await?;
            }
            for pod in surplus(&active, wanted).iter().take(BURST) {
                delete(client, &views.pods, pod, Farewell::Graceful, "remove a pod of a ReplicaSet").await?;
            }
        }
        let now = self.0.now();
        let (status, next) = status(&set, &views.pods.find(&BY_CONTROLLER, uid), now);
        if let Some(body) = status_patch(&set.metadata, &json!(set.status), &json!(status)) {
            patch(client, &views.replica_sets, &key, (ObjectPart::Status, &body), "say how a ReplicaSet is").await?;
        }
        Ok(again_at(next, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn pod(name: &str, more: &Value) -> Arc<Pod> {
        let mut pod = json!({ "metadata": { "name": name }, "spec": { "containers": [] }, "status": {} });
        for (path, value) in more.as_object().unwrap() {
            let (part, field) = path.split_once('/').unwrap();
            pod[part][field] = value.clone();
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn ready(since: &str) -> Value {
        json!([{ "type": "Ready", "status": "True", "lastTransitionTime": since }])
    }

    #[test]
    fn those_that_are_missed_least_go_first() {
        let pods = [
            pod(
                "old",
                &json!({ "spec/nodeName": "a", "status/phase": "Running", "status/conditions": ready("2026-01-01T00:00:00Z") }),
            ),
            pod(
                "young",
                &json!({ "spec/nodeName": "b", "status/phase": "Running", "status/conditions": ready("2026-01-01T00:00:09Z") }),
            ),
            pod("unready", &json!({ "spec/nodeName": "b2", "status/phase": "Running" })),
            pod("starting", &json!({ "spec/nodeName": "c", "status/phase": "Pending" })),
            pod("nowhere", &json!({ "status/phase": "Pending" })),
            pod(
                "beside",
                &json!({ "spec/nodeName": "a", "status/phase": "Running", "status/conditions": ready("2026-01-01T00:00:00Z") }),
            ),
            pod(
                "cheap",
                &json!({ "spec/nodeName": "d", "status/phase": "Running", "status/conditions": ready("2026-01-01T00:00:00Z"),
                "metadata/annotations": { "controller.kubernetes.io/pod-deletion-cost": "-1" } }),
            ),
        ];
        let order: Vec<String> = surplus(&pods, 0).iter().map(|pod| pod.metadata.name.clone().unwrap()).collect();
        assert_eq!(order, ["nowhere", "starting", "unready", "cheap", "beside", "old", "young"]);
        assert_eq!(surplus(&pods, 6).len(), 1);
        assert!(surplus(&pods, 9).is_empty());
    }

    #[test]
    fn pod_is_available_after_min_ready_seconds() {
        let set: ReplicaSet = serde_json::from_value(json!({
            "metadata": { "generation": 3 }, "spec": { "minReadySeconds": 10, "selector": {} } }))
        .unwrap();
        let pods =
            [pod("p", &json!({ "status/phase": "Running", "status/conditions": ready("2026-01-01T00:00:00Z") }))];
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (early, next) = status(&set, &pods, at("2026-01-01T00:00:05Z"));
        assert_eq!((early.ready_replicas, early.available_replicas), (Some(1), None));
        assert_eq!(next, Some(at("2026-01-01T00:00:10Z")));
        let (late, next) = status(&set, &pods, at("2026-01-01T00:00:10Z"));
        assert_eq!((late.available_replicas, late.observed_generation, next), (Some(1), Some(3), None));
    }
}
