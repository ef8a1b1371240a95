//! Which Nodes are none of our business.
//!
//! A Node that no Machine names was registered by somebody else, or its Machine went without it. Our finalizer must not keep it
//! from being deleted, and a mark tells everyone that its events mean nothing to us. A Node is given the time a machine may take to
//! be linked to it; one that is linked loses the mark at once, because a wrong mark makes us deaf to a Node of ours.

use api::names::{annotations, finalizers};
use api::view::NodeView;
use api::{Machine, Object, Uid, lists};
use jiff::Timestamp;

use super::Outages;
use crate::Policy;
use crate::machine::creation_timeout;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Management {
    /// Nothing.
    Leave,
    /// It may still be linked; look again at this time.
    Wait {
        /// When its time is over.
        until: Timestamp,
    },
    /// Write this.
    Write(Mark),
}

/// One write to a Node, guarded by the version it was decided on: finalizers are rewritten whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which Node.
    pub name: String,
    /// The very one.
    pub uid: Uid,
    /// In this version.
    pub resource_version: String,
    /// The whole list of finalizers, if ours goes.
    pub finalizers: Option<Vec<String>>,
    /// What happens to the mark.
    pub change: Change,
}

/// What happens to the mark on a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is put on.
    PutOn,
    /// It is there already.
    Stays,
    /// It is taken off.
    TakeOff,
}

/// Decides about one Node.
#[must_use]
pub fn judge(node: &NodeView, owner: Owner<'_>, outages: &Outages, policy: &Policy, now: Timestamp) -> Management {
    let marked = node.annotation(annotations::NOT_MANAGED).is_some();
    let (born, patience) = match owner {
        Owner::Linked if marked => return Management::Write(mark(node, None, Change::TakeOff)),
        Owner::Linked => return Management::Leave,
        Owner::Claimed(machine) => (machine.created_at(), creation_timeout(machine, policy)),
        Owner::Nobody => (node.created_at(), policy.creation_timeout),
    };
    let released = lists::finalizers_without(node.metadata.finalizers.as_deref(), finalizers::NODE);
    if marked && released.is_none() {
        return Management::Leave;
    }
    let until = outages.deadline(born.unwrap_or(now), patience, now);
    // One that somebody deletes is held up by our finalizer alone, and no Machine is left to wait for.
    let held_up = node.is_deleting() && released.is_some() && matches!(owner, Owner::Nobody);
    if until > now && !held_up {
        return Management::Wait { until };
    }
    Management::Write(mark(node, released, if marked { Change::Stays } else { Change::PutOn }))
}

fn mark(node: &NodeView, finalizers: Option<Vec<String>>, change: Change) -> Mark {
    Mark {
        name: node.name().to_owned(),
        uid: node.uid(),
        resource_version: node.resource_version().to_owned(),
        finalizers,
        change,
    }
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
        let Management::Write(mark) = look(&ours(), Owner::Nobody, 20) else { panic!("expected a write") };
        assert_eq!(mark.finalizers, Some(vec!["someone/else".to_owned()]), "the others stay");
        assert_eq!((mark.change, mark.resource_version.as_str()), (Change::PutOn, "7"));
    }

    #[test]
    fn a_node_that_was_never_ours_is_marked_too_and_one_that_is_marked_is_still_let_go() {
        let never_ours = node(|n| n["metadata"]["finalizers"] = json!(["someone/else"]));
        assert_eq!(look(&never_ours, Owner::Nobody, 19), Management::Wait { until: at(20) });
        let Management::Write(mark) = look(&never_ours, Owner::Nobody, 20) else { panic!("expected a write") };
        assert_eq!((mark.finalizers, mark.change), (None, Change::PutOn));
        let held = node(|n| {
            n["metadata"]["annotations"] = json!({ annotations::NOT_MANAGED: "1" });
            n["metadata"]["finalizers"] = json!([finalizers::NODE]);
        });
        let Management::Write(mark) = look(&held, Owner::Nobody, 20) else { panic!("expected a write") };
        assert_eq!((mark.finalizers, mark.change), (Some(vec![]), Change::Stays));
        assert_eq!(look(&marked(), Owner::Nobody, 1000), Management::Leave, "nothing is left to do with it");
    }

    #[test]
    fn a_wrong_mark_goes_as_soon_as_a_machine_is_linked() {
        let Management::Write(mark) = look(&marked(), Owner::Linked, 0) else { panic!("expected a write") };
        assert_eq!((mark.finalizers, mark.change), (None, Change::TakeOff));
    }

    #[test]
    fn a_node_of_a_slow_machine_is_given_that_machines_own_time() {
        let machine = json!({
            "metadata": { "name": "m", "creationTimestamp": "1970-01-01T00:10:00Z" },
            "spec": { "class": { "kind": "MachineClass", "name": "c" }, "creationTimeout": "1h" },
        });
        let machine: Machine = serde_json::from_value(machine).unwrap();
        assert_eq!(look(&ours(), Owner::Claimed(&machine), 30), Management::Wait { until: at(70) });
        assert!(matches!(look(&ours(), Owner::Claimed(&machine), 70), Management::Write(_)));
    }

    #[test]
    fn a_node_that_somebody_deletes_is_not_held_up_for_a_machine_that_does_not_exist() {
        let going = node(|n| {
            n["metadata"]["finalizers"] = json!([finalizers::NODE]);
            n["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:30Z");
        });
        let Management::Write(mark) = look(&going, Owner::Nobody, 1) else { panic!("expected a write") };
        assert_eq!(mark.finalizers, Some(vec![]));
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
            let Management::Write(mark) = look(&before, owner, 1000) else { return Ok(()) };
            let after = node(|n| {
                n["metadata"]["finalizers"] = json!(mark.finalizers.or(before.metadata.finalizers.clone()));
                if mark.change != Change::TakeOff { n["metadata"]["annotations"] = json!({ annotations::NOT_MANAGED: "1" }); }
            });
            prop_assert_eq!(look(&after, owner, 1000), Management::Leave);
        }
    }
}
