//! Conditions: what is known of an object right now, one statement each.

use crate::Time;
use crate::{ConditionStatus, Text};
use meta::record;

record! {
    /// A condition of a Node, and its copy in a Machine's status. We rewrite lists of them that others wrote too, so keys we
    /// do not know stay with them.
    pub struct NodeCondition, keeps extra {
        /// What is stated, for example Ready.
        pub kind: Text = "type" (required),
        /// Whether it holds: True, False or Unknown.
        pub status: ConditionStatus = "status" (required),
        /// When the statement was last confirmed.
        pub last_heartbeat_time: Option<Time> = "lastHeartbeatTime",
        /// When the status last changed.
        pub last_transition_time: Option<Time> = "lastTransitionTime",
        /// Why, in one word.
        pub reason: Text = "reason",
        /// Why, in a sentence.
        pub message: Text = "message",
    }
}

impl NodeCondition {
    /// A list of conditions the way Go prints it, which is how descriptions and logs have always shown it.
    pub fn list_to_go_string(conditions: &[Self]) -> String {
        let time = |time: Option<Time>| time.map_or_else(|| ZERO_TIME.to_owned(), Time::to_go_string);
        let shown = conditions.iter().map(|condition| {
            format!(
                "{{Type:{} Status:{} LastHeartbeatTime:{} LastTransitionTime:{} Reason:{} Message:{}}}",
                condition.kind,
                condition.status,
                time(condition.last_heartbeat_time),
                time(condition.last_transition_time),
                condition.reason,
                condition.message,
            )
        });
        format!("[{}]", shown.collect::<Vec<_>>().join(" "))
    }
}

/// Go's zero time.
const ZERO_TIME: &str = "0001-01-01 00:00:00 +0000 UTC";

record! {
    /// A condition of a MachineSet.
    pub struct MachineSetCondition {
        /// What is stated: ReplicaFailure or Frozen.
        pub kind: String = "type" (required),
        /// Whether it holds: True, False or Unknown.
        pub status: ConditionStatus = "status" (required),
        /// When the status last changed.
        pub last_transition_time: Option<Time> = "lastTransitionTime",
        /// Why, in one word.
        pub reason: String = "reason",
        /// Why, in a sentence.
        pub message: String = "message",
    }
}

record! {
    /// A condition of a MachineDeployment.
    pub struct MachineDeploymentCondition {
        /// What is stated: Available, Progressing, ReplicaFailure or Frozen.
        pub kind: String = "type" (required),
        /// Whether it holds: True, False or Unknown.
        pub status: ConditionStatus = "status" (required),
        /// When the condition was last written. The progress deadline counts from here.
        pub last_update_time: Option<Time> = "lastUpdateTime",
        /// When the status last changed.
        pub last_transition_time: Option<Time> = "lastTransitionTime",
        /// Why, in one word.
        pub reason: String = "reason",
        /// Why, in a sentence.
        pub message: String = "message",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_shown_the_way_go_prints_them() {
        let ready = NodeCondition {
            kind: "Ready".into(),
            status: ConditionStatus::Unknown,
            last_heartbeat_time: Some("2025-01-31T12:00:00Z".parse().unwrap()),
            reason: "R".into(),
            message: "M".into(),
            ..Default::default()
        };
        let entry = "{Type:Ready Status:Unknown LastHeartbeatTime:2025-01-31 12:00:00 +0000 UTC \
                     LastTransitionTime:0001-01-01 00:00:00 +0000 UTC Reason:R Message:M}";
        assert_eq!(NodeCondition::list_to_go_string(&[]), "[]");
        assert_eq!(NodeCondition::list_to_go_string(&[ready.clone(), ready]), format!("[{entry} {entry}]"));
    }
}
