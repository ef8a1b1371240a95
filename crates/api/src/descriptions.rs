//! Texts of `status.lastOperation.description`, whole.
//!
//! People read them, dashboards show them, some programs match them, and the reference, should it take over again, goes on from
//! them. So they are the reference's to the letter, and are put together here from the pieces in
//! [`names::descriptions`](crate::names::descriptions). Those of a deletion end with the marker of the step that comes next.

/// Maximum number of bytes of a text in a status or in a log line. Larger than the text of a driver (4 KiB) with what surrounds it.
pub const LONGEST_TEXT: usize = 8192;
/// Number of bytes that are kept of the end of a longer text. It holds the marker of a deletion's next step.
const KEPT_TAIL: usize = 1024;
/// Space for the remark between both ends.
const REMARK: usize = 64;

/// Returns the text, or its beginning and its end if it is longer than [`LONGEST_TEXT`].
///
/// Texts contain names of objects, and fields such as `spec.class.name` have no limit of their own. Both ends are kept: programs
/// match how a text begins, and the marker of a deletion's next step is at its end.
#[must_use]
pub fn bounded(text: String) -> String {
    if text.len() <= LONGEST_TEXT {
        return text;
    }
    let head = text.get(..text.floor_char_boundary(LONGEST_TEXT - KEPT_TAIL - REMARK)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len() - KEPT_TAIL)..).unwrap_or_default();
    format!("{head}… ({} bytes left out) …{tail}", text.len() - head.len() - tail.len())
}

/// While a machine is being made. The machine controller writes these.
pub mod creation {
    use crate::names::{descriptions as text, steps};

    /// The driver could not make the VM.
    pub fn failed(error: &str) -> String {
        format!("{}{error}", text::CREATE_FAILED)
    }

    /// The driver could not initialise the VM.
    pub fn initialize_failed(error: &str) -> String {
        format!("{}{error}. {}", text::INITIALIZE_FAILED, steps::INITIALIZE_VM)
    }
}

/// While a machine's node is watched. The machine controller writes these.
pub mod health {
    use crate::{GoDuration, NodeCondition};

    /// The node came up for the first time.
    pub fn joined(machine: &str, took: GoDuration) -> String {
        format!("Machine {machine} successfully joined the cluster in {took}")
    }

    /// The node is well again.
    pub fn rejoined(machine: &str) -> String {
        format!("Machine {machine} successfully re-joined the cluster")
    }

    /// The node is not well.
    pub fn unhealthy(machine: &str, conditions: &[NodeCondition]) -> String {
        let conditions = NodeCondition::list_to_go_string(conditions);
        format!("Machine {machine} is unhealthy - changing MachinePhase to Unknown. Node conditions: {conditions}")
    }

    /// The Node object is gone.
    pub fn node_missing(machine: &str) -> String {
        format!("Node object went missing. Machine {machine} is unhealthy - changing MachinePhase to Unknown")
    }

    /// The node never came up.
    pub fn never_joined(machine: &str, timeout: GoDuration) -> String {
        format!("Machine {machine} failed to join the cluster in {timeout} minutes.")
    }

    /// The node was not well for too long.
    pub fn given_up(machine: &str, timeout: GoDuration, conditions: &[NodeCondition]) -> String {
        let conditions = NodeCondition::list_to_go_string(conditions);
        format!(
            "Machine {machine} health checks failing since last {timeout} minutes. Updating machine phase to Failed. Node Conditions: {conditions}"
        )
    }
}

/// While a machine is updated in place. The machine controller writes these.
pub mod in_place {
    use crate::GoDuration;
    use crate::deletion::Step;
    use crate::names::descriptions as text;

    /// Drained; the node agent may begin.
    pub fn updating(machine: &str) -> String {
        format!("Machine {machine} is undergoing an in-place update")
    }

    /// The node agent succeeded.
    pub fn updated(machine: &str) -> String {
        format!("Machine {machine} successfully updated dependencies")
    }

    /// The node agent failed.
    pub fn failed(machine: &str, reason: &str) -> String {
        format!("Machine {machine} failed to update dependencies: {reason}")
    }

    /// The node agent took too long.
    pub fn timed_out(machine: &str, timeout: GoDuration) -> String {
        format!("Machine {machine} failed to in-place update in {timeout} minutes.")
    }

    /// The drain before the update failed and is repeated. Ends like a deletion's, without being one.
    pub fn drain_failed(error: &str) -> String {
        Step::Drain.describe(&format!("{}{error}{}", text::DRAIN_FAILED, text::DRAIN_RETRY))
    }
}

/// While a machine is being deleted. The machine controller writes these.
pub mod deletion {
    use crate::deletion::Step;
    use crate::names::descriptions as text;

    /// It begins, for this reason where one is known.
    pub fn started(why: &str) -> String {
        Step::GetVmStatus.describe(why)
    }

    /// The driver could not tell, for a reason that passes.
    pub fn vm_status_unavailable() -> String {
        Step::GetVmStatus.describe(text::VM_STATUS_RETRY)
    }

    /// The driver could not tell, for another reason.
    pub fn vm_status_failed(error: &str) -> String {
        Step::GetVmStatus.describe(&format!("{} machine code: {error}", text::VM_STATUS_ABORT))
    }

    /// The Terminating condition could not be written.
    pub fn node_condition_failed(error: &str) -> String {
        Step::Drain.describe(&format!("{}{error}{}", text::DRAIN_CONDITION_FAILED, text::DRAIN_RETRY))
    }

    /// Drained.
    pub fn drained() -> String {
        Step::DeleteVm.describe(text::DRAINED)
    }

    /// Drained by force.
    pub fn force_drained() -> String {
        Step::DeleteVolumeAttachments.describe(text::FORCE_DRAINED)
    }

    /// The drain failed and is repeated.
    pub fn drain_failed(error: &str) -> String {
        Step::Drain.describe(&format!("{}{error}{}", text::DRAIN_FAILED, text::DRAIN_RETRY))
    }

    /// The drain failed and the deletion goes on all the same.
    pub fn drain_failed_go_on(error: &str) -> String {
        Step::DeleteVolumeAttachments.describe(&format!("{}{error}{}", text::DRAIN_FAILED, text::DRAIN_FORCED_ON))
    }

    /// There is no Node whose volumes could be attached.
    pub fn no_attachments_without_node(node: &str) -> String {
        Step::DeleteVm.describe(&format!(
            "Skipping deleteNodeVolAttachments due to - node {node:?} not found. Moving to VM Deletion."
        ))
    }

    /// No volume is attached.
    pub fn volumes_detached(node: &str) -> String {
        Step::DeleteVm.describe(&format!("Node Volumes for node: {node} are already detached. Moving to VM Deletion."))
    }

    /// All VolumeAttachments are deleted, or about to be.
    pub fn no_live_attachments(node: &str) -> String {
        Step::DeleteVm.describe(&format!("No Live VolumeAttachments for node: {node}. Moving to VM Deletion."))
    }

    /// Some VolumeAttachments could not be deleted in all that time. Ours: the reference tries for ever.
    pub fn attachments_given_up(node: &str, left: usize) -> String {
        let text =
            format!("{left} VolumeAttachments of node: {node} could not be deleted in time. Moving to VM Deletion.");
        Step::DeleteVm.describe(&text)
    }

    /// The VM is deleted.
    pub fn vm_deleted() -> String {
        Step::DeleteNode.describe(text::VM_DELETED)
    }

    /// The VM was gone already.
    pub fn vm_gone() -> String {
        Step::DeleteNode.describe(text::VM_GONE)
    }

    /// The driver could not delete the VM, for a reason that passes.
    pub fn vm_deletion_unavailable(error: &str) -> String {
        Step::DeleteVm.describe(&format!("{}{error}{}", text::VM_DELETION_FAILED, text::VM_DELETION_RETRY))
    }

    /// The driver could not delete the VM, for another reason.
    pub fn vm_deletion_failed(error: &str) -> String {
        Step::DeleteVm.describe(&format!("{}{error}{}", text::VM_DELETION_FAILED, text::VM_DELETION_ABORT))
    }

    /// Its Node could not be looked up before this step; the reference looks only before its deletion.
    pub fn node_lookup_failed(before: Step, node: &str, error: &str) -> String {
        let text = format!("Retrieval of Node Object {node:?} failed due to error: {error}, Retrying.");
        before.describe(&text)
    }

    /// The Node could not be let go.
    pub fn node_finalizer_failed(node: &str, error: &str) -> String {
        let text = format!("Removal of finalizers from Node Object {node:?} failed due to error: {error}, Retrying.");
        Step::DeleteNode.describe(&text)
    }

    /// The Node could not be deleted.
    pub fn node_deletion_failed(node: &str, error: &str) -> String {
        Step::DeleteNode.describe(&format!("Deletion of Node Object {node:?} failed due to error: {error}."))
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
    #[case(health::never_joined("m", TWENTY), "Machine m failed to join the cluster in 20m0s minutes.")]
    #[case(health::given_up("m", TWENTY, &[]),
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
        deletion::drain_failed_go_on("E"),
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
        deletion::attachments_given_up("n", 2),
        "2 VolumeAttachments of node: n could not be deleted in time. Moving to VM Deletion. Initiate VM deletion"
    )]
    #[case(deletion::vm_deleted(), "VM deletion was successful. Initiate node object deletion")]
    #[case(deletion::vm_gone(), "VM not found. Continuing deletion flow. Initiate node object deletion")]
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
    fn the_text_is_the_reference_s_to_the_letter(#[case] ours: String, #[case] theirs: &str) {
        assert_eq!(ours, theirs);
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
