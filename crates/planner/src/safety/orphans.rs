//! Which VMs belong to nobody.
//!
//! A VM costs money until somebody deletes it, and the only one who would is its Machine. If that went without taking its VM along
//! (a finalizer removed by hand, a create whose answer nobody heard), the VM is an *orphan*: it names a machine that does not
//! exist. Deleting it is right, and deleting one that only looks like it kills pods without a drain. So the burden of proof is on
//! us:
//!
//! - A VM is *accused* when its machine does not exist, or exists and has another VM, listed beside it. Whatever is being made, is
//!   being deleted, cannot be read or has a call under way is left alone: its own machine's plan deals with it.
//! - A VM whose id any Machine has in `spec.providerID` is never accused, whatever name the cloud reports. The name in the cloud can be
//!   changed by every user of that cloud. A name that differs from the name of the Machine is reported.
//! - While a Machine cannot be decoded and no listed VM has its name, no VM is deleted: its id may be the one in that Machine.
//! - It must have been accused, without a break, for a whole creation timeout in which we saw.
//! - A VM whose Machine the API server has *forgotten* (an etcd put back to an older copy) is never ours to delete: its Machine was
//!   not deleted by anybody, and its pods are somebody's. People are told instead.
//! - If too many are accused at once, the mistake is ours: none goes, and people are told.
//!
//! The caller asks twice: with what the cache shows, and, should anything be about to go, again with what the API server says now.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use api::{Machine, MachineName, MachinePhase, Object, ProviderId};
use jiff::Timestamp;

use super::{Outages, SafetyPolicy};
use crate::Policy;
use crate::node::vm_name;

/// A VM, as the cloud lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The machine it was made for.
    pub machine: MachineName,
    /// A class whose list it is on. Clouds list by cluster, so it is often on several.
    pub class: Arc<str>,
}

/// The VMs that the drivers list, bounded over all classes. A list beyond the bound is not judged: a driver that lists other clusters, or
/// is broken, must not cost the memory of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmList {
    vms: BTreeMap<ProviderId, Listed>,
    bytes: usize,
}

/// The drivers list more VMs than one scan judges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The number of VMs listed until then.
    pub entries: usize,
    bytes: usize,
    class: Arc<str>,
    at_most: (usize, usize),
}

impl VmList {
    /// Adds the list of one class. A VM that another class listed before is kept as it is.
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
        write!(f, "no VM is judged or deleted, because the drivers list {entries} VMs")?;
        if bytes > most_bytes {
            write!(f, " with {bytes} bytes of ids and names, at most {most_bytes} bytes are allowed")?;
        } else {
            write!(f, ", at most {most} are allowed")?;
        }
        write!(f, "; check whether the driver of MachineClass {class:?} lists the VMs of other clusters")
    }
}

/// What is known of the machine that a VM names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// There is none.
    Nobody,
    /// There is none, because the API server went back to a time before it.
    Forgotten,
    /// There is one, and it is not settled which VM is its own: it cannot be read, is being made or deleted, or has a call under way.
    Unsettled,
    /// There is one with this VM written down.
    Has(ProviderId),
}

impl Owner {
    /// What a Machine says of its VM.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        let making = matches!(machine.phase(), MachinePhase::New | MachinePhase::CrashLoopBackOff);
        let id = &machine.spec.provider_id;
        if making || machine.is_deleting() || id.is_empty() { Self::Unsettled } else { Self::Has(id.clone()) }
    }
}

/// The Machines that have each VM in `spec.providerID`. Ids are compared as [`vm_name`] does, so that another spelling of the same id
/// counts too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    by_vm: BTreeMap<String, Vec<MachineName>>,
}

impl Holders {
    /// Collects the ids of all Machines, whatever their phase.
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

/// Returns a Machine that cannot be decoded and after which no listed VM is named. Any VM may be its own, because its id is unknown.
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

/// Since when each accused VM has been accused.
pub type Suspicions = BTreeMap<ProviderId, Timestamp>;

/// Everything the decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// Every VM that was listed, once.
    pub vms: &'a BTreeMap<ProviderId, Listed>,
    /// The machines they name; one that is missing here is unsettled.
    pub owners: &'a BTreeMap<MachineName, Owner>,
    /// The ids that Machines have, whatever the VMs are named.
    pub holders: &'a Holders,
    /// The Machines that cannot be decoded.
    pub undecodable: &'a BTreeSet<MachineName>,
    /// Whether every class could be listed.
    pub reach: Reach,
    /// What earlier scans suspected.
    pub before: &'a Suspicions,
    /// When nobody could look.
    pub outages: &'a Outages,
    /// Limits and periods.
    pub policy: &'a Policy,
    /// The time.
    pub now: Timestamp,
}

/// How much a scan saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Every class was listed.
    Whole,
    /// Some could not be: what is not listed may still be there.
    Partial,
}

/// What a scan came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// To be deleted now.
    pub condemned: BTreeMap<ProviderId, Charge>,
    /// Accused, and why nothing happens to them.
    pub spared: BTreeMap<ProviderId, Spared>,
    /// Machines whose VM has another name in the cloud, one VM for each Machine.
    pub mismatches: BTreeMap<MachineName, Mismatch>,
    /// To be remembered until the next scan.
    pub suspicions: Suspicions,
    /// When the next accused VM may be condemned.
    pub next: Option<Timestamp>,
}

/// A VM whose name in the cloud is not the name of the Machine that has its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The VM, as the cloud lists it.
    pub vm: ProviderId,
    /// The machine that the cloud names.
    pub named: MachineName,
}

/// What a VM is accused of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Its machine does not exist.
    NoMachine,
    /// Its machine has another one.
    SecondOf(ProviderId),
}

/// Why an accused VM stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spared {
    /// It has not been accused for long enough.
    Young {
        /// When it has.
        until: Timestamp,
    },
    /// The API server forgot its Machine; nobody deleted it.
    Forgotten,
    /// Its id and the id in its Machine differ, but end with the same path segment.
    Alike,
    /// This Machine cannot be decoded, and its VM is unknown.
    Undecodable(MachineName),
    /// Too many are accused at once.
    TooMany {
        /// How many.
        accused: usize,
        /// Of how many.
        of: usize,
    },
}

/// Judges every listed VM at once, so that the limit cannot be passed by judging one by one.
#[must_use]
pub fn judge(scan: &Scan<'_>) -> Findings {
    let mut accused: BTreeMap<&ProviderId, Charge> = BTreeMap::new();
    let mut findings = Findings::default();
    for (id, vm) in scan.vms {
        let holders = scan.holders.of_vm(id);
        if let Some(holder) = holders.first() {
            if !holders.contains(&vm.machine) {
                let mismatch = || Mismatch { vm: id.clone(), named: vm.machine.clone() };
                findings.mismatches.entry(holder.clone()).or_insert_with(mismatch);
            } else if charge(scan, id, vm).is_some() {
                findings.spared.insert(id.clone(), Spared::Alike);
            }
        } else if scan.owners.get(&vm.machine) == Some(&Owner::Forgotten) {
            findings.spared.insert(id.clone(), Spared::Forgotten);
        } else if let Some(charge) = charge(scan, id, vm) {
            accused.insert(id, charge);
        }
    }
    let without_known_vm = without_known_vm(scan.undecodable, scan.vms);
    if scan.reach == Reach::Partial {
        let unseen = scan.before.iter().filter(|(id, _)| !scan.vms.contains_key(*id));
        findings.suspicions.extend(unseen.map(|(id, since)| (id.clone(), *since)));
    }
    let (count, of) = (accused.len(), scan.vms.len());
    let too_many = scan.policy.safety.orphan_limit.is_exceeded(count, of);
    for (id, charge) in accused {
        let since = scan.before.get(id).map_or(scan.now, |since| (*since).min(scan.now)); // the clock may have stepped back
        findings.suspicions.insert(id.clone(), since);
        let until = scan.outages.deadline(since, scan.policy.creation_timeout, scan.now);
        if too_many {
            findings.spared.insert(id.clone(), Spared::TooMany { accused: count, of });
        } else if until > scan.now {
            findings.spared.insert(id.clone(), Spared::Young { until });
            findings.next = Some(findings.next.map_or(until, |next| next.min(until)));
        } else if let Some(machine) = without_known_vm {
            findings.spared.insert(id.clone(), Spared::Undecodable(machine.clone()));
        } else {
            findings.condemned.insert(id.clone(), charge);
        }
    }
    findings
}

/// So many are named where many are told.
const EXAMPLES: usize = 10;

/// VMs that stay for one reason, as one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    why: String,
    count: usize,
    examples: Vec<&'a ProviderId>,
}

impl Findings {
    /// Those that people have to decide about, by reason. There may be hundreds of thousands of VMs, and there are few reasons.
    #[must_use]
    pub fn held_back(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        let theirs = self.spared.iter().filter(|(_, why)| !matches!(why, Spared::Young { .. }));
        for (id, why) in theirs {
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

    /// Those whose time has not come.
    #[must_use]
    pub fn young(&self) -> Option<Group<'_>> {
        let until = |why: &Spared| match why {
            Spared::Young { until } => Some(*until),
            _ => None,
        };
        let first = self.spared.values().filter_map(until).min()?;
        let mut ids = self.spared.iter().filter(|(_, why)| until(why).is_some()).map(|(id, _)| id);
        let examples: Vec<_> = ids.by_ref().take(EXAMPLES).collect();
        Some(Group { why: Spared::Young { until: first }.to_string(), count: examples.len() + ids.count(), examples })
    }
}

impl Group<'_> {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

impl fmt::Display for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A driver has said them.
        let names: Vec<String> = self.examples.iter().map(|id| id.as_str().escape_debug().to_string()).collect();
        let (count, names) = (self.count, names.join(", "));
        match count {
            1 => write!(f, "VM {names} stays although no Machine claims it")?,
            _ if count > self.examples.len() => {
                let more = count - self.examples.len();
                write!(f, "{count} VMs stay although no Machine claims them ({names} and {more} more)")?;
            }
            _ => write!(f, "{count} VMs stay although no Machine claims them ({names})")?,
        }
        write!(f, ": {}", self.why)
    }
}

fn charge(scan: &Scan<'_>, id: &ProviderId, vm: &Listed) -> Option<Charge> {
    match scan.owners.get(&vm.machine)? {
        Owner::Nobody => Some(Charge::NoMachine),
        // Only beside the one that is written down: a driver that spells ids in two ways would have every VM deleted.
        Owner::Has(own) if own != id && scan.vms.get(own).is_some_and(|other| other.machine == vm.machine) => {
            Some(Charge::SecondOf(own.clone()))
        }
        Owner::Forgotten | Owner::Unsettled | Owner::Has(_) => None,
    }
}

impl fmt::Display for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMachine => f.write_str("its Machine does not exist"),
            Self::SecondOf(own) => write!(f, "its Machine has another VM, {own}"),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (vm, named) = (self.vm.as_str().escape_debug(), self.named.as_str());
        write!(
            f,
            "VM {vm} has the name {named:?} in the cloud; it is kept, because this Machine has its id. Rename the VM to the name of the Machine"
        )
    }
}

impl fmt::Display for Spared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Young { until } => {
                write!(f, "it has not been without a Machine for long enough; not before {until:.0}")
            }
            Self::Forgotten => {
                f.write_str("its Machine was not deleted: the API server has gone back to a time before it")
            }
            Self::Alike => f.write_str(
                "its id ends like the id in its Machine, so that both may be the same VM; if it is another VM, delete it in the cloud",
            ),
            Self::Undecodable(machine) => {
                let machine = machine.as_str();
                write!(f, "it may be the VM of Machine {machine:?}, which cannot be decoded; correct that Machine")
            }
            Self::TooMany { accused, of } => {
                write!(f, "{accused} of {of} VMs seem to have no Machine, which is too many to believe")
            }
        }
    }
}

#[cfg(test)]
mod tests;
