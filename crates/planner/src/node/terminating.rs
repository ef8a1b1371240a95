//! The condition `Terminating` of a Node whose Machine is being deleted.
//!
//! The cluster-autoscaler and dashboards distinguish a scaled-down Node from one whose Machine was marked Failed. So
//! the condition is written once, before the drain, and the reason of an existing condition is kept.

use api::names::conditions::terminating::{SCALE_DOWN, SCALE_DOWN_MESSAGE, TYPE, UNHEALTHY, UNHEALTHY_MESSAGE};
use api::{ConditionStatus, NodeCondition, Time};
use jiff::Timestamp;

use super::draft::Draft;

/// Why a Machine is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationReason {
    /// The Machine is no longer needed.
    ScaleDown,
    /// The Machine was Failed.
    Unhealthy,
}

/// Sets the condition `Terminating` on the Node. A condition that is `True` already is kept, whatever its reason.
pub fn set_terminating(draft: &mut Draft<'_>, reason: TerminationReason, now: Timestamp) {
    if draft.condition(TYPE).is_some_and(|existing| existing.status == ConditionStatus::True) {
        return;
    }
    let (reason, message) = match (draft.condition(TYPE), reason) {
        (Some(existing), _) => (existing.reason.clone(), existing.message.clone()),
        (None, TerminationReason::ScaleDown) => (SCALE_DOWN.into(), SCALE_DOWN_MESSAGE.into()),
        (None, TerminationReason::Unhealthy) => (UNHEALTHY.into(), UNHEALTHY_MESSAGE.into()),
    };
    draft.set_condition(NodeCondition {
        kind: TYPE.into(),
        status: ConditionStatus::True,
        last_heartbeat_time: Some(Time::from(now)),
        last_transition_time: Some(Time::from(now)),
        reason,
        message,
        ..NodeCondition::default()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::view::NodeView;
    use rstest::rstest;
    use serde_json::{Value, json};

    /// Shows DR-Q3.
    #[rstest]
    #[case::scaled_down(json!([]), TerminationReason::ScaleDown, Some(("ScaleDown", "Machine Controller is scaling down machine")))]
    #[case::failed(json!([]), TerminationReason::Unhealthy, Some(("Unhealthy", "Machine Controller is terminating failed machine")))]
    #[case::condition_is_true(json!([{ "type": "Terminating", "status": "True", "reason": "ScaleDown", "message": "m" }]), TerminationReason::Unhealthy, None)]
    #[case::condition_is_false(json!([{ "type": "Terminating", "status": "False", "reason": "R", "message": "m" }]), TerminationReason::Unhealthy, Some(("R", "m")))]
    fn terminating_condition_is_set_once(
        #[case] conditions: Value,
        #[case] reason: TerminationReason,
        #[case] expected: Option<(&str, &str)>,
    ) {
        let node: NodeView =
            serde_json::from_value(json!({ "metadata": { "name": "n" }, "status": { "conditions": conditions } }))
                .unwrap();
        let mut draft = Draft::of(&node);
        set_terminating(&mut draft, reason, Timestamp::UNIX_EPOCH);
        let write = draft.finish();
        let written = write
            .as_ref()
            .map(|write| (&*write.conditions["Terminating"].reason, &*write.conditions["Terminating"].message));
        assert_eq!(written, expected);
    }
}
