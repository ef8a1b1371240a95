//! Texts that Machine Controller Manager (MCM) writes into statuses and Events.
//!
//! Users, dashboards and programs read these texts. If MCM takes over from Millwright, it resumes a deletion from the text of
//! `status.lastOperation.description`. Therefore the texts are identical to those of MCM, byte for byte. Texts of a deletion
//! end with the marker of the next [`Step`](crate::deletion::Step).

/// Description during creation: the VM exists, and its Node has not joined.
pub const CREATING: &str = "Creating machine on cloud provider";
/// Description after creation without a target cluster.
pub const CREATED: &str = "Created machine on cloud provider";
/// Description during creation: the name of the VM is that of an existing Node.
pub const STALE_NODE: &str = "VM using old node obj";
/// Description that the manager writes when it deletes the Machine. It has no marker, so the deletion begins with the first
/// step.
pub const DELETING: &str = "Deleting machine from cloud provider";
/// Description after the API server was unreachable: the health timeouts of unhealthy Machines restart.
pub const HEALTH_TIMEOUT_RESET: &str = "Machine Health Timeout was reset due to APIServer being unreachable";
/// Part of a description: a Machine has several VMs. If it appears in a description, an orphan VM scan is started.
pub const OUT_OF_RANGE: &str = "OutOfRange";
/// Deletion without a target cluster.
pub const NO_TARGET_CLUSTER: &str =
    "Running without target cluster, skipping node drain and volume attachment deletion.";
/// Deletion: the status call failed and is retried.
pub const VM_STATUS_RETRY: &str =
    "Error occurred with decoding machine error status while getting VM status, aborting with retry.";
/// Deletion of a Machine without a node name.
pub const NO_NODE_NAME: &str = "Skipping drain as nodeName is not a valid one for machine.";
/// Part of the error of a drain: the PodDisruptionBudget never allows an eviction. Extensions of Gardener match it
/// case-insensitively.
pub const MISCONFIGURED_BUDGET: &str = "is misconfigured and requires zero voluntary evictions";

/// Maximum number of bytes of a text in a status or in a log line. Larger than the text of a driver (4 KiB) with its context.
pub const LONGEST_TEXT: usize = 8192;
/// Number of bytes that are kept at the end of a longer text. It holds the marker of the next step of a deletion.
const KEPT_TAIL: usize = 1024;
/// Space for the remark between both ends.
const REMARK: usize = 64;

/// Returns the text, or its beginning and its end if it is longer than [`LONGEST_TEXT`].
///
/// Texts contain names of objects, and fields such as `spec.class.name` have no limit of their own. Both ends are kept: programs
/// match how a text begins, and the marker of the next step of a deletion is at its end.
#[must_use]
pub fn bounded(text: String) -> String {
    if text.len() <= LONGEST_TEXT {
        return text;
    }
    let head = text.get(..text.floor_char_boundary(LONGEST_TEXT - KEPT_TAIL - REMARK)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len() - KEPT_TAIL)..).unwrap_or_default();
    format!("{head}… ({} bytes left out) …{tail}", text.len() - head.len() - tail.len())
}

/// Descriptions during the creation of a Machine. The machine controller writes them.
pub mod creation {
    use crate::names::steps;

    /// The driver failed to create the VM.
    pub fn failed(error: &str) -> String {
        format!("Cloud provider message - {error}")
    }

    /// The driver failed to initialize the VM.
    pub fn initialize_failed(error: &str) -> String {
        format!("Provider error: {error}. {}", steps::INITIALIZE_VM)
    }
}

/// Descriptions while the node of a Machine is monitored. The machine controller writes them.
pub mod health {
    use crate::{GoDuration, NodeCondition};

    /// The node is healthy for the first time.
    pub fn joined(machine: &str, took: GoDuration) -> String {
        format!("Machine {machine} successfully joined the cluster in {took}")
    }

    /// The node is healthy again.
    pub fn rejoined(machine: &str) -> String {
        format!("Machine {machine} successfully re-joined the cluster")
    }

    /// The node is unhealthy.
    pub fn unhealthy(machine: &str, conditions: &[NodeCondition]) -> String {
        let conditions = NodeCondition::list_to_go_string(conditions);
        format!("Machine {machine} is unhealthy - changing MachinePhase to Unknown. Node conditions: {conditions}")
    }

    /// The Node object does not exist.
    pub fn node_missing(machine: &str) -> String {
        format!("Node object went missing. Machine {machine} is unhealthy - changing MachinePhase to Unknown")
    }

    /// The creation timeout has expired.
    pub fn creation_timed_out(machine: &str, timeout: GoDuration) -> String {
        format!("Machine {machine} failed to join the cluster in {timeout} minutes.")
    }

    /// The health timeout has expired.
    pub fn health_timed_out(machine: &str, timeout: GoDuration, conditions: &[NodeCondition]) -> String {
        let conditions = NodeCondition::list_to_go_string(conditions);
        format!(
            "Machine {machine} health checks failing since last {timeout} minutes. Updating machine phase to Failed. Node Conditions: {conditions}"
        )
    }
}

/// Descriptions during an in-place update. The machine controller writes them.
pub mod in_place {
    use crate::GoDuration;
    use crate::deletion::Step;

    /// The node is drained; the node agent may update it.
    pub fn updating(machine: &str) -> String {
        format!("Machine {machine} is undergoing an in-place update")
    }

    /// The node agent reported success.
    pub fn updated(machine: &str) -> String {
        format!("Machine {machine} successfully updated dependencies")
    }

    /// The node agent reported a failure.
    pub fn failed(machine: &str, reason: &str) -> String {
        format!("Machine {machine} failed to update dependencies: {reason}")
    }

    /// The update timeout has expired.
    pub fn timed_out(machine: &str, timeout: GoDuration) -> String {
        format!("Machine {machine} failed to in-place update in {timeout} minutes.")
    }

    /// The drain before the update failed and is retried. The text is that of a deletion, although there is none.
    pub fn drain_failed(error: &str) -> String {
        Step::Drain.describe(&format!("Drain failed due to - {error}. Will retry in next sync."))
    }
}

/// Descriptions during the deletion of a Machine. The machine controller writes them.
pub mod deletion {
    use super::VM_STATUS_RETRY;
    use crate::deletion::Step;

    /// The deletion began, for this reason if one is known.
    pub fn started(why: &str) -> String {
        Step::GetVmStatus.describe(why)
    }

    /// The status call of the driver failed with a transient error.
    pub fn vm_status_unavailable() -> String {
        Step::GetVmStatus.describe(VM_STATUS_RETRY)
    }

    /// The status call of the driver failed with another error.
    pub fn vm_status_failed(error: &str) -> String {
        Step::GetVmStatus.describe(&format!(
            "Error occurred with decoding machine error status while getting VM status, aborting without retry. machine code: {error}"
        ))
    }

    /// The condition Terminating of the Node could not be updated.
    pub fn node_condition_failed(error: &str) -> String {
        Step::Drain.describe(&format!(
            "Drain failed due to failure in update of node conditions - {error}. Will retry in next sync."
        ))
    }

    /// The node is drained.
    pub fn drained() -> String {
        Step::DeleteVm.describe("Drain successful.")
    }

    /// The forced drain is completed.
    pub fn force_drained() -> String {
        Step::DeleteVolumeAttachments.describe("Force Drain successful.")
    }

    /// The drain failed and is retried.
    pub fn drain_failed(error: &str) -> String {
        Step::Drain.describe(&format!("Drain failed due to - {error}. Will retry in next sync."))
    }

    /// The forced drain failed; the deletion continues.
    pub fn force_drain_failed(error: &str) -> String {
        Step::DeleteVolumeAttachments.describe(&format!(
            "Drain failed due to - {error}. However, since it's a force deletion shall continue deletion of VM."
        ))
    }

    /// There is no Node that could have VolumeAttachments.
    pub fn no_attachments_without_node(node: &str) -> String {
        Step::DeleteVm.describe(&format!(
            "Skipping deleteNodeVolAttachments due to - node {node:?} not found. Moving to VM Deletion."
        ))
    }

    /// No volume is attached.
    pub fn volumes_detached(node: &str) -> String {
        Step::DeleteVm.describe(&format!("Node Volumes for node: {node} are already detached. Moving to VM Deletion."))
    }

    /// All VolumeAttachments are deleted or have a deletionTimestamp.
    pub fn no_live_attachments(node: &str) -> String {
        Step::DeleteVm.describe(&format!("No Live VolumeAttachments for node: {node}. Moving to VM Deletion."))
    }

    /// Some VolumeAttachments were not deleted before the timeout. Not a text of MCM, which retries forever.
    pub fn attachments_timed_out(node: &str, left: usize) -> String {
        let text =
            format!("{left} VolumeAttachments of node: {node} could not be deleted in time. Moving to VM Deletion.");
        Step::DeleteVm.describe(&text)
    }

    /// The VM is deleted.
    pub fn vm_deleted() -> String {
        Step::DeleteNode.describe("VM deletion was successful.")
    }

    /// The VM did not exist.
    pub fn vm_not_found() -> String {
        Step::DeleteNode.describe("VM not found. Continuing deletion flow.")
    }

    /// The driver failed to delete the VM with a transient error.
    pub fn vm_deletion_unavailable(error: &str) -> String {
        Step::DeleteVm
            .describe(&format!("VM deletion failed due to - {error}. However, will re-try in the next resync."))
    }

    /// The driver failed to delete the VM with another error.
    pub fn vm_deletion_failed(error: &str) -> String {
        Step::DeleteVm.describe(&format!("VM deletion failed due to - {error}. Aborting operation."))
    }

    /// The Node could not be read before this step. MCM reads it only before it deletes it.
    pub fn node_lookup_failed(before: Step, node: &str, error: &str) -> String {
        let text = format!("Retrieval of Node Object {node:?} failed due to error: {error}, Retrying.");
        before.describe(&text)
    }

    /// The finalizer of the Node could not be removed.
    pub fn node_finalizer_failed(node: &str, error: &str) -> String {
        let text = format!("Removal of finalizers from Node Object {node:?} failed due to error: {error}, Retrying.");
        Step::DeleteNode.describe(&text)
    }

    /// The Node could not be deleted.
    pub fn node_deletion_failed(node: &str, error: &str) -> String {
        Step::DeleteNode.describe(&format!("Deletion of Node Object {node:?} failed due to error: {error}."))
    }
}

/// Messages of Events with a reason of [`mcm`](mod@crate::names::events::mcm).
pub mod events {
    /// Message of [`SUCCESSFUL_CREATE`](crate::names::events::mcm::SUCCESSFUL_CREATE).
    pub fn created(machine: &str) -> String {
        format!("Created Machine: {machine}")
    }

    /// Message of [`FAILED_CREATE`](crate::names::events::mcm::FAILED_CREATE).
    pub fn create_failed(error: &str) -> String {
        format!("Error creating: {error}")
    }

    /// Message of [`SUCCESSFUL_DELETE`](crate::names::events::mcm::SUCCESSFUL_DELETE).
    pub fn deleted(machine: &str) -> String {
        format!("Deleted machine: {machine}")
    }

    /// Message of [`FAILED_DELETE`](crate::names::events::mcm::FAILED_DELETE).
    pub fn delete_failed(error: &str) -> String {
        format!("Error deleting: {error}")
    }

    /// Message of [`FROZE_MACHINE_SET`](crate::names::events::mcm::FROZE_MACHINE_SET).
    pub fn froze(set: &str) -> String {
        format!("SafetyController: Froze MachineSet {set} due to replica overshooting")
    }

    /// Message of [`UNFROZE_MACHINE_SET`](crate::names::events::mcm::UNFROZE_MACHINE_SET).
    pub fn unfroze(set: &str) -> String {
        format!("SafetyController: Unfroze MachineSet {set}")
    }

    /// Message of [`SELECTING_ALL`](crate::names::events::mcm::SELECTING_ALL).
    pub const SELECTING_ALL: &str = "This deployment is selecting all machines. A non-empty selector is required.";

    /// Message of [`SCALING_MACHINE_SET`](crate::names::events::mcm::SCALING_MACHINE_SET).
    pub fn scaled_up(set: &str, replicas: i32) -> String {
        format!("Scaled up machine set {set} to {replicas}")
    }

    /// Message of [`SCALING_MACHINE_SET`](crate::names::events::mcm::SCALING_MACHINE_SET).
    pub fn scaled_down(set: &str, replicas: i32) -> String {
        format!("Scaled down machine set {set} to {replicas}")
    }

    /// Message of [`MACHINE_SET_CREATE_ERROR`](crate::names::events::mcm::MACHINE_SET_CREATE_ERROR).
    pub fn set_create_failed(set: &str, error: &str) -> String {
        format!("Failed to create new machine set {set:?}: {error}")
    }

    /// Message of [`ROLLBACK`](crate::names::events::mcm::ROLLBACK).
    pub fn rolled_back(deployment: &str, revision: i64) -> String {
        format!("Rolled back deployment {deployment:?} to revision {revision}")
    }

    /// Message of [`ROLLBACK_REVISION_NOT_FOUND`](crate::names::events::mcm::ROLLBACK_REVISION_NOT_FOUND) if the previous
    /// revision was requested.
    pub const NO_LAST_REVISION: &str = "Unable to find last revision.";
    /// Message of [`ROLLBACK_REVISION_NOT_FOUND`](crate::names::events::mcm::ROLLBACK_REVISION_NOT_FOUND) if a certain
    /// revision was requested.
    pub const NO_SUCH_REVISION: &str = "Unable to find the revision to rollback to.";

    /// Message of [`ROLLBACK_TEMPLATE_UNCHANGED`](crate::names::events::mcm::ROLLBACK_TEMPLATE_UNCHANGED).
    pub fn rollback_unchanged(deployment: &str) -> String {
        format!("The rollback revision contains the same template as current deployment {deployment:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GoDuration;
    use rstest::rstest;

    const TWENTY: GoDuration = GoDuration::from_secs(1200);

    /// Shows API-7.
    #[rstest]
    #[case(creation::failed("E"), "Cloud provider message - E")]
    #[case(creation::initialize_failed("E"), "Provider error: E. Initialize VM Instance")]
    #[case(
        health::joined("m", GoDuration::from_nanos(2_703_725_715)),
        "Machine m successfully joined the cluster in 2.703725715s"
    )]
    #[case(health::rejoined("m"), "Machine m successfully re-joined the cluster")]
    #[case(health::unhealthy("m", &[]), "Machine m is unhealthy - changing MachinePhase to Unknown. Node conditions: []")]
    #[case(
        health::node_missing("m"),
        "Node object went missing. Machine m is unhealthy - changing MachinePhase to Unknown"
    )]
    #[case(health::creation_timed_out("m", TWENTY), "Machine m failed to join the cluster in 20m0s minutes.")]
    #[case(health::health_timed_out("m", TWENTY, &[]),
        "Machine m health checks failing since last 20m0s minutes. Updating machine phase to Failed. Node Conditions: []")]
    #[case(in_place::updating("m"), "Machine m is undergoing an in-place update")]
    #[case(in_place::updated("m"), "Machine m successfully updated dependencies")]
    #[case(in_place::failed("m", "R"), "Machine m failed to update dependencies: R")]
    #[case(in_place::timed_out("m", TWENTY), "Machine m failed to in-place update in 20m0s minutes.")]
    #[case(in_place::drain_failed("E"), "Drain failed due to - E. Will retry in next sync. Initiate node drain")]
    #[case(deletion::started(""), "Set machine status to termination. Now, getting VM Status")]
    #[case(
        deletion::vm_status_unavailable(),
        "Error occurred with decoding machine error status while getting VM status, aborting with retry. Set machine status to termination. Now, getting VM Status"
    )]
    #[case(
        deletion::vm_status_failed("E"),
        "Error occurred with decoding machine error status while getting VM status, aborting without retry. machine code: E Set machine status to termination. Now, getting VM Status"
    )]
    #[case(
        deletion::node_condition_failed("E"),
        "Drain failed due to failure in update of node conditions - E. Will retry in next sync. Initiate node drain"
    )]
    #[case(deletion::drained(), "Drain successful. Initiate VM deletion")]
    #[case(deletion::force_drained(), "Force Drain successful. Delete Volume Attachments")]
    #[case(deletion::drain_failed("E"), "Drain failed due to - E. Will retry in next sync. Initiate node drain")]
    #[case(
        deletion::force_drain_failed("E"),
        "Drain failed due to - E. However, since it's a force deletion shall continue deletion of VM. Delete Volume Attachments"
    )]
    #[case(
        deletion::no_attachments_without_node("n"),
        "Skipping deleteNodeVolAttachments due to - node \"n\" not found. Moving to VM Deletion. Initiate VM deletion"
    )]
    #[case(
        deletion::volumes_detached("n"),
        "Node Volumes for node: n are already detached. Moving to VM Deletion. Initiate VM deletion"
    )]
    #[case(
        deletion::no_live_attachments("n"),
        "No Live VolumeAttachments for node: n. Moving to VM Deletion. Initiate VM deletion"
    )]
    #[case(
        deletion::attachments_timed_out("n", 2),
        "2 VolumeAttachments of node: n could not be deleted in time. Moving to VM Deletion. Initiate VM deletion"
    )]
    #[case(deletion::vm_deleted(), "VM deletion was successful. Initiate node object deletion")]
    #[case(deletion::vm_not_found(), "VM not found. Continuing deletion flow. Initiate node object deletion")]
    #[case(
        deletion::vm_deletion_unavailable("E"),
        "VM deletion failed due to - E. However, will re-try in the next resync. Initiate VM deletion"
    )]
    #[case(
        deletion::vm_deletion_failed("E"),
        "VM deletion failed due to - E. Aborting operation. Initiate VM deletion"
    )]
    #[case(
        deletion::node_lookup_failed(crate::deletion::Step::DeleteNode, "n", "E"),
        "Retrieval of Node Object \"n\" failed due to error: E, Retrying. Initiate node object deletion"
    )]
    #[case(
        deletion::node_finalizer_failed("n", "E"),
        "Removal of finalizers from Node Object \"n\" failed due to error: E, Retrying. Initiate node object deletion"
    )]
    #[case(
        deletion::node_deletion_failed("n", "E"),
        "Deletion of Node Object \"n\" failed due to error: E. Initiate node object deletion"
    )]
    fn description_equals_that_of_mcm(#[case] text: String, #[case] mcm: &str) {
        assert_eq!(text, mcm);
    }

    /// Shows API-7.
    #[test]
    fn event_message_equals_that_of_mcm() {
        assert_eq!(events::created("m"), "Created Machine: m");
        assert_eq!(events::deleted("m"), "Deleted machine: m");
        assert_eq!(events::create_failed("E"), "Error creating: E");
        assert_eq!(events::delete_failed("E"), "Error deleting: E");
        assert_eq!(events::froze("s"), "SafetyController: Froze MachineSet s due to replica overshooting");
        assert_eq!(events::unfroze("s"), "SafetyController: Unfroze MachineSet s");
        assert_eq!(events::scaled_up("s", 3), "Scaled up machine set s to 3");
        assert_eq!(events::scaled_down("s", 0), "Scaled down machine set s to 0");
        assert_eq!(events::set_create_failed("s", "E"), "Failed to create new machine set \"s\": E");
        assert_eq!(events::rolled_back("d", 2), "Rolled back deployment \"d\" to revision 2");
        assert_eq!(
            events::rollback_unchanged("d"),
            "The rollback revision contains the same template as current deployment \"d\""
        );
    }

    /// Shows EVT-11.
    #[test]
    fn text_is_kept_when_it_fits() {
        let whole = "x".repeat(LONGEST_TEXT);
        assert_eq!(bounded(whole.clone()), whole);
    }

    /// Shows EVT-11.
    #[test]
    fn long_text_keeps_its_beginning_and_its_marker() {
        for unit in ["x", "é", "€", "𝄞"] {
            let class = unit.repeat(900_000 / unit.len());
            for step in crate::deletion::Step::ALL {
                let text = bounded(step.describe(&format!("MachineClass \"{class}\" does not exist.")));
                assert!(text.len() <= LONGEST_TEXT, "{}", text.len());
                assert!(text.starts_with("MachineClass \"") && text.contains("bytes left out"), "{text}");
                assert_eq!(crate::deletion::Step::from_description(&text), Some(step));
                assert_eq!(bounded(text.clone()), text, "a bounded text is not changed again");
            }
        }
    }
}
