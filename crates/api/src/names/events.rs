//! Reasons of Events. The reference emits those of [`reference`]; ours beyond them are in [`ours`].

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

/// Reasons only we use: what happens to a Machine, and objects that are not acted upon.
pub mod ours {
    /// On a Machine: its VM exists.
    pub const VM_CREATED: &str = "VMCreated";
    /// On a Machine: its Node is healthy.
    pub const JOINED: &str = "Joined";
    /// On a Machine, a warning: it is given up.
    pub const GIVEN_UP: &str = "GivenUp";
    /// On a Machine, a warning: the driver failed.
    pub const DRIVER_ERROR: &str = "DriverError";
    /// On a Machine: its deletion has begun.
    pub const TERMINATING: &str = "Terminating";
    /// On a Machine: its VM and Node are gone.
    pub const GONE: &str = "Gone";
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
