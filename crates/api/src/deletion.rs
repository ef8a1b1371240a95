//! The steps of a machine's deletion, as they are written down.
//!
//! A deletion takes minutes and must survive a restart, of us or of the reference, which may take over in the middle. Its
//! progress is the text of `status.lastOperation.description`: the text ends with the marker of the *next* step. In code the
//! step is this enum; the text is made from it and read into it at the edge, and nowhere else.

use crate::names::steps;
use crate::{Machine, MachinePhase, OperationType};

/// What comes next in a deletion. In the order in which the steps follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Find out which node the machine became.
    GetVmStatus,
    /// Cordon and drain the node.
    Drain,
    /// Delete the node's VolumeAttachments; only after a forced drain.
    DeleteVolumeAttachments,
    /// Have the driver delete the VM.
    DeleteVm,
    /// Delete the Node object.
    DeleteNode,
    /// Let the Machine go.
    RemoveFinalizer,
}

impl Step {
    /// All steps, in the order in which their markers are looked for.
    pub const ALL: [Self; 6] = [
        Self::GetVmStatus,
        Self::Drain,
        Self::DeleteVolumeAttachments,
        Self::DeleteVm,
        Self::DeleteNode,
        Self::RemoveFinalizer,
    ];

    /// The text that stands for the step.
    pub const fn marker(self) -> &'static str {
        match self {
            Self::GetVmStatus => steps::GET_VM_STATUS,
            Self::Drain => steps::DRAIN,
            Self::DeleteVolumeAttachments => steps::DELETE_VOLUME_ATTACHMENTS,
            Self::DeleteVm => steps::DELETE_VM,
            Self::DeleteNode => steps::DELETE_NODE,
            Self::RemoveFinalizer => steps::REMOVE_FINALIZER,
        }
    }

    /// The step that a description leads to: the one whose marker stands at its end. All texts, ours and the reference's, end
    /// so, and what a cloud or a pod said before it must not lead anywhere else.
    pub fn from_description(description: &str) -> Option<Self> {
        let description = description.trim_end();
        Self::ALL.into_iter().find(|step| description.ends_with(step.marker()))
    }

    /// The step whose marker stands anywhere in a text that someone has edited; the first in order, should there be several:
    /// to repeat a step does less harm than to skip one.
    fn from_edited(description: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| description.contains(step.marker()))
    }

    /// The step at which a machine's deletion stands. `None` if it has not begun, or has to begin again: a marker counts only
    /// once the machine is Terminating, and within a text only if that text is about a deletion.
    pub fn of(machine: &Machine) -> Option<Self> {
        if *machine.phase() != MachinePhase::Terminating {
            return None;
        }
        let last = &machine.status.last_operation;
        let edited = || (last.kind == OperationType::Delete).then(|| Self::from_edited(&last.description)).flatten();
        Self::from_description(&last.description).or_else(edited)
    }

    /// A description that says what happened and ends with what comes next.
    pub fn describe(self, what_happened: &str) -> String {
        if what_happened.is_empty() { self.marker().to_owned() } else { format!("{what_happened} {}", self.marker()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("Set machine status to termination. Now, getting VM Status", Some(Step::GetVmStatus))]
    #[case("VM was not found at provider. Moving forward to node drain. Initiate node drain", Some(Step::Drain))]
    #[case("Force Drain successful. Delete Volume Attachments", Some(Step::DeleteVolumeAttachments))]
    #[case("Drain successful. Initiate VM deletion", Some(Step::DeleteVm))]
    #[case("VM deletion was successful. Initiate node object deletion", Some(Step::DeleteNode))]
    #[case(
        "No node object found for \"n\", continuing deletion flow. Initiate machine object finalizer removal",
        Some(Step::RemoveFinalizer)
    )]
    #[case("Deleting machine from cloud provider", None)]
    #[case("", None)]
    #[case("initiate node drain", None)]
    #[case("Initiate VM deletion Initiate node drain", Some(Step::Drain))]
    fn a_stored_text_leads_to_its_step(#[case] description: &str, #[case] step: Option<Step>) {
        assert_eq!(Step::from_description(description), step);
    }

    /// Shows MC-W1.
    #[test]
    fn every_step_is_found_in_its_own_description() {
        for step in Step::ALL {
            assert_eq!(Step::from_description(&step.describe("Something happened.")), Some(step));
            assert_eq!(step.describe(""), step.marker());
        }
    }

    /// Shows MC-W1.
    #[test]
    fn what_a_cloud_says_leads_nowhere() {
        let mut machine = Machine::default();
        machine.status.current_status.phase = MachinePhase::Terminating;
        for said in Step::ALL {
            for step in Step::ALL {
                let error = format!("{} and {}", said.marker(), said.marker());
                machine.status.last_operation.description = step.describe(&format!("Drain failed due to - {error}."));
                assert_eq!(Step::of(&machine), Some(step), "{said:?} in the text of {step:?}");
            }
            machine.status.last_operation.kind = OperationType::Create;
            machine.status.last_operation.description = format!("Cloud provider message - {}!", said.marker());
            assert_eq!(Step::of(&machine), None, "a manager marked it, and its last text is about its creation");
        }
    }

    /// Shows MC-W1.
    #[test]
    fn a_text_that_someone_edited_leads_to_the_earliest_step_it_names() {
        let mut machine = Machine::default();
        machine.status.current_status.phase = MachinePhase::Terminating;
        machine.status.last_operation.kind = OperationType::Delete;
        machine.status.last_operation.description = "Initiate VM deletion Initiate node drain (edited by hand)".into();
        assert_eq!(Step::of(&machine), Some(Step::Drain));
    }

    /// Shows MC-W1.
    #[test]
    fn a_marker_counts_only_once_the_machine_is_terminating() {
        let mut machine = Machine::default();
        machine.status.last_operation.description = Step::DeleteVm.describe("Drain successful.");
        assert_eq!(Step::of(&machine), None);
        machine.status.current_status.phase = MachinePhase::Terminating;
        assert_eq!(Step::of(&machine), Some(Step::DeleteVm));
    }
}
