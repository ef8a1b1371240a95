//! The machines a set has to do with, as its decision sees them.

use api::names::labels;
use api::view::NodeView;
use api::{Machine, MachineName, MachinePhase, Object, TextMap, Uid, UpdateResult};

use super::Observed;
use crate::Presence;

/// A machine and its node.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The node it is linked to. What is looked at is its word on preserving the machine, so it is looked up for a machine that has
    /// failed only: a set's reconcile is made again and again over all its machines.
    pub node: Presence<&'a NodeView>,
}

/// A machine of the set that cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// Its name.
    pub name: MachineName,
    /// Its uid.
    pub uid: Uid,
    /// The version of it that was seen.
    pub resource_version: String,
    /// Its labels, as far as they are text.
    pub labels: TextMap,
    /// Whether its deletion was asked for.
    pub leaving: bool,
}

impl Member<'_> {
    /// Being deleted, whether or not its phase says so yet: what counts is that nobody can keep it any more.
    pub(super) fn is_leaving(&self) -> bool {
        self.machine.is_deleting() || *self.machine.phase() == MachinePhase::Terminating
    }

    /// Marked Failed, and still there.
    pub(super) fn has_failed(&self) -> bool {
        !self.is_leaving() && *self.machine.phase() == MachinePhase::Failed
    }

    /// Came here by an in-place update, before the set's number of replicas has followed.
    pub(super) fn was_updated_in_place(&self) -> bool {
        self.machine
            .label(labels::UPDATE_RESULT)
            .is_some_and(|result| UpdateResult::from(result) == UpdateResult::Successful)
    }
}

/// The machines of the set that can be read: owned by it, and still selected by it.
pub(super) fn claimed<'a>(seen: &Observed<'a>) -> impl Iterator<Item = &'a Member<'a>> {
    let (machines, set) = (seen.machines, seen.set);
    machines.iter().filter(move |member| owns(set, member.machine) && selects(set, member.machine))
}

pub(super) fn owns(set: &api::MachineSet, machine: &Machine) -> bool {
    machine.controller_owner().is_some_and(|owner| owner.uid == set.metadata.uid)
}

/// Whether the set wants the machine by its labels. A selector that is missing or broken lets go of nobody.
pub(super) fn selects(set: &api::MachineSet, machine: &Machine) -> bool {
    let selector = set.spec.selector.as_ref();
    selector.is_none_or(|selector| selector.matches(&machine.metadata.labels).unwrap_or(true))
}
