//! Marks Nodes that have no Machine as not managed.
//!
//! A Node that no Machine names was registered by another component, or its Machine was deleted without it. The
//! controller's finalizer must not prevent its deletion, and an annotation marks it as not managed. A Node is marked
//! only after the creation timeout, within which a Machine may be linked to it. The annotation of a linked Node is
//! removed immediately, because the controller ignores annotated Nodes.

use api::names::{annotations, finalizers};
use api::view::NodeView;
use api::{Machine, Object};
use jiff::Timestamp;

use super::Outages;
use crate::Policy;
use crate::machine::creation_timeout;
use crate::node::{Draft, NodeWrite};

/// The Machine of a Node.
#[derive(Clone, Copy, Debug)]
pub enum Owner<'a> {
    /// No Machine.
    None,
    /// A Machine that is not linked to the Node yet, but is named by its label or its VM.
    Claimed(&'a Machine),
    /// One or several Machines that are linked to the Node.
    Linked,
}

/// The decision about a Node.
#[derive(Clone, Debug, PartialEq)]
pub enum Management {
    /// No change.
    Unchanged,
    /// The Node may still be linked; check again at this time.
    Wait {
        /// When its timeout ends.
        until: Timestamp,
    },
    /// No Machine has it: remove the finalizer and add the annotation.
    Release(NodeWrite),
    /// A Machine has it: remove the annotation.
    Reclaim(NodeWrite),
}

/// Decides about one Node.
#[must_use]
pub fn decide(node: &NodeView, owner: Owner<'_>, outages: &Outages, policy: &Policy, now: Timestamp) -> Management {
    let marked = node.annotation(annotations::NOT_MANAGED).is_some();
    let mut draft = Draft::of(node);
    let (since, timeout) = match owner {
        Owner::Linked => {
            draft.annotate(annotations::NOT_MANAGED, None);
            return draft.finish().map_or(Management::Unchanged, Management::Reclaim);
        }
        Owner::Claimed(machine) => (machine.created_at(), creation_timeout(machine, policy)),
        Owner::None => (node.created_at(), policy.creation_timeout),
    };
    if !marked {
        draft.annotate(annotations::NOT_MANAGED, Some(annotations::NOT_MANAGED_VALUE));
    }
    draft.remove_finalizer(finalizers::NODE);
    let Some(write) = draft.finish() else { return Management::Unchanged };
    let until = outages.deadline(since.unwrap_or(now), timeout, now);
    // A Node that is being deleted waits for the finalizer only, and there is no Machine to wait for.
    let is_blocked = node.is_deleting() && write.finalizers.is_some() && matches!(owner, Owner::None);
    if until > now && !is_blocked { Management::Wait { until } } else { Management::Release(write) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(60 * minute).unwrap()
    }

    fn node(change: impl FnOnce(&mut Value)) -> NodeView {
        let mut node = json!({ "metadata": { "name": "n", "uid": "u", "resourceVersion": "7", "creationTimestamp": "1970-01-01T00:00:00Z" } });
        change(&mut node);
        serde_json::from_value(node).unwrap()
    }

    #[derive(Debug, PartialEq)]
    enum Mark {
        Added,
        Removed,
        Unchanged,
    }

    /// The change of the annotation.
    fn mark(write: &NodeWrite) -> Mark {
        match write.annotations.get(annotations::NOT_MANAGED) {
            Some(Some(_)) => Mark::Added,
            Some(None) => Mark::Removed,
            None => Mark::Unchanged,
        }
    }

    fn ours() -> NodeView {
        node(|n| n["metadata"]["finalizers"] = json!(["someone/else", finalizers::NODE]))
    }

    fn marked() -> NodeView {
        node(|n| n["metadata"]["annotations"] = json!({ annotations::NOT_MANAGED: "1" }))
    }

    fn look(node: &NodeView, owner: Owner<'_>, minute: i64) -> Management {
        decide(node, owner, &Outages::NONE, &Policy::default(), at(minute))
    }

    #[test]
    fn node_without_machine_is_released_after_creation_timeout() {
        assert_eq!(look(&ours(), Owner::None, 19), Management::Wait { until: at(20) });
        let Management::Release(write) = look(&ours(), Owner::None, 20) else { panic!("expected a write") };
        assert_eq!(write.finalizers, Some(vec!["someone/else".into()]), "other finalizers stay");
        assert_eq!((mark(&write), write.resource_version.as_deref()), (Mark::Added, Some("7")));
    }

    #[test]
    fn node_is_marked_without_finalizer_and_released_with_mark() {
        let never_ours = node(|n| n["metadata"]["finalizers"] = json!(["someone/else"]));
        assert_eq!(look(&never_ours, Owner::None, 19), Management::Wait { until: at(20) });
        let Management::Release(write) = look(&never_ours, Owner::None, 20) else { panic!("expected a write") };
        assert_eq!((mark(&write), write.finalizers.clone()), (Mark::Added, None));
        let held = node(|n| {
            n["metadata"]["annotations"] = json!({ annotations::NOT_MANAGED: "1" });
            n["metadata"]["finalizers"] = json!([finalizers::NODE]);
        });
        let Management::Release(write) = look(&held, Owner::None, 20) else { panic!("expected a write") };
        assert_eq!((mark(&write), write.finalizers.clone()), (Mark::Unchanged, Some(vec![])));
        assert_eq!(look(&marked(), Owner::None, 1000), Management::Unchanged, "no further change");
    }

    /// Shows MC-W48.
    #[test]
    fn annotation_is_removed_when_a_machine_is_linked() {
        let Management::Reclaim(write) = look(&marked(), Owner::Linked, 0) else { panic!("expected a write") };
        assert_eq!((mark(&write), write.finalizers.clone()), (Mark::Removed, None));
    }

    /// Shows MC-W48.
    #[test]
    fn node_waits_for_the_creation_timeout_of_its_machine() {
        let machine = json!({
            "metadata": { "name": "m", "creationTimestamp": "1970-01-01T00:10:00Z" },
            "spec": { "class": { "kind": "MachineClass", "name": "c" }, "creationTimeout": "1h" },
        });
        let machine: Machine = serde_json::from_value(machine).unwrap();
        assert_eq!(look(&ours(), Owner::Claimed(&machine), 30), Management::Wait { until: at(70) });
        assert!(matches!(look(&ours(), Owner::Claimed(&machine), 70), Management::Release(_)));
    }

    #[test]
    fn deleting_node_without_machine_is_released_immediately() {
        let going = node(|n| {
            n["metadata"]["finalizers"] = json!([finalizers::NODE]);
            n["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:30Z");
        });
        let Management::Release(write) = look(&going, Owner::None, 1) else { panic!("expected a write") };
        assert_eq!(write.finalizers, Some(vec![]));
    }

    #[test]
    fn outage_does_not_count_towards_the_timeout() {
        let mut outages = Outages::NONE;
        outages.begin(at(5));
        outages.end(at(15));
        let decision = decide(&ours(), Owner::None, &outages, &Policy::default(), at(25));
        assert_eq!(decision, Management::Wait { until: at(30) });
    }

    proptest! {
        #[test]
        fn second_write_is_never_needed(mine in any::<bool>(), was_marked in any::<bool>(), linked in any::<bool>()) {
            let before = node(|n| {
                if mine { n["metadata"]["finalizers"] = json!([finalizers::NODE]); }
                if was_marked { n["metadata"]["annotations"] = json!({ annotations::NOT_MANAGED: "any" }); }
            });
            let owner = if linked { Owner::Linked } else { Owner::None };
            let (Management::Release(write) | Management::Reclaim(write)) = look(&before, owner, 1000) else { return Ok(()) };
            let after = node(|n| {
                n["metadata"]["finalizers"] = json!(write.finalizers.as_ref().unwrap_or(&before.metadata.finalizers));
                if mark(&write) != Mark::Removed { n["metadata"]["annotations"] = json!({ annotations::NOT_MANAGED: "1" }); }
            });
            prop_assert_eq!(look(&after, owner, 1000), Management::Unchanged);
        }
    }
}
