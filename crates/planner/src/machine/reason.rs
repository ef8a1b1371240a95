//! The reason of a Machine's plan.
//!
//! The log line, the Event, the status text and `explain` are all written from this value, so they cannot contradict
//! each other.

use std::fmt;

use api::Code;
use api::names::annotations::TRIGGER_DELETION;
use jiff::Timestamp;

use super::vm::Call;

/// The reason of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The finalizer is added before a VM is created.
    FinalizerMissing,
    /// The spec is invalid.
    Invalid(String),
    /// The MachineClass does not exist.
    ClassMissing(String),
    /// The MachineClass does not exist, and an earlier process may have created a VM from it.
    ClassMissingVmPossible(String),
    /// The MachineClass is not in the cache, which may be stale.
    ClassNotCached(String),
    /// The MachineClass cannot be decoded.
    ClassUndecodable(String),
    /// The MachineClass is invalid.
    ClassInvalid(String, String),
    /// The MachineClass is being deleted, so the finalizer cannot be added any more.
    ClassDeleting(String),
    /// The MachineClass does not have the finalizer yet.
    ClassFinalizerMissing(String),
    /// No driver serves the provider of the MachineClass.
    DriverMissing(String),
    /// The Secret of the MachineClass cannot be used.
    SecretUnusable(String),
    /// The state of the VM is unknown, and an earlier attempt may have created one.
    VmUnknown,
    /// The driver reports no VM for the Machine.
    VmMissing,
    /// A driver call is in progress.
    CallInProgress(Call),
    /// A driver call failed.
    CallFailed {
        /// The call.
        call: Call,
        /// The error code.
        code: Code,
    },
    /// Creation of another Machine of the MachineClass failed because capacity is exhausted.
    CapacityExhausted {
        /// The error code.
        code: Code,
    },
    /// The driver returned no provider ID or no Node name.
    VmUnnamed,
    /// The VM is deleted, and the driver returned a last known state to record.
    VmDeleted,
    /// The VM exists and is recorded before any other step.
    VmFound(String),
    /// Another Machine names the same VM.
    VmShared {
        /// The VM.
        vm: String,
        /// The other Machine.
        with: String,
    },
    /// The VM exists but is not initialized.
    VmNotInitialized,
    /// The VM was given the name of a Node that belongs to another VM.
    StaleNode(String),
    /// The Machine is Failed, and its VM must be deleted.
    LeftoverVm,
    /// The VM was not created within the creation timeout.
    CreationTimedOut,
    /// The VM is running, and its Node has not registered.
    VmRunning,
    /// The Node has not registered yet.
    NodeNotRegistered(String),
    /// The Node has registered but is not healthy.
    NodeNotHealthy(String),
    /// The Node no longer exists, although its deletion was not requested.
    NodeMissing(String),
    /// The Node that the label names cannot be the Machine's.
    NodeForeign {
        /// The Node.
        node: String,
        /// Why it cannot be.
        why: String,
    },
    /// The label names another Node than the Machine's.
    NodeLabelWrong {
        /// The Node that the label names.
        label: String,
        /// The Node of the Machine.
        node: String,
    },
    /// The Node is healthy again.
    Rejoined,
    /// The health timeout has passed.
    HealthTimedOut,
    /// The health timeout has passed, and `spec.disableHealthTimeout` is set.
    HealthTimeoutDisabled,
    /// The health timeout has passed, but the limit of Machines that are replaced at the same time is reached.
    ReplacementsInProgress {
        /// Number of Machines that are being replaced.
        in_progress: usize,
        /// Maximum number.
        limit: usize,
    },
    /// The in-place update failed, and the Machine is kept.
    FailedUpdateKept,
    /// An in-place update is in progress.
    Updating,
    /// The in-place update succeeded.
    Updated,
    /// The in-place update failed with this message of the node agent.
    UpdateFailed(String),
    /// The in-place update timed out.
    UpdateTimedOut,
    /// The API servers were unreachable for longer than the freeze timeout.
    Frozen,
    /// The Node became unhealthy while the API server was unreachable.
    HealthTimeoutReset,
    /// The critical components of the Node are not ready.
    CriticalComponentsNotReady,
    /// The Node is healthy.
    Joined,
    /// The Node did not join within the creation timeout.
    JoinTimedOut,
    /// The Node lacks labels, annotations, taints or virtual capacity.
    NodeOutOfDate,
    /// The Node is being deleted.
    NodeDeleted(String),
    /// An annotation of the Node requests the deletion of the Machine.
    NodeAnnotated(String),
    /// The Node is selected for an in-place update.
    UpdateSelected,
    /// The Node is drained before its in-place update.
    DrainingForUpdate,
    /// The Node is ready for the in-place update, and the node agent has not reported a result.
    ReadyForUpdate,
    /// The Machine is preserved.
    Preserved {
        /// When the preservation expires.
        until: Timestamp,
    },
    /// The preservation has ended.
    PreservationEnded(&'static str),
    /// The conditions of the Node changed.
    ConditionsChanged,
    /// The Machine is Failed and waits for its replacement.
    AwaitsReplacement,
    /// The Machine needs no change.
    Converged,
    /// The deletion of the Machine was requested.
    DeletionRequested,
    /// The Node is being drained; the text names the pods that are left and why.
    Draining(String),
    /// The Node is cordoned before its drain.
    CordonNode,
    /// The scheduler may still place pods on the Node, for this reason of the API server.
    CordonFailed(String),
    /// The Node is drained.
    Drained,
    /// The forced drain of the Node failed.
    DrainFailed(String),
    /// The drain was forced, and volumes are still attached to the Node.
    Detaching {
        /// Number of VolumeAttachments whose deletion has not begun.
        live: usize,
    },
    /// The Machine is being deleted, and the name of its Node is not recorded.
    NodeUnknown,
    /// Other Machines name the same Node, and its VM is unknown.
    NodeDisputed(String),
    /// The driver reports the name of the Node.
    NodeNamed(String),
    /// The VM can be deleted.
    ReadyToDeleteVm,
    /// The Node is not in the cache, which may be stale.
    NodeNotCached(String),
    /// The API server failed to return the Node.
    NodeLookupFailed {
        /// The name of the Node.
        name: String,
        /// The error.
        why: String,
    },
    /// The VM is deleted, and the deletion of its Node failed for too long.
    NodeDeletionFailed {
        /// The name of the Node.
        name: String,
        /// The error.
        why: String,
    },
    /// The Node exists but cannot be decoded, so it cannot be deleted.
    NodeUndecodable(String),
    /// The VM is deleted; the Node is deleted next.
    NodeRemaining(String),
    /// VM and Node are deleted.
    Deleted,
    /// The Machine is being deleted, and another finalizer remains.
    OtherFinalizer,
}

impl Reason {
    /// Returns a code for programs. It does not change, even if the text for people does.
    pub fn code(&self) -> &'static str {
        match self {
            Self::FinalizerMissing => "FinalizerMissing",
            Self::Invalid(_) => "Invalid",
            Self::ClassMissing(_) => "ClassMissing",
            Self::ClassMissingVmPossible(_) => "ClassMissingVmPossible",
            Self::ClassNotCached(_) => "ClassNotCached",
            Self::ClassUndecodable(_) => "ClassUndecodable",
            Self::ClassInvalid(..) => "ClassInvalid",
            Self::ClassDeleting(_) => "ClassDeleting",
            Self::ClassFinalizerMissing(_) => "ClassFinalizerMissing",
            Self::DriverMissing(_) => "DriverMissing",
            Self::SecretUnusable(_) => "SecretUnusable",
            Self::VmUnknown => "VmUnknown",
            Self::VmMissing => "VmMissing",
            Self::CallInProgress(_) => "CallInProgress",
            Self::CallFailed { .. } => "CallFailed",
            Self::CapacityExhausted { .. } => "CapacityExhausted",
            Self::VmUnnamed => "VmUnnamed",
            Self::VmDeleted => "VmDeleted",
            Self::VmFound(_) => "VmFound",
            Self::VmShared { .. } => "VmShared",
            Self::VmNotInitialized => "VmNotInitialized",
            Self::StaleNode(_) => "StaleNode",
            Self::LeftoverVm => "LeftoverVm",
            Self::CreationTimedOut => "CreationTimedOut",
            Self::VmRunning => "VmRunning",
            Self::NodeNotRegistered(_) => "NodeNotRegistered",
            Self::NodeNotHealthy(_) => "NodeNotHealthy",
            Self::NodeMissing(_) => "NodeMissing",
            Self::NodeForeign { .. } => "NodeForeign",
            Self::NodeLabelWrong { .. } => "NodeLabelWrong",
            Self::Rejoined => "Rejoined",
            Self::HealthTimedOut => "HealthTimedOut",
            Self::HealthTimeoutDisabled => "HealthTimeoutDisabled",
            Self::ReplacementsInProgress { .. } => "ReplacementsInProgress",
            Self::FailedUpdateKept => "FailedUpdateKept",
            Self::Updating => "Updating",
            Self::Updated => "Updated",
            Self::UpdateFailed(_) => "UpdateFailed",
            Self::UpdateTimedOut => "UpdateTimedOut",
            Self::Frozen => "Frozen",
            Self::HealthTimeoutReset => "HealthTimeoutReset",
            Self::CriticalComponentsNotReady => "CriticalComponentsNotReady",
            Self::Joined => "Joined",
            Self::JoinTimedOut => "JoinTimedOut",
            Self::NodeOutOfDate => "NodeOutOfDate",
            Self::NodeDeleted(_) => "NodeDeleted",
            Self::NodeAnnotated(_) => "NodeAnnotated",
            Self::UpdateSelected => "UpdateSelected",
            Self::DrainingForUpdate => "DrainingForUpdate",
            Self::ReadyForUpdate => "ReadyForUpdate",
            Self::Preserved { .. } => "Preserved",
            Self::PreservationEnded(_) => "PreservationEnded",
            Self::ConditionsChanged => "ConditionsChanged",
            Self::AwaitsReplacement => "AwaitsReplacement",
            Self::Converged => "Converged",
            Self::DeletionRequested => "DeletionRequested",
            Self::Draining(_) => "Draining",
            Self::CordonNode => "CordonNode",
            Self::CordonFailed(_) => "CordonFailed",
            Self::Drained => "Drained",
            Self::DrainFailed(_) => "DrainFailed",
            Self::Detaching { .. } => "Detaching",
            Self::NodeUnknown => "NodeUnknown",
            Self::NodeDisputed(_) => "NodeDisputed",
            Self::NodeNamed(_) => "NodeNamed",
            Self::ReadyToDeleteVm => "ReadyToDeleteVm",
            Self::NodeNotCached(_) => "NodeNotCached",
            Self::NodeLookupFailed { .. } => "NodeLookupFailed",
            Self::NodeDeletionFailed { .. } => "NodeDeletionFailed",
            Self::NodeUndecodable(_) => "NodeUndecodable",
            Self::NodeRemaining(_) => "NodeRemaining",
            Self::Deleted => "Deleted",
            Self::OtherFinalizer => "OtherFinalizer",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FinalizerMissing => f.write_str("adding the finalizer before creating a VM"),
            Self::Invalid(what) => write!(f, "the spec is invalid: {what}"),
            Self::ClassMissing(name) => write!(f, "MachineClass {name:?} does not exist"),
            Self::ClassMissingVmPossible(name) => write!(f, "MachineClass {name:?} does not exist; {MAY_HAVE_VM}"),
            Self::ClassNotCached(name) => {
                write!(f, "MachineClass {name:?} is not in the cache; waiting for a list from the API server")
            }
            Self::ClassUndecodable(name) => write!(f, "MachineClass {name:?} exists but cannot be decoded"),
            Self::ClassInvalid(name, errors) => write!(f, "MachineClass {name:?} is invalid: {errors}"),
            Self::ClassDeleting(name) => {
                write!(f, "MachineClass {name:?} is being deleted; create it again or use another MachineClass")
            }
            Self::ClassFinalizerMissing(name) => {
                write!(f, "adding the finalizer to MachineClass {name:?} before creating the VM")
            }
            Self::DriverMissing(why) | Self::SecretUnusable(why) | Self::NodeDisputed(why) => f.write_str(why),
            Self::VmUnknown => f.write_str("an earlier attempt may have created a VM; querying the driver first"),
            Self::VmMissing => f.write_str("the driver reports no VM for the Machine"),
            Self::CallInProgress(call) => write!(f, "the driver call to {} the VM is in progress", call.verb()),
            Self::CallFailed { call, code } => {
                write!(f, "the driver call to {} the VM failed with {code}", call.verb())
            }
            Self::CapacityExhausted { code } => {
                write!(
                    f,
                    "creation of another Machine of the MachineClass failed with {code}; waiting for the next attempt"
                )
            }
            Self::VmDeleted => f.write_str("VM is deleted"),
            Self::VmUnnamed => f.write_str("the driver returned no usable provider ID or Node name"),
            Self::VmFound(id) => write!(f, "VM {id} exists and is recorded before any other step"),
            Self::VmShared { vm, with } => write!(f, "VM {vm} is also the VM of Machine {with:?}"),
            Self::VmNotInitialized => f.write_str("VM exists but is not initialized"),
            Self::StaleNode(name) => {
                write!(f, "VM has the name of node {name:?}, which belongs to another VM; deleting the new VM")
            }
            Self::LeftoverVm => f.write_str("the Machine is Failed; deleting its VM"),
            Self::CreationTimedOut => f.write_str("VM was not created within the creation timeout"),
            Self::VmRunning => f.write_str("VM is running; waiting for the Node to register"),
            Self::NodeNotRegistered(name) => write!(f, "node {name:?} has not registered yet"),
            Self::NodeNotHealthy(why) => write!(f, "Node is not healthy: {why}"),
            Self::NodeMissing(name) => write!(f, "node {name:?} no longer exists"),
            Self::NodeForeign { node, why } => {
                write!(f, "node {node:?} {why}; it is not the Node of this Machine and is not changed")
            }
            Self::NodeLabelWrong { label, node } => {
                write!(f, "node {label:?} is not the Node of this Machine; its VM is node {node:?}")
            }
            Self::Rejoined => f.write_str("Node is healthy again"),
            Self::HealthTimedOut => f.write_str("Node has been unhealthy for longer than the health timeout"),
            Self::HealthTimeoutDisabled => f.write_str(
                "Node has been unhealthy for longer than the health timeout; spec.disableHealthTimeout keeps the Machine",
            ),
            Self::ReplacementsInProgress { in_progress, limit } => write!(
                f,
                "Node has been unhealthy for longer than the health timeout; {in_progress} of at most {limit} Machines of the \
                 MachineDeployment are already being replaced"
            ),
            Self::FailedUpdateKept => f.write_str(
                "in-place update failed; the Machine is kept until the update succeeds or the Machine is deleted",
            ),
            Self::Updating => f.write_str("in-place update is in progress"),
            Self::Updated => f.write_str("in-place update succeeded"),
            Self::UpdateFailed(why) => write!(f, "in-place update failed: {why}"),
            Self::UpdateTimedOut => f.write_str("in-place update timed out"),
            Self::HealthTimeoutReset => f.write_str("the API server was unreachable; restarting the health timeout"),
            Self::Frozen => f.write_str("frozen: the API servers are unreachable"),
            Self::CriticalComponentsNotReady => f.write_str("critical components of the Node are not ready"),
            Self::Joined => f.write_str("Node is healthy"),
            Self::JoinTimedOut => f.write_str("Node did not join within the creation timeout"),
            Self::NodeOutOfDate => f.write_str("Node labels, annotations or taints are out of date"),
            Self::NodeDeleted(name) => write!(f, "node {name:?} is being deleted"),
            Self::NodeAnnotated(name) => write!(f, "node {name:?} has the annotation {TRIGGER_DELETION}"),
            Self::UpdateSelected => f.write_str("Node is selected for an in-place update"),
            Self::DrainingForUpdate => f.write_str("draining the Node before its in-place update"),
            Self::ReadyForUpdate => f.write_str("Node is ready for the in-place update; waiting for the node agent"),
            Self::Preserved { until } => write!(f, "Machine is preserved until {until}"),
            Self::PreservationEnded(why) => write!(f, "preservation has ended: {why}"),
            Self::ConditionsChanged => f.write_str("Node conditions changed"),
            Self::AwaitsReplacement => f.write_str("Machine is Failed; waiting for its replacement"),
            Self::Converged => f.write_str("up to date"),
            Self::DeletionRequested => f.write_str("deletion was requested"),
            Self::Draining(progress) => f.write_str(progress.trim_end_matches('.')),
            Self::CordonNode => f.write_str("cordoning the Node before the drain"),
            Self::CordonFailed(why) => write!(f, "failed to cordon the Node: {why}"),
            Self::Drained => f.write_str("Node is drained"),
            Self::DrainFailed(why) => write!(f, "forced drain of the Node failed: {why}"),
            Self::Detaching { live } => write!(f, "waiting for {live} VolumeAttachments of the Node to be deleted"),
            Self::NodeUnknown => f.write_str("Node name is unknown; querying the driver before deletion"),
            Self::NodeNamed(name) => write!(f, "the driver reports node {name:?}"),
            Self::ReadyToDeleteVm => f.write_str("VM can be deleted"),
            Self::NodeNotCached(name) => write!(f, "node {name:?} is not in the cache; querying the API server"),
            Self::NodeLookupFailed { name, why } => write!(f, "failed to look up node {name:?}: {why}"),
            Self::NodeDeletionFailed { name, why } => write!(f, "deletion of node {name:?} failed: {why}"),
            Self::NodeUndecodable(name) => write!(f, "node {name:?} still exists but cannot be decoded"),
            Self::NodeRemaining(name) => write!(f, "VM is deleted; node {name:?} still exists"),
            Self::Deleted => f.write_str("VM and Node are deleted"),
            Self::OtherFinalizer => f.write_str("waiting for other finalizers of the Machine to be removed"),
        }
    }
}

/// Part of `status.lastOperation.description`: the only record that a VM may exist.
pub(crate) const MAY_HAVE_VM: &str = "an earlier process may have created a VM";

/// Returns the seconds between two times as Go prints a duration, for status texts.
pub(crate) fn elapsed(from: Timestamp, to: Timestamp) -> api::GoDuration {
    api::GoDuration::from_nanos(to.as_second().saturating_sub(from.as_second()).saturating_mul(1_000_000_000))
}
