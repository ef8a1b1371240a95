//! The node agents of in-place updates. An agent reports the result of the update of its Node, and the taint of
//! critical components is removed afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use api::names::conditions::in_place;
use api::names::{labels, taints};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use runtime::Random;
use runtime::client::Api;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::environment::Environment;
use super::objects::{NAMESPACE, mirror_pod};

/// Polling interval of the agents.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The update of one Node.
struct Update {
    ends: Instant,
    /// Whether it fails. A failed update is tried once more.
    fails: bool,
}

impl Environment {
    /// Runs the node agents until the environment ends.
    pub(super) fn run_node_agents(&self, client: kube::Client) {
        let (server, random, stop) = (self.server.clone(), self.random.fork(), self.background.stopping());
        let nodes: Api<Node> = Api::all(client);
        self.background.spawn("node agents", async move {
            let mut updates = BTreeMap::new();
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                }
                for node in server.objects("nodes") {
                    let name = node.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                    if let Some(change) = change(&node, name, &mut updates, &random) {
                        // A rejected request is sent again in the next round.
                        drop(nodes.patch(name, &PatchParams::default(), &Patch::Merge(change)).await);
                    }
                }
            }
        });
    }
}

impl Environment {
    /// Creates the mirror pod of each Node, until the environment ends.
    pub(super) fn run_mirror_pods(&self, client: kube::Client) {
        let (server, stop) = (self.server.clone(), self.background.stopping());
        let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);
        self.background.spawn("mirror pods", async move {
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                }
                for node in server.objects("nodes") {
                    let name = node.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                    let is_deleting = node.pointer("/metadata/deletionTimestamp").is_some();
                    if is_deleting || server.object("pods", NAMESPACE, &format!("static-{name}")).is_some() {
                        continue;
                    }
                    if let Ok(pod) = serde_json::from_value::<Pod>(mirror_pod(name)) {
                        // A rejected request is sent again in the next round.
                        drop(pods.create(&PostParams::default(), &pod).await);
                    }
                }
            }
        });
    }
}

/// Returns the patch that the agent of a Node writes now.
fn change(node: &Value, name: &str, updates: &mut BTreeMap<String, Update>, random: &Random) -> Option<Value> {
    if let Some(others) = without_critical(node) {
        return Some(json!({ "spec": { "taints": others } }));
    }
    let result = node.pointer("/metadata/labels").and_then(|labels| labels.get(labels::UPDATE_RESULT)?.as_str());
    if ![in_place::READY_FOR_UPDATE, in_place::FAILED].contains(&reason(node)) || result == Some("successful") {
        updates.remove(name);
        return None;
    }
    let draw = || Update { ends: Instant::now() + Duration::from_secs(random.below(90)), fails: random.below(4) == 0 };
    let update = updates.entry(name.to_owned()).or_insert_with(draw);
    if update.ends > Instant::now() {
        return None;
    }
    let result = if update.fails { "failed" } else { "successful" };
    *update = Update { ends: Instant::now() + Duration::from_mins(1), fails: false };
    Some(json!({ "metadata": { "labels": { labels::UPDATE_RESULT: result } } }))
}

fn reason(node: &Value) -> &str {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let mut updates = conditions.filter(|condition| condition.get("type") == Some(&Value::from(in_place::TYPE)));
    updates.find_map(|condition| condition.get("reason")?.as_str()).unwrap_or_default()
}

/// Returns the remaining taints of a Node with the taint of critical components.
fn without_critical(node: &Value) -> Option<Vec<&Value>> {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array)?;
    let others: Vec<&Value> =
        taints.iter().filter(|taint| taint.get("key") != Some(&Value::from(taints::CRITICAL_COMPONENTS))).collect();
    (others.len() < taints.len()).then_some(others)
}
