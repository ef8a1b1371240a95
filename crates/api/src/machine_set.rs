//! The MachineSet: a number of Machines with the same template.

use crate::LabelSelector;
use crate::condition::MachineSetCondition;
use crate::operation::{LastOperation, MachineSummary};
use crate::template::{ClassSpec, MachineTemplateSpec};
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// A MachineSet maintains a number of Machines with the same template. It is created by a MachineDeployment or by a user.
    pub struct MachineSet: "MachineSet", "machinesets", group "machine.sapcloud.io", version "v1alpha1",
        annotations (Annotations::All)
    {
        /// Desired state of the MachineSet.
        pub spec: MachineSetSpec = "spec",
        /// Observed state of the MachineSet.
        pub status: MachineSetStatus = "status",
    }
}

record! {
    /// Desired state of a MachineSet.
    pub struct MachineSetSpec {
        /// Desired number of Machines.
        pub replicas: i32 = "replicas",
        /// Selector of the Machines. It must match the labels of the template.
        pub selector: Option<LabelSelector> = "selector",
        /// Deprecated; the MachineClass is part of the template.
        pub machine_class: ClassSpec = "machineClass",
        /// Template of new Machines.
        pub template: MachineTemplateSpec = "template",
        /// Minimum time for which a Machine should be ready before it is available. Stored, but has no effect.
        pub min_ready_seconds: i32 = "minReadySeconds",
        /// Maximum number of failed Machines that are preserved automatically.
        pub auto_preserve_failed_machine_max: i32 = "autoPreserveFailedMachineMax",
    }
}

record! {
    /// Observed state of a MachineSet.
    pub struct MachineSetStatus {
        /// Number of Machines, including those being deleted.
        pub replicas: i32 = "replicas",
        /// Number of Machines with all labels of the template.
        pub fully_labeled_replicas: i32 = "fullyLabeledReplicas",
        /// Number of Machines that are Running.
        pub ready_replicas: i32 = "readyReplicas",
        /// Number of Machines that are Available or Running.
        pub available_replicas: i32 = "availableReplicas",
        /// Number of Machines that failed and are preserved.
        pub preserved_failed_replicas: i32 = "preservedFailedReplicas",
        /// Number of Machines that the MachineSet preserves automatically.
        pub auto_preserve_failed_machine_count: i32 = "autoPreserveFailedMachineCount",
        /// Generation of the spec that was observed.
        pub observed_generation: i64 = "observedGeneration",
        /// Conditions of the MachineSet.
        pub conditions: Vec<MachineSetCondition> = "machineSetCondition",
        /// Only the time of the last update of the status is set.
        pub last_operation: LastOperation = "lastOperation",
        /// Machines whose last operation failed.
        pub failed_machines: Vec<MachineSummary> = "failedMachines",
    }
}
