//! Deletes orphan VMs.
//!
//! A scan lists the VMs of every MachineClass, through the same limiter as all driver calls. If the VMs of a class
//! cannot be listed, the scan continues with the other classes. The VMs of a class that no longer exists cannot be
//! listed, so a class has a finalizer while a Machine uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::names::annotations::ORPHAN_VMS;
use api::names::events::millwright;
use api::texts::OUT_OF_RANGE;
use api::{Machine, MachineClass, MachineName, Object, ProviderId};
use driver::Code;
use futures::future::join_all;
use jiff::Timestamp;
use parking_lot::Mutex;
use planner::node::vm_name;
use planner::safety::Record;
use planner::safety::orphans::{
    Findings, Group, Holders, Listed, Mismatch, OrphanReason, Owner, Reach, Scan, Suspicions, TooLarge, VmList,
    evaluate, without_known_vm,
};
use planner::safety::record::fitting;
use planner::{Event, EventType};
use runtime::Key;
use runtime::cache::{Delta, Lookup, Removal};
use runtime::lease::Note;
use runtime::queue::Outcome;
use tokio::time::timeout;

use super::cluster_events::emit_on_lease;
use crate::cluster::Shared;
use crate::indexes::MACHINES_BY_VM;
use crate::machine_controller::MachineController;

/// The results of earlier scans. Clones share all state.
#[derive(Clone, Default)]
pub(super) struct Memory {
    state: Arc<Mutex<ScanState>>,
}

#[derive(Default)]
struct ScanState {
    suspicions: Suspicions,
    /// The suspicions that fit into the record for the next leader.
    recorded: Suspicions,
    /// Machines that the API server lost, for example when etcd was restored. Their VMs are not orphans.
    lost: BTreeSet<MachineName>,
    /// The record of the previous leader did not contain all of them. Until all VMs were listed, every missing Machine
    /// may be one.
    more_lost: bool,
    /// Lost Machines whose VM no longer exists, by the last list of all VMs. They are not recorded for the next leader.
    settled: BTreeSet<MachineName>,
    /// The class of each Machine with a VM, for use after the Machine was deleted.
    classes: BTreeMap<MachineName, String>,
    /// Machines whose VM has another name in the cloud, as last reported in an Event.
    mismatches: BTreeMap<MachineName, Mismatch>,
    last: Option<Timestamp>,
}

/// Records a change of a Machine. Returns whether it is a reason to scan: the VM of a removed Machine may remain, or
/// the Machine may have several VMs.
pub(super) fn is_reason_to_scan(memory: &Memory, key: &Key, delta: &Delta<Machine>) -> bool {
    match delta {
        Delta::Removed { how, .. } | Delta::RemovedUndecodable { how, .. } => {
            if *how == Removal::Forgotten {
                memory.state.lock().lost.insert(key.name.as_ref().into());
            }
            true
        }
        Delta::Changed { old, new } => has_several(new) && !has_several(old),
        Delta::Added(_) | Delta::Undecodable { .. } | Delta::Fixed { .. } => false,
    }
}

fn has_several(machine: &Machine) -> bool {
    let last = &machine.status.last_operation;
    // MCM reports this only in the description.
    last.error_code == OUT_OF_RANGE || last.description.contains(OUT_OF_RANGE)
}

/// Scans once, unless the interval since the last scan is too short.
pub(super) async fn reconcile(controller: Arc<MachineController>) -> Outcome {
    let (policy, now) = (&controller.shared.policy.safety, controller.shared.clock.now());
    if super::is_disconnected(&controller.shared) {
        return Outcome::Again { after: policy.probe_interval };
    }
    if let Some(rest) = controller.safety.memory.time_until_due(policy.orphan_interval, now) {
        return Outcome::Again { after: rest };
    }
    let listing = match list(&controller).await {
        Ok(listing) => Arc::new(listing),
        Err(too_large) => {
            report_too_large(&controller, &too_large);
            return Outcome::Again { after: policy.orphan_period };
        }
    };
    let Some(mut findings) = evaluated(&controller, &listing).await else { return Outcome::Failed };
    if !findings.confirmed.is_empty() {
        // The cache may be stale, so Machines are listed with quorum before VMs are deleted.
        let refreshed = timeout(policy.freeze_after, controller.shared.machines.refresh()).await;
        if !matches!(refreshed, Ok(Ok(()))) || super::is_disconnected(&controller.shared) {
            tracing::warn!("failed to list Machines before the deletion of orphan VMs; retrying");
            return Outcome::Again { after: policy.orphan_interval };
        }
        let Some(current) = evaluated(&controller, &listing).await else { return Outcome::Failed };
        findings = current;
    }
    controller.safety.memory.store(&findings.suspicions);
    report(&controller, &findings);
    join_all(findings.confirmed.iter().map(|(id, reason)| delete(&controller, &listing, id, reason))).await;
    let next = findings.next.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    Outcome::Again { after: next.map_or(policy.orphan_period, |next| next.min(policy.orphan_period)) }
}

/// Maximum number of VMs that are evaluated on the worker. This takes milliseconds.
const EVALUATED_INLINE: usize = 2000;

/// Evaluates the VMs, on a blocking thread if they are many. Returns `None` if this failed.
async fn evaluated(controller: &Arc<MachineController>, listing: &Arc<Listing>) -> Option<Findings> {
    if listing.vms.vms().len() <= EVALUATED_INLINE {
        return Some(controller.safety.memory.evaluate(controller, listing));
    }
    let (controller, listing) = (controller.clone(), listing.clone());
    let evaluated = tokio::task::spawn_blocking(move || controller.safety.memory.evaluate(&controller, &listing)).await;
    evaluated.inspect_err(|why| tracing::error!(%why, "failed to evaluate the listed VMs")).ok()
}

/// The VMs of all classes, and whether all could be listed.
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
            Ok(secret) => controller.driver_calls.list(class, secret).await.map_err(|error| error.code()),
            Err(why) => {
                tracing::warn!(class = class.name(), %why, "failed to read Secrets of MachineClass; skipping it");
                Err(Code::FailedPrecondition)
            }
        };
        match listed {
            Ok(owners) => vms.add(class.name(), owners, &controller.shared.policy.safety)?,
            Err(Code::Unimplemented) => {
                tracing::debug!(
                    class = class.name(),
                    "the driver cannot list VMs; skipped MachineClass in the scan for orphan VMs"
                );
                reach = Reach::Partial;
            }
            Err(code) => {
                reach = Reach::Partial;
                tracing::warn!(class = class.name(), %code, "failed to list VMs of MachineClass");
                let message = format!("failed to list VMs: {code}. Orphan VMs of this class are not detected");
                emit_on_class(
                    controller,
                    class,
                    &Event { event_type: EventType::Warning, reason: millwright::ORPHAN_SCAN_FAILED, message },
                );
            }
        }
    }
    let classes = classes.into_iter().map(|class| (class.name().to_owned(), class)).collect();
    Ok(Listing { vms, classes, reach })
}

impl Memory {
    /// Returns the time until the next scan is due. If it is due now, records its start and returns `None`.
    fn time_until_due(&self, interval: Duration, now: Timestamp) -> Option<Duration> {
        let mut state = self.state.lock();
        let passed = state.last.and_then(|last| Duration::try_from(now.duration_since(last)).ok());
        let rest = passed.and_then(|passed| interval.checked_sub(passed)).filter(|rest| !rest.is_zero());
        if rest.is_none() {
            state.last = Some(now);
        }
        rest
    }

    fn evaluate(&self, controller: &MachineController, listing: &Listing) -> Findings {
        let mut state = self.state.lock();
        let owners: BTreeMap<MachineName, Owner> =
            listing.vms.vms().values().map(|vm| (vm.machine.clone(), state.owner(controller, &vm.machine))).collect();
        state.classes.retain(|name, _| owners.contains_key(name));
        if listing.reach == Reach::Whole {
            state.more_lost = false;
            state.settled = state.lost.iter().filter(|name| !owners.contains_key(*name)).cloned().collect();
        }
        let machines = controller.shared.machines.list();
        let (now, outages) = controller.shared.connectivity.time();
        evaluate(&Scan {
            vms: listing.vms.vms(),
            owners: &owners,
            holders: &Holders::of(machines.iter().map(|machine| &**machine)),
            undecodable: &undecodable(&controller.shared),
            reach: listing.reach,
            before: &state.suspicions,
            outages: &outages,
            policy: &controller.shared.policy,
            now,
        })
    }

    /// Restores the record of the previous leader, and publishes a record for the next one in the Lease.
    pub(super) fn restore_and_publish(&self, controller: &MachineController) {
        let Some(notes) = controller.leadership.notes() else {
            tracing::info!(
                "without leader election, Machines lost by a restore of etcd are known only until this process ends"
            );
            return;
        };
        if let Some(record) = notes.received(ORPHAN_VMS).as_deref().and_then(Record::read) {
            self.restore(&record, &controller.shared);
        }
        let (memory, connectivity) = (self.clone(), controller.shared.connectivity.clone());
        notes.publish(ORPHAN_VMS, move || {
            // A renewal of the lease does not wait for a scan.
            let Some(state) = memory.state.try_lock() else { return Note::Keep };
            let lost = state.lost.difference(&state.settled);
            let (now, outages) = connectivity.time();
            let record = Record::of(&state.recorded, lost, &outages, now);
            record.and_then(|record| record.text()).map_or(Note::Remove, Note::Set)
        });
    }

    fn restore(&self, record: &Record, shared: &Shared) {
        let (now, outages) = shared.connectivity.time();
        let suspicions = record.suspicions(&outages, &shared.policy.safety, now);
        let (lost, more) = record.forgotten();
        let (suspected, lost_machines) = (suspicions.len(), lost.len());
        tracing::info!(suspected, lost_machines, incomplete = more, "restored suspected orphan VMs from the Lease");
        let mut state = self.state.lock();
        state.recorded.extend(suspicions.clone());
        state.suspicions.extend(suspicions);
        state.lost.extend(lost.iter().cloned());
        state.more_lost |= more;
    }

    fn store(&self, suspicions: &Suspicions) {
        let recorded = fitting(suspicions);
        let mut state = self.state.lock();
        state.recorded = recorded;
        state.suspicions.clone_from(suspicions);
    }

    fn forget(&self, id: &ProviderId) {
        let mut state = self.state.lock();
        state.recorded.remove(id);
        state.suspicions.remove(id);
    }

    fn class_of(&self, machine: &MachineName) -> Option<String> {
        self.state.lock().classes.get(machine).cloned()
    }
}

impl ScanState {
    fn owner(&mut self, controller: &MachineController, name: &MachineName) -> Owner {
        let key = Key::new(controller.shared.namespace.as_str(), name.as_str());
        match controller.shared.machines.look_up(&key) {
            Lookup::Present(machine) => {
                self.classes.insert(name.clone(), machine.spec.class.name.clone());
                self.lost.remove(name);
                match controller.driver_calls.snapshot(&key, &machine.uid()) {
                    (Some(_), _) => Owner::Undetermined,
                    (None, _) => Owner::of(&machine),
                }
            }
            Lookup::Undecodable(_) => Owner::Undetermined,
            Lookup::Absent if self.more_lost || self.lost.contains(name) => {
                self.lost.insert(name.clone());
                Owner::Lost
            }
            Lookup::Absent => Owner::NotFound,
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
    reason: &OrphanReason,
) -> bool {
    let owner = controller.safety.memory.state.lock().owner(controller, machine);
    let same_reason = match reason {
        OrphanReason::NoMachine => owner == Owner::NotFound,
        OrphanReason::Duplicate(own) => owner == Owner::Has(own.clone()),
    };
    same_reason
        && controller.shared.machines.find(&MACHINES_BY_VM, &vm_name(id)).is_empty()
        && without_known_vm(&undecodable(&controller.shared), listing.vms.vms()).is_none()
        && !super::is_disconnected(&controller.shared)
        && controller.leadership.check().is_ok()
}

/// Deletes one VM, unless it is no longer an orphan: before the call is queued, and again before it is sent.
async fn delete(controller: &MachineController, listing: &Listing, id: &ProviderId, reason: &OrphanReason) {
    let Some(vm) = listing.vms.vms().get(id) else { return };
    let is_orphan = || is_orphan(controller, listing, id, &vm.machine, reason);
    if !is_orphan() {
        return;
    }
    let known_class = controller.safety.memory.class_of(&vm.machine).and_then(|class| listing.classes.get(&class));
    let Some(class) = known_class.or_else(|| listing.classes.get(&*vm.class)) else { return };
    let deleted = match controller.credentials.of(class).await {
        Ok(secret) => {
            let deleted = controller.driver_calls.delete_orphan(stub(class, vm, id), class, secret, is_orphan).await;
            deleted.map_err(|error| error.code())
        }
        Err(_) => Err(Code::FailedPrecondition),
    };
    match deleted {
        Ok(_) | Err(Code::NotFound) => {
            controller.safety.metrics.deleted();
            controller.safety.memory.forget(id);
            tracing::warn!(vm = id.as_str(), machine = vm.machine.as_str(), because = %reason, "deleted orphan VM");
            let message = format!("deleted VM {id} of machine {:?}, because {reason}", vm.machine.as_str());
            emit_on_class(
                controller,
                class,
                &Event { event_type: EventType::Normal, reason: millwright::ORPHAN_DELETED, message },
            );
        }
        Err(Code::Canceled) if !is_orphan() => {
            tracing::info!(vm = id.as_str(), machine = vm.machine.as_str(), "skipped VM that is no longer an orphan");
            return;
        }
        Err(code) => {
            tracing::warn!(vm = id.as_str(), machine = vm.machine.as_str(), %code, "failed to delete orphan VM");
            let message = format!(
                "failed to delete VM {id} of machine {:?}: {code}. The VM is an orphan, because {reason}",
                vm.machine.as_str()
            );
            emit_on_class(
                controller,
                class,
                &Event { event_type: EventType::Warning, reason: millwright::ORPHAN_NOT_DELETED, message },
            );
        }
    }
    // If a Machine of that name was created meanwhile, it must query its VM again.
    controller.queue.add(Key::new(controller.shared.namespace.as_str(), vm.machine.as_str()));
}

/// Returns a Machine with the fields that a driver may rely on.
fn stub(class: &MachineClass, vm: &Listed, id: &ProviderId) -> Arc<Machine> {
    let mut machine = Machine::default();
    vm.machine.as_str().clone_into(&mut machine.metadata.name);
    machine.metadata.namespace = class.namespace().into();
    machine.spec.provider_id = id.clone();
    Arc::new(machine)
}

/// Reports the findings: metrics, and a log message and an Event for each group of VMs whose deletion is held back.
fn report(controller: &MachineController, findings: &Findings) {
    let held_back = findings.skipped_by_reason();
    let count: usize = held_back.iter().map(Group::count).sum();
    let suspected = findings.skipped.len() - count + findings.confirmed.len();
    controller.safety.metrics.orphans(suspected, count, findings.mismatches.len());
    report_mismatches(controller, findings);
    if let Some(too_recent) = findings.too_recent() {
        tracing::info!(why = %too_recent, "delayed deletion of orphan VMs");
    }
    for group in held_back {
        tracing::error!(why = %group, "skipped deletion of orphan VMs");
        let event =
            Event { event_type: EventType::Warning, reason: millwright::ORPHANS_HELD_BACK, message: group.to_string() };
        emit_on_lease(controller, &event);
    }
}

/// Reports a list that is too large to be evaluated. Earlier suspicions are kept.
fn report_too_large(controller: &MachineController, too_large: &TooLarge) {
    tracing::error!(entries = too_large.entries, why = %too_large, "skipped scan for orphan VMs");
    controller.safety.metrics.orphans(0, too_large.entries, 0);
    let message = too_large.to_string();
    emit_on_lease(
        controller,
        &Event { event_type: EventType::Warning, reason: millwright::ORPHANS_HELD_BACK, message },
    );
}

/// Reports each VM whose name differs from the name of its Machine, once per pair of names.
fn report_mismatches(controller: &MachineController, findings: &Findings) {
    let before = {
        let mut state = controller.safety.memory.state.lock();
        std::mem::replace(&mut state.mismatches, findings.mismatches.clone())
    };
    for (name, mismatch) in &findings.mismatches {
        let key = Key::new(controller.shared.namespace.as_str(), name.as_str());
        if before.get(name) == Some(mismatch) {
            continue;
        }
        let (vm, named) = (mismatch.vm.as_str(), mismatch.named.as_str());
        tracing::warn!(vm, machine = name.as_str(), named, "VM has another name in the cloud than its Machine");
        if let Some(machine) = controller.shared.machines.get(&key) {
            let message = mismatch.to_string();
            let event = Event { event_type: EventType::Warning, reason: millwright::VM_NAME_MISMATCH, message };
            controller.events.emit(machine.object_ref(), event);
        }
    }
}

fn emit_on_class(controller: &MachineController, class: &MachineClass, event: &Event) {
    controller.events.emit(class.object_ref(), event.clone());
}
