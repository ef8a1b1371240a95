//! Conditions of Nodes, MachineSets and MachineDeployments.

use crate::Time;
use crate::{ConditionStatus, Text};
use meta::record;

record! {
    /// A condition of a Node, and its copy in the status of a Machine. Unknown keys are preserved, because lists of conditions have
    /// several writers.
    pub struct NodeCondition, keeps extra {
        /// Type of the condition, for example Ready.
        pub kind: Text = "type" (required),
        /// Status of the condition: True, False or Unknown.
        pub status: ConditionStatus = "status" (required),
        /// Time of the last heartbeat.
        pub last_heartbeat_time: Option<Time> = "lastHeartbeatTime",
        /// Time of the last change of the status.
        pub last_transition_time: Option<Time> = "lastTransitionTime",
        /// Reason in CamelCase.
        pub reason: Text = "reason",
        /// Message for users.
        pub message: Text = "message",
    }
}

impl NodeCondition {
    /// Returns the conditions in the format of Go, as in the descriptions of MCM.
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

/// The zero time of Go.
const ZERO_TIME: &str = "0001-01-01 00:00:00 +0000 UTC";

record! {
    /// A condition of a MachineSet.
    pub struct MachineSetCondition {
        /// Type of the condition: ReplicaFailure, Frozen or Invalid.
        pub kind: String = "type" (required),
        /// Status of the condition: True, False or Unknown.
        pub status: ConditionStatus = "status" (required),
        /// Time of the last change of the status.
        pub last_transition_time: Option<Time> = "lastTransitionTime",
        /// Reason in CamelCase.
        pub reason: String = "reason",
        /// Message for users.
        pub message: String = "message",
    }
}

record! {
    /// A condition of a MachineDeployment.
    pub struct MachineDeploymentCondition {
        /// Type of the condition: Available, Progressing, ReplicaFailure, Frozen or Invalid.
        pub kind: String = "type" (required),
        /// Status of the condition: True, False or Unknown.
        pub status: ConditionStatus = "status" (required),
        /// Time of the last update. The progress deadline is measured from here.
        pub last_update_time: Option<Time> = "lastUpdateTime",
        /// Time of the last change of the status.
        pub last_transition_time: Option<Time> = "lastTransitionTime",
        /// Reason in CamelCase.
        pub reason: String = "reason",
        /// Message for users.
        pub message: String = "message",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_printed_as_in_go() {
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
