//! The Machines of a MachineSet as planner input.

use api::names::labels;
use api::view::NodeView;
use api::{Machine, MachineName, MachinePhase, Object, TextMap, Uid, UpdateResult};

use super::Observed;
use crate::Presence;

/// A Machine and its Node.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The Machine.
    pub machine: &'a Machine,
    /// Its Node. Only the preserve annotation of the Node is read, so the Node is looked up for Failed Machines only.
    pub node: Presence<&'a NodeView>,
}

/// A Machine of the MachineSet that cannot be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndecodableMachine {
    /// Name of the Machine.
    pub name: MachineName,
    /// UID of the Machine.
    pub uid: Uid,
    /// Observed version of the Machine.
    pub resource_version: String,
    /// Labels of the Machine, as far as they are strings.
    pub labels: TextMap,
    /// Whether the Machine is being deleted.
    pub is_deleting: bool,
}

impl Member<'_> {
    /// Returns whether the Machine is being deleted, whether or not its phase shows it: the deletion cannot be
    /// reverted.
    pub(super) fn is_terminating(&self) -> bool {
        self.machine.is_deleting() || *self.machine.phase() == MachinePhase::Terminating
    }

    /// Returns whether the Machine is Failed and not being deleted.
    pub(super) fn has_failed(&self) -> bool {
        !self.is_terminating() && *self.machine.phase() == MachinePhase::Failed
    }

    /// Returns whether an in-place update moved the Machine here and the replicas of the MachineSet do not include it
    /// yet.
    pub(super) fn was_updated_in_place(&self) -> bool {
        self.machine
            .label(labels::UPDATE_RESULT)
            .is_some_and(|result| UpdateResult::from(result) == UpdateResult::Successful)
    }
}

/// Returns the decodable Machines of the MachineSet: owned and selected.
pub(super) fn claimed<'a>(seen: &Observed<'a>) -> impl Iterator<Item = &'a Member<'a>> {
    let (machines, set) = (seen.machines, seen.set);
    machines.iter().filter(move |member| owns(set, member.machine) && selects(set, member.machine))
}

pub(super) fn owns(set: &api::MachineSet, machine: &Machine) -> bool {
    machine.controller_owner().is_some_and(|owner| owner.uid == set.metadata.uid)
}

/// Returns whether the MachineSet selects the Machine by its labels. A missing or invalid selector releases no Machine.
pub(super) fn selects(set: &api::MachineSet, machine: &Machine) -> bool {
    let selector = set.spec.selector.as_ref();
    selector.is_none_or(|selector| selector.matches(&machine.metadata.labels).unwrap_or(true))
}
