//! Reasons of Events. The reference emits those of [`mod@reference`]; ours beyond them are in [`ours`].

/// Reasons the reference uses too; operators search for them.
pub mod reference {
    /// On a MachineSet: a machine was made.
    pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
    /// On a MachineSet, a warning: a machine could not be made.
    pub const FAILED_CREATE: &str = "FailedCreate";
    /// On a MachineSet: a machine's deletion was accepted.
    pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
    /// On a MachineSet, a warning: a machine could not be deleted.
    pub const FAILED_DELETE: &str = "FailedDelete";
    /// On a MachineSet: frozen because there are too many machines.
    pub const FROZE_MACHINE_SET: &str = "FrozeMachineSet";
    /// On a MachineSet: no longer frozen.
    pub const UNFROZE_MACHINE_SET: &str = "UnfrozeMachineSet";
    /// On a MachineDeployment, a warning: its selector is empty.
    pub const SELECTING_ALL: &str = "SelectingAll";
    /// On a MachineDeployment: a set was scaled.
    pub const SCALING_MACHINE_SET: &str = "ScalingMachineSet";
    /// On a MachineDeployment, a warning: a set could not be made.
    pub const MACHINE_SET_CREATE_ERROR: &str = "MachineSetCreateError";
    /// On a MachineDeployment: rolled back.
    pub const ROLLBACK: &str = "DeploymentRollback";
    /// On a MachineDeployment, a warning: there is no such revision.
    pub const ROLLBACK_REVISION_NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";
    /// On a MachineDeployment, a warning: the revision has the same template.
    pub const ROLLBACK_TEMPLATE_UNCHANGED: &str = "DeploymentRollbackTemplateUnchanged";
    /// On a Lease: leadership changed.
    pub const LEADER_ELECTION: &str = "LeaderElection";
}

/// Messages of the reference's Events, for those whose form others know.
pub mod messages {
    /// With [`SUCCESSFUL_CREATE`](super::reference::SUCCESSFUL_CREATE).
    pub fn created(machine: &str) -> String {
        format!("Created Machine: {machine}")
    }

    /// With [`FAILED_CREATE`](super::reference::FAILED_CREATE).
    pub fn create_failed(error: &str) -> String {
        format!("Error creating: {error}")
    }

    /// With [`SUCCESSFUL_DELETE`](super::reference::SUCCESSFUL_DELETE).
    pub fn deleted(machine: &str) -> String {
        format!("Deleted machine: {machine}")
    }

    /// With [`FAILED_DELETE`](super::reference::FAILED_DELETE).
    pub fn delete_failed(error: &str) -> String {
        format!("Error deleting: {error}")
    }

    /// With [`FROZE_MACHINE_SET`](super::reference::FROZE_MACHINE_SET).
    pub fn froze(set: &str) -> String {
        format!("SafetyController: Froze MachineSet {set} due to replica overshooting")
    }

    /// With [`UNFROZE_MACHINE_SET`](super::reference::UNFROZE_MACHINE_SET).
    pub fn unfroze(set: &str) -> String {
        format!("SafetyController: Unfroze MachineSet {set}")
    }

    /// With [`SELECTING_ALL`](super::reference::SELECTING_ALL).
    pub const SELECTING_ALL: &str = "This deployment is selecting all machines. A non-empty selector is required.";

    /// With [`SCALING_MACHINE_SET`](super::reference::SCALING_MACHINE_SET).
    pub fn scaled_up(set: &str, replicas: i32) -> String {
        format!("Scaled up machine set {set} to {replicas}")
    }

    /// With [`SCALING_MACHINE_SET`](super::reference::SCALING_MACHINE_SET).
    pub fn scaled_down(set: &str, replicas: i32) -> String {
        format!("Scaled down machine set {set} to {replicas}")
    }

    /// With [`MACHINE_SET_CREATE_ERROR`](super::reference::MACHINE_SET_CREATE_ERROR).
    pub fn set_create_failed(set: &str, error: &str) -> String {
        format!("Failed to create new machine set {set:?}: {error}")
    }

    /// With [`ROLLBACK`](super::reference::ROLLBACK).
    pub fn rolled_back(deployment: &str, revision: i64) -> String {
        format!("Rolled back deployment {deployment:?} to revision {revision}")
    }

    /// With [`ROLLBACK_REVISION_NOT_FOUND`](super::reference::ROLLBACK_REVISION_NOT_FOUND), if none was named.
    pub const NO_LAST_REVISION: &str = "Unable to find last revision.";
    /// With [`ROLLBACK_REVISION_NOT_FOUND`](super::reference::ROLLBACK_REVISION_NOT_FOUND), if one was named.
    pub const NO_SUCH_REVISION: &str = "Unable to find the revision to rollback to.";

    /// With [`ROLLBACK_TEMPLATE_UNCHANGED`](super::reference::ROLLBACK_TEMPLATE_UNCHANGED).
    pub fn rollback_unchanged(deployment: &str) -> String {
        format!("The rollback revision contains the same template as current deployment {deployment:?}")
    }

    /// With [`LEADER_ELECTION`](super::reference::LEADER_ELECTION).
    pub fn became_leader(identity: &str) -> String {
        format!("{identity} became leader")
    }

    /// With [`LEADER_ELECTION`](super::reference::LEADER_ELECTION).
    pub fn stopped_leading(identity: &str) -> String {
        format!("{identity} stopped leading")
    }
}

/// Reasons only we use: what happens to a Machine, and objects that are not acted upon.
pub mod ours {
    /// On a Machine: its VM exists.
    pub const VM_CREATED: &str = "VMCreated";
    /// On a Machine: its Node is healthy.
    pub const JOINED: &str = "Joined";
    /// On a Machine: its Node is healthy again.
    pub const REJOINED: &str = "Rejoined";
    /// On a Machine, a warning: its Node is unhealthy or missing.
    pub const UNHEALTHY: &str = "Unhealthy";
    /// On a Machine: it was updated in place.
    pub const UPDATED: &str = "InPlaceUpdated";
    /// On a Machine, a warning: it could not be updated in place.
    pub const NOT_UPDATED: &str = "InPlaceUpdateFailed";
    /// On a Machine, a warning: it is marked Failed.
    pub const GIVEN_UP: &str = "GivenUp";
    /// On a Machine and its Node, a warning: the node cannot be emptied without somebody's help.
    pub const DRAIN_BLOCKED: &str = "DrainBlocked";
    /// On the controller's Lease, a warning: we do not see, so nothing is made and no machine is marked Failed.
    pub const FROZE: &str = "Frozen";
    /// On the controller's Lease: we see again.
    pub const THAWED: &str = "Thawed";
    /// On a MachineClass: a VM that belonged to no Machine was deleted.
    pub const ORPHAN_DELETED: &str = "OrphanVMDeleted";
    /// On a MachineClass, a warning: such a VM could not be deleted.
    pub const ORPHAN_NOT_DELETED: &str = "OrphanVMNotDeleted";
    /// On a MachineClass, a warning: its VMs could not be listed.
    pub const ORPHAN_SCAN_FAILED: &str = "OrphanScanFailed";
    /// On the controller's Lease, a warning: VMs that seem to belong to no Machine were left alone, and why.
    pub const ORPHANS_HELD_BACK: &str = "OrphanVMsHeldBack";
    /// On a Machine, a warning: its VM has another name in the cloud.
    pub const VM_NAME_MISMATCH: &str = "VMNameMismatch";
    /// On a Machine, a warning: the driver failed.
    pub const DRIVER_ERROR: &str = "DriverError";
    /// On a Machine: its deletion has begun.
    pub const TERMINATING: &str = "Terminating";
    /// On a Machine: its VM and Node are gone.
    pub const GONE: &str = "Gone";
    /// On a Machine: its Node is being deleted, so it goes too.
    pub const NODE_DELETED: &str = "NodeDeleted";
    /// On a Machine, a warning: another machine names the same Node.
    pub const NODE_DISPUTED: &str = "NodeDisputed";
    /// On a Machine, a warning: another Machine names the same VM.
    pub const VM_SHARED: &str = "VMShared";
    /// On a Machine, a warning: it goes, and nobody could say whether its Node is there.
    pub const NODE_MAY_BE_LEFT: &str = "NodeMayBeLeft";
    /// On a Machine, a warning: part of its node template cannot be kept on its Node.
    pub const NODE_TEMPLATE_INVALID: &str = "NodeTemplateInvalid";
    /// On a Machine, a warning: what we had noted on its Node could not be read and was written anew.
    pub const NODE_RECORD_REPLACED: &str = "NodeRecordReplaced";
    /// On a Machine: its Node is drained and may be updated in place.
    pub const READY_FOR_UPDATE: &str = "ReadyForUpdate";
    /// On a Machine: it is preserved.
    pub const PRESERVED: &str = "Preserved";
    /// On a Machine: it is no longer preserved.
    pub const PRESERVATION_ENDED: &str = "PreservationEnded";
    /// On a Machine, a warning: its preserve annotation, or its Node's, says nothing we know.
    pub const PRESERVE_VALUE_INVALID: &str = "PreserveValueInvalid";
    /// On a MachineClass or a Secret, a warning: its deletion waits for those who need it.
    pub const IN_USE: &str = "InUse";
    /// On a MachineDeployment, a warning: entries of the list of Machines to delete cannot be read.
    pub const DELETION_REQUEST_INVALID: &str = "DeletionRequestInvalid";
    /// On a MachineSet, a warning: replacements keep failing early, so the next one waits.
    pub const REPLACEMENT_DELAYED: &str = "ReplacementDelayed";
    /// On any of our kinds, a warning: it is invalid and therefore not acted upon.
    pub const INVALID: &str = "Invalid";
}

/// Who emits an Event (`source.component`).
pub mod components {
    /// Machines made and deleted by sets.
    pub const MACHINE_SET: &str = "machineset-controller";
    /// Everything else of the manager.
    pub const MANAGER: &str = "machine-controller-manager";
    /// The machine controller.
    pub const MACHINE_CONTROLLER: &str = "machine-controller";
}

#[cfg(test)]
mod tests {
    use super::messages;

    /// Shows API-7.
    #[test]
    fn messages_are_the_reference_s_to_the_letter() {
        assert_eq!(messages::created("m"), "Created Machine: m");
        assert_eq!(messages::deleted("m"), "Deleted machine: m");
        assert_eq!(messages::create_failed("E"), "Error creating: E");
        assert_eq!(messages::delete_failed("E"), "Error deleting: E");
        assert_eq!(messages::froze("s"), "SafetyController: Froze MachineSet s due to replica overshooting");
        assert_eq!(messages::unfroze("s"), "SafetyController: Unfroze MachineSet s");
        assert_eq!(messages::scaled_up("s", 3), "Scaled up machine set s to 3");
        assert_eq!(messages::scaled_down("s", 0), "Scaled down machine set s to 0");
        assert_eq!(messages::set_create_failed("s", "E"), "Failed to create new machine set \"s\": E");
        assert_eq!(messages::rolled_back("d", 2), "Rolled back deployment \"d\" to revision 2");
        assert_eq!(
            messages::rollback_unchanged("d"),
            "The rollback revision contains the same template as current deployment \"d\""
        );
        assert_eq!(messages::became_leader("host"), "host became leader");
        assert_eq!(messages::stopped_leading("host"), "host stopped leading");
    }
}
