//! Conditions: what is known of an object right now, one statement each.

use crate::ConditionStatus;
use crate::record::record;
use crate::time::Time;

record! {
    /// A condition of a Node, and its copy in a Machine's status. We rewrite lists of them that others wrote too, so keys we
    /// do not know stay with them.
    pub struct NodeCondition, keeps extra {
        /// What is stated, for example Ready.
        pub kind: Box<str> = "type" (required),
        /// Whether it holds: True, False or Unknown.
        pub status: ConditionStatus = "status" (required),
        /// When the statement was last confirmed.
        pub last_heartbeat_time: Option<Time> = "lastHeartbeatTime",
        /// When the status last changed.
        pub last_transition_time: Option<Time> = "lastTransitionTime",
        /// Why, in one word.
        pub reason: Box<str> = "reason",
        /// Why, in a sentence.
        pub message: Box<str> = "message",
    }
}

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
