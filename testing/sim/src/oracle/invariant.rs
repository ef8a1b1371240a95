//! The invariants of the simulation.

use std::fmt;

/// An invariant. `docs/contributing/invariants.md` lists all of them; a test compares the page with this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// A MachineSet does not exceed its replicas.
    SetLimit,
    /// A MachineDeployment does not exceed replicas and maxSurge.
    Surge,
    /// A Machine has at most one VM.
    OneVm,
    /// Orphan VMs are deleted in time.
    OrphanVm,
    /// A Machine is deleted only for a reason.
    UnrequestedDeletion,
    /// A MachineSet in use is not deleted.
    SetInUse,
    /// The finalizer of a Machine is removed last.
    Finalizer,
    /// A frozen MachineSet creates no Machine.
    Frozen,
    /// PodDisruptionBudgets are respected.
    Budget,
    /// A Node is drained before its VM is deleted.
    DrainFirst,
    /// The content of Secrets is not exposed.
    Secret,
    /// No request is repeated too often.
    RequestRate,
    /// The cluster converges.
    Converges,
    /// A converged cluster causes no requests.
    Quiet,
    /// No task panics.
    NoPanic,
    /// Only one process leads.
    OneLeader,
    /// A volume in use is not detached.
    Volumes,
    /// A Machine with a healthy Node is left unchanged.
    HealthyNode,
    /// A scale-down deletes Machines with a low priority first.
    DeletionOrder,
    /// No status reports more than exists.
    StatusCounts,
    /// A rollout that can continue does.
    Progress,
    /// The number of concurrent replacements is limited.
    Replacements,
    /// A paused MachineDeployment does not roll.
    Paused,
    /// Proportional scaling adds up to the total.
    ScalingShares,
    /// An orphan is deleted after its waiting period.
    OrphanWait,
    /// Pods with volumes are evicted one after the other.
    VolumeEvictions,
    /// DaemonSet pods and mirror pods are not evicted.
    ExcludedPods,
    /// Nodes keep no cordon, taint or label of the controllers.
    Leftovers,
    /// Tokens are removed.
    Tokens,
    /// Node templates are applied.
    Template,
    /// Recreate waits for the deletion of the old Machines.
    Recreate,
    /// Preserved Machines are deleted last.
    PreservedLast,
    /// A rolling update keeps enough Machines available.
    Available,
    /// The number of concurrent in-place updates is limited.
    InPlaceLimit,
    /// No object is reconciled too often.
    Reconciles,
}

impl Invariant {
    /// All invariants, in the order of their numbers.
    pub const ALL: [Self; 35] = [
        Self::SetLimit,
        Self::Surge,
        Self::OneVm,
        Self::OrphanVm,
        Self::UnrequestedDeletion,
        Self::SetInUse,
        Self::Finalizer,
        Self::Frozen,
        Self::Budget,
        Self::DrainFirst,
        Self::Secret,
        Self::RequestRate,
        Self::Converges,
        Self::Quiet,
        Self::NoPanic,
        Self::OneLeader,
        Self::Volumes,
        Self::HealthyNode,
        Self::DeletionOrder,
        Self::StatusCounts,
        Self::Progress,
        Self::Replacements,
        Self::Paused,
        Self::ScalingShares,
        Self::OrphanWait,
        Self::VolumeEvictions,
        Self::ExcludedPods,
        Self::Leftovers,
        Self::Tokens,
        Self::Template,
        Self::Recreate,
        Self::PreservedLast,
        Self::Available,
        Self::InPlaceLimit,
        Self::Reconciles,
    ];

    /// Number in reports.
    pub fn id(self) -> &'static str {
        match self {
            Self::SetLimit => "I1",
            Self::Surge => "I2",
            Self::OneVm => "I3",
            Self::OrphanVm => "I4",
            Self::UnrequestedDeletion => "I5",
            Self::SetInUse => "I6",
            Self::Finalizer => "I7",
            Self::Frozen => "I8",
            Self::Budget => "I9",
            Self::DrainFirst => "I10",
            Self::Secret => "I11",
            Self::RequestRate => "I12",
            Self::Converges => "I13",
            Self::Quiet => "I14",
            Self::NoPanic => "I15",
            Self::OneLeader => "I16",
            Self::Volumes => "I17",
            Self::HealthyNode => "I18",
            Self::DeletionOrder => "I19",
            Self::StatusCounts => "I20",
            Self::Progress => "I21",
            Self::Replacements => "I22",
            Self::Paused => "I23",
            Self::ScalingShares => "I24",
            Self::OrphanWait => "I25",
            Self::VolumeEvictions => "I26",
            Self::ExcludedPods => "I27",
            Self::Leftovers => "I28",
            Self::Tokens => "I29",
            Self::Template => "I30",
            Self::Recreate => "I31",
            Self::PreservedLast => "I32",
            Self::Available => "I33",
            Self::InPlaceLimit => "I34",
            Self::Reconciles => "I35",
        }
    }

    /// The invariant as a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::SetLimit => {
                "A MachineSet creates no Machine while it has as many Machines that are not being deleted as replicas."
            }
            Self::Surge => {
                "A MachineDeployment creates no Machine while it has as many Machines that are not being deleted as replicas and maxSurge allow."
            }
            Self::OneVm => "A Machine never has two VMs.",
            Self::OrphanVm => {
                "No VM exists without a Machine for longer than a creation timeout and two orphan periods without faults."
            }
            Self::UnrequestedDeletion => {
                "A Machine is deleted only if it is Failed, exceeds the replicas of its MachineSet, is marked by the autoscaler, or its Node or owner is deleted."
            }
            Self::SetInUse => "A MachineSet with Machines or replicas is deleted only with its MachineDeployment.",
            Self::Finalizer => {
                "A Machine object is removed only after the deletion of its VM and its Node has begun, or if neither exists."
            }
            Self::Frozen => "A frozen MachineSet creates no Machine.",
            Self::Budget => "A pod with a PodDisruptionBudget is evicted, not deleted, unless the drain is forced.",
            Self::DrainFirst => {
                "If a Node was healthy when the deletion of its Machine began, its VM is deleted only after its pods have left, unless the drain is forced."
            }
            Self::Secret => "No content of a Secret is in an Event, a status or a Node.",
            Self::RequestRate => {
                "No object is read, written or passed to a driver call more than sixty times in a minute."
            }
            Self::Converges => {
                "When faults and changes have ended, the running Machines, VMs and Nodes match the spec in number and class, and nothing else exists."
            }
            Self::Quiet => "When the cluster has converged, the controllers send no request to the API servers.",
            Self::NoPanic => "No task and no reconcile ends by a panic.",
            Self::OneLeader => {
                "When another process holds the lease of a component, the previous leader writes nothing for it."
            }
            Self::Volumes => {
                "No VolumeAttachment of a healthy Node is deleted while a pod on the Node uses the volume, unless the drain is forced."
            }
            Self::HealthyNode => {
                "A Machine that ran is not marked Failed while its Node is healthy. Its pods, Node and VM are deleted only if it is being deleted, is Failed, or is selected for an in-place update."
            }
            Self::DeletionOrder => {
                "A MachineSet that scales down deletes no Machine while enough unpreserved Machines have a lower priority."
            }
            Self::StatusCounts => {
                "No Machine with an unhealthy Node is reported Running, and no MachineSet or MachineDeployment reports more Machines or ready Machines than it has had since the last observed state."
            }
            Self::Progress => {
                "A MachineDeployment that differs from its spec and whose Machines all run changes within ten minutes in which the controllers can act."
            }
            Self::Replacements => {
                "No Machine is marked Failed for its health while as many others of its MachineDeployment as the limit allows are being created, replaced or deleted."
            }
            Self::Paused => {
                "While a MachineDeployment is paused, no MachineSet is created for it, and none of several is scaled down unless there are more Machines than replicas and maxSurge allow."
            }
            Self::ScalingShares => {
                "When a rolling MachineDeployment was scaled and all its MachineSets know the new number, the sum of their replicas is at most replicas and maxSurge."
            }
            Self::OrphanWait => {
                "No driver is called to delete a VM whose Machine has been gone for less than a creation timeout."
            }
            Self::VolumeEvictions => {
                "No pod with volumes is evicted from a healthy Node while another evicted pod is terminating or its volumes are attached, within the detach timeout, unless the drain is forced."
            }
            Self::ExcludedPods => "No DaemonSet pod and no mirror pod is evicted or deleted.",
            Self::Leftovers => {
                "When the cluster has converged, no Node of a running Machine has a cordon, taint or update label of the controllers."
            }
            Self::Tokens => {
                "No bootstrap token exists ten minutes after its Machine is Running or gone, if the controllers could act since its creation."
            }
            Self::Template => {
                "When the cluster has converged, each Node has the labels, annotations and taints of its Machine's node template, and none of an earlier one."
            }
            Self::Recreate => {
                "A MachineDeployment with the strategy Recreate creates no Machine while a Machine of another of its MachineSets exists, unless it was paused."
            }
            Self::PreservedLast => {
                "A MachineSet that scales down deletes no preserved Machine while enough unpreserved Machines exist."
            }
            Self::Available => {
                "A rolling update does not scale a MachineSet down below replicas minus maxUnavailable available Machines."
            }
            Self::InPlaceLimit => {
                "No Node is selected for an in-place update while as many others of its MachineDeployment as maxUnavailable are selected."
            }
            Self::Reconciles => "No object is reconciled more than a hundred times in a second.",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id(), self.sentence())
    }
}
