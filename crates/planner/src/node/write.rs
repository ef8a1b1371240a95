//! A write to one Node, as data.
//!
//! A Node has many writers: its kubelet, the cloud controller, the cluster-autoscaler, users. So a write contains only
//! Millwright's fields. Labels, annotations and capacities are sent by key, and conditions by type. Taints and
//! finalizers can only be sent as complete lists, which [`api::lists`] creates from the observed list, so such a write
//! has the observed version as precondition.
//!
//! Metadata and spec are sent in one request and the status in another, each only if it changes.

use std::collections::BTreeMap;
use std::fmt;

use api::names::{annotations, finalizers, labels};
use api::{NodeCondition, Quantity, Taint, Text, Uid};
use serde_json::{Map, Value, json};

/// Fields of a Node to write. Empty fields and `None` stay unchanged. A value of `None` removes its key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeWrite {
    /// Name of the Node.
    pub name: String,
    /// UID of the Node.
    pub uid: Uid,
    /// The version that the decision was based on; `None` if the write contains no complete list and only Millwright's
    /// own fields, so that it applies to any version.
    pub resource_version: Option<String>,
    /// Labels to set or remove.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set or remove.
    pub annotations: BTreeMap<String, Option<String>>,
    /// The complete list of finalizers.
    pub finalizers: Option<Vec<Text>>,
    /// The complete list of taints.
    pub taints: Option<Vec<Taint>>,
    /// Whether the Node is schedulable.
    pub scheduling: Option<Scheduling>,
    /// Conditions to set, by type. All others stay.
    pub conditions: BTreeMap<Text, NodeCondition>,
    /// Capacities to set or remove.
    pub capacity: BTreeMap<String, Option<Quantity>>,
}

/// Whether new pods are scheduled to a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// Schedulable.
    Open,
    /// Unschedulable.
    Cordoned,
}

impl NodeWrite {
    /// Returns the same write for any version of the Node.
    #[must_use]
    pub fn in_any_version(self) -> Self {
        Self { resource_version: None, ..self }
    }

    /// Returns the body of the merge patch of metadata and spec, without preconditions; `None` if they stay unchanged.
    pub fn object_patch(&self) -> Option<Value> {
        let (mut metadata, mut spec) = (Map::new(), Map::new());
        if !self.labels.is_empty() {
            metadata.insert("labels".into(), json!(self.labels));
        }
        if !self.annotations.is_empty() {
            metadata.insert("annotations".into(), json!(self.annotations));
        }
        if let Some(list) = &self.finalizers {
            metadata.insert("finalizers".into(), json!(list));
        }
        if let Some(list) = &self.taints {
            spec.insert("taints".into(), if list.is_empty() { Value::Null } else { json!(list) });
        }
        if let Some(scheduling) = self.scheduling {
            let value = match scheduling {
                Scheduling::Open => Value::Null,
                Scheduling::Cordoned => json!(true),
            };
            spec.insert("unschedulable".into(), value);
        }
        let mut body = Map::new();
        if !metadata.is_empty() {
            body.insert("metadata".into(), Value::Object(metadata));
        }
        if !spec.is_empty() {
            body.insert("spec".into(), Value::Object(spec));
        }
        (!body.is_empty()).then_some(Value::Object(body))
    }

    /// Returns the body of the strategic merge patch of the status, without preconditions; `None` if it stays
    /// unchanged. A strategic merge patch merges conditions by type, so that the kubelet's are neither sent nor lost.
    pub fn status_patch(&self) -> Option<Value> {
        let mut status = Map::new();
        if !self.conditions.is_empty() {
            let list: Vec<Value> = self.conditions.values().map(whole).collect();
            status.insert("conditions".into(), json!(list));
        }
        if !self.capacity.is_empty() {
            status.insert("capacity".into(), json!(self.capacity));
        }
        (!status.is_empty()).then(|| json!({ "status": status }))
    }

    fn changes(&self) -> Vec<String> {
        let node = &self.name;
        let mut changes = Vec::new();
        if let Some(list) = &self.finalizers {
            let held = list.iter().any(|finalizer| finalizer == finalizers::NODE);
            changes.push(if held {
                format!("label node {node:?} with its Machine")
            } else {
                format!("remove the finalizer from node {node:?}")
            });
        } else if self.labels.contains_key(labels::MACHINE_NAME) {
            changes.push(format!("label node {node:?} with its Machine"));
        }
        if self.annotations.contains_key(annotations::LAST_APPLIED_TEMPLATE) {
            changes.push(format!("apply the node template to node {node:?}"));
        }
        match self.scheduling {
            Some(Scheduling::Cordoned) => changes.push(format!("cordon node {node:?}")),
            Some(Scheduling::Open) => changes.push(format!("uncordon node {node:?}")),
            None => {}
        }
        if !self.capacity.is_empty() {
            changes.push(format!("set the virtual capacity of node {node:?}"));
        }
        changes.extend(self.conditions.values().map(|condition| {
            let NodeCondition { kind, status, reason, .. } = condition;
            format!("set condition {kind}={status} ({reason}) on node {node:?}")
        }));
        if changes.is_empty() {
            changes.push(format!("update the metadata or taints of node {node:?}"));
        }
        changes
    }
}

impl fmt::Display for NodeWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.changes().join(" and "))
    }
}

/// Returns a condition with every key present, and `null` for a key without value. Otherwise the merge would keep old
/// values.
fn whole(condition: &NodeCondition) -> Value {
    let mut value = json!(condition);
    if let Some(object) = value.as_object_mut() {
        for key in ["reason", "message", "lastHeartbeatTime", "lastTransitionTime"] {
            object.entry(key).or_insert(Value::Null);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{ConditionStatus, TaintEffect};

    #[test]
    fn patch_contains_only_set_fields() {
        let write = NodeWrite {
            labels: [("a".to_owned(), Some("1".to_owned())), ("b".to_owned(), None)].into(),
            ..NodeWrite::default()
        };
        assert_eq!(write.object_patch().unwrap(), json!({ "metadata": { "labels": { "a": "1", "b": null } } }));
        assert_eq!(write.status_patch(), None);
        assert_eq!(NodeWrite::default().object_patch(), None);
    }

    #[test]
    fn schedulable_node_and_empty_taints_are_written_as_null() {
        let write = NodeWrite { taints: Some(vec![]), scheduling: Some(Scheduling::Open), ..NodeWrite::default() };
        assert_eq!(write.object_patch().unwrap(), json!({ "spec": { "taints": null, "unschedulable": null } }));
        let taint = Taint { key: "k".into(), effect: TaintEffect::NoSchedule, ..Taint::default() };
        let write =
            NodeWrite { taints: Some(vec![taint]), scheduling: Some(Scheduling::Cordoned), ..NodeWrite::default() };
        assert_eq!(
            write.object_patch().unwrap(),
            json!({ "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }], "unschedulable": true } })
        );
    }

    #[test]
    fn condition_patch_resets_all_fields_of_the_condition() {
        let condition =
            NodeCondition { kind: "Preserved".into(), status: ConditionStatus::False, ..NodeCondition::default() };
        let write = NodeWrite { conditions: [("Preserved".into(), condition)].into(), ..NodeWrite::default() };
        let nothing = Value::Null;
        assert_eq!(
            write.status_patch().unwrap(),
            json!({ "status": { "conditions": [{
                "type": "Preserved", "status": "False", "reason": nothing, "message": nothing,
                "lastHeartbeatTime": nothing, "lastTransitionTime": nothing,
            }] } })
        );
    }
}
