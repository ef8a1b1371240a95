//! Which VMs belong to nobody?
//!
//! One scan lists the VMs of every class, through the same limiter as every call. A class that cannot be listed stops no other; the
//! VMs of a class that no longer exists cannot be listed by anybody, which is why a class stays while a Machine uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::names::annotations::ORPHAN_VMS;
use api::names::descriptions::OUT_OF_RANGE;
use api::names::events::ours;
use api::{Machine, MachineClass, MachineName, Object, ProviderId};
use driver::Code;
use futures::future::join_all;
use jiff::Timestamp;
use parking_lot::Mutex;
use planner::node::vm_name;
use planner::safety::Record;
use planner::safety::orphans::{
    Charge, Findings, Group, Holders, Listed, Mismatch, Owner, Reach, Scan, Suspicions, TooLarge, VmList, judge,
    without_known_vm,
};
use planner::safety::record::fitting;
use planner::{Event, EventType};
use runtime::Key;
use runtime::cache::{Delta, Lookup, Removal};
use runtime::lease::Note;
use runtime::queue::Outcome;
use tokio::time::timeout;

use super::cluster_events::tell_all;
use crate::cluster::Shared;
use crate::indexes::MACHINES_BY_VM;
use crate::machine_controller::MachineController;

/// What is remembered between two scans. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Memory {
    inside: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    suspicions: Suspicions,
    /// Those of the suspicions that fit the record for the next leader.
    recorded: Suspicions,
    /// Machines that the API server has forgotten.
    forgotten: BTreeSet<MachineName>,
    /// There were more of them than the last leader could tell: until all VMs have been listed, everybody may be one.
    forgotten_more: bool,
    /// Those of them whose VM is gone, by the last list of all VMs: the next leader need not know them.
    settled: BTreeSet<MachineName>,
    /// The class of each machine that was seen to have a VM, for the day it is gone.
    classes: BTreeMap<MachineName, String>,
    /// Machines whose VM has another name in the cloud, as last reported.
    mismatches: BTreeMap<MachineName, Mismatch>,
    last: Option<Timestamp>,
}

/// Takes note of a change of a Machine, and says whether VMs should be looked at because of it: its VM may be left, or it has
/// turned out to have several.
pub(super) fn is_reason_to_look(memory: &Memory, key: &Key, delta: &Delta<Machine>) -> bool {
    match delta {
        Delta::Removed { how, .. } | Delta::RemovedUndecodable { how, .. } => {
            if *how == Removal::Forgotten {
                memory.inside.lock().forgotten.insert(key.name.as_ref().into());
            }
            true
        }
        Delta::Changed { old, new } => has_several(new) && !has_several(old),
        Delta::Added(_) | Delta::Undecodable { .. } | Delta::Mended { .. } => false,
    }
}

fn has_several(machine: &Machine) -> bool {
    let last = &machine.status.last_operation;
    // The reference says it in the text only.
    last.error_code == OUT_OF_RANGE || last.description.contains(OUT_OF_RANGE)
}

/// Scans once, unless the last scan was a moment ago.
pub(super) async fn reconcile(controller: Arc<MachineController>) -> Outcome {
    let (policy, now) = (&controller.shared.policy.safety, controller.shared.clock.now());
    if super::is_disconnected(&controller.shared) {
        return Outcome::Again { after: policy.probe_every };
    }
    if let Some(rest) = controller.safety.memory.too_soon(policy.orphan_interval, now) {
        return Outcome::Again { after: rest };
    }
    let listing = match list(&controller).await {
        Ok(listing) => Arc::new(listing),
        Err(too_large) => {
            report_too_large(&controller, &too_large);
            return Outcome::Again { after: policy.orphan_period };
        }
    };
    let Some(mut findings) = judged(&controller, &listing).await else { return Outcome::Failed };
    if !findings.condemned.is_empty() {
        // The cache may be late. Whoever is about to delete asks the API server.
        let asked = timeout(policy.freeze_after, controller.shared.machines.refresh()).await;
        if !matches!(asked, Ok(Ok(()))) || super::is_disconnected(&controller.shared) {
            tracing::warn!("VMs seem to have no Machine, but the API server could not be asked; trying again");
            return Outcome::Again { after: policy.orphan_interval };
        }
        let Some(again) = judged(&controller, &listing).await else { return Outcome::Failed };
        findings = again;
    }
    controller.safety.memory.remember(&findings.suspicions);
    tell(&controller, &findings);
    join_all(findings.condemned.iter().map(|(id, charge)| delete(&controller, &listing, id, charge))).await;
    let next = findings.next.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    Outcome::Again { after: next.map_or(policy.orphan_period, |next| next.min(policy.orphan_period)) }
}

/// Up to this many VMs are judged on the worker itself, which takes milliseconds.
const JUDGED_INLINE: usize = 2000;

/// Judges the VMs, on a thread of its own if they are many. `None` if that failed.
async fn judged(controller: &Arc<MachineController>, listing: &Arc<Listing>) -> Option<Findings> {
    if listing.vms.vms().len() <= JUDGED_INLINE {
        return Some(controller.safety.memory.judge(controller, listing));
    }
    let (controller, listing) = (controller.clone(), listing.clone());
    let judged = tokio::task::spawn_blocking(move || controller.safety.memory.judge(&controller, &listing)).await;
    judged.inspect_err(|why| tracing::error!(%why, "failed to judge the listed VMs")).ok()
}

/// All VMs that any class lists, and who could not be asked.
struct Listing {
    vms: VmList,
    classes: BTreeMap<String, Arc<MachineClass>>,
    reach: Reach,
}

async fn list(controller: &MachineController) -> Result<Listing, TooLarge> {
    let classes = controller.classes.list();
    let mut reach = if controller.classes.undecodable().is_empty() { Reach::Whole } else { Reach::Partial };
    let mut vms = VmList::default();
    for class in &classes {
        let listed = match controller.credentials.of(class).await {
            Ok(secret) => controller.limiter.list(class, secret).await.map_err(|error| error.code()),
            Err(why) => {
                tracing::warn!(class = class.name(), %why, "cannot look for VMs without a Machine");
                Err(Code::FailedPrecondition)
            }
        };
        match listed {
            Ok(owners) => vms.add(class.name(), owners, &controller.shared.policy.safety)?,
            Err(Code::Unimplemented) => {
                tracing::debug!(class = class.name(), "its driver has no list, so VMs without a Machine are not found");
                reach = Reach::Partial;
            }
            Err(code) => {
                reach = Reach::Partial;
                tracing::warn!(class = class.name(), %code, "its VMs could not be listed");
                let message = format!("its VMs could not be listed ({code}), so none without a Machine can be found");
                tell_on(
                    controller,
                    class,
                    &Event { event_type: EventType::Warning, reason: ours::ORPHAN_SCAN_FAILED, message },
                );
            }
        }
    }
    let classes = classes.into_iter().map(|class| (class.name().to_owned(), class)).collect();
    Ok(Listing { vms, classes, reach })
}

impl Memory {
    /// How long until the next scan may run; notes that it runs now if it may.
    fn too_soon(&self, interval: Duration, now: Timestamp) -> Option<Duration> {
        let mut inside = self.inside.lock();
        let passed = inside.last.and_then(|last| Duration::try_from(now.duration_since(last)).ok());
        let rest = passed.and_then(|passed| interval.checked_sub(passed)).filter(|rest| !rest.is_zero());
        if rest.is_none() {
            inside.last = Some(now);
        }
        rest
    }

    fn judge(&self, controller: &MachineController, listing: &Listing) -> Findings {
        let mut inside = self.inside.lock();
        let owners: BTreeMap<MachineName, Owner> =
            listing.vms.vms().values().map(|vm| (vm.machine.clone(), inside.owner(controller, &vm.machine))).collect();
        inside.classes.retain(|name, _| owners.contains_key(name));
        if listing.reach == Reach::Whole {
            inside.forgotten_more = false;
            inside.settled = inside.forgotten.iter().filter(|name| !owners.contains_key(*name)).cloned().collect();
        }
        let machines = controller.shared.machines.list();
        let (now, outages) = controller.shared.connectivity.time();
        judge(&Scan {
            vms: listing.vms.vms(),
            owners: &owners,
            holders: &Holders::of(machines.iter().map(|machine| &**machine)),
            undecodable: &undecodable(&controller.shared),
            reach: listing.reach,
            before: &inside.suspicions,
            outages: &outages,
            policy: &controller.shared.policy,
            now,
        })
    }

    /// Goes on where the last leader ended, and leaves to the next what has been found out.
    pub(super) fn hand_over(&self, controller: &MachineController) {
        let Some(notes) = controller.leadership.notes() else {
            tracing::info!(
                "without leader election, what a restored etcd has forgotten is known until the end of this process only"
            );
            return;
        };
        if let Some(record) = notes.found(ORPHAN_VMS).as_deref().and_then(Record::read) {
            self.take_over(&record, &controller.shared);
        }
        let (memory, connectivity) = (self.clone(), controller.shared.connectivity.clone());
        notes.keep(ORPHAN_VMS, move || {
            // A renewal of the lease does not wait for a scan.
            let Some(inside) = memory.inside.try_lock() else { return Note::AsBefore };
            let forgotten = inside.forgotten.difference(&inside.settled);
            let (now, outages) = connectivity.time();
            let record = Record::of(&inside.recorded, forgotten, &outages, now);
            record.and_then(|record| record.text()).map_or(Note::Nothing, Note::Text)
        });
    }

    fn take_over(&self, record: &Record, shared: &Shared) {
        let (now, outages) = shared.connectivity.time();
        let suspicions = record.suspicions(&outages, &shared.policy.safety, now);
        let (forgotten, more) = record.forgotten();
        let (accused, forgot) = (suspicions.len(), forgotten.len());
        tracing::info!(
            accused,
            forgotten = forgot,
            more,
            "took over what the last leader knew of VMs without a Machine"
        );
        let mut inside = self.inside.lock();
        inside.recorded.extend(suspicions.clone());
        inside.suspicions.extend(suspicions);
        inside.forgotten.extend(forgotten.iter().cloned());
        inside.forgotten_more |= more;
    }

    fn remember(&self, suspicions: &Suspicions) {
        let recorded = fitting(suspicions);
        let mut inside = self.inside.lock();
        inside.recorded = recorded;
        inside.suspicions.clone_from(suspicions);
    }

    fn forget(&self, id: &ProviderId) {
        let mut inside = self.inside.lock();
        inside.recorded.remove(id);
        inside.suspicions.remove(id);
    }

    fn class_of(&self, machine: &MachineName) -> Option<String> {
        self.inside.lock().classes.get(machine).cloned()
    }
}

impl Inside {
    fn owner(&mut self, controller: &MachineController, name: &MachineName) -> Owner {
        let key = Key::new(controller.shared.namespace.as_str(), name.as_str());
        match controller.shared.machines.look_up(&key) {
            Lookup::Present(machine) => {
                self.classes.insert(name.clone(), machine.spec.class.name.clone());
                self.forgotten.remove(name);
                match controller.limiter.look(&key, &machine.uid()) {
                    (Some(_), _) => Owner::Unsettled,
                    (None, _) => Owner::of(&machine),
                }
            }
            Lookup::Undecodable(_) => Owner::Unsettled,
            Lookup::Absent if self.forgotten_more || self.forgotten.contains(name) => {
                self.forgotten.insert(name.clone());
                Owner::Forgotten
            }
            Lookup::Absent => Owner::Nobody,
        }
    }
}

fn undecodable(shared: &Shared) -> BTreeSet<MachineName> {
    shared.machines.undecodable().iter().map(|machine| machine.name.as_str().into()).collect()
}

/// Returns whether a confirmed orphan is still one, as far as the cache shows, and may be deleted by this process.
fn is_orphan(
    controller: &MachineController,
    listing: &Listing,
    id: &ProviderId,
    machine: &MachineName,
    charge: &Charge,
) -> bool {
    let owner = controller.safety.memory.inside.lock().owner(controller, machine);
    let same_charge = match charge {
        Charge::NoMachine => owner == Owner::Nobody,
        Charge::SecondOf(own) => owner == Owner::Has(own.clone()),
    };
    same_charge
        && controller.shared.machines.find(&MACHINES_BY_VM, &vm_name(id)).is_empty()
        && without_known_vm(&undecodable(&controller.shared), listing.vms.vms()).is_none()
        && !super::is_disconnected(&controller.shared)
        && controller.leadership.check().is_ok()
}

/// Deletes one VM, unless it is no longer an orphan: before the call is queued, and again before it is sent.
async fn delete(controller: &MachineController, listing: &Listing, id: &ProviderId, charge: &Charge) {
    let Some(vm) = listing.vms.vms().get(id) else { return };
    let is_orphan = || is_orphan(controller, listing, id, &vm.machine, charge);
    if !is_orphan() {
        return;
    }
    let remembered = controller.safety.memory.class_of(&vm.machine).and_then(|class| listing.classes.get(&class));
    let Some(class) = remembered.or_else(|| listing.classes.get(&*vm.class)) else { return };
    let deleted = match controller.credentials.of(class).await {
        Ok(secret) => {
            let deleted = controller.limiter.delete_orphan(stub(class, vm, id), class, secret, is_orphan).await;
            deleted.map_err(|error| error.code())
        }
        Err(_) => Err(Code::FailedPrecondition),
    };
    match deleted {
        Ok(_) | Err(Code::NotFound) => {
            controller.safety.metrics.deleted();
            controller.safety.memory.forget(id);
            tracing::warn!(vm = id.as_str(), machine = vm.machine.as_str(), because = %charge, "deleted a VM that belonged to nobody");
            let message = format!("deleted VM {id} of machine {:?}, because {charge}", vm.machine.as_str());
            tell_on(controller, class, &Event { event_type: EventType::Normal, reason: ours::ORPHAN_DELETED, message });
        }
        Err(Code::Canceled) if !is_orphan() => {
            tracing::info!(vm = id.as_str(), machine = vm.machine.as_str(), "kept VM that is no longer an orphan");
            return;
        }
        Err(code) => {
            tracing::warn!(vm = id.as_str(), machine = vm.machine.as_str(), %code, "failed to delete a VM that belongs to nobody");
            let message = format!(
                "VM {id} of machine {:?} could not be deleted ({code}), although {charge}",
                vm.machine.as_str()
            );
            tell_on(
                controller,
                class,
                &Event { event_type: EventType::Warning, reason: ours::ORPHAN_NOT_DELETED, message },
            );
        }
    }
    // Should a machine of that name have been made meanwhile, it must ask again.
    controller.queue.add(Key::new(controller.shared.namespace.as_str(), vm.machine.as_str()));
}

/// No more than a driver may rely on.
fn stub(class: &MachineClass, vm: &Listed, id: &ProviderId) -> Arc<Machine> {
    let mut machine = Machine::default();
    vm.machine.as_str().clone_into(&mut machine.metadata.name);
    machine.metadata.namespace = class.namespace().into();
    machine.spec.provider_id = id.clone();
    Arc::new(machine)
}

/// Says who is held back, and why: a VM that stays without a Machine must be somebody's decision.
fn tell(controller: &MachineController, findings: &Findings) {
    let held_back = findings.held_back();
    let count: usize = held_back.iter().map(Group::count).sum();
    let suspected = findings.spared.len() - count + findings.condemned.len();
    controller.safety.metrics.accused(suspected, count, findings.mismatches.len());
    report_mismatches(controller, findings);
    if let Some(young) = findings.young() {
        tracing::info!("{young}");
    }
    for group in held_back {
        tracing::error!("{group}");
        let event =
            Event { event_type: EventType::Warning, reason: ours::ORPHANS_HELD_BACK, message: group.to_string() };
        tell_all(controller, &event);
    }
}

/// Reports a list that is not judged. What earlier scans suspected is kept.
fn report_too_large(controller: &MachineController, too_large: &TooLarge) {
    tracing::error!(entries = too_large.entries, why = %too_large, "skipped scan for orphan VMs");
    controller.safety.metrics.accused(0, too_large.entries, 0);
    let message = too_large.to_string();
    tell_all(controller, &Event { event_type: EventType::Warning, reason: ours::ORPHANS_HELD_BACK, message });
}

/// Reports each VM whose name is not that of its Machine once, as long as neither name changes.
fn report_mismatches(controller: &MachineController, findings: &Findings) {
    let before = {
        let mut inside = controller.safety.memory.inside.lock();
        std::mem::replace(&mut inside.mismatches, findings.mismatches.clone())
    };
    for (name, mismatch) in &findings.mismatches {
        let key = Key::new(controller.shared.namespace.as_str(), name.as_str());
        if before.get(name) == Some(mismatch) {
            continue;
        }
        let (vm, named) = (mismatch.vm.as_str(), mismatch.named.as_str());
        tracing::warn!(vm, machine = name.as_str(), named, "kept VM whose name in the cloud is not its Machine's");
        if let Some(machine) = controller.shared.machines.get(&key) {
            let message = mismatch.to_string();
            let event = Event { event_type: EventType::Warning, reason: ours::VM_NAME_MISMATCH, message };
            crate::events::emit(&controller.events, machine.object_ref(), &event);
        }
    }
}

fn tell_on(controller: &MachineController, class: &MachineClass, event: &Event) {
    crate::events::emit(&controller.events, class.object_ref(), event);
}
