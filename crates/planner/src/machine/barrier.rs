//! What keeps new pods away from a node that is being emptied, and what is done where it does not hold.
//!
//! Pods are asked to leave only once no others can come. So each barrier (a condition, a cordon, a taint) is written first and read
//! back from the answer: an admission webhook may take the write, put the old value back and answer with success. A write that was
//! refused and a write that was not kept are the same obstruction. It is told, tried again with growing pauses, and a drain that has
//! become forceful goes on without the barrier.

use api::names::conditions::{in_place, terminating};
use api::names::taints;
use api::view::NodeView;
use backoff::Exponential;
use jiff::Timestamp;

use super::facts::later;
use crate::Policy;
use crate::node::{NodeWrite, Scheduling};

/// What keeps new pods away from a node that is being emptied, and tells why. In the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Barrier {
    /// The condition that announces its end.
    Announcement,
    /// The cordon, with the condition that says what it is for.
    Cordon,
    /// The taint of a preserved node.
    Taint,
}

/// Why the node could not be kept free of new pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstruction {
    /// What was to be written.
    pub part: Barrier,
    /// What the API server said.
    pub why: String,
    /// When.
    pub at: Timestamp,
    /// How often in a row, this time included.
    pub times: u32,
}

impl Obstruction {
    /// Another attempt in vain. Barriers of one attempt are written in their order, so one that comes after the last that failed
    /// belongs to the same attempt.
    #[must_use]
    pub fn after(before: Option<&Self>, part: Barrier, why: String, at: Timestamp) -> Self {
        let times = match before {
            None => 1,
            Some(before) if part > before.part => before.times,
            Some(before) => before.times.saturating_add(1),
        };
        Self { part, why, at, times }
    }

    /// When it is tried again: later each time.
    pub(super) fn again(&self, policy: &Policy) -> Timestamp {
        later(self.at, Exponential::new(policy.short_retry, policy.medium_retry).after(self.times))
    }
}

/// The barriers that a write is to set up: those that a node without anything does not have.
#[must_use]
pub fn set_up_by(write: &NodeWrite) -> Vec<Barrier> {
    not_kept(write, &NodeView::default())
}

/// The barriers that a write was to set up, and that are not there in what the API server answered.
#[must_use]
pub fn not_kept(write: &NodeWrite, answer: &NodeView) -> Vec<Barrier> {
    let said = |kind: &str| match (write.conditions.get(kind), answer.condition(kind)) {
        (None, _) => true,
        (Some(wanted), Some(there)) => wanted.status == there.status && wanted.reason == there.reason,
        (Some(_), None) => false,
    };
    let cordoned = write.scheduling != Some(Scheduling::Cordoned) || answer.spec.unschedulable;
    let mut wanted = write.taints.iter().flatten().filter(|taint| taint.key == taints::PRESERVED);
    let tainted = wanted.all(|taint| answer.spec.taints.iter().any(|there| there.is_same_as(taint)));
    let kept = [
        (Barrier::Announcement, said(terminating::TYPE)),
        (Barrier::Cordon, cordoned && said(in_place::TYPE)),
        (Barrier::Taint, tainted),
    ];
    kept.into_iter().filter(|(_, kept)| !kept).map(|(part, _)| part).collect()
}

/// What is said of a write that was answered with success and is not there.
pub const NOT_KEPT: &str =
    "the API server took the write but did not keep it; an admission webhook may have put it back";

#[cfg(test)]
mod tests {
    use super::*;
    use api::{NodeCondition, Taint, TaintEffect};
    use serde_json::json;
    use std::time::Duration;

    fn node(spec: &serde_json::Value) -> NodeView {
        serde_json::from_value(json!({ "metadata": { "name": "n" }, "spec": spec })).unwrap()
    }

    /// Shows MC-S3.
    #[test]
    fn a_barrier_that_the_answer_does_not_show_was_not_kept() {
        let taint = Taint { key: taints::PRESERVED.into(), effect: TaintEffect::NoSchedule, ..Taint::default() };
        let condition = NodeCondition { kind: terminating::TYPE.into(), ..NodeCondition::default() };
        let write = NodeWrite {
            scheduling: Some(Scheduling::Cordoned),
            taints: Some(vec![taint]),
            conditions: [(terminating::TYPE.into(), condition)].into(),
            ..NodeWrite::default()
        };
        let all = [Barrier::Announcement, Barrier::Cordon, Barrier::Taint];
        assert_eq!(not_kept(&write, &node(&json!({}))), all);
        let kept =
            node(&json!({ "unschedulable": true, "taints": [{ "key": taints::PRESERVED, "effect": "NoSchedule" }] }));
        assert_eq!(not_kept(&write, &kept), [Barrier::Announcement]);
        assert_eq!(not_kept(&NodeWrite::default(), &node(&json!({}))), []);
    }

    /// Shows MC-S3.
    #[test]
    fn pauses_grow_with_each_attempt_and_not_with_each_barrier_of_one() {
        let policy = Policy::default();
        let mut last: Option<Obstruction> = None;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            for part in [Barrier::Announcement, Barrier::Cordon] {
                last = Some(Obstruction::after(last.as_ref(), part, "no".into(), Timestamp::UNIX_EPOCH));
            }
            let again = last.as_ref().unwrap().again(&policy);
            pauses.push(Duration::try_from(again.duration_since(Timestamp::UNIX_EPOCH)).unwrap().as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 180, 180]);
    }
}
