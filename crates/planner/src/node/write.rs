//! What is to be written on one Node, as data.
//!
//! A Node has many writers: its kubelet, the cloud controller, the autoscaler, people. So a write names only what is ours. Labels,
//! annotations and capacities are sent key by key, conditions one by one; the kubelet's stay out of it. Taints and finalizers can
//! only be sent as whole lists, made by [`api::lists`] from the list that was seen, so such a write holds for the version that was
//! seen and for no other.
//!
//! Metadata and spec go out in one request, the status in another, and only if there is something to say.

use std::collections::BTreeMap;
use std::fmt;

use api::names::{annotations, finalizers, labels};
use api::{NodeCondition, Quantity, Taint, Text, Uid};
use serde_json::{Map, Value, json};

/// The parts of a Node to write; whatever is empty or `None` is left alone. A value of `None` removes its key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeWrite {
    /// Which node.
    pub name: String,
    /// The very one the decision was about.
    pub uid: Uid,
    /// The version the decision was about; `None` where no list is rewritten whole and the fields are nobody else's, so that any version
    /// of this very node will do.
    pub resource_version: Option<String>,
    /// Labels to set or remove.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set or remove.
    pub annotations: BTreeMap<String, Option<String>>,
    /// The whole list of finalizers.
    pub finalizers: Option<Vec<Text>>,
    /// The whole list of taints.
    pub taints: Option<Vec<Taint>>,
    /// Whether new pods may come.
    pub scheduling: Option<Scheduling>,
    /// Conditions to set, by type; all others stay.
    pub conditions: BTreeMap<Text, NodeCondition>,
    /// Capacities to set or remove.
    pub capacity: BTreeMap<String, Option<Quantity>>,
}

/// Whether new pods may come to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// They may.
    Open,
    /// They may not.
    Cordoned,
}

impl NodeWrite {
    /// The same to this very node, whatever was written to it meanwhile.
    #[must_use]
    pub fn in_any_version(self) -> Self {
        Self { resource_version: None, ..self }
    }

    /// The body of a merge patch on the Node, without its guard; `None` if metadata and spec stay as they are.
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

    /// The body of a strategic merge patch on the Node's status, without its guard; `None` if the status stays as it is. In this
    /// language conditions are merged by type, so that the kubelet's are neither sent nor lost.
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
                format!("mark node {node:?} as its own")
            } else {
                format!("let go of node {node:?}")
            });
        } else if self.labels.contains_key(labels::MACHINE_NAME) {
            changes.push(format!("mark node {node:?} as its own"));
        }
        if self.annotations.contains_key(annotations::LAST_APPLIED_TEMPLATE) {
            changes.push(format!("keep its template on node {node:?}"));
        }
        match self.scheduling {
            Some(Scheduling::Cordoned) => changes.push(format!("cordon node {node:?}")),
            Some(Scheduling::Open) => changes.push(format!("uncordon node {node:?}")),
            None => {}
        }
        if !self.capacity.is_empty() {
            changes.push(format!("write its virtual capacity to node {node:?}"));
        }
        changes.extend(self.conditions.values().map(|condition| {
            let NodeCondition { kind, status, reason, .. } = condition;
            format!("say {kind} {status} ({reason}) on node {node:?}")
        }));
        if changes.is_empty() {
            changes.push(format!("keep its marks on node {node:?}"));
        }
        changes
    }
}

impl fmt::Display for NodeWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.changes().join(" and "))
    }
}

/// A condition with every key present, `null` where it has no value: an element is merged, and nothing of an older one may stay.
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
    fn what_is_not_ours_is_not_in_the_patch() {
        let write = NodeWrite {
            labels: [("a".to_owned(), Some("1".to_owned())), ("b".to_owned(), None)].into(),
            ..NodeWrite::default()
        };
        assert_eq!(write.object_patch().unwrap(), json!({ "metadata": { "labels": { "a": "1", "b": null } } }));
        assert_eq!(write.status_patch(), None);
        assert_eq!(NodeWrite::default().object_patch(), None);
    }

    #[test]
    fn an_open_node_and_an_empty_list_of_taints_are_written_as_absent() {
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
    fn a_condition_is_sent_alone_and_leaves_nothing_of_the_one_before() {
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
