//! Collects all changes of one Node in one reconcile into a single write.
//!
//! The labels, the node template, a cordon and a taint are decided by different parts of a Machine's plan. Separate
//! writes would conflict with each other, so all of them change one draft. Later changes see earlier ones, and a change
//! that the Node already has is dropped: an empty draft results in no write.

use api::view::NodeView;
use api::{NodeCondition, Object, Quantity, Taint, Text, lists};

use super::write::{NodeWrite, Scheduling};

/// The pending changes of a Node.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    node: &'a NodeView,
    write: NodeWrite,
}

impl<'a> Draft<'a> {
    /// Creates an empty draft for a Node.
    #[must_use]
    pub fn of(node: &'a NodeView) -> Self {
        let write = NodeWrite {
            name: node.name().to_owned(),
            uid: node.uid(),
            resource_version: Some(node.resource_version().to_owned()),
            ..NodeWrite::default()
        };
        Self { node, write }
    }

    /// The Node as it was observed.
    pub fn node(&self) -> &'a NodeView {
        self.node
    }

    /// Returns the write, or `None` if nothing changes.
    #[must_use]
    pub fn finish(self) -> Option<NodeWrite> {
        (self.write.object_patch().is_some() || self.write.status_patch().is_some()).then_some(self.write)
    }

    /// Returns the value of an annotation, including pending changes.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        match self.write.annotations.get(key) {
            Some(pending) => pending.as_deref(),
            None => self.node.annotation(key),
        }
    }

    /// Returns the taints, including pending changes.
    pub fn taints(&self) -> &[Taint] {
        self.write.taints.as_deref().unwrap_or(&self.node.spec.taints)
    }

    /// Returns the condition of a type, including pending changes.
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.write.conditions.get(kind).or_else(|| self.node.condition(kind))
    }

    /// Sets or removes a label.
    pub fn label(&mut self, key: &str, value: Option<&str>) {
        let value = value.map(str::to_owned);
        if self.node.label(key) == value.as_deref() {
            self.write.labels.remove(key);
        } else {
            self.write.labels.insert(key.to_owned(), value);
        }
    }

    /// Sets or removes an annotation.
    pub fn annotate(&mut self, key: &str, value: Option<&str>) {
        let value = value.map(str::to_owned);
        if self.node.annotation(key) == value.as_deref() {
            self.write.annotations.remove(key);
        } else {
            self.write.annotations.insert(key.to_owned(), value);
        }
    }

    /// Adds a finalizer, unless the Node is being deleted: the API server would reject the complete write.
    pub fn add_finalizer(&mut self, finalizer: &str) {
        if !self.node.is_deleting()
            && let Some(list) = lists::finalizers_with(self.finalizers(), finalizer)
        {
            self.write.finalizers = Some(list);
        }
    }

    /// Removes a finalizer.
    pub fn remove_finalizer(&mut self, finalizer: &str) {
        if let Some(list) = lists::finalizers_without(self.finalizers(), finalizer) {
            self.write.finalizers = Some(list);
        }
    }

    /// Sets a taint: replaces the one with the same key and effect, or appends it.
    pub fn taint(&mut self, taint: &Taint) {
        self.set_taints(lists::taints_with(self.taints(), taint));
    }

    /// Removes the taint with the same key and effect.
    pub fn untaint(&mut self, taint: &Taint) {
        self.set_taints(lists::taints_without(self.taints(), taint));
    }

    /// Makes the Node unschedulable.
    pub fn cordon(&mut self) {
        self.write.scheduling = (!self.node.spec.unschedulable).then_some(Scheduling::Cordoned);
    }

    /// Makes the Node schedulable. Call this only to revert Millwright's own cordon, not a user's.
    pub fn uncordon(&mut self) {
        self.write.scheduling = self.node.spec.unschedulable.then_some(Scheduling::Open);
    }

    /// Sets a condition. If only its heartbeat time differs, nothing is written. While status and reason stay the same,
    /// the last transition time is kept.
    pub fn set_condition(&mut self, mut condition: NodeCondition) {
        let old = self.node.condition(&condition.kind);
        if let Some(old) = old {
            let same = old.status == condition.status && old.reason == condition.reason;
            if same && old.message == condition.message {
                self.write.conditions.remove(&condition.kind);
                return;
            }
            if same {
                condition.last_transition_time = old.last_transition_time;
            }
        }
        self.write.conditions.insert(condition.kind.clone(), condition);
    }

    /// Sets or removes a capacity. Amounts are compared by value, because the API server normalizes their notation.
    pub fn capacity(&mut self, key: &str, amount: Option<&Quantity>) {
        let there = self.node.status.capacity.get(key);
        let same = match (there, amount) {
            (Some(there), Some(amount)) => there.same_amount(amount),
            (None, None) => true,
            _ => false,
        };
        if same {
            self.write.capacity.remove(key);
        } else {
            self.write.capacity.insert(key.to_owned(), amount.cloned());
        }
    }

    fn finalizers(&self) -> &[Text] {
        self.write.finalizers.as_deref().unwrap_or(&self.node.metadata.finalizers)
    }

    fn set_taints(&mut self, taints: Vec<Taint>) {
        self.write.taints = (taints != self.node.spec.taints).then_some(taints);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{ConditionStatus, TaintEffect};
    use serde_json::json;

    fn node() -> NodeView {
        serde_json::from_value(json!({
            "metadata": {
                "name": "n", "uid": "u", "resourceVersion": "7", "labels": { "l": "1" }, "annotations": { "a": "1" },
                "finalizers": ["z/theirs"],
            },
            "spec": { "taints": [{ "key": "theirs", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" }] },
            "status": {
                "capacity": { "cpu": "4" },
                "conditions": [{
                    "type": "Ours", "status": "True", "reason": "R", "message": "M",
                    "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        }))
        .unwrap()
    }

    fn condition(reason: &str, message: &str) -> NodeCondition {
        NodeCondition {
            kind: "Ours".into(),
            status: ConditionStatus::True,
            reason: reason.into(),
            message: message.into(),
            last_heartbeat_time: Some("2026-02-02T00:00:00Z".parse().unwrap()),
            last_transition_time: Some("2026-02-02T00:00:00Z".parse().unwrap()),
            ..NodeCondition::default()
        }
    }

    #[test]
    fn change_that_the_node_already_has_is_not_written() {
        let node = node();
        let mut draft = Draft::of(&node);
        draft.label("l", Some("1"));
        draft.label("absent", None);
        draft.annotate("a", Some("1"));
        draft.add_finalizer("z/theirs");
        draft.remove_finalizer("never/there");
        draft.taint(&node.spec.taints[0]);
        draft.untaint(&Taint { key: "theirs".into(), effect: TaintEffect::NoSchedule, ..Taint::default() });
        draft.uncordon();
        draft.set_condition(condition("R", "M"));
        draft.capacity("cpu", Some(&"4000m".into()));
        draft.capacity("gpu", None);
        assert_eq!(draft.finish(), None);
    }

    #[test]
    fn change_that_is_reverted_is_not_written() {
        let node = node();
        let own = Taint { key: "ours".into(), effect: TaintEffect::NoSchedule, ..Taint::default() };
        let mut draft = Draft::of(&node);
        draft.label("l", Some("2"));
        draft.taint(&own);
        draft.cordon();
        draft.set_condition(condition("Other", "M"));
        draft.label("l", Some("1"));
        draft.untaint(&own);
        draft.uncordon();
        draft.set_condition(condition("R", "M"));
        assert_eq!(draft.finish(), None);
    }

    /// Shows MC-W38.
    #[test]
    fn changes_become_one_write_and_see_earlier_changes() {
        let node = node();
        let own = |key: &str| Taint { key: key.into(), effect: TaintEffect::NoSchedule, ..Taint::default() };
        let mut draft = Draft::of(&node);
        draft.annotate("b", Some("2"));
        draft.add_finalizer("a/ours");
        draft.taint(&own("one"));
        draft.taint(&own("two"));
        draft.untaint(&own("one"));
        draft.cordon();
        draft.set_condition(condition("R", "another"));
        assert_eq!(draft.annotation("b"), Some("2"));
        let write = draft.finish().unwrap();
        assert_eq!((write.name.as_str(), write.uid.as_str(), write.resource_version.as_deref()), ("n", "u", Some("7")));
        assert_eq!(
            write.object_patch().unwrap(),
            json!({
                "metadata": { "annotations": { "b": "2" }, "finalizers": ["a/ours", "z/theirs"] },
                "spec": {
                    "taints": [
                        { "key": "theirs", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" },
                        { "key": "two", "effect": "NoSchedule" },
                    ],
                    "unschedulable": true,
                },
            })
        );
        assert_eq!(
            write.status_patch().unwrap()["status"]["conditions"][0]["lastTransitionTime"],
            "2026-01-01T00:00:00Z",
            "only the message changed"
        );
    }

    /// Shows MC-W53.
    #[test]
    fn new_reason_sets_the_last_transition_time() {
        let node = node();
        let mut draft = Draft::of(&node);
        draft.set_condition(condition("Other", "M"));
        let write = draft.finish().unwrap();
        assert_eq!(write.conditions["Ours"].last_transition_time, Some("2026-02-02T00:00:00Z".parse().unwrap()));
    }

    #[test]
    fn deleting_node_gets_no_new_finalizer() {
        let mut node = node();
        node.metadata.deletion_timestamp =
            node.metadata.creation_timestamp.or_else(|| Some(jiff::Timestamp::UNIX_EPOCH.into()));
        let mut draft = Draft::of(&node);
        draft.add_finalizer("a/ours");
        assert_eq!(draft.finish(), None);
    }
}
