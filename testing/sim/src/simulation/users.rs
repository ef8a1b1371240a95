//! Users who delete Machines that no controller replaces.
//!
//! The controllers never mark a Machine Failed while it is updated in place. As in MCM, the agent on the Node reports
//! the result of the update, and after the failure of the VM it reports nothing. So a user deletes the Machine after a
//! while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::Machine;
use kube::api::DeleteParams;
use runtime::client::Api;
use serde_json::Value;
use tokio::time::Instant;

use super::environment::Environment;
use super::objects::NAMESPACE;
use crate::oracle::MACHINES;

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_mins(1);
/// Time for which they wait for the Node to return.
const TIMEOUT: Duration = Duration::from_mins(20);

impl Environment {
    /// Deletes Machines in an in-place update whose Nodes do not return, until the environment ends.
    pub(super) fn run_users(&self) {
        let (server, stop) = (self.server.clone(), self.background.stopping());
        let machines: Api<Machine> = Api::namespaced(self.operator.clone(), NAMESPACE);
        self.background.spawn("users", async move {
            let mut unready_since: BTreeMap<String, Instant> = BTreeMap::new();
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                }
                let waiting = waiting(&server.objects(MACHINES), &server.objects("nodes"));
                unready_since.retain(|machine, _| waiting.contains(machine));
                for machine in waiting {
                    let since = *unready_since.entry(machine.clone()).or_insert_with(Instant::now);
                    if since.elapsed() >= TIMEOUT {
                        // A rejected request is sent again in the next round.
                        drop(machines.delete(&machine, &DeleteParams::default()).await);
                    }
                }
            }
        });
    }
}

/// Returns the Machines in an in-place update whose Nodes are not ready.
fn waiting(machines: &[Arc<Value>], nodes: &[Arc<Value>]) -> BTreeSet<String> {
    let ready: BTreeSet<&str> = nodes.iter().filter(|node| is_ready(node)).map(|node| name(node)).collect();
    let is_waiting = |machine: &&Arc<Value>| {
        let phase = machine.pointer("/status/currentStatus/phase").and_then(Value::as_str).unwrap_or_default();
        let is_deleting = machine.pointer("/metadata/deletionTimestamp").is_some();
        phase.starts_with("InPlaceUpdat") && !is_deleting && !ready.contains(name(machine))
    };
    machines.iter().filter(is_waiting).map(|machine| name(machine).to_owned()).collect()
}

/// A Node has the name of its Machine here.
fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

fn is_ready(node: &Value) -> bool {
    let mut conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.any(|condition| {
        condition.get("type") == Some(&Value::from("Ready")) && condition.get("status") == Some(&Value::from("True"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(name: &str, phase: &str) -> Arc<Value> {
        Arc::new(json!({ "metadata": { "name": name }, "status": { "currentStatus": { "phase": phase } } }))
    }

    fn node(name: &str, ready: &str) -> Arc<Value> {
        let conditions = json!([{ "type": "Ready", "status": ready }]);
        Arc::new(json!({ "metadata": { "name": name }, "status": { "conditions": conditions } }))
    }

    /// Shows THR-14.
    #[test]
    fn updated_machines_without_a_ready_node_are_waited_for() {
        let mut going = Value::clone(&machine("going", "InPlaceUpdating"));
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let machines = [
            machine("unready", "InPlaceUpdating"),
            machine("gone", "InPlaceUpdateSuccessful"),
            machine("ready", "InPlaceUpdateFailed"),
            machine("unhealthy", "Unknown"),
            Arc::new(going),
        ];
        let nodes = [node("unready", "Unknown"), node("ready", "True"), node("unhealthy", "Unknown")];
        assert_eq!(waiting(&machines, &nodes), ["gone", "unready"].map(str::to_owned).into());
    }
}
