//! What a node is told when its machine goes.
//!
//! Others ask why a node is leaving: the autoscaler's and the operator's dashboards tell a node that was no longer wanted from one
//! that was marked Failed. So the condition is written once, before the drain, and whoever finds it there does not change its reason.

use api::names::conditions::terminating::{SCALE_DOWN, SCALE_DOWN_MESSAGE, TYPE, UNHEALTHY, UNHEALTHY_MESSAGE};
use api::{ConditionStatus, NodeCondition, Time};
use jiff::Timestamp;

use super::draft::Draft;

/// Why a machine goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Nobody wants it any more.
    ScaleDown,
    /// It had failed.
    Unhealthy,
}

/// States on the node that its machine is going. A statement that is already there stands, whatever its reason.
pub fn announce_departure(draft: &mut Draft<'_>, departure: Departure, now: Timestamp) {
    if draft.condition(TYPE).is_some_and(|there| there.status == ConditionStatus::True) {
        return;
    }
    let (reason, message) = match (draft.condition(TYPE), departure) {
        (Some(there), _) => (there.reason.clone(), there.message.clone()),
        (None, Departure::ScaleDown) => (SCALE_DOWN.into(), SCALE_DOWN_MESSAGE.into()),
        (None, Departure::Unhealthy) => (UNHEALTHY.into(), UNHEALTHY_MESSAGE.into()),
    };
    draft.state(NodeCondition {
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
    #[case::unwanted(json!([]), Departure::ScaleDown, Some(("ScaleDown", "Machine Controller is scaling down machine")))]
    #[case::failed(json!([]), Departure::Unhealthy, Some(("Unhealthy", "Machine Controller is terminating failed machine")))]
    #[case::said_before(json!([{ "type": "Terminating", "status": "True", "reason": "ScaleDown", "message": "m" }]), Departure::Unhealthy, None)]
    #[case::taken_back(json!([{ "type": "Terminating", "status": "False", "reason": "R", "message": "m" }]), Departure::Unhealthy, Some(("R", "m")))]
    fn a_node_is_told_once_why_its_machine_goes(
        #[case] conditions: Value,
        #[case] departure: Departure,
        #[case] told: Option<(&str, &str)>,
    ) {
        let node: NodeView =
            serde_json::from_value(json!({ "metadata": { "name": "n" }, "status": { "conditions": conditions } }))
                .unwrap();
        let mut draft = Draft::of(&node);
        announce_departure(&mut draft, departure, Timestamp::UNIX_EPOCH);
        let write = draft.finish();
        let said = write
            .as_ref()
            .map(|write| (&*write.conditions["Terminating"].reason, &*write.conditions["Terminating"].message));
        assert_eq!(said, told);
    }
}
