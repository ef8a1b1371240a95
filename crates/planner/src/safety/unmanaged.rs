//! Which Nodes are none of our business.
//!
//! A Node that no Machine names was registered by somebody else, or its Machine went without it. Our finalizer must not keep it
//! from being deleted, and a mark tells everyone that its events mean nothing to us. A Node is given the time a machine may take to
//! be linked to it; one that is linked loses the mark at once, because a wrong mark makes us deaf to a Node of ours.

use api::names::{annotations, finalizers};
use api::view::NodeView;
use api::{Machine, Object};
use jiff::Timestamp;

use super::Outages;
use crate::Policy;
use crate::machine::creation_timeout;
use crate::node::{Draft, NodeWrite};

/// Whom a Node belongs to.
#[derive(Clone, Copy, Debug)]
pub enum Owner<'a> {
    /// No Machine knows it.
    Nobody,
    /// A Machine that is not linked to it yet, but whom its label or its VM names.
    Claimed(&'a Machine),
    /// A Machine is linked to it, or several are.
    Linked,
}

/// What to do about a Node.
#[derive(Clone, Debug, PartialEq)]
pub enum Management {
    /// Nothing.
    Leave,
    /// It may still be linked; look again at this time.
    Wait {
        /// When its time is over.
        until: Timestamp,
    },
    /// No Machine has it: let go of it, and mark it.
    Release(NodeWrite),
    /// It is ours after all: take the mark off.
    Reclaim(NodeWrite),
}

/// Decides about one Node.
#[must_use]
pub fn judge(node: &NodeView, owner: Owner<'_>, outages: &Outages, policy: &Policy, now: Timestamp) -> Management {
    let marked = node.annotation(annotations::NOT_MANAGED).is_some();
    let mut draft = Draft::of(node);
    let (born, patience) = match owner {
        Owner::Linked => {
            draft.annotate(annotations::NOT_MANAGED, None);
            return draft.finish().map_or(Management::Leave, Management::Reclaim);
        }
        Owner::Claimed(machine) => (machine.created_at(), creation_timeout(machine, policy)),
        Owner::Nobody => (node.created_at(), policy.creation_timeout),
    };
    if !marked {
        draft.annotate(annotations::NOT_MANAGED, Some(annotations::NOT_MANAGED_VALUE));
    }
    draft.release(finalizers::NODE);
    let Some(write) = draft.finish() else { return Management::Leave };
    let until = outages.deadline(born.unwrap_or(now), patience, now);
    // One that somebody deletes is held up by our finalizer alone, and no Machine is left to wait for.
    let held_up = node.is_deleting() && write.finalizers.is_some() && matches!(owner, Owner::Nobody);
    if until > now && !held_up { Management::Wait { until } } else { Management::Release(write) }
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
        PutOn,
        TakenOff,
        AsItIs,
    }

    /// What a write makes of the mark.
    fn mark(write: &NodeWrite) -> Mark {
        match write.annotations.get(annotations::NOT_MANAGED) {
            Some(Some(_)) => Mark::PutOn,
            Some(None) => Mark::TakenOff,
            None => Mark::AsItIs,
        }
    }

    fn ours() -> NodeView {
        node(|n| n["metadata"]["finalizers"] = json!(["someone/else", finalizers::NODE]))
    }

    fn marked() -> NodeView {
        node(|n| n["metadata"]["annotations"] = json!({ annotations::NOT_MANAGED: "1" }))
    }

    fn look(node: &NodeView, owner: Owner<'_>, minute: i64) -> Management {
        judge(node, owner, &Outages::NONE, &Policy::default(), at(minute))
    }

    #[test]
    fn a_node_without_a_machine_is_let_go_and_marked_in_one_write_after_the_creation_timeout() {
        assert_eq!(look(&ours(), Owner::Nobody, 19), Management::Wait { until: at(20) });
        let Management::Release(write) = look(&ours(), Owner::Nobody, 20) else { panic!("expected a write") };
        assert_eq!(write.finalizers, Some(vec!["someone/else".into()]), "the others stay");
        assert_eq!((mark(&write), write.resource_version.as_deref()), (Mark::PutOn, Some("7")));
    }

    #[test]
    fn a_node_that_was_never_ours_is_marked_too_and_one_that_is_marked_is_still_let_go() {
        let never_ours = node(|n| n["metadata"]["finalizers"] = json!(["someone/else"]));
        assert_eq!(look(&never_ours, Owner::Nobody, 19), Management::Wait { until: at(20) });
        let Management::Release(write) = look(&never_ours, Owner::Nobody, 20) else { panic!("expected a write") };
        assert_eq!((mark(&write), write.finalizers.clone()), (Mark::PutOn, None));
        let held = node(|n| {
            n["metadata"]["annotations"] = json!({ annotations::NOT_MANAGED: "1" });
            n["metadata"]["finalizers"] = json!([finalizers::NODE]);
        });
        let Management::Release(write) = look(&held, Owner::Nobody, 20) else { panic!("expected a write") };
        assert_eq!((mark(&write), write.finalizers.clone()), (Mark::AsItIs, Some(vec![])));
        assert_eq!(look(&marked(), Owner::Nobody, 1000), Management::Leave, "nothing is left to do with it");
    }

    /// Shows MC-W48.
    #[test]
    fn a_wrong_mark_goes_as_soon_as_a_machine_is_linked() {
        let Management::Reclaim(write) = look(&marked(), Owner::Linked, 0) else { panic!("expected a write") };
        assert_eq!((mark(&write), write.finalizers.clone()), (Mark::TakenOff, None));
    }

    /// Shows MC-W48.
    #[test]
    fn a_node_of_a_slow_machine_is_given_that_machines_own_time() {
        let machine = json!({
            "metadata": { "name": "m", "creationTimestamp": "1970-01-01T00:10:00Z" },
            "spec": { "class": { "kind": "MachineClass", "name": "c" }, "creationTimeout": "1h" },
        });
        let machine: Machine = serde_json::from_value(machine).unwrap();
        assert_eq!(look(&ours(), Owner::Claimed(&machine), 30), Management::Wait { until: at(70) });
        assert!(matches!(look(&ours(), Owner::Claimed(&machine), 70), Management::Release(_)));
    }

    #[test]
    fn a_node_that_somebody_deletes_is_not_held_up_for_a_machine_that_does_not_exist() {
        let going = node(|n| {
            n["metadata"]["finalizers"] = json!([finalizers::NODE]);
            n["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:30Z");
        });
        let Management::Release(write) = look(&going, Owner::Nobody, 1) else { panic!("expected a write") };
        assert_eq!(write.finalizers, Some(vec![]));
    }

    #[test]
    fn time_of_an_outage_makes_no_node_unmanaged() {
        let mut outages = Outages::NONE;
        outages.begin(at(5));
        outages.end(at(15));
        let decision = judge(&ours(), Owner::Nobody, &outages, &Policy::default(), at(25));
        assert_eq!(decision, Management::Wait { until: at(30) });
    }

    proptest! {
        #[test]
        fn what_was_written_once_is_not_written_again(mine in any::<bool>(), was_marked in any::<bool>(), linked in any::<bool>()) {
            let before = node(|n| {
                if mine { n["metadata"]["finalizers"] = json!([finalizers::NODE]); }
                if was_marked { n["metadata"]["annotations"] = json!({ annotations::NOT_MANAGED: "any" }); }
            });
            let owner = if linked { Owner::Linked } else { Owner::Nobody };
            let (Management::Release(write) | Management::Reclaim(write)) = look(&before, owner, 1000) else { return Ok(()) };
            let after = node(|n| {
                n["metadata"]["finalizers"] = json!(write.finalizers.as_ref().unwrap_or(&before.metadata.finalizers));
                if mark(&write) != Mark::TakenOff { n["metadata"]["annotations"] = json!({ annotations::NOT_MANAGED: "1" }); }
            });
            prop_assert_eq!(look(&after, owner, 1000), Management::Leave);
        }
    }
}
