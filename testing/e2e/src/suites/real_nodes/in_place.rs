//! An update in place: machines stay, and what runs on them is replaced by the agent on each node. It is played by us.

use serde_json::{Value, json};

use super::cluster::{Cluster, text};

/// What the agent says of its update.
const RESULT: &str = "node.machine.sapcloud.io/update-result";
/// Set when a node is given back. Whoever looks after its critical components takes it away.
const CRITICAL: &str = "node.gardener.cloud/critical-components-not-ready";

impl Cluster {
    /// Has the pool of so many machines updated in place to this class, one machine after the other.
    pub(super) fn update_in_place(&self, class: &str, replicas: u32) -> anyhow::Result<()> {
        let limits = json!({ "maxSurge": 0, "maxUnavailable": 1, "orchestrationType": "Auto" });
        self.apply_pool_with(class, replicas, &json!({ "type": "InPlaceUpdate", "inPlaceUpdate": limits }))
    }

    /// What agents and controllers of nodes do now: a node that is ready for its update is updated, and one that was given back may have pods again.
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
