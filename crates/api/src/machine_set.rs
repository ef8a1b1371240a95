//! The MachineSet: a number of machines of one template.

use crate::LabelSelector;
use crate::condition::MachineSetCondition;
use crate::operation::{LastOperation, MachineSummary};
use crate::template::{ClassSpec, MachineTemplateSpec};
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// A MachineSet keeps a number of machines of one template. It is made by a MachineDeployment or by hand.
    pub struct MachineSet: "MachineSet", "machinesets", group "machine.sapcloud.io", version "v1alpha1",
        annotations (Annotations::All)
    {
        /// What the set is to be.
        pub spec: MachineSetSpec = "spec",
        /// What is known of it.
        pub status: MachineSetStatus = "status",
    }
}

record! {
    /// What a set of machines is to be.
    pub struct MachineSetSpec {
        /// How many machines there are to be.
        pub replicas: i32 = "replicas",
        /// Which machines belong to the set.
        pub selector: Option<LabelSelector> = "selector",
        /// Not used any more; the class is part of the template.
        pub machine_class: ClassSpec = "machineClass",
        /// What new machines are made from.
        pub template: MachineTemplateSpec = "template",
        /// How long a machine should be ready before it counts as available. Stored and shown, without effect.
        pub min_ready_seconds: i32 = "minReadySeconds",
        /// How many failed machines may be preserved automatically.
        pub auto_preserve_failed_machine_max: i32 = "autoPreserveFailedMachineMax",
    }
}

record! {
    /// What is known of a set of machines.
    pub struct MachineSetStatus {
        /// How many machines belong to the set, those being deleted included.
        pub replicas: i32 = "replicas",
        /// How many of them have all labels of the template.
        pub fully_labeled_replicas: i32 = "fullyLabeledReplicas",
        /// How many of them are Running.
        pub ready_replicas: i32 = "readyReplicas",
        /// How many of them are Available or Running.
        pub available_replicas: i32 = "availableReplicas",
        /// How many of them have failed and are preserved.
        pub preserved_failed_replicas: i32 = "preservedFailedReplicas",
        /// How many of them the set itself asked to preserve.
        pub auto_preserve_failed_machine_count: i32 = "autoPreserveFailedMachineCount",
        /// The generation of the spec this status is about.
        pub observed_generation: i64 = "observedGeneration",
        /// What is stated about the set.
        pub conditions: Vec<MachineSetCondition> = "machineSetCondition",
        /// When this status was written; nothing else is filled in.
        pub last_operation: LastOperation = "lastOperation",
        /// Machines whose last operation failed.
        pub failed_machines: Vec<MachineSummary> = "failedMachines",
    }
}
