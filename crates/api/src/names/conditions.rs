//! Conditions: types, reasons and the messages that are parsed again.

/// Conditions of a MachineDeployment. The manager writes them; users and dashboards read them.
pub mod deployment {
    /// Whether enough machines are available.
    pub const AVAILABLE: &str = "Available";
    /// Whether a rollout gets on.
    pub const PROGRESSING: &str = "Progressing";
    /// Whether machines could not be made; copied from a set.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
    /// Whether it is frozen; removed, not False, when it no longer is.
    pub const FROZEN: &str = "Frozen";

    /// Available: enough machines.
    pub const MINIMUM_REPLICAS_AVAILABLE: &str = "MinimumReplicasAvailable";
    /// Available: too few machines.
    pub const MINIMUM_REPLICAS_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
    /// Progressing: a set was made.
    pub const NEW_MACHINE_SET_CREATED: &str = "NewMachineSetCreated";
    /// Progressing: a set of this template was there already.
    pub const FOUND_NEW_MACHINE_SET: &str = "FoundNewMachineSet";
    /// Progressing: machines came or went.
    pub const MACHINE_SET_UPDATED: &str = "MachineSetUpdated";
    /// Progressing: done.
    pub const NEW_MACHINE_SET_AVAILABLE: &str = "NewMachineSetAvailable";
    /// Progressing: a set could not be made.
    pub const MACHINE_SET_CREATE_ERROR: &str = "MachineSetCreateError";
    /// Progressing: no progress for longer than the deadline.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// Progressing, status Unknown: paused.
    pub const DEPLOYMENT_PAUSED: &str = "DeploymentPaused";
    /// Progressing, status Unknown: resumed.
    pub const DEPLOYMENT_RESUMED: &str = "DeploymentResumed";
    /// Frozen: too many machines.
    pub const OVERSHOOTING: &str = "OverShootingReplicaCount";
    /// Frozen: one of its sets is.
    pub const STATE_SYNC: &str = "MachineDeploymentStateSync";

    /// The message of [`MINIMUM_REPLICAS_AVAILABLE`].
    pub const AVAILABLE_MESSAGE: &str = "Deployment has minimum availability.";
    /// The message of [`MINIMUM_REPLICAS_UNAVAILABLE`].
    pub const UNAVAILABLE_MESSAGE: &str = "Deployment does not have minimum availability.";
    /// The message of [`DEPLOYMENT_PAUSED`].
    pub const PAUSED_MESSAGE: &str = "Deployment is paused";
    /// The message of [`DEPLOYMENT_RESUMED`].
    pub const RESUMED_MESSAGE: &str = "Deployment is resumed";
    /// The message of [`STATE_SYNC`].
    pub const STATE_SYNC_MESSAGE: &str =
        "MachineDeployment State was inconsistent, hence safety controller has fixed this and frozen it";

    /// The message of [`NEW_MACHINE_SET_CREATED`].
    pub fn created(set: &str) -> String {
        format!("Created new machine set {set:?}")
    }

    /// The message of [`FOUND_NEW_MACHINE_SET`].
    pub fn found(set: &str) -> String {
        format!("Found new machine set {set:?}")
    }

    /// The message of [`MACHINE_SET_UPDATED`]; `about` is `MachineSet "<name>"`.
    pub fn progressing(about: &str) -> String {
        format!("{about} is progressing.")
    }

    /// The message of [`NEW_MACHINE_SET_AVAILABLE`].
    pub fn progressed(about: &str) -> String {
        format!("{about} has successfully progressed.")
    }

    /// The message of [`PROGRESS_DEADLINE_EXCEEDED`].
    pub fn timed_out(about: &str) -> String {
        format!("{about} has timed out progressing.")
    }

    /// The message of [`OVERSHOOTING`], on the set and its deployment alike.
    pub fn overshooting(set: &str, count: i32, limit: i32) -> String {
        format!("The number of machines backing MachineSet: {set} is {count} >= {limit} which is the Max-ScaleUp-Limit")
    }
}

/// Conditions of a MachineSet. The manager writes them.
pub mod set {
    /// Whether machines could not be made.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
    /// Whether it is frozen; removed, not False, when it no longer is.
    pub const FROZEN: &str = "Frozen";

    /// ReplicaFailure: there are too few machines.
    pub const FAILED_CREATE: &str = "FailedCreate";
    /// ReplicaFailure: there are too many machines.
    pub const FAILED_DELETE: &str = "FailedDelete";
    /// Frozen: too many machines.
    pub const OVERSHOOTING: &str = "OverShootingReplicaCount";
}

/// A condition of our own, on MachineSets and MachineDeployments. It stands beside the others and never touches them.
pub mod ours {
    /// The spec cannot be acted on; the message names the field and the fix. Removed once it is mended.
    pub const INVALID: &str = "Invalid";
    /// Invalid: the reason.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// Invalid, of a MachineDeployment: one of its MachineSets cannot be decoded.
    pub const UNDECODABLE_SET: &str = "UndecodableMachineSet";
    /// ReplicaFailure of a MachineSet: replacements keep failing early, so the next one waits.
    pub const REPLACEMENT_DELAYED: &str = "ReplacementDelayed";
}

/// Node conditions that others write and we read.
pub mod node {
    /// The kubelet is well. Unhealthy when present and not True.
    pub const READY: &str = "Ready";
    /// The root file system cannot be written. Forces a drain once it lasts.
    pub const READONLY_FILESYSTEM: &str = "ReadonlyFilesystem";
    /// What makes a node unhealthy besides Ready, unless flag or spec say otherwise.
    pub const UNHEALTHY_BY_DEFAULT: &str = "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable";
}

/// The Node condition of an in-place update. The machine controller writes it, always True; the node agent waits for
/// [`READY_FOR_UPDATE`](in_place::READY_FOR_UPDATE), and the manager reads the copy in the Machine's status.
pub mod in_place {
    /// The type.
    pub const TYPE: &str = "InPlaceUpdate";
    /// Labelled as a candidate.
    pub const CANDIDATE: &str = "CandidateForUpdate";
    /// The message of [`CANDIDATE`].
    pub const CANDIDATE_MESSAGE: &str = "Node is a candidate for in-place update";
    /// Selected: to be drained.
    pub const SELECTED: &str = "SelectedForUpdate";
    /// The message of [`SELECTED`].
    pub const SELECTED_MESSAGE: &str = "Node is selected for in-place update";
    /// Drained.
    pub const DRAINED: &str = "DrainSuccessful";
    /// The message of [`DRAINED`].
    pub const DRAINED_MESSAGE: &str = "Node draining successful";
    /// The node agent may begin.
    pub const READY_FOR_UPDATE: &str = "ReadyForUpdate";
    /// The message of [`READY_FOR_UPDATE`].
    pub const READY_FOR_UPDATE_MESSAGE: &str = "Node is ready for in-place update";
    /// The node agent succeeded.
    pub const SUCCESSFUL: &str = "UpdateSuccessful";
    /// The message of [`SUCCESSFUL`].
    pub const SUCCESSFUL_MESSAGE: &str = "Node in-place update successful";
    /// The node agent failed.
    pub const FAILED: &str = "UpdateFailed";
    /// How the message of [`FAILED`] begins; the agent's reason follows.
    pub const FAILED_MESSAGE: &str = "Node in-place update failed: ";
}

/// The Node condition of a preserved machine. The machine controller writes it and reads its message back.
pub mod preserved {
    /// The type.
    pub const TYPE: &str = "Preserved";
    /// The set asked for it.
    pub const BY_US: &str = "Preserved by MCM.";
    /// A user asked for it.
    pub const BY_USER: &str = "Preserved by user.";
    /// It is over.
    pub const STOPPED: &str = "Preservation stopped.";
    /// In the message: no other drain is needed. Searched for as a substring.
    pub const DRAINED: &str = "Preserved node drained successfully.";
    /// In the message: the drain failed and is tried again.
    pub const NOT_DRAINED: &str = "Preserved node could not be drained.";
    /// How the rest of the message begins; the time, in Go's form, and a full stop follow.
    pub const UNTIL: &str = "Machine preserved until ";
}

/// The Node condition of a machine being deleted. The machine controller writes it before it drains.
pub mod terminating {
    /// The type.
    pub const TYPE: &str = "Terminating";
    /// It is healthy and no longer wanted.
    pub const SCALE_DOWN: &str = "ScaleDown";
    /// The message of [`SCALE_DOWN`].
    pub const SCALE_DOWN_MESSAGE: &str = "Machine Controller is scaling down machine";
    /// It had failed.
    pub const UNHEALTHY: &str = "Unhealthy";
    /// The message of [`UNHEALTHY`].
    pub const UNHEALTHY_MESSAGE: &str = "Machine Controller is terminating failed machine";
}
