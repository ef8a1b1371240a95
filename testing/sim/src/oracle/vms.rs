//! VMs and their Machines.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::machines::Machines;

/// A change of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmChange {
    /// It was created, or a create returned it.
    Present,
    /// The driver was called to delete it.
    Deleted,
    /// It was deleted externally.
    Vanished,
}

/// VMs whose deletion has not begun, with their Machines.
#[derive(Debug, Default)]
pub(super) struct Vms {
    owners: BTreeMap<String, String>,
    /// Machines with a second VM that the controllers did not request.
    doubled: BTreeSet<String>,
}

impl Vms {
    /// Records a change of a VM and checks that a Machine has one VM.
    pub(super) fn note(&mut self, change: VmChange, vm: &str, machine: Option<&str>) -> Option<String> {
        if change != VmChange::Present {
            self.owners.remove(vm);
            return None;
        }
        let machine = machine?;
        let before = self.of(machine).filter(|other| *other != vm).map(str::to_owned);
        self.owners.insert(vm.to_owned(), machine.to_owned());
        before
            .filter(|_| !self.doubled.contains(machine))
            .map(|other| format!("machine {machine} has {other} and gets {vm}"))
    }

    /// Records that the cloud creates a second VM for this Machine.
    pub(super) fn doubled(&mut self, machine: &str) {
        self.doubled.insert(machine.to_owned());
    }

    /// Whether a VM without a Machine exists.
    pub(super) fn has_orphan(&self, machines: &Machines) -> bool {
        self.owners.values().any(|machine| !machines.known.contains_key(machine))
    }

    /// Returns the VM of a Machine.
    pub(super) fn of(&self, machine: &str) -> Option<&str> {
        self.owners.iter().find(|(_, owner)| *owner == machine).map(|(vm, _)| vm.as_str())
    }

    /// Returns a description of a VM that has had no Machine for too long. Time with faults does not count. VMs whose
    /// Machines were lost in a restore are ignored.
    pub(super) fn orphan(
        &self,
        machines: &Machines,
        now: Timestamp,
        last_fault: Timestamp,
        limit: SignedDuration,
    ) -> Option<String> {
        self.owners.iter().find_map(|(vm, machine)| {
            if machines.known.contains_key(machine) || machines.forgotten.contains_key(machine) {
                return None;
            }
            let since = machines.gone.get(machine).copied().unwrap_or(last_fault).max(last_fault);
            let lasts = now.duration_since(since);
            (lasts > limit).then(|| format!("{vm} of machine {machine} has had no machine for {lasts:#}"))
        })
    }
}
