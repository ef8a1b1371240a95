//! In-place updates with a simulated node agent.

use serde_json::{Value, json};

use super::cluster::{Cluster, text};

/// Label with the result of the update, set by the node agent.
const RESULT: &str = "node.machine.sapcloud.io/update-result";
/// Taint that is set when a Node returns to service. The controller of the critical components removes it.
const CRITICAL: &str = "node.gardener.cloud/critical-components-not-ready";

impl Cluster {
    /// Updates the pool in place to this MachineClass, one machine after the other.
    pub(super) fn update_in_place(&self, class: &str, replicas: u32) -> anyhow::Result<()> {
        let limits = json!({ "maxSurge": 0, "maxUnavailable": 1, "orchestrationType": "Auto" });
        self.apply_pool_with(class, replicas, &json!({ "type": "InPlaceUpdate", "inPlaceUpdate": limits }))
    }

    /// Simulates node agents and the controller of critical components: updates each Node that is ready for the update,
    /// and removes the taint of updated Nodes.
    pub(super) fn play_agents(&self) -> anyhow::Result<()> {
        for node in self.list("nodes")? {
            let name = text(&node, "/metadata/name");
            if reason(&node) == "ReadyForUpdate" && label(&node, RESULT).is_none() {
                self.restart_kubelet(name)?;
                self.test_bed()?.kubectl(&["label", "node", name, &format!("{RESULT}=successful")])?;
            }
            if has_taint(&node, CRITICAL) {
                self.test_bed()?.kubectl(&["taint", "node", name, &format!("{CRITICAL}-")])?;
            }
        }
        Ok(())
    }
}

fn label<'a>(node: &'a Value, key: &str) -> Option<&'a Value> {
    node.pointer("/metadata/labels")?.get(key)
}

fn reason(node: &Value) -> &str {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().find(|one| text(one, "/type") == "InPlaceUpdate").map_or("", |one| text(one, "/reason"))
}

fn has_taint(node: &Value, key: &str) -> bool {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten();
    taints.into_iter().any(|taint| text(taint, "/key") == key)
}
