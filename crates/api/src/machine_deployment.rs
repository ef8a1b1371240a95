//! The MachineDeployment: a number of Machines with rolling updates of their template.

use crate::LabelSelector;
use crate::condition::MachineDeploymentCondition;
use crate::operation::MachineSummary;
use crate::template::MachineTemplateSpec;
use crate::{IntOrString, OrchestrationType, StrategyType};
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// A MachineDeployment maintains a number of Machines and updates them to a new template by means of MachineSets.
    pub struct MachineDeployment: "MachineDeployment", "machinedeployments", group "machine.sapcloud.io", version "v1alpha1",
        annotations (Annotations::All)
    {
        /// Desired state of the MachineDeployment.
        pub spec: MachineDeploymentSpec = "spec",
        /// Observed state of the MachineDeployment.
        pub status: MachineDeploymentStatus = "status",
    }
}

record! {
    /// Desired state of a MachineDeployment.
    pub struct MachineDeploymentSpec {
        /// Desired number of Machines.
        pub replicas: i32 = "replicas",
        /// Selector of the MachineSets and Machines. It must match the labels of the template.
        pub selector: Option<LabelSelector> = "selector",
        /// Template of the Machines.
        pub template: MachineTemplateSpec = "template" (required),
        /// Strategy for updates of the template.
        pub strategy: MachineDeploymentStrategy = "strategy",
        /// Minimum time for which a Machine should be ready before it is available. Copied to the MachineSets, but has no effect.
        pub min_ready_seconds: i32 = "minReadySeconds",
        /// Number of old MachineSets that are kept for rollbacks; unlimited if missing.
        pub revision_history_limit: Option<i32> = "revisionHistoryLimit",
        /// Whether rollouts are paused. Scaling is not affected.
        pub paused: bool = "paused",
        /// Requests a rollback to an earlier template. Removed after it was processed.
        pub rollback_to: Option<RollbackConfig> = "rollbackTo",
        /// Time without progress after which a rollout is reported as failed; unlimited if missing.
        pub progress_deadline_seconds: Option<i32> = "progressDeadlineSeconds",
        /// Maximum number of failed Machines that are preserved automatically. Copied to the MachineSets.
        pub auto_preserve_failed_machine_max: i32 = "autoPreserveFailedMachineMax",
    }
}

record! {
    /// Strategy for updates of the template.
    pub struct MachineDeploymentStrategy {
        /// Type: Recreate, RollingUpdate or InPlaceUpdate.
        pub kind: StrategyType = "type",
        /// Limits of a rolling update. Required for type RollingUpdate.
        pub rolling_update: Option<RollingUpdate> = "rollingUpdate",
        /// Limits of an in-place update. Required for type InPlaceUpdate.
        pub in_place_update: Option<InPlaceUpdate> = "inPlaceUpdate",
    }
}

record! {
    /// Limits of an update.
    pub struct UpdateLimits {
        /// Maximum number of unavailable Machines, as a number or a percentage of the replicas (rounded down).
        pub max_unavailable: Option<IntOrString> = "maxUnavailable",
        /// Maximum number of Machines above the replicas, as a number or a percentage of the replicas (rounded up).
        pub max_surge: Option<IntOrString> = "maxSurge",
    }
}

record! {
    /// Limits of a rolling update.
    pub struct RollingUpdate with limits: UpdateLimits {}
}

record! {
    /// Limits and orchestration of an in-place update.
    pub struct InPlaceUpdate with limits: UpdateLimits {
        /// Selection of the Machines to update: Auto (by the controller) or Manual (by the user, with a label on Nodes).
        pub orchestration_type: OrchestrationType = "orchestrationType",
    }
}

record! {
    /// Target of a rollback.
    pub struct RollbackConfig {
        /// Revision; 0 is the previous one.
        pub revision: i64 = "revision",
    }
}

record! {
    /// Observed state of a MachineDeployment.
    pub struct MachineDeploymentStatus {
        /// Generation of the spec that was observed.
        pub observed_generation: i64 = "observedGeneration",
        /// Number of Machines, including those being deleted.
        pub replicas: i32 = "replicas",
        /// Number of Machines with the current template.
        pub updated_replicas: i32 = "updatedReplicas",
        /// Number of Machines that are Running.
        pub ready_replicas: i32 = "readyReplicas",
        /// Number of Machines that are Available or Running.
        pub available_replicas: i32 = "availableReplicas",
        /// Number of Machines that its MachineSets request beyond the available ones.
        pub unavailable_replicas: i32 = "unavailableReplicas",
        /// Number of Machines that failed and are preserved.
        pub preserved_failed_replicas: i32 = "preservedFailedReplicas",
        /// Conditions of the MachineDeployment.
        pub conditions: Vec<MachineDeploymentCondition> = "conditions",
        /// Number of name collisions of new MachineSets.
        pub collision_count: Option<i32> = "collisionCount",
        /// Machines whose last operation failed.
        pub failed_machines: Vec<MachineSummary> = "failedMachines",
    }
}
