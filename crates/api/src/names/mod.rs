//! Well-known strings of the Machine API.
//!
//! Other programs read and write them: the cluster autoscaler, node agents, dashboards, Gardener, and Machine Controller
//! Manager (MCM). The comment of each constant names its writers and readers. The *manager* reconciles MachineDeployments and
//! MachineSets; the *machine controller* reconciles Machines and calls drivers.

pub mod annotations;
pub mod conditions;
pub mod events;
pub mod finalizers;
pub mod labels;
pub mod secrets;
pub mod steps;
pub mod taints;

/// API group of the Machine API.
pub const GROUP: &str = "machine.sapcloud.io";
/// API version.
pub const VERSION: &str = "v1alpha1";
/// Value of `apiVersion` in objects and owner references.
pub const API_VERSION: &str = "machine.sapcloud.io/v1alpha1";
/// Name of the Lease of the manager.
pub const MANAGER_LEASE: &str = "machine-controller-manager";
/// Name of the Lease of the machine controller.
pub const MACHINE_CONTROLLER_LEASE: &str = "machine-controller";

#[cfg(test)]
mod tests {
    use super::*;

    /// Repeats the values, so that an accidental change of a constant fails the test.
    /// Shows API-7.
    #[test]
    fn well_known_strings_are_unchanged() {
        let pairs = [
            (annotations::PRIORITY, "machinepriority.machine.sapcloud.io"),
            (annotations::TRIGGER_DELETION, "node.machine.sapcloud.io/trigger-deletion-by-mcm"),
            (annotations::MARKED_FOR_DELETION_TIME, "machine.sapcloud.io/marked-for-deletion-time"),
            (
                annotations::LAST_REPLICA_CHANGE_BY_SCALER,
                "machine.sapcloud.io/last-deployment-replica-change-by-scaler-time",
            ),
            (annotations::PRESERVE, "node.machine.sapcloud.io/preserve"),
            (annotations::LAST_APPLIED_NODE_PRESERVE, "node.machine.sapcloud.io/last-applied-node-preserve-value"),
            (annotations::LAST_APPLIED_TEMPLATE, "node.machine.sapcloud.io/last-applied-anno-labels-taints"),
            (annotations::LAST_APPLIED_VIRTUAL_CAPACITY, "node.machine.sapcloud.io/last-applied-virtual-capacity"),
            (annotations::NOT_MANAGED, "node.machine.sapcloud.io/not-managed-by-mcm"),
            (annotations::EFFECTIVE_CREATION_TIMEOUT, "node.machine.sapcloud.io/effective-creation-timeout"),
            (annotations::SCALE_DOWN_DISABLED, "cluster-autoscaler.kubernetes.io/scale-down-disabled"),
            (annotations::SCALE_DOWN_DISABLED_BY_MCM, "cluster-autoscaler.kubernetes.io/scale-down-disabled-by-mcm"),
            (annotations::UNFREEZE, "safety.machine.sapcloud.io/unfreeze"),
            (annotations::UPDATE_FAILED_REASON, "node.machine.sapcloud.io/update-failed-reason"),
            (labels::MACHINE_NAME, "node.gardener.cloud/machine-name"),
            (labels::TEMPLATE_HASH, "machine-template-hash"),
            (labels::CANDIDATE_FOR_UPDATE, "node.machine.sapcloud.io/candidate-for-update"),
            (labels::SELECTED_FOR_UPDATE, "node.machine.sapcloud.io/selected-for-update"),
            (labels::UPDATE_RESULT, "node.machine.sapcloud.io/update-result"),
            (labels::SCALE_UP_DISABLED, "node.machine.sapcloud.io/scale-up-disabled"),
            (finalizers::MACHINE, "machine.sapcloud.io/machine-controller-manager"),
            (finalizers::SECRET, "machine.sapcloud.io/machine-controller"),
            (finalizers::NODE, "node.machine.sapcloud.io/machine-controller"),
            (taints::PREFER_NO_SCHEDULE, "deployment.machine.sapcloud.io/prefer-no-schedule"),
            (taints::CRITICAL_COMPONENTS, "node.gardener.cloud/critical-components-not-ready"),
            (taints::PRESERVED, "node.machine.sapcloud.io/preserved"),
            (steps::GET_VM_STATUS, "Set machine status to termination. Now, getting VM Status"),
            (steps::DRAIN, "Initiate node drain"),
            (steps::DELETE_VOLUME_ATTACHMENTS, "Delete Volume Attachments"),
            (steps::DELETE_VM, "Initiate VM deletion"),
            (steps::DELETE_NODE, "Initiate node object deletion"),
            (steps::REMOVE_FINALIZER, "Initiate machine object finalizer removal"),
            (conditions::preserved::BY_MCM, "Preserved by MCM."),
            (conditions::preserved::DRAINED, "Preserved node drained successfully."),
            (crate::texts::MISCONFIGURED_BUDGET, "is misconfigured and requires zero voluntary evictions"),
            (secrets::USER_DATA, "userData"),
            (secrets::BOOTSTRAP_TOKEN_PLACEHOLDER, "<<BOOTSTRAP_TOKEN>>"),
            (secrets::MACHINE_NAME_PLACEHOLDER, "<<MACHINE_NAME>>"),
        ];
        for (constant, wire) in pairs {
            assert_eq!(constant, wire);
        }
        assert_eq!(API_VERSION, format!("{GROUP}/{VERSION}"));
    }
}
