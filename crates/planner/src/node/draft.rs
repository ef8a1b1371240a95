//! Several wishes about one Node, gathered into one write.
//!
//! The mark, the template, a cordon, a taint: each part of a machine's plan has its own wish, and each would conflict with the one
//! before it if they were written one after the other. So they write into one draft. A later wish sees the earlier ones, and a wish
//! that the node fulfils already leaves no trace: an empty draft is no write at all.

use api::view::NodeView;
use api::{NodeCondition, Object, Quantity, Taint, Text, lists};

use super::write::{NodeWrite, Scheduling};

/// What a Node is to become.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    node: &'a NodeView,
    write: NodeWrite,
}

impl<'a> Draft<'a> {
    /// The node as it is.
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

    /// The node that is written about, as it was seen.
    pub fn node(&self) -> &'a NodeView {
        self.node
    }

    /// The write, unless everything is as it should be.
    #[must_use]
    pub fn finish(self) -> Option<NodeWrite> {
        (self.write.object_patch().is_some() || self.write.status_patch().is_some()).then_some(self.write)
    }

    /// The value of an annotation, earlier wishes included.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        match self.write.annotations.get(key) {
            Some(pending) => pending.as_deref(),
            None => self.node.annotation(key),
        }
    }

    /// The taints, earlier wishes included.
    pub fn taints(&self) -> &[Taint] {
        self.write.taints.as_deref().unwrap_or(&self.node.spec.taints)
    }

    /// The condition of a type, earlier wishes included.
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.write.conditions.get(kind).or_else(|| self.node.condition(kind))
    }

    /// Sets a label, or removes it.
    pub fn label(&mut self, key: &str, value: Option<&str>) {
        let value = value.map(str::to_owned);
        if self.node.label(key) == value.as_deref() {
            self.write.labels.remove(key);
        } else {
            self.write.labels.insert(key.to_owned(), value);
        }
    }

    /// Sets an annotation, or removes it.
    pub fn annotate(&mut self, key: &str, value: Option<&str>) {
        let value = value.map(str::to_owned);
        if self.node.annotation(key) == value.as_deref() {
            self.write.annotations.remove(key);
        } else {
            self.write.annotations.insert(key.to_owned(), value);
        }
    }

    /// Adds a finalizer. A node that is going gets none: the API server would refuse the whole write.
    pub fn hold(&mut self, finalizer: &str) {
        if !self.node.is_deleting()
            && let Some(list) = lists::finalizers_with(self.finalizers(), finalizer)
        {
            self.write.finalizers = Some(list);
        }
    }

    /// Removes a finalizer.
    pub fn release(&mut self, finalizer: &str) {
        if let Some(list) = lists::finalizers_without(self.finalizers(), finalizer) {
            self.write.finalizers = Some(list);
        }
    }

    /// Puts a taint in the place of the one with the same key and effect, else at the end.
    pub fn taint(&mut self, taint: &Taint) {
        self.set_taints(lists::taints_with(self.taints(), taint));
    }

    /// Removes the taint with the same key and effect.
    pub fn untaint(&mut self, taint: &Taint) {
        self.set_taints(lists::taints_without(self.taints(), taint));
    }

    /// Keeps new pods away.
    pub fn cordon(&mut self) {
        self.write.scheduling = (!self.node.spec.unschedulable).then_some(Scheduling::Cordoned);
    }

    /// Lets new pods come again. Only for whoever cordoned: a person's cordon is not ours to lift.
    pub fn uncordon(&mut self) {
        self.write.scheduling = self.node.spec.unschedulable.then_some(Scheduling::Open);
    }

    /// States a condition. One that already says the same, its time of confirmation aside, is left alone; while status and reason
    /// stay, so does the time of the last transition.
    pub fn state(&mut self, mut condition: NodeCondition) {
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

    /// Sets a capacity, or removes it. Amounts are compared, not texts: the API server has its own way of writing them.
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
    fn a_wish_that_is_already_fulfilled_is_no_write() {
        let node = node();
        let mut draft = Draft::of(&node);
        draft.label("l", Some("1"));
        draft.label("absent", None);
        draft.annotate("a", Some("1"));
        draft.hold("z/theirs");
        draft.release("never/there");
        draft.taint(&node.spec.taints[0]);
        draft.untaint(&Taint { key: "theirs".into(), effect: TaintEffect::NoSchedule, ..Taint::default() });
        draft.uncordon();
        draft.state(condition("R", "M"));
        draft.capacity("cpu", Some(&"4000m".into()));
        draft.capacity("gpu", None);
        assert_eq!(draft.finish(), None);
    }

    #[test]
    fn a_wish_that_is_taken_back_is_no_write_either() {
        let node = node();
        let ours = Taint { key: "ours".into(), effect: TaintEffect::NoSchedule, ..Taint::default() };
        let mut draft = Draft::of(&node);
        draft.label("l", Some("2"));
        draft.taint(&ours);
        draft.cordon();
        draft.state(condition("Other", "M"));
        draft.label("l", Some("1"));
        draft.untaint(&ours);
        draft.uncordon();
        draft.state(condition("R", "M"));
        assert_eq!(draft.finish(), None);
    }

    /// Shows MC-W38.
    #[test]
    fn all_wishes_become_one_write_and_later_ones_see_earlier_ones() {
        let node = node();
        let ours = |key: &str| Taint { key: key.into(), effect: TaintEffect::NoSchedule, ..Taint::default() };
        let mut draft = Draft::of(&node);
        draft.annotate("b", Some("2"));
        draft.hold("a/ours");
        draft.taint(&ours("one"));
        draft.taint(&ours("two"));
        draft.untaint(&ours("one"));
        draft.cordon();
        draft.state(condition("R", "another"));
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
    fn another_reason_is_another_transition() {
        let node = node();
        let mut draft = Draft::of(&node);
        draft.state(condition("Other", "M"));
        let write = draft.finish().unwrap();
        assert_eq!(write.conditions["Ours"].last_transition_time, Some("2026-02-02T00:00:00Z".parse().unwrap()));
    }

    #[test]
    fn a_node_that_is_going_gets_no_new_finalizer() {
        let mut node = node();
        node.metadata.deletion_timestamp =
            node.metadata.creation_timestamp.or_else(|| Some(jiff::Timestamp::UNIX_EPOCH.into()));
        let mut draft = Draft::of(&node);
        draft.hold("a/ours");
        assert_eq!(draft.finish(), None);
    }
}
