//! Condition types, reasons and messages.

/// Conditions of a MachineDeployment. The manager writes them; users and dashboards read them.
pub mod deployment {
    /// Type: whether enough Machines are available.
    pub const AVAILABLE: &str = "Available";
    /// Type: whether a rollout makes progress.
    pub const PROGRESSING: &str = "Progressing";
    /// Type: whether Machines could not be created; copied from a MachineSet.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
    /// Type: whether it is frozen. The condition is removed, not set to False, when it is unfrozen.
    pub const FROZEN: &str = "Frozen";

    /// Reason of Available: enough Machines.
    pub const MINIMUM_REPLICAS_AVAILABLE: &str = "MinimumReplicasAvailable";
    /// Reason of Available: too few Machines.
    pub const MINIMUM_REPLICAS_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
    /// Reason of Progressing: a MachineSet was created.
    pub const NEW_MACHINE_SET_CREATED: &str = "NewMachineSetCreated";
    /// Reason of Progressing: a MachineSet with this template existed.
    pub const FOUND_NEW_MACHINE_SET: &str = "FoundNewMachineSet";
    /// Reason of Progressing: Machines were created or deleted.
    pub const MACHINE_SET_UPDATED: &str = "MachineSetUpdated";
    /// Reason of Progressing: the rollout is completed.
    pub const NEW_MACHINE_SET_AVAILABLE: &str = "NewMachineSetAvailable";
    /// Reason of Progressing: a MachineSet could not be created.
    pub const MACHINE_SET_CREATE_ERROR: &str = "MachineSetCreateError";
    /// Reason of Progressing: no progress before the deadline.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// Reason of Progressing with status Unknown: paused.
    pub const DEPLOYMENT_PAUSED: &str = "DeploymentPaused";
    /// Reason of Progressing with status Unknown: resumed.
    pub const DEPLOYMENT_RESUMED: &str = "DeploymentResumed";
    /// Reason of Frozen: too many Machines.
    pub const OVERSHOOTING: &str = "OverShootingReplicaCount";
    /// Reason of Frozen: one of its MachineSets is frozen.
    pub const STATE_SYNC: &str = "MachineDeploymentStateSync";

    /// Message of [`MINIMUM_REPLICAS_AVAILABLE`].
    pub const AVAILABLE_MESSAGE: &str = "Deployment has minimum availability.";
    /// Message of [`MINIMUM_REPLICAS_UNAVAILABLE`].
    pub const UNAVAILABLE_MESSAGE: &str = "Deployment does not have minimum availability.";
    /// Message of [`DEPLOYMENT_PAUSED`].
    pub const PAUSED_MESSAGE: &str = "Deployment is paused";
    /// Message of [`DEPLOYMENT_RESUMED`].
    pub const RESUMED_MESSAGE: &str = "Deployment is resumed";
    /// Message of [`STATE_SYNC`].
    pub const STATE_SYNC_MESSAGE: &str =
        "MachineDeployment State was inconsistent, hence safety controller has fixed this and frozen it";

    /// Message of [`NEW_MACHINE_SET_CREATED`].
    pub fn created(set: &str) -> String {
        format!("Created new machine set {set:?}")
    }

    /// Message of [`FOUND_NEW_MACHINE_SET`].
    pub fn found(set: &str) -> String {
        format!("Found new machine set {set:?}")
    }

    /// Message of [`MACHINE_SET_UPDATED`]; `about` is `MachineSet "<name>"`.
    pub fn progressing(about: &str) -> String {
        format!("{about} is progressing.")
    }

    /// Message of [`NEW_MACHINE_SET_AVAILABLE`].
    pub fn progressed(about: &str) -> String {
        format!("{about} has successfully progressed.")
    }

    /// Message of [`PROGRESS_DEADLINE_EXCEEDED`].
    pub fn timed_out(about: &str) -> String {
        format!("{about} has timed out progressing.")
    }

    /// Message of [`OVERSHOOTING`], on the MachineSet and its MachineDeployment.
    pub fn overshooting(set: &str, count: i32, limit: i32) -> String {
        format!("The number of machines backing MachineSet: {set} is {count} >= {limit} which is the Max-ScaleUp-Limit")
    }
}

/// Conditions of a MachineSet. The manager writes them.
pub mod set {
    /// Type: whether Machines could not be created or deleted.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
    /// Type: whether it is frozen. The condition is removed, not set to False, when it is unfrozen.
    pub const FROZEN: &str = "Frozen";

    /// Reason of ReplicaFailure: there are too few Machines.
    pub const FAILED_CREATE: &str = "FailedCreate";
    /// Reason of ReplicaFailure: there are too many Machines.
    pub const FAILED_DELETE: &str = "FailedDelete";
    /// Reason of Frozen: too many Machines.
    pub const OVERSHOOTING: &str = "OverShootingReplicaCount";
}

/// Conditions that only Millwright writes, on MachineSets and MachineDeployments.
pub mod millwright {
    /// Type: the spec is invalid; the message names the field and the fix. The condition is removed when the spec is valid.
    pub const INVALID: &str = "Invalid";
    /// Reason of Invalid: a field is invalid.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// Reason of Invalid on a MachineDeployment: one of its MachineSets cannot be decoded.
    pub const UNDECODABLE_SET: &str = "UndecodableMachineSet";
    /// Reason of ReplicaFailure on a MachineSet: replacements keep failing early, so the next one is delayed.
    pub const REPLACEMENT_DELAYED: &str = "ReplacementDelayed";
}

/// Node conditions that other programs write and Millwright reads.
pub mod node {
    /// Type: the kubelet is healthy. A Node whose condition Ready is not True is unhealthy.
    pub const READY: &str = "Ready";
    /// Type: the root file system is read-only. If it lasts, drains of the Node are forced.
    pub const READONLY_FILESYSTEM: &str = "ReadonlyFilesystem";
    /// Default of the conditions that make a Node unhealthy besides Ready. A flag or the spec of a Machine overrides it.
    pub const UNHEALTHY_BY_DEFAULT: &str = "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable";
}

/// Node condition of an in-place update. The machine controller writes it, always with status True. The node agent waits for
/// [`READY_FOR_UPDATE`](in_place::READY_FOR_UPDATE); the manager reads the copy in the status of the Machine.
pub mod in_place {
    /// Type.
    pub const TYPE: &str = "InPlaceUpdate";
    /// Reason: the Node has the label of a candidate.
    pub const CANDIDATE: &str = "CandidateForUpdate";
    /// Message of [`CANDIDATE`].
    pub const CANDIDATE_MESSAGE: &str = "Node is a candidate for in-place update";
    /// Reason: the Node is selected and will be drained.
    pub const SELECTED: &str = "SelectedForUpdate";
    /// Message of [`SELECTED`].
    pub const SELECTED_MESSAGE: &str = "Node is selected for in-place update";
    /// Reason: the Node is drained.
    pub const DRAINED: &str = "DrainSuccessful";
    /// Reason: the node agent may begin.
    pub const READY_FOR_UPDATE: &str = "ReadyForUpdate";
    /// Message of [`READY_FOR_UPDATE`].
    pub const READY_FOR_UPDATE_MESSAGE: &str = "Node is ready for in-place update";
    /// Reason: the node agent succeeded.
    pub const SUCCESSFUL: &str = "UpdateSuccessful";
    /// Message of [`SUCCESSFUL`].
    pub const SUCCESSFUL_MESSAGE: &str = "Node in-place update successful";
    /// Reason: the node agent failed.
    pub const FAILED: &str = "UpdateFailed";
    /// Beginning of the message of [`FAILED`]; the reason of the agent follows.
    pub const FAILED_MESSAGE: &str = "Node in-place update failed: ";
}

/// Node condition of a preserved Machine. The machine controller writes it and parses its message.
pub mod preserved {
    /// Type.
    pub const TYPE: &str = "Preserved";
    /// Reason: preserved by the MachineSet.
    pub const BY_MCM: &str = "Preserved by MCM.";
    /// Reason: preserved by a user.
    pub const BY_USER: &str = "Preserved by user.";
    /// Reason: the preservation has ended.
    pub const STOPPED: &str = "Preservation stopped.";
    /// Part of the message: the Node is drained; no further drain is needed.
    pub const DRAINED: &str = "Preserved node drained successfully.";
    /// Part of the message: the drain failed and is retried.
    pub const NOT_DRAINED: &str = "Preserved node could not be drained.";
    /// Beginning of the rest of the message; the time in the format of Go and a full stop follow.
    pub const UNTIL: &str = "Machine preserved until ";
}

/// Node condition of a Machine that is being deleted. The machine controller writes it before the drain.
pub mod terminating {
    /// Type.
    pub const TYPE: &str = "Terminating";
    /// Reason: the Machine is healthy and is deleted to scale down.
    pub const SCALE_DOWN: &str = "ScaleDown";
    /// Message of [`SCALE_DOWN`].
    pub const SCALE_DOWN_MESSAGE: &str = "Machine Controller is scaling down machine";
    /// Reason: the Machine was Failed.
    pub const UNHEALTHY: &str = "Unhealthy";
    /// Message of [`UNHEALTHY`].
    pub const UNHEALTHY_MESSAGE: &str = "Machine Controller is terminating failed machine";
}
