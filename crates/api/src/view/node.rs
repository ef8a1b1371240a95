//! Nodes, without their images, addresses and managed fields.

use crate::{ConditionStatus, NodeCondition, ProviderId, Quantity, SmallMap, Taint};
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// A Node as our decisions see it.
    pub struct NodeView: "Node", "nodes", group "", version "v1",
        annotations (Annotations::All) {
        /// What it is to be.
        pub spec: NodeViewSpec = "spec",
        /// What its kubelet says.
        pub status: NodeViewStatus = "status",
    }
}

record! {
    /// What a Node is to be.
    pub struct NodeViewSpec {
        /// Its VM.
        pub provider_id: ProviderId = "providerID",
        /// Whether it is cordoned.
        pub unschedulable: bool = "unschedulable",
        /// Its taints, those of others too.
        pub taints: Vec<Taint> = "taints",
    }
}

record! {
    /// What is known of a Node.
    pub struct NodeViewStatus {
        /// Its conditions, those of others too.
        pub conditions: Vec<NodeCondition> = "conditions",
        /// What it has of each resource.
        pub capacity: SmallMap<Quantity> = "capacity",
        /// Volumes attached to it, as the attaching controller knows.
        pub volumes_attached: Vec<AttachedVolume> = "volumesAttached",
        /// Volumes its kubelet has mounted or is about to.
        pub volumes_in_use: Vec<Box<str>> = "volumesInUse",
    }
}

record! {
    /// A volume attached to a Node.
    pub struct AttachedVolume {
        /// The volume's unique name, for example `kubernetes.io/csi/<driver>^<handle>`.
        pub name: Box<str> = "name",
    }
}

impl NodeView {
    /// The condition of this type; the last one, should there be several.
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().rfind(|condition| *condition.kind == *kind)
    }

    /// The status of the condition of this type; `Unset` if it has none.
    pub fn condition_status(&self, kind: &str) -> &ConditionStatus {
        self.condition(kind).map_or(&ConditionStatus::Unset, |condition| &condition.status)
    }

    /// Whether a later sight of the same Node tells us nothing new. Kubelets confirm their conditions every few minutes,
    /// which at ten thousand nodes is most of the traffic, and nobody needs to be woken by it.
    pub fn differs_only_in_heartbeats(&self, other: &Self) -> bool {
        let (a, b) = (&self.metadata, &other.metadata);
        let conditions = (&self.status.conditions, &other.status.conditions);
        // resourceVersion and heartbeat times are left out; all else must be the same.
        a.name == b.name
            && a.uid == b.uid
            && a.labels == b.labels
            && a.annotations == b.annotations
            && a.finalizers == b.finalizers
            && a.owner_references == b.owner_references
            && a.creation_timestamp == b.creation_timestamp
            && a.deletion_timestamp == b.deletion_timestamp
            && self.spec == other.spec
            && self.status.capacity == other.status.capacity
            && self.status.volumes_attached == other.status.volumes_attached
            && self.status.volumes_in_use == other.status.volumes_in_use
            && conditions.0.len() == conditions.1.len()
            && conditions.0.iter().zip(conditions.1).all(|(a, b)| {
                a.kind == b.kind
                    && a.status == b.status
                    && a.last_transition_time == b.last_transition_time
                    && a.reason == b.reason
                    && a.message == b.message
                    && a.extra == b.extra
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(change: impl Fn(&mut Value)) -> NodeView {
        let mut json = json!({
            "metadata": {"name": "n", "resourceVersion": "1", "labels": {"a": "b"}},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {
                "images": [{"names": ["x"]}],
                "capacity": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
            },
        });
        change(&mut json);
        serde_json::from_value(json).unwrap()
    }

    /// Shows CAC-12.
    #[test]
    fn a_heartbeat_is_no_news() {
        let before = node(|_| ());
        let after = node(|json| {
            json["metadata"]["resourceVersion"] = json!("2");
            json["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-01-01T00:05:00Z");
            json["status"]["images"] = json!([]);
        });
        assert_ne!(before, after);
        assert!(before.differs_only_in_heartbeats(&after));
    }

    /// Shows CAC-12.
    #[test]
    fn everything_else_is_news() {
        let changes: &[(&str, Value)] = &[
            ("/metadata/labels/a", json!("c")),
            ("/metadata/annotations", json!({"a": "b"})),
            ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            ("/metadata/finalizers", json!(["f"])),
            ("/metadata/uid", json!("u")),
            ("/spec/unschedulable", json!(true)),
            ("/spec/providerID", json!("p")),
            ("/spec/taints/0/key", json!("l")),
            ("/status/capacity/cpu", json!("5")),
            ("/status/volumesAttached", json!([{"name": "v"}])),
            ("/status/volumesInUse", json!(["v"])),
            ("/status/conditions/0/status", json!("False")),
            ("/status/conditions/0/reason", json!("R")),
            ("/status/conditions/0/message", json!("m")),
            ("/status/conditions/0/lastTransitionTime", json!("2026-01-01T00:00:00Z")),
            ("/status/conditions/1", json!({"type": "DiskPressure", "status": "False"})),
        ];
        for (path, value) in changes {
            let later = node(|json| {
                let (parent, key) = path.rsplit_once('/').unwrap();
                match json.pointer_mut(parent).unwrap() {
                    Value::Array(list) => list.push(value.clone()),
                    parent => parent[key] = value.clone(),
                }
            });
            assert!(!node(|_| ()).differs_only_in_heartbeats(&later), "{path}");
        }
    }
}
