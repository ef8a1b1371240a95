//! Deletes a Machine with its VM and its Node.
//!
//! The text in `status.lastOperation.description` records how far a deletion has come, because MCM keeps its state
//! there: either controller can finish a deletion that the other one began. Only two of these texts must be written:
//! *terminating*, so that the Machine is not counted any more, and *VM deletion*, so that a Node is not drained while
//! its VM is being deleted. The other steps can be derived from the observed state (the VM is deleted, the Node is
//! deleted) and are executed directly.
//!
//! The drain of pods and volumes is in [`drain`].
//!
//! A Node that is not in the cache may still exist ([`node_lookup`](super::node_lookup)).
//!
//! A Node that runs on the VM of another Machine ([`node::assignment`]) is not changed, even if the label of this
//! Machine names it: draining or deleting it would affect a Machine that is not being deleted. The same holds for a
//! Node whose VM is unknown.

mod drain;
mod removal;

pub use removal::removal_failed;

use std::time::Duration;

use api::deletion::Step as Stage;
use api::names::{annotations, events, finalizers};
use api::texts;
use api::texts::deletion as text;
use api::view::NodeView;
use api::{Code, CodedText, MachinePhase, Object};

use super::living::{assignment, assignment_of, correct_label, requests_deletion};
use super::node_lookup::{Absence, absence, node_may_remain, removal_failed_for_too_long};
use super::retry::{NextAttempt, Retry};
use super::vm::{Call, Failure, Vm, VmState};
use super::{
    DriverState, Facts, MachinePatch, Observed, Plan, Reason, SecretState, StatusWrite, Step, Target, awaits_class,
    facts, retry, shared_vm,
};
use crate::drain::{ForceLabel, Request};
use crate::node::{Mismatch, NodeAssignment};
use crate::{Awaited, Event, EventType, Presence, Wake, node};

pub(super) fn plan(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    if facts.without_finalizer().is_none() {
        return Plan::wait(Wake::On(Awaited::Change), Reason::OtherFinalizer);
    }
    if let Some(call) = seen.call_under_way {
        return Plan::await_answer(call);
    }
    let Some(stage) = stage(seen) else { return begin(seen, facts) };
    if let Some(plan) = shared_vm::leave_vm(seen, facts).filter(|_| stage < Stage::DeleteNode) {
        return plan;
    }
    if let Some(plan) = correct_label(seen, facts).filter(|_| stage != Stage::RemoveFinalizer) {
        return plan;
    }
    match stage {
        Stage::GetVmStatus | Stage::Drain => locate_node(seen, facts),
        Stage::DeleteVolumeAttachments => match absence(seen, facts, stage) {
            Absence::Unconfirmed(plan) => plan,
            Absence::Confirmed | Absence::Assumed(_) => drain::detach(seen, facts),
        },
        Stage::DeleteVm => delete_vm(seen),
        Stage::DeleteNode => record_last_known_state(seen).unwrap_or_else(|| delete_node(seen, facts)),
        Stage::RemoveFinalizer => finish(facts),
    }
}

/// Returns the stage of the deletion: what the text says, advanced by the state of the VM. `None` if the deletion has
/// not begun.
pub(super) fn stage(seen: &Observed<'_>) -> Option<Stage> {
    let written = Stage::of(seen.machine)?;
    let vm_gone = matches!(seen.vm, VmState::Deleted { .. });
    Some(if vm_gone && matches!(written, Stage::DeleteVolumeAttachments | Stage::DeleteVm) {
        Stage::DeleteNode
    } else {
        written
    })
}

/// D1: marks the Machine Terminating. A Machine is deleted immediately if its MachineClass never existed or no driver
/// serves its provider, and nothing recorded shows that a VM was requested: then no VM can exist.
fn begin(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let no_driver = matches!(seen.class, Presence::Absent) || matches!(seen.driver, DriverState::Missing(_));
    let untried = matches!(facts.phase, MachinePhase::New | MachinePhase::Terminating)
        && seen.machine.status.last_operation.error_code.is_empty();
    let no_vm_recorded = facts.provider_id.is_none()
        && facts.node_name.is_none()
        && !matches!(seen.vm, VmState::Known(_))
        && !facts::may_have_lost_vm(seen);
    if no_driver && untried && no_vm_recorded {
        return awaits_class(seen).unwrap_or_else(|| finish(facts));
    }
    let write = StatusWrite::terminating(seen.machine, deletion_reason(seen).as_deref(), seen.now);
    let event = Event {
        event_type: EventType::Normal,
        reason: events::millwright::TERMINATING,
        message: "deletion started".into(),
    };
    Plan::of(vec![Step::Status(write), Step::EmitEvent(event)], Wake::Again, Reason::DeletionRequested)
}

/// Returns why the Machine is deleted, if its Node says so.
fn deletion_reason(seen: &Observed<'_>) -> Option<String> {
    let Target::Cluster { node: Presence::Present(node), .. } = seen.target else { return None };
    let requested = requests_deletion(seen, node) && assignment(seen, node).is_own();
    requested.then(|| format!("Node {} has the annotation {}.", node.name(), annotations::TRIGGER_DELETION))
}

/// D2: determines the Node of the Machine, which is drained next.
fn locate_node(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let Target::Cluster { node, drain_view, .. } = seen.target else {
        return begin_vm_deletion(seen, texts::NO_TARGET_CLUSTER);
    };
    if let Absence::Unconfirmed(plan) = absence(seen, facts, Stage::Drain) {
        return plan;
    }
    let Some(name) = node.present().map(Object::name).or(facts.node_name) else { return find_node(seen) };
    match assignment_of(seen, node) {
        NodeAssignment::Other { machine } => {
            begin_vm_deletion(seen, &format!("Node {name} runs on the VM of Machine {machine} and is not changed."))
        }
        NodeAssignment::Foreign(mismatch) => begin_vm_deletion(seen, &not_changed(name, &mismatch)),
        NodeAssignment::Unknown { rivals } => drain::wait_for_owner(seen, name, node, &rivals),
        NodeAssignment::Undisputed | NodeAssignment::OwnDisputed { .. } => drain::drain(seen, name, node, drain_view),
    }
}

/// What a deletion reports about a Node that cannot be the Machine's.
fn not_changed(name: &str, mismatch: &Mismatch) -> String {
    format!("Node {name} {mismatch} and is not changed.")
}

/// Queries the driver for the name of the Node, if it is not recorded: the Machine was deleted before that, or the
/// process stopped in between. Otherwise a registered Node would be left behind.
fn find_node(seen: &Observed<'_>) -> Plan {
    let unknown = || begin_vm_deletion(seen, texts::NO_NODE_NAME);
    if let Some(wait) = awaits_class(seen) {
        return wait;
    }
    if seen.class.present().is_none() || matches!(seen.driver, DriverState::Missing(_)) {
        return unknown(); // no driver can be queried; the deletion of the VM reports what is missing
    }
    match seen.vm {
        // The label is not written: it would claim the Node of another VM.
        VmState::Known(vm) if let Some((node, mismatch)) = foreign_namesake(seen, vm) => {
            begin_vm_deletion(seen, &not_changed(node.name(), &mismatch))
        }
        VmState::Known(vm) if !vm.node_name.is_empty() => {
            let patch = MachinePatch::default().with_node(vm.node_name.as_str());
            Plan::of(vec![Step::Patch(patch)], Wake::Again, Reason::NodeNamed(vm.node_name.to_string()))
        }
        VmState::Known(_) | VmState::Absent | VmState::Deleted { .. } => unknown(),
        // The VM exists, and the driver does not report the name of its Node. The VM can be deleted nevertheless.
        VmState::Failed(failure) if (failure.call, failure.code) == (Call::Status, Code::Uninitialized) => unknown(),
        // Several VMs have the name of the Machine, so no single Node can be named. A deletion by name removes all of
        // them.
        VmState::Failed(failure) if (failure.call, failure.code) == (Call::Status, Code::OutOfRange) => {
            begin_vm_deletion_without_node(seen, failure)
        }
        VmState::Failed(failure) if failure.call == Call::Status && is_lasting(seen, failure) => {
            begin_vm_deletion_without_node(seen, failure)
        }
        VmState::Failed(failure) if failure.call == Call::Status => {
            let (delay, text) = if retry::is_transient(failure.code) {
                (seen.policy.short_retry, text::vm_status_unavailable())
            } else {
                (seen.policy.medium_retry, text::vm_status_failed(&failure.text))
            };
            let write = StatusWrite::deletion_failed(text, seen.now);
            retry::plan(seen, failure, Retry { delay, write, call: Call::Status, next: NextAttempt::AfterBackoff })
        }
        VmState::Unknown | VmState::Failed(_) => {
            Plan::of(vec![Step::Driver(Call::Status)], Wake::On(Awaited::DriverAnswer), Reason::NodeUnknown)
        }
    }
}

/// Returns whether the deletion stops waiting for the name of the Node: if force is requested and the error is
/// permanent, and in any case after the drain timeout.
fn is_lasting(seen: &Observed<'_>, failure: &Failure) -> bool {
    let request = Request::for_deletion(seen.machine, "", Presence::Absent, &seen.policy.drain, seen.outages);
    let forced = request.force == ForceLabel::Set && !retry::is_transient(failure.code);
    let timed_out =
        |deleted| seen.outages.deadline_within(deleted, request.timeout, Duration::ZERO, seen.now) <= seen.now;
    forced || request.reference.is_some_and(timed_out)
}

/// Starts the deletion of a VM whose Node is unknown, and reports that a Node may remain.
fn begin_vm_deletion_without_node(seen: &Observed<'_>, failure: &Failure) -> Plan {
    let said = CodedText::parse(&failure.text).map_or(failure.text.as_str(), |coded| coded.message);
    let mut plan = begin_vm_deletion(seen, &format!("Driver failed to name the Node: {}: {said}.", failure.code));
    let message = format!(
        "deleting the VM by the name of the Machine without a drain, because the driver failed to name its Node: {}: {said}; \
         if a Node of the VM remains, delete it manually",
        failure.code
    );
    let (event_type, reason) = (EventType::Warning, events::millwright::NODE_MAY_BE_LEFT);
    plan.steps.push(Step::EmitEvent(Event { event_type, reason, message }));
    plan
}

/// Returns the Node that has the name which the driver reports for the VM, if that Node cannot be the Machine's.
fn foreign_namesake<'a>(seen: &Observed<'a>, vm: &Vm) -> Option<(&'a NodeView, Mismatch)> {
    let node = seen.namesake.present()?;
    node::mismatch(&vm.provider_id, node).map(|mismatch| (node, mismatch))
}

/// Starts the deletion of the VM. From here on the Node is not changed until the VM is deleted.
fn begin_vm_deletion(seen: &Observed<'_>, why: &str) -> Plan {
    let write = StatusWrite::deleting(Stage::DeleteVm, why, seen.now);
    Plan::of(vec![Step::Status(write)], Wake::Again, Reason::ReadyToDeleteVm)
}

fn delete_vm(seen: &Observed<'_>) -> Plan {
    if let Some(wait) = awaits_class(seen) {
        return wait;
    }
    let class_name = seen.machine.spec.class.name.clone();
    match seen.class {
        Presence::Absent => return blocked_vm_deletion(seen, Reason::ClassMissing(class_name), Awaited::Class),
        Presence::Undecodable(()) => {
            return blocked_vm_deletion(seen, Reason::ClassUndecodable(class_name), Awaited::Class);
        }
        Presence::Present(_) => {}
    }
    if let DriverState::Missing(why) = seen.driver {
        return blocked_vm_deletion(seen, Reason::DriverMissing(why.clone()), Awaited::Class);
    }
    if *seen.secret == SecretState::Fetching {
        let at = facts::later(seen.now, seen.policy.short_retry);
        return Plan::wait(
            Wake::By { awaited: Awaited::Secret, at },
            Reason::SecretUnusable("waiting for the Secret of the MachineClass".into()),
        );
    }
    match seen.vm {
        VmState::Failed(failure) if failure.call == Call::Delete => retry_later(seen, failure),
        _ => call_delete(),
    }
}

fn call_delete() -> Plan {
    Plan::of(vec![Step::Driver(Call::Delete)], Wake::On(Awaited::DriverAnswer), Reason::ReadyToDeleteVm)
}

fn retry_later(seen: &Observed<'_>, failure: &Failure) -> Plan {
    let (delay, text) = if retry::is_transient(failure.code) {
        (seen.policy.short_retry, text::vm_deletion_unavailable(&failure.text))
    } else {
        (seen.policy.long_retry, text::vm_deletion_failed(&failure.text))
    };
    // Without a last known state in the error, the recorded one is kept. MCM clears it.
    let last_known_state = failure.last_known_state.clone();
    let write = StatusWrite { last_known_state, ..StatusWrite::deletion_failed(text, seen.now) };
    retry::plan(seen, failure, Retry { delay, write, call: Call::Delete, next: NextAttempt::AfterBackoff })
}

/// Records the last known state that the driver returned with the deletion of the VM. The Machine may wait for its
/// Node, and a repeated call after a restart needs it.
fn record_last_known_state(seen: &Observed<'_>) -> Option<Plan> {
    let VmState::Deleted { last_known_state: Some(note) } = seen.vm else { return None };
    if *note == seen.machine.status.last_known_state {
        return None;
    }
    let write = StatusWrite {
        last_known_state: Some(note.clone()),
        ..StatusWrite::deletion_continues(text::vm_deleted(), seen.now)
    };
    Some(Plan::of(vec![Step::Status(write)], Wake::Again, Reason::VmDeleted))
}

/// Removes the finalizer from the Node, then deletes the Node, both guarded by its UID: a new Node of the same name
/// does not belong to the Machine.
fn delete_node(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let node = match seen.target {
        Target::Cluster { node: Presence::Present(node), .. } => match assignment(seen, node) {
            NodeAssignment::Undisputed | NodeAssignment::OwnDisputed { .. } => node,
            // The VM of the Node is unknown. The last Machine that names the Node deletes it.
            NodeAssignment::Other { .. } | NodeAssignment::Unknown { .. } => return finish(facts),
            NodeAssignment::Foreign(mismatch) => {
                let message = format!("VM is deleted; {}", not_changed(node.name(), &mismatch));
                let event = Event { event_type: EventType::Normal, reason: events::millwright::GONE, message };
                return remove_finalizer(facts, event, Reason::Deleted);
            }
        },
        // The Node exists and has the controller's finalizer. Without the Machine it could never be deleted.
        Target::Cluster { node: Presence::Undecodable(()), .. } => return undecodable_node(seen, facts),
        Target::Cluster { node: Presence::Absent, .. } | Target::None => return end_without_node(seen, facts),
    };
    let name = node.name().to_owned();
    if let Some((event, because)) = removal_failed_for_too_long(seen, &name) {
        return remove_finalizer(facts, event, because);
    }
    let uid = node.uid();
    let mut steps: Vec<Step> = node::release(node).map(Step::PatchNode).into_iter().collect();
    if !node.is_deleting() {
        steps.push(Step::DeleteNode { name: name.clone(), uid });
    }
    if steps.is_empty() {
        // Another finalizer remains on the Node. The Machine does not wait for it.
        return finish(facts);
    }
    Plan::of(steps, Wake::Again, Reason::NodeRemaining(name))
}

/// Ends the deletion of a Machine whose Node is not in the cache.
fn end_without_node(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    match absence(seen, facts, Stage::DeleteNode) {
        Absence::Unconfirmed(plan) => plan,
        Absence::Confirmed => finish(facts),
        Absence::Assumed(failure) => {
            let (name, why) = (facts.node_name.unwrap_or_default().to_owned(), failure.why.clone());
            remove_finalizer(facts, node_may_remain(&name, failure), Reason::NodeLookupFailed { name, why })
        }
    }
}

/// Returns whether the Node needs no further step.
pub(super) fn is_node_done(seen: &Observed<'_>, facts: &Facts<'_>) -> bool {
    match seen.target {
        Target::Cluster { node: Presence::Present(node), .. } => {
            !assignment(seen, node).is_own() || (node.is_deleting() && node::release(node).is_none())
        }
        Target::Cluster { node: Presence::Undecodable(()), .. } => false,
        Target::Cluster { node: Presence::Absent, .. } | Target::None => {
            !matches!(absence(seen, facts, Stage::DeleteNode), Absence::Unconfirmed(_))
        }
    }
}

fn finish(facts: &Facts<'_>) -> Plan {
    let event =
        Event { event_type: EventType::Normal, reason: events::millwright::GONE, message: Reason::Deleted.to_string() };
    remove_finalizer(facts, event, Reason::Deleted)
}

fn remove_finalizer(facts: &Facts<'_>, event: Event, because: Reason) -> Plan {
    let patch = MachinePatch { finalizers: facts.without_finalizer(), ..MachinePatch::default() };
    Plan::of(vec![Step::EmitEvent(event), Step::Patch(patch)], Wake::On(Awaited::Change), because)
}

/// Reports that the VM cannot be deleted without its MachineClass or driver. The text keeps the stage of the deletion.
fn blocked_vm_deletion(seen: &Observed<'_>, because: Reason, awaited: Awaited) -> Plan {
    let text = Stage::DeleteVm.describe(&format!("{because}."));
    blocked(seen, text, because, awaited)
}

fn undecodable_node(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let because = Reason::NodeUndecodable(facts.node_name.unwrap_or_default().to_owned());
    let text =
        text::node_lookup_failed(Stage::DeleteNode, facts.node_name.unwrap_or_default(), "the Node cannot be decoded");
    blocked(seen, text, because, Awaited::Node)
}

/// Returns how to fix the cause, if the reason does not contain it.
fn fix(because: &Reason) -> String {
    match because {
        Reason::DriverMissing(_) => format!(
            "; start a driver for this provider, or correct the provider of its MachineClass; if the Machine certainly has no VM, \
             remove the finalizer {} from the Machine",
            finalizers::MACHINE
        ),
        Reason::ClassMissing(_) => format!(
            "; create the MachineClass again; if the Machine certainly has no VM, remove the finalizer {} from the Machine",
            finalizers::MACHINE
        ),
        _ => String::new(),
    }
}

/// Reports that the deletion waits for a fix of the cause.
fn blocked(seen: &Observed<'_>, text: String, because: Reason, awaited: Awaited) -> Plan {
    let write = StatusWrite::deletion_failed(text, seen.now);
    let mut steps = Vec::new();
    if write.is_new(seen.machine, seen.policy, seen.now) {
        let message = format!("deletion is blocked: {because}{}", fix(&because));
        steps.push(Step::Status(write));
        steps.push(Step::EmitEvent(Event {
            event_type: EventType::Warning,
            reason: events::millwright::DELETION_BLOCKED,
            message,
        }));
    }
    let at = facts::later(seen.now, seen.policy.long_retry);
    Plan::of(steps, Wake::By { awaited, at }, because)
}
