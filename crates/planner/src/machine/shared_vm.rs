//! A VM that several Machines name in `spec.providerID`.
//!
//! A copied manifest, or a driver that returns the VM of another Machine, gives two Machines one VM. Deleting one of
//! them must not delete the VM of the other. So such an id is not recorded, a Machine that is being deleted leaves the
//! VM to the Machine that remains, and the last Machine that names the VM deletes it.

use api::names::events;
use api::{Machine, Object};

use super::vm::VmState;
use super::{Facts, MachinePatch, Observed, Plan, Reason, Step};
use crate::{Awaited, Event, EventType, Wake};

/// Returns another Machine that names the VM.
pub(super) fn holder<'a>(seen: &Observed<'a>) -> Option<&'a Machine> {
    seen.vm_rivals.iter().map(|rival| &**rival).min_by_key(|rival| (rival.is_deleting(), rival.name()))
}

/// Returns the Machine to which a Machine that is being deleted leaves the VM: one that is not being deleted, else the
/// last of those that are. All of them agree on the last one, so that exactly one of them deletes the VM.
fn keeper<'a>(seen: &Observed<'a>) -> Option<&'a Machine> {
    let keeps = |rival: &Machine| !rival.is_deleting() || rival.uid() > seen.machine.uid();
    seen.vm_rivals.iter().map(|rival| &**rival).find(|rival| keeps(rival))
}

/// Ends the deletion of a Machine without a call to the driver, if another Machine keeps the VM.
pub(super) fn leave_vm(seen: &Observed<'_>, facts: &Facts<'_>) -> Option<Plan> {
    let because = shared(seen, keeper(seen)?);
    let message = format!("{because}; the VM and its Node are left to that Machine");
    let event = Event { event_type: EventType::Warning, reason: events::millwright::VM_SHARED, message };
    let patch = MachinePatch { finalizers: facts.without_finalizer(), ..MachinePatch::default() };
    Some(Plan::of(vec![Step::EmitEvent(event), Step::Patch(patch)], Wake::On(Awaited::Change), because))
}

/// Returns what to report about a Machine whose VM another Machine names too.
pub(super) fn remark(seen: &Observed<'_>) -> Option<Event> {
    let because = shared(seen, holder(seen)?);
    let message = format!("{because}; delete the Machine that was created by mistake, the VM stays with the other one");
    Some(Event { event_type: EventType::Warning, reason: events::millwright::VM_SHARED, message })
}

/// Returns why the VM cannot be used.
pub(super) fn shared(seen: &Observed<'_>, with: &Machine) -> Reason {
    let recorded = &seen.machine.spec.provider_id;
    let vm = match seen.vm {
        VmState::Known(vm) if recorded.is_empty() => &vm.provider_id,
        _ => recorded,
    };
    Reason::VmShared { vm: vm.to_string(), with: with.name().to_owned() }
}
