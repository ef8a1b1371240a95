//! Barriers that keep new pods away from a Node before its drain.
//!
//! Pods are evicted only once no new pods can be scheduled to the Node. Each barrier (a condition, a cordon, a taint)
//! is written first and then compared with the response: an admission webhook may accept the write and restore the old
//! value. A rejected write and a reverted write are handled in the same way: the failure is reported and retried with
//! exponential backoff, and a forced drain continues without the barrier.

use api::names::conditions::{in_place, terminating};
use api::names::taints;
use api::view::NodeView;
use backoff::Exponential;
use jiff::Timestamp;

use super::facts::later;
use crate::Policy;
use crate::node::{NodeWrite, Scheduling};

/// A barrier. In the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Barrier {
    /// The condition `Terminating`.
    TerminatingCondition,
    /// The cordon, together with the condition `InPlaceUpdate`.
    Cordon,
    /// The taint of a preserved Node.
    Taint,
}

/// A failed attempt to write a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarrierFailure {
    /// The barrier.
    pub barrier: Barrier,
    /// The error.
    pub why: String,
    /// Time of the attempt.
    pub at: Timestamp,
    /// Number of consecutive failed attempts.
    pub attempts: u32,
}

impl BarrierFailure {
    /// Records a failed attempt. The barriers of one attempt are written in their order, so a barrier after the last
    /// failed one belongs to the same attempt.
    #[must_use]
    pub fn after(before: Option<&Self>, barrier: Barrier, why: String, at: Timestamp) -> Self {
        let attempts = match before {
            None => 1,
            Some(before) if barrier > before.barrier => before.attempts,
            Some(before) => before.attempts.saturating_add(1),
        };
        Self { barrier, why, at, attempts }
    }

    /// Returns when the next attempt is due, with exponential backoff.
    pub(super) fn again(&self, policy: &Policy) -> Timestamp {
        later(self.at, Exponential::new(policy.short_retry, policy.medium_retry).after(self.attempts))
    }
}

/// Returns the barriers that a write adds: those that an empty Node does not have.
#[must_use]
pub fn set_up_by(write: &NodeWrite) -> Vec<Barrier> {
    not_kept(write, &NodeView::default())
}

/// Returns the barriers of a write that are missing in the response.
#[must_use]
pub fn not_kept(write: &NodeWrite, answer: &NodeView) -> Vec<Barrier> {
    let is_written = |kind: &str| match (write.conditions.get(kind), answer.condition(kind)) {
        (None, _) => true,
        (Some(wanted), Some(there)) => wanted.status == there.status && wanted.reason == there.reason,
        (Some(_), None) => false,
    };
    let cordoned = write.scheduling != Some(Scheduling::Cordoned) || answer.spec.unschedulable;
    let mut wanted = write.taints.iter().flatten().filter(|taint| taint.key == taints::PRESERVED);
    let tainted = wanted.all(|taint| answer.spec.taints.iter().any(|there| there.is_same_as(taint)));
    let kept = [
        (Barrier::TerminatingCondition, is_written(terminating::TYPE)),
        (Barrier::Cordon, cordoned && is_written(in_place::TYPE)),
        (Barrier::Taint, tainted),
    ];
    kept.into_iter().filter(|(_, kept)| !kept).map(|(part, _)| part).collect()
}

/// Error for a write that succeeded and is missing in the response.
pub const NOT_KEPT: &str =
    "the API server accepted the write but did not apply it; an admission webhook may have reverted it";

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
    fn barrier_is_not_kept_when_the_response_lacks_it() {
        let taint = Taint { key: taints::PRESERVED.into(), effect: TaintEffect::NoSchedule, ..Taint::default() };
        let condition = NodeCondition { kind: terminating::TYPE.into(), ..NodeCondition::default() };
        let write = NodeWrite {
            scheduling: Some(Scheduling::Cordoned),
            taints: Some(vec![taint]),
            conditions: [(terminating::TYPE.into(), condition)].into(),
            ..NodeWrite::default()
        };
        let all = [Barrier::TerminatingCondition, Barrier::Cordon, Barrier::Taint];
        assert_eq!(not_kept(&write, &node(&json!({}))), all);
        let kept =
            node(&json!({ "unschedulable": true, "taints": [{ "key": taints::PRESERVED, "effect": "NoSchedule" }] }));
        assert_eq!(not_kept(&write, &kept), [Barrier::TerminatingCondition]);
        assert_eq!(not_kept(&NodeWrite::default(), &node(&json!({}))), []);
    }

    /// Shows MC-S3.
    #[test]
    fn backoff_grows_with_each_attempt_not_with_each_barrier() {
        let policy = Policy::default();
        let mut last: Option<BarrierFailure> = None;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            for part in [Barrier::TerminatingCondition, Barrier::Cordon] {
                last = Some(BarrierFailure::after(last.as_ref(), part, "no".into(), Timestamp::UNIX_EPOCH));
            }
            let again = last.as_ref().unwrap().again(&policy);
            pauses.push(Duration::try_from(again.duration_since(Timestamp::UNIX_EPOCH)).unwrap().as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 180, 180]);
    }
}
