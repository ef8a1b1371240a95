//! Which VMs there are, and whose.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::machines::Machines;

/// What becomes of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmChange {
    /// It is there.
    Given,
    /// The driver was asked to delete it.
    Deleted,
    /// It was taken away, and not by us.
    TakenAway,
}

/// VMs that nobody has deleted, and their machines.
#[derive(Debug, Default)]
pub(super) struct Vms {
    owners: BTreeMap<String, String>,
    /// Machines for which the cloud has created a second VM by itself.
    doubled: BTreeSet<String>,
}

impl Vms {
    /// Something became of a VM; what is wrong with that.
    pub(super) fn note(&mut self, change: VmChange, vm: &str, machine: Option<&str>) -> Option<String> {
        if change != VmChange::Given {
            self.owners.remove(vm);
            return None;
        }
        let machine = machine?;
        let before = self.of(machine).filter(|other| *other != vm).map(str::to_owned);
        self.owners.insert(vm.to_owned(), machine.to_owned());
        before
            .filter(|_| !self.doubled.contains(machine))
            .map(|other| format!("machine {machine} has {other} and is given {vm}"))
    }

    /// The cloud creates a second VM for this machine by itself.
    pub(super) fn doubled(&mut self, machine: &str) {
        self.doubled.insert(machine.to_owned());
    }

    /// Whether there is a VM without a machine.
    pub(super) fn has_orphan(&self, machines: &Machines) -> bool {
        self.owners.values().any(|machine| !machines.known.contains_key(machine))
    }

    /// The VM of a machine.
    pub(super) fn of(&self, machine: &str) -> Option<&str> {
        self.owners.iter().find(|(_, owner)| *owner == machine).map(|(vm, _)| vm.as_str())
    }

    /// Tells of a VM that has been without a machine for too long. Nobody is expected to collect it while something goes wrong, or ever if
    /// its machine was forgotten by an API server that was put back.
    pub(super) fn unowned(
        &self,
        machines: &Machines,
        now: Timestamp,
        troubled: Timestamp,
        limit: SignedDuration,
    ) -> Option<String> {
        self.owners.iter().find_map(|(vm, machine)| {
            if machines.known.contains_key(machine) || machines.forgotten.contains_key(machine) {
                return None;
            }
            let since = machines.gone.get(machine).copied().unwrap_or(troubled).max(troubled);
            let lasts = now.duration_since(since);
            (lasts > limit).then(|| format!("{vm} of machine {machine} has had no machine for {lasts:#}"))
        })
    }
}
