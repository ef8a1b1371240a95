//! People who do what nobody else does.
//!
//! A machine whose VM dies in an in-place update is never given up by the controllers: as with MCM, what became of the update is said by
//! the agent on its Node, and the Node no longer says anything. Somebody finds it after a while and deletes the Machine.

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

/// How often they look.
const GLANCE: Duration = Duration::from_mins(1);
/// How long they believe that a Node comes back.
const PATIENCE: Duration = Duration::from_mins(20);

impl Environment {
    /// Lets them look after machines that are updated in place until everything ends.
    pub(super) fn people(&self) {
        let (server, stop) = (self.server.clone(), self.outside.stopping());
        let machines: Api<Machine> = Api::namespaced(self.operator.clone(), NAMESPACE);
        self.outside.spawn("people", async move {
            let mut silent: BTreeMap<String, Instant> = BTreeMap::new();
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(GLANCE) => {}
                }
                let waiting = waiting(&server.objects(MACHINES), &server.objects("nodes"));
                silent.retain(|machine, _| waiting.contains(machine));
                for machine in waiting {
                    let since = *silent.entry(machine.clone()).or_insert_with(Instant::now);
                    if since.elapsed() >= PATIENCE {
                        // What is refused is tried again.
                        drop(machines.delete(&machine, &DeleteParams::default()).await);
                    }
                }
            }
        });
    }
}

/// The machines that are being updated, or were, and whose Nodes say nothing.
fn waiting(machines: &[Arc<Value>], nodes: &[Arc<Value>]) -> BTreeSet<String> {
    let ready: BTreeSet<&str> = nodes.iter().filter(|node| is_ready(node)).map(|node| name(node)).collect();
    let waits = |machine: &&Arc<Value>| {
        let phase = machine.pointer("/status/currentStatus/phase").and_then(Value::as_str).unwrap_or_default();
        let goes = machine.pointer("/metadata/deletionTimestamp").is_some();
        phase.starts_with("InPlaceUpdat") && !goes && !ready.contains(name(machine))
    };
    machines.iter().filter(waits).map(|machine| name(machine).to_owned()).collect()
}

/// A Node is called like its Machine here.
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
    fn people_wait_for_machines_in_an_update_whose_nodes_are_silent_or_gone() {
        let mut going = Value::clone(&machine("going", "InPlaceUpdating"));
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let machines = [
            machine("silent", "InPlaceUpdating"),
            machine("gone", "InPlaceUpdateSuccessful"),
            machine("well", "InPlaceUpdateFailed"),
            machine("unhealthy", "Unknown"),
            Arc::new(going),
        ];
        let nodes = [node("silent", "Unknown"), node("well", "True"), node("unhealthy", "Unknown")];
        assert_eq!(waiting(&machines, &nodes), ["gone", "silent"].map(str::to_owned).into());
    }
}
