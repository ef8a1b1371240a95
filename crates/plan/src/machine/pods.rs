//! Who would be killed if the VM went now.
//!
//! Pods that come back at once (a DaemonSet's), pods that the API server only mirrors and pods that have ended are nobody's loss.
//! Everybody else is in the way until a drain has moved them.

use api::Object;
use api::view::PodView;
use jiff::Timestamp;

/// The pods that would be killed if the VM went now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PodsOnNode {
    /// Nobody has looked yet.
    #[default]
    NotLooked,
    /// These were there at this time.
    Blocking {
        /// As `namespace/name`.
        pods: Vec<String>,
        /// When they were seen.
        at: Timestamp,
    },
    /// None that anybody would miss.
    Clear,
}

/// The pods that anybody would miss, as `namespace/name`, in order.
#[must_use]
pub fn pods_in_the_way(pods: &[PodView]) -> Vec<String> {
    let missed = |pod: &&PodView| !(pod.is_mirror() || pod.is_of_daemon_set() || pod.is_finished());
    let mut names: Vec<String> =
        pods.iter().filter(missed).map(|pod| format!("{}/{}", pod.namespace(), pod.name())).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_pods_that_anybody_would_miss_are_in_the_way() {
        let pod = |name: &str, more: serde_json::Value| -> PodView {
            let mut pod = json!({ "metadata": { "name": name, "namespace": "ns" }, "status": { "phase": "Running" } });
            json_merge(&mut pod, &more);
            serde_json::from_value(pod).unwrap()
        };
        let daemon =
            json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true }]);
        let pods = [
            pod("web", json!({})),
            pod("agent", json!({ "metadata": { "ownerReferences": daemon } })),
            pod("static", json!({ "metadata": { "annotations": { "kubernetes.io/config.mirror": "x" } } })),
            pod("job", json!({ "status": { "phase": "Succeeded" } })),
            pod("bare", json!({ "status": { "phase": "Pending" } })),
        ];
        assert_eq!(pods_in_the_way(&pods), ["ns/bare", "ns/web"]);
    }

    fn json_merge(into: &mut serde_json::Value, from: &serde_json::Value) {
        match (into, from) {
            (serde_json::Value::Object(into), serde_json::Value::Object(from)) => {
                for (key, value) in from {
                    json_merge(into.entry(key.clone()).or_insert(serde_json::Value::Null), value);
                }
            }
            (into, from) => *into = from.clone(),
        }
    }
}
