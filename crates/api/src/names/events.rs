//! Reasons of Events: those of MCM ([`mcm`]) and those that only Millwright emits ([`millwright`]).

/// Reasons that MCM emits too.
pub mod mcm {
    /// On a MachineSet: a Machine was created.
    pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
    /// On a MachineSet, Warning: a Machine could not be created.
    pub const FAILED_CREATE: &str = "FailedCreate";
    /// On a MachineSet: the deletion of a Machine was accepted.
    pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
    /// On a MachineSet, Warning: a Machine could not be deleted.
    pub const FAILED_DELETE: &str = "FailedDelete";
    /// On a MachineSet: it has too many Machines and was frozen.
    pub const FROZE_MACHINE_SET: &str = "FrozeMachineSet";
    /// On a MachineSet: it was unfrozen.
    pub const UNFROZE_MACHINE_SET: &str = "UnfrozeMachineSet";
    /// On a MachineDeployment, Warning: its selector is empty.
    pub const SELECTING_ALL: &str = "SelectingAll";
    /// On a MachineDeployment: a MachineSet was scaled.
    pub const SCALING_MACHINE_SET: &str = "ScalingMachineSet";
    /// On a MachineDeployment, Warning: a MachineSet could not be created.
    pub const MACHINE_SET_CREATE_ERROR: &str = "MachineSetCreateError";
    /// On a MachineDeployment: it was rolled back.
    pub const ROLLBACK: &str = "DeploymentRollback";
    /// On a MachineDeployment, Warning: the revision for the rollback does not exist.
    pub const ROLLBACK_REVISION_NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";
    /// On a MachineDeployment, Warning: the revision for the rollback has the current template.
    pub const ROLLBACK_TEMPLATE_UNCHANGED: &str = "DeploymentRollbackTemplateUnchanged";
}

/// Reasons that only Millwright emits.
pub mod millwright {
    /// On a Machine: its VM exists.
    pub const VM_CREATED: &str = "VMCreated";
    /// On a Machine: its Node is healthy for the first time.
    pub const JOINED: &str = "Joined";
    /// On a Machine: its Node is healthy again.
    pub const REJOINED: &str = "Rejoined";
    /// On a Machine, Warning: its Node is unhealthy or missing.
    pub const UNHEALTHY: &str = "Unhealthy";
    /// On a Machine: it was updated in place.
    pub const UPDATED: &str = "InPlaceUpdated";
    /// On a Machine, Warning: its in-place update failed.
    pub const NOT_UPDATED: &str = "InPlaceUpdateFailed";
    /// On a Machine, Warning: it was marked Failed.
    pub const GIVEN_UP: &str = "GivenUp";
    /// On a Machine and its Node, Warning: the drain cannot finish without action by a user.
    pub const DRAIN_BLOCKED: &str = "DrainBlocked";
    /// On the Lease of the controller, Warning: the API servers are unreachable. The controller creates no VMs and marks no
    /// Machine Failed.
    pub const FROZE: &str = "Frozen";
    /// On the Lease of the controller: the API servers are reachable again.
    pub const THAWED: &str = "Thawed";
    /// On a MachineClass: an orphan VM was deleted.
    pub const ORPHAN_DELETED: &str = "OrphanVMDeleted";
    /// On a MachineClass, Warning: an orphan VM could not be deleted.
    pub const ORPHAN_NOT_DELETED: &str = "OrphanVMNotDeleted";
    /// On a MachineClass, Warning: its VMs could not be listed.
    pub const ORPHAN_SCAN_FAILED: &str = "OrphanScanFailed";
    /// On the Lease of the controller, Warning: suspected orphan VMs were not deleted, and why.
    pub const ORPHANS_HELD_BACK: &str = "OrphanVMsHeldBack";
    /// On a Machine, Warning: its VM has another name in the cloud.
    pub const VM_NAME_MISMATCH: &str = "VMNameMismatch";
    /// On a Machine, Warning: the driver returned an error.
    pub const DRIVER_ERROR: &str = "DriverError";
    /// On a Machine: its deletion began.
    pub const TERMINATING: &str = "Terminating";
    /// On a Machine: its VM and its Node are deleted.
    pub const GONE: &str = "Gone";
    /// On a Machine: it is deleted because its Node is being deleted.
    pub const NODE_DELETED: &str = "NodeDeleted";
    /// On a Machine, Warning: another Machine names the same Node.
    pub const NODE_DISPUTED: &str = "NodeDisputed";
    /// On a Machine, Warning: another Machine names the same VM.
    pub const VM_SHARED: &str = "VMShared";
    /// On a Machine, Warning: it is deleted although its Node may still exist.
    pub const NODE_MAY_BE_LEFT: &str = "NodeMayBeLeft";
    /// On a Machine, Warning: its MachineClass does not exist.
    pub const CLASS_NOT_FOUND: &str = "MachineClassNotFound";
    /// On a Machine, Warning: its MachineClass cannot be decoded.
    pub const CLASS_UNREADABLE: &str = "MachineClassUnreadable";
    /// On a Machine, Warning: its MachineClass is being deleted, so no VM is created from it.
    pub const CLASS_DELETED: &str = "MachineClassDeleted";
    /// On a Machine, Warning: no driver handles the provider of its MachineClass.
    pub const DRIVER_NOT_FOUND: &str = "DriverNotFound";
    /// On a Machine, Warning: the Secret of its MachineClass cannot be used.
    pub const SECRET_UNUSABLE: &str = "SecretUnusable";
    /// On a Machine, Warning: its deletion cannot continue until the cause is fixed.
    pub const DELETION_BLOCKED: &str = "DeletionBlocked";
    /// On a Machine, Warning: its VM is deleted, and the deletion of its Node failed.
    pub const NODE_NOT_REMOVED: &str = "NodeNotRemoved";
    /// On a Machine, Warning: part of its node template cannot be applied to its Node.
    pub const NODE_TEMPLATE_INVALID: &str = "NodeTemplateInvalid";
    /// On a Machine, Warning: the record of applied values on its Node could not be decoded and was replaced.
    pub const NODE_RECORD_REPLACED: &str = "NodeRecordReplaced";
    /// On a Machine: its Node is drained and can be updated in place.
    pub const READY_FOR_UPDATE: &str = "ReadyForUpdate";
    /// On a Machine: it is preserved.
    pub const PRESERVED: &str = "Preserved";
    /// On a Machine: it is no longer preserved.
    pub const PRESERVATION_ENDED: &str = "PreservationEnded";
    /// On a Machine, Warning: its preserve annotation, or that of its Node, has an unknown value.
    pub const PRESERVE_VALUE_INVALID: &str = "PreserveValueInvalid";
    /// On a MachineClass or a Secret, Warning: it is in use, so its finalizer is not removed.
    pub const IN_USE: &str = "InUse";
    /// On a MachineDeployment, Warning: entries of the list of Machines to delete are invalid.
    pub const DELETION_REQUEST_INVALID: &str = "DeletionRequestInvalid";
    /// On a MachineSet, Warning: replacements keep failing early, so the next one is delayed.
    pub const REPLACEMENT_DELAYED: &str = "ReplacementDelayed";
    /// On any kind of the Machine API, Warning: the object is invalid, so it is not reconciled.
    pub const INVALID: &str = "Invalid";
}

/// Components that emit Events (`source.component`).
pub mod components {
    /// Creation and deletion of Machines by MachineSets.
    pub const MACHINE_SET: &str = "machineset-controller";
    /// All other Events of the manager.
    pub const MANAGER: &str = "machine-controller-manager";
    /// The machine controller.
    pub const MACHINE_CONTROLLER: &str = "machine-controller";
}
