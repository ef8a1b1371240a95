//! The MachineDeployment: a number of machines, and how they go from one template to the next.

use crate::LabelSelector;
use crate::condition::MachineDeploymentCondition;
use crate::operation::MachineSummary;
use crate::template::MachineTemplateSpec;
use crate::{IntOrString, OrchestrationType, StrategyType};
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// A MachineDeployment keeps a number of machines and takes them from one template to the next, by way of MachineSets.
    pub struct MachineDeployment: "MachineDeployment", "machinedeployments", group "machine.sapcloud.io", version "v1alpha1",
        annotations (Annotations::All)
    {
        /// What the deployment is to be.
        pub spec: MachineDeploymentSpec = "spec",
        /// What is known of it.
        pub status: MachineDeploymentStatus = "status",
    }
}

record! {
    /// What a deployment of machines is to be.
    pub struct MachineDeploymentSpec {
        /// How many machines there are to be.
        pub replicas: i32 = "replicas",
        /// Which machine sets and machines belong to the deployment.
        pub selector: Option<LabelSelector> = "selector",
        /// What machines are made from.
        pub template: MachineTemplateSpec = "template" (required),
        /// How machines go from one template to the next.
        pub strategy: MachineDeploymentStrategy = "strategy",
        /// How long a machine should be ready before it counts as available. Passed on to the sets, without effect.
        pub min_ready_seconds: i32 = "minReadySeconds",
        /// How many old sets are kept for rolling back; all of them if missing.
        pub revision_history_limit: Option<i32> = "revisionHistoryLimit",
        /// Whether changes of the template wait. Scaling goes on.
        pub paused: bool = "paused",
        /// Asks to go back to an earlier template. Removed once handled.
        pub rollback_to: Option<RollbackConfig> = "rollbackTo",
        /// How long a rollout may stand still before it is reported; for ever if missing.
        pub progress_deadline_seconds: Option<i32> = "progressDeadlineSeconds",
        /// How many failed machines may be preserved automatically. Passed on to the sets.
        pub auto_preserve_failed_machine_max: i32 = "autoPreserveFailedMachineMax",
    }
}

record! {
    /// How machines go from one template to the next.
    pub struct MachineDeploymentStrategy {
        /// The way: Recreate, RollingUpdate or InPlaceUpdate.
        pub kind: StrategyType = "type",
        /// Limits of a rolling update; needed for that type.
        pub rolling_update: Option<RollingUpdate> = "rollingUpdate",
        /// Limits of an in-place update; needed for that type.
        pub in_place_update: Option<InPlaceUpdate> = "inPlaceUpdate",
    }
}

record! {
    /// How many machines may be too few or too many while an update is under way.
    pub struct UpdateLimits {
        /// How many machines may be unavailable, as a number or a percentage (rounded down) of the replicas.
        pub max_unavailable: Option<IntOrString> = "maxUnavailable",
        /// How many machines there may be beyond the replicas, as a number or a percentage (rounded up) of them.
        pub max_surge: Option<IntOrString> = "maxSurge",
    }
}

record! {
    /// Limits of a rolling update.
    pub struct RollingUpdate with limits: UpdateLimits {}
}

record! {
    /// Limits of an in-place update, and who chooses the machines.
    pub struct InPlaceUpdate with limits: UpdateLimits {
        /// Who chooses the machines to update: Auto (the controller) or Manual (the user, by labelling nodes).
        pub orchestration_type: OrchestrationType = "orchestrationType",
    }
}

record! {
    /// Which template to go back to.
    pub struct RollbackConfig {
        /// The revision to go back to; the one before the current if 0.
        pub revision: i64 = "revision",
    }
}

record! {
    /// What is known of a deployment of machines.
    pub struct MachineDeploymentStatus {
        /// The generation of the spec this status is about.
        pub observed_generation: i64 = "observedGeneration",
        /// How many machines belong to the deployment, those being deleted included.
        pub replicas: i32 = "replicas",
        /// How many of them are made from the current template.
        pub updated_replicas: i32 = "updatedReplicas",
        /// How many of them are Running.
        pub ready_replicas: i32 = "readyReplicas",
        /// How many of them are Available or Running.
        pub available_replicas: i32 = "availableReplicas",
        /// How many machines its sets want beyond those available.
        pub unavailable_replicas: i32 = "unavailableReplicas",
        /// How many of them have failed and are preserved.
        pub preserved_failed_replicas: i32 = "preservedFailedReplicas",
        /// What is stated about the deployment.
        pub conditions: Vec<MachineDeploymentCondition> = "conditions",
        /// How often the name for a new set was already taken.
        pub collision_count: Option<i32> = "collisionCount",
        /// Machines whose last operation failed.
        pub failed_machines: Vec<MachineSummary> = "failedMachines",
    }
}
