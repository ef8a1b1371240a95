//! Nodes, without images, addresses and managed fields.

use crate::{ConditionStatus, NodeCondition, ProviderId, Quantity, SmallMap, Taint};
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// The fields of a Node that the controllers use.
    pub struct NodeView: "Node", "nodes", group "", version "v1",
        annotations (Annotations::All) {
        /// Desired state.
        pub spec: NodeViewSpec = "spec",
        /// Observed state.
        pub status: NodeViewStatus = "status",
    }
}

record! {
    /// Spec of a Node.
    pub struct NodeViewSpec {
        /// Provider ID of its VM.
        pub provider_id: ProviderId = "providerID",
        /// Whether the Node is cordoned.
        pub unschedulable: bool = "unschedulable",
        /// All taints.
        pub taints: Vec<Taint> = "taints",
    }
}

record! {
    /// Status of a Node.
    pub struct NodeViewStatus {
        /// All conditions.
        pub conditions: Vec<NodeCondition> = "conditions",
        /// Capacity of each resource.
        pub capacity: SmallMap<Quantity> = "capacity",
        /// Attached volumes, as reported by the attach/detach controller.
        pub volumes_attached: Vec<AttachedVolume> = "volumesAttached",
        /// Volumes that the kubelet has mounted or will mount.
        pub volumes_in_use: Vec<Box<str>> = "volumesInUse",
    }
}

record! {
    /// A volume attached to a Node.
    pub struct AttachedVolume {
        /// Unique name of the volume, for example `kubernetes.io/csi/<driver>^<handle>`.
        pub name: Box<str> = "name",
    }
}

impl NodeView {
    /// Returns the condition of this type; the last one if there are several.
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().rfind(|condition| *condition.kind == *kind)
    }

    /// Returns the status of the condition of this type; `Unset` if there is none.
    pub fn condition_status(&self, kind: &str) -> &ConditionStatus {
        self.condition(kind).map_or(&ConditionStatus::Unset, |condition| &condition.status)
    }

    /// Returns whether two versions of a Node differ only in heartbeats. Kubelets update heartbeats every few minutes. With ten thousand
    /// Nodes these are most of the updates, and they must not cause reconciles.
    pub fn differs_only_in_heartbeats(&self, other: &Self) -> bool {
        let (a, b) = (&self.metadata, &other.metadata);
        let conditions = (&self.status.conditions, &other.status.conditions);
        // All fields except resourceVersion and heartbeat times.
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
    fn heartbeats_are_ignored() {
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
    fn all_other_changes_are_detected() {
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
