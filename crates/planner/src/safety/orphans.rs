//! Finds orphan VMs.
//!
//! A VM without a Machine is never deleted by the machine controller and costs money. This happens if a finalizer is
//! removed manually, or if the response of a create call is lost. An orphan VM must be deleted, but deleting a VM that
//! only looks like an orphan kills pods without a drain. Therefore:
//!
//! - A VM is *suspected* if its Machine does not exist, or exists and has another VM that is listed too. VMs of
//!   Machines that are being created or deleted, cannot be decoded or have a driver call in progress are skipped: the
//!   plan of the Machine handles them.
//! - A VM whose ID is the `spec.providerID` of any Machine is never suspected, whatever its name is. Users of the
//!   provider can change names. A name that differs from the name of the Machine is reported.
//! - While a Machine cannot be decoded and no listed VM has its name, no VM is deleted: its VM may be any of them.
//! - A suspected VM is *confirmed* if it was suspected without interruption for a creation timeout, outages excluded.
//! - A VM whose Machine was *lost* by the API server (etcd was restored from an older backup) is never deleted: its
//!   Machine was not deleted. It is reported.
//! - If too many VMs are suspected, the observed state is probably wrong: none is deleted, and they are reported.
//!
//! The caller evaluates twice: with the cache, and, if VMs are about to be deleted, again with a list from the API
//! server.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use api::{Machine, MachineName, MachinePhase, Object, ProviderId};
use jiff::Timestamp;

use super::{Outages, SafetyPolicy};
use crate::Policy;
use crate::node::vm_name;

/// A VM as the driver lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The Machine for which it was created.
    pub machine: MachineName,
    /// A MachineClass that lists it. Drivers list by cluster, so a VM is often listed for several.
    pub class: Arc<str>,
}

/// The VMs that the drivers list, bounded over all MachineClasses. A larger list is not evaluated: a driver that lists
/// other clusters, or is broken, must not exhaust the memory of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmList {
    vms: BTreeMap<ProviderId, Listed>,
    bytes: usize,
}

/// The drivers list more VMs than one scan evaluates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The number of VMs listed until then.
    pub entries: usize,
    bytes: usize,
    class: Arc<str>,
    at_most: (usize, usize),
}

impl VmList {
    /// Adds the list of one MachineClass. A VM that another MachineClass listed before is kept as it is.
    pub fn add(
        &mut self,
        class: &str,
        owners: BTreeMap<ProviderId, MachineName>,
        policy: &SafetyPolicy,
    ) -> Result<(), TooLarge> {
        let class: Arc<str> = class.into();
        let at_most = (policy.orphan_list_entries, policy.orphan_list_bytes);
        if owners.len() > at_most.0 {
            return Err(TooLarge { entries: owners.len(), bytes: 0, class, at_most });
        }
        for (id, machine) in owners {
            let size = id.as_str().len() + machine.as_str().len();
            if let Entry::Vacant(place) = self.vms.entry(id) {
                place.insert(Listed { machine, class: class.clone() });
                self.bytes += size;
            }
            if self.vms.len() > at_most.0 || self.bytes > at_most.1 {
                return Err(TooLarge { entries: self.vms.len(), bytes: self.bytes, class, at_most });
            }
        }
        Ok(())
    }

    /// The VMs.
    #[must_use]
    pub fn vms(&self) -> &BTreeMap<ProviderId, Listed> {
        &self.vms
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entries, bytes, class, at_most: (most, most_bytes) } = self;
        write!(f, "orphan scan is skipped: the drivers list {entries} VMs")?;
        if bytes > most_bytes {
            write!(f, " with {bytes} bytes of IDs and names, at most {most_bytes} bytes are allowed")?;
        } else {
            write!(f, ", at most {most} are allowed")?;
        }
        write!(f, "; check whether the driver of MachineClass {class:?} lists the VMs of other clusters")
    }
}

/// What is known about the Machine that a VM names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It does not exist.
    NotFound,
    /// It was lost: the API server was restored to a state before its creation.
    Lost,
    /// It exists, and its VM is undetermined: it cannot be decoded, is being created or deleted, or has a driver call
    /// in progress.
    Undetermined,
    /// It exists and has this VM recorded.
    Has(ProviderId),
}

impl Owner {
    /// Returns what a Machine shows about its VM.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        let making = matches!(machine.phase(), MachinePhase::New | MachinePhase::CrashLoopBackOff);
        let id = &machine.spec.provider_id;
        if making || machine.is_deleting() || id.is_empty() { Self::Undetermined } else { Self::Has(id.clone()) }
    }
}

/// The Machines that have each VM in `spec.providerID`. IDs are compared by [`vm_name`], so that another spelling of
/// the same ID counts too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    by_vm: BTreeMap<String, Vec<MachineName>>,
}

impl Holders {
    /// Collects the IDs of all Machines, in any phase.
    pub fn of<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> Self {
        let mut by_vm: BTreeMap<String, Vec<MachineName>> = BTreeMap::new();
        for machine in machines.into_iter().filter(|machine| !machine.spec.provider_id.is_empty()) {
            by_vm.entry(vm_name(&machine.spec.provider_id)).or_default().push(machine.name().into());
        }
        Self { by_vm }
    }

    /// Returns the Machines that have this VM.
    #[must_use]
    pub fn of_vm(&self, id: &ProviderId) -> &[MachineName] {
        self.by_vm.get(&vm_name(id)).map_or(&[], Vec::as_slice)
    }
}

/// Returns a Machine that cannot be decoded and has no listed VM of its name. Any VM may be its VM, because its ID is
/// unknown.
pub fn without_known_vm<'a>(
    undecodable: &'a BTreeSet<MachineName>,
    vms: &BTreeMap<ProviderId, Listed>,
) -> Option<&'a MachineName> {
    if undecodable.is_empty() {
        return None;
    }
    let named: BTreeSet<&MachineName> = vms.values().map(|vm| &vm.machine).collect();
    undecodable.iter().find(|machine| !named.contains(machine))
}

/// Since when each suspected VM has been suspected.
pub type Suspicions = BTreeMap<ProviderId, Timestamp>;

/// The input of the evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// All listed VMs.
    pub vms: &'a BTreeMap<ProviderId, Listed>,
    /// The Machines that they name; a missing one is undetermined.
    pub owners: &'a BTreeMap<MachineName, Owner>,
    /// The IDs that Machines have, independent of the names of the VMs.
    pub holders: &'a Holders,
    /// The Machines that cannot be decoded.
    pub undecodable: &'a BTreeSet<MachineName>,
    /// Whether all MachineClasses were listed.
    pub reach: Reach,
    /// The result of earlier scans.
    pub before: &'a Suspicions,
    /// The outages.
    pub outages: &'a Outages,
    /// Timeouts and limits.
    pub policy: &'a Policy,
    /// The time.
    pub now: Timestamp,
}

/// The completeness of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All MachineClasses were listed.
    Whole,
    /// Some lists failed: a VM that is not listed may still exist.
    Partial,
}

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// VMs to delete now.
    pub confirmed: BTreeMap<ProviderId, OrphanReason>,
    /// Suspected VMs that are not deleted, and why.
    pub skipped: BTreeMap<ProviderId, Skipped>,
    /// Machines whose VM has another name, one VM for each Machine.
    pub mismatches: BTreeMap<MachineName, Mismatch>,
    /// The input of the next scan.
    pub suspicions: Suspicions,
    /// When the next suspected VM may be confirmed.
    pub next: Option<Timestamp>,
}

/// A VM whose name is not the name of the Machine that has its ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The VM.
    pub vm: ProviderId,
    /// The Machine that its name refers to.
    pub named: MachineName,
}

/// Why a VM is an orphan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrphanReason {
    /// Its Machine does not exist.
    NoMachine,
    /// Its Machine has another VM.
    Duplicate(ProviderId),
}

/// Why a suspected VM is not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// It was not suspected for long enough.
    TooRecent {
        /// When it was.
        until: Timestamp,
    },
    /// The API server lost its Machine, which was not deleted.
    Lost,
    /// Its ID and the ID in its Machine differ, but end with the same path segment.
    SimilarId,
    /// This Machine cannot be decoded, and its VM is unknown.
    Undecodable(MachineName),
    /// Too many VMs are suspected.
    TooMany {
        /// Number of suspected VMs.
        suspected: usize,
        /// Number of listed VMs.
        of: usize,
    },
}

/// Evaluates all listed VMs together, so that the limit is never exceeded.
#[must_use]
pub fn evaluate(scan: &Scan<'_>) -> Findings {
    let mut suspected: BTreeMap<&ProviderId, OrphanReason> = BTreeMap::new();
    let mut findings = Findings::default();
    for (id, vm) in scan.vms {
        let holders = scan.holders.of_vm(id);
        if let Some(holder) = holders.first() {
            if !holders.contains(&vm.machine) {
                let mismatch = || Mismatch { vm: id.clone(), named: vm.machine.clone() };
                findings.mismatches.entry(holder.clone()).or_insert_with(mismatch);
            } else if orphan_reason(scan, id, vm).is_some() {
                findings.skipped.insert(id.clone(), Skipped::SimilarId);
            }
        } else if scan.owners.get(&vm.machine) == Some(&Owner::Lost) {
            findings.skipped.insert(id.clone(), Skipped::Lost);
        } else if let Some(reason) = orphan_reason(scan, id, vm) {
            suspected.insert(id, reason);
        }
    }
    let without_known_vm = without_known_vm(scan.undecodable, scan.vms);
    if scan.reach == Reach::Partial {
        let unseen = scan.before.iter().filter(|(id, _)| !scan.vms.contains_key(*id));
        findings.suspicions.extend(unseen.map(|(id, since)| (id.clone(), *since)));
    }
    let (count, of) = (suspected.len(), scan.vms.len());
    let too_many = scan.policy.safety.orphan_limit.is_exceeded(count, of);
    for (id, reason) in suspected {
        let since = scan.before.get(id).map_or(scan.now, |since| (*since).min(scan.now)); // the clock may have stepped backward
        findings.suspicions.insert(id.clone(), since);
        let until = scan.outages.deadline(since, scan.policy.creation_timeout, scan.now);
        if too_many {
            findings.skipped.insert(id.clone(), Skipped::TooMany { suspected: count, of });
        } else if until > scan.now {
            findings.skipped.insert(id.clone(), Skipped::TooRecent { until });
            findings.next = Some(findings.next.map_or(until, |next| next.min(until)));
        } else if let Some(machine) = without_known_vm {
            findings.skipped.insert(id.clone(), Skipped::Undecodable(machine.clone()));
        } else {
            findings.confirmed.insert(id.clone(), reason);
        }
    }
    findings
}

/// Maximum number of VMs that a report names.
const EXAMPLES: usize = 10;

/// VMs that are not deleted for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    why: String,
    count: usize,
    examples: Vec<&'a ProviderId>,
}

impl Findings {
    /// Returns the VMs about which a user must decide, grouped by reason. There may be hundreds of thousands of VMs,
    /// and there are few reasons.
    #[must_use]
    pub fn skipped_by_reason(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        let reported = self.skipped.iter().filter(|(_, why)| !matches!(why, Skipped::TooRecent { .. }));
        for (id, why) in reported {
            let why = why.to_string();
            if !groups.iter().any(|group| group.why == why) {
                groups.push(Group { why: why.clone(), count: 0, examples: Vec::new() });
            }
            for group in groups.iter_mut().filter(|group| group.why == why) {
                group.count += 1;
                if group.examples.len() < EXAMPLES {
                    group.examples.push(id);
                }
            }
        }
        groups
    }

    /// Returns the VMs that were not suspected for long enough.
    #[must_use]
    pub fn too_recent(&self) -> Option<Group<'_>> {
        let until = |why: &Skipped| match why {
            Skipped::TooRecent { until } => Some(*until),
            _ => None,
        };
        let first = self.skipped.values().filter_map(until).min()?;
        let mut ids = self.skipped.iter().filter(|(_, why)| until(why).is_some()).map(|(id, _)| id);
        let examples: Vec<_> = ids.by_ref().take(EXAMPLES).collect();
        Some(Group {
            why: Skipped::TooRecent { until: first }.to_string(),
            count: examples.len() + ids.count(),
            examples,
        })
    }
}

impl Group<'_> {
    /// Returns the number of VMs.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

impl fmt::Display for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The IDs come from a driver.
        let names: Vec<String> = self.examples.iter().map(|id| id.as_str().escape_debug().to_string()).collect();
        let (count, names) = (self.count, names.join(", "));
        match count {
            1 => write!(f, "VM {names} has no Machine and is not deleted")?,
            _ if count > self.examples.len() => {
                let more = count - self.examples.len();
                write!(f, "{count} VMs have no Machine and are not deleted ({names} and {more} more)")?;
            }
            _ => write!(f, "{count} VMs have no Machine and are not deleted ({names})")?,
        }
        write!(f, ": {}", self.why)
    }
}

fn orphan_reason(scan: &Scan<'_>, id: &ProviderId, vm: &Listed) -> Option<OrphanReason> {
    match scan.owners.get(&vm.machine)? {
        Owner::NotFound => Some(OrphanReason::NoMachine),
        // Only if the recorded VM is listed too: otherwise a driver that spells IDs in two ways would have all VMs
        // deleted.
        Owner::Has(own) if own != id && scan.vms.get(own).is_some_and(|other| other.machine == vm.machine) => {
            Some(OrphanReason::Duplicate(own.clone()))
        }
        Owner::Lost | Owner::Undetermined | Owner::Has(_) => None,
    }
}

impl fmt::Display for OrphanReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMachine => f.write_str("Machine does not exist"),
            Self::Duplicate(own) => write!(f, "Machine has another VM, {own}"),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (vm, named) = (self.vm.as_str().escape_debug(), self.named.as_str());
        write!(
            f,
            "VM {vm} has the name {named:?}; it is kept, because this Machine has its ID. Rename the VM to the name of the Machine"
        )
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooRecent { until } => {
                write!(f, "not deleted before {until:.0}")
            }
            Self::Lost => {
                f.write_str("Machine was not deleted; the API server was restored to a state before its creation")
            }
            Self::SimilarId => f.write_str(
                "its ID ends like the ID in its Machine, so both may be the same VM; if it is another VM, delete it manually",
            ),
            Self::Undecodable(machine) => {
                let machine = machine.as_str();
                write!(f, "may be the VM of Machine {machine:?}, which cannot be decoded; correct that Machine")
            }
            Self::TooMany { suspected, of } => {
                write!(f, "{suspected} of {of} VMs have no Machine, which exceeds the limit; the observed state may be wrong")
            }
        }
    }
}

#[cfg(test)]
mod tests;
