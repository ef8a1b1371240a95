//! Texts of `status.lastOperation.description` and parts of them. People read them, and some programs match them; those of a
//! deletion are followed by a marker of [`steps`](super::steps). Whole texts are made by [`descriptions`](crate::descriptions).

/// Creation: the VM exists, its Node is awaited.
pub const CREATING: &str = "Creating machine on cloud provider";
/// Creation without a target cluster: done.
pub const CREATED: &str = "Created machine on cloud provider";
/// Creation failed; the error follows.
pub const CREATE_FAILED: &str = "Cloud provider message - ";
/// Initialisation failed; the error, `. ` and [`steps::INITIALIZE_VM`](super::steps::INITIALIZE_VM) follow.
pub const INITIALIZE_FAILED: &str = "Provider error: ";
/// Creation: the VM took the name of a Node that is still there.
pub const STALE_NODE: &str = "VM using old node obj";
/// The manager has just deleted the Machine; no marker, so the deletion starts at its beginning.
pub const DELETING: &str = "Deleting machine from cloud provider";
/// The API server was away; machines that seemed unhealthy get a fresh start.
pub const HEALTH_TIMEOUT_RESET: &str = "Machine Health Timeout was reset due to APIServer being unreachable";
/// Newly appearing in a description it starts a scan for orphaned VMs: several VMs belong to one machine.
pub const OUT_OF_RANGE: &str = "OutOfRange";

/// Deletion without a target cluster.
pub const NO_TARGET_CLUSTER: &str =
    "Running without target cluster, skipping node drain and volume attachment deletion.";
/// Deletion: the status call failed and is repeated.
pub const VM_STATUS_RETRY: &str =
    "Error occurred with decoding machine error status while getting VM status, aborting with retry.";
/// Deletion: the status call failed for longer; the error follows.
pub const VM_STATUS_ABORT: &str =
    "Error occurred with decoding machine error status while getting VM status, aborting without retry.";
/// Deletion: it never had a node.
pub const NO_NODE_NAME: &str = "Skipping drain as nodeName is not a valid one for machine.";
/// Deletion: drained.
pub const DRAINED: &str = "Drain successful.";
/// Deletion: drained by force.
pub const FORCE_DRAINED: &str = "Force Drain successful.";
/// Deletion: how a failed drain's text begins; the error follows.
pub const DRAIN_FAILED: &str = "Drain failed due to - ";
/// Deletion: how the text begins when the Terminating condition could not be written; the error follows.
pub const DRAIN_CONDITION_FAILED: &str = "Drain failed due to failure in update of node conditions - ";
/// Deletion: how a failed drain's text ends if it is repeated, before the marker.
pub const DRAIN_RETRY: &str = ". Will retry in next sync.";
/// Deletion: how a failed drain's text ends if the deletion goes on all the same, before the marker.
pub const DRAIN_FORCED_ON: &str = ". However, since it's a force deletion shall continue deletion of VM.";
/// In a drain's error: the budget can never allow an eviction. Gardener's extensions match it, whatever its case.
pub const MISCONFIGURED_BUDGET: &str = "is misconfigured and requires zero voluntary evictions";
/// Deletion: the VM is deleted.
pub const VM_DELETED: &str = "VM deletion was successful.";
/// Deletion: the VM was gone already.
pub const VM_GONE: &str = "VM not found. Continuing deletion flow.";
/// Deletion: how a failed VM deletion's text begins; the error follows.
pub const VM_DELETION_FAILED: &str = "VM deletion failed due to - ";
/// Deletion: how it ends if it is repeated soon.
pub const VM_DELETION_RETRY: &str = ". However, will re-try in the next resync.";
/// Deletion: how it ends if it is repeated later.
pub const VM_DELETION_ABORT: &str = ". Aborting operation.";
