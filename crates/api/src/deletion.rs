//! The steps of the deletion of a Machine, as they are recorded in its status.
//!
//! A deletion takes minutes and must resume after a restart, also if MCM takes over. Its progress is recorded in
//! `status.lastOperation.description`: the text ends with the marker of the *next* step. In code the step is this enum.

use crate::names::steps;
use crate::{Machine, MachinePhase, OperationType};

/// The next step of a deletion, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Get the node name from the driver.
    GetVmStatus,
    /// Cordon and drain the node.
    Drain,
    /// Delete the VolumeAttachments of the node; only after a forced drain.
    DeleteVolumeAttachments,
    /// Delete the VM.
    DeleteVm,
    /// Delete the Node object.
    DeleteNode,
    /// Remove the finalizer of the Machine.
    RemoveFinalizer,
}

impl Step {
    /// All steps, in the order in which their markers are searched.
    pub const ALL: [Self; 6] = [
        Self::GetVmStatus,
        Self::Drain,
        Self::DeleteVolumeAttachments,
        Self::DeleteVm,
        Self::DeleteNode,
        Self::RemoveFinalizer,
    ];

    /// Returns the marker of the step.
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

    /// Returns the step whose marker is at the end of a description. Markers elsewhere are ignored, because texts of clouds and pods
    /// may contain them.
    pub fn from_description(description: &str) -> Option<Self> {
        let description = description.trim_end();
        Self::ALL.into_iter().find(|step| description.ends_with(step.marker()))
    }

    /// Returns the first step whose marker is anywhere in a description that a user has edited. Repeating a step is safer than skipping
    /// one.
    fn from_edited(description: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| description.contains(step.marker()))
    }

    /// Returns the next step of the deletion of a Machine. `None` if it must begin with the first step: markers count only if the Machine
    /// is Terminating, and inside a text only if the operation is a deletion.
    pub fn of(machine: &Machine) -> Option<Self> {
        if *machine.phase() != MachinePhase::Terminating {
            return None;
        }
        let last = &machine.status.last_operation;
        let edited = || (last.kind == OperationType::Delete).then(|| Self::from_edited(&last.description)).flatten();
        Self::from_description(&last.description).or_else(edited)
    }

    /// Returns a description that ends with the marker of the step.
    pub fn describe(self, text: &str) -> String {
        if text.is_empty() { self.marker().to_owned() } else { format!("{text} {}", self.marker()) }
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
    fn step_is_parsed_from_stored_text(#[case] description: &str, #[case] step: Option<Step>) {
        assert_eq!(Step::from_description(description), step);
    }

    /// Shows MC-W1.
    #[test]
    fn every_step_is_parsed_from_its_description() {
        for step in Step::ALL {
            assert_eq!(Step::from_description(&step.describe("Something happened.")), Some(step));
            assert_eq!(step.describe(""), step.marker());
        }
    }

    /// Shows MC-W1.
    #[test]
    fn markers_in_texts_of_clouds_are_ignored() {
        let mut machine = Machine::default();
        machine.status.current_status.phase = MachinePhase::Terminating;
        for quoted in Step::ALL {
            for step in Step::ALL {
                let error = format!("{} and {}", quoted.marker(), quoted.marker());
                machine.status.last_operation.description = step.describe(&format!("Drain failed due to - {error}."));
                assert_eq!(Step::of(&machine), Some(step), "{quoted:?} in the text of {step:?}");
            }
            machine.status.last_operation.kind = OperationType::Create;
            machine.status.last_operation.description = format!("Cloud provider message - {}!", quoted.marker());
            assert_eq!(Step::of(&machine), None, "the manager marked it, and its last operation is its creation");
        }
    }

    /// Shows MC-W1.
    #[test]
    fn edited_text_gives_the_earliest_step() {
        let mut machine = Machine::default();
        machine.status.current_status.phase = MachinePhase::Terminating;
        machine.status.last_operation.kind = OperationType::Delete;
        machine.status.last_operation.description = "Initiate VM deletion Initiate node drain (edited by hand)".into();
        assert_eq!(Step::of(&machine), Some(Step::Drain));
    }

    /// Shows MC-W1.
    #[test]
    fn marker_counts_only_if_the_machine_is_terminating() {
        let mut machine = Machine::default();
        machine.status.last_operation.description = Step::DeleteVm.describe("Drain successful.");
        assert_eq!(Step::of(&machine), None);
        machine.status.current_status.phase = MachinePhase::Terminating;
        assert_eq!(Step::of(&machine), Some(Step::DeleteVm));
    }
}
