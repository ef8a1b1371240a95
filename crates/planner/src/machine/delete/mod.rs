//! From a machine that must go to nothing left of it.
//!
//! The text in `status.lastOperation.description` says how far a deletion has come, because the reference keeps its state there:
//! a deletion begun by one is finished by the other. Only two of its texts must be written by us: *terminating*, so that nobody
//! counts on the machine, and *VM deletion*, so that nobody drains a node whose VM is already going. The other steps can be seen
//! from the world itself (the VM is gone, the node is gone) and are taken at once.
//!
//! What happens to the pods and volumes on the node is in [`drain`].
//!
//! A node that is not in the cache may be there all the same ([`node_lookup`](super::node_lookup)).
//!
//! A node that runs on the VM of another machine ([`node::assignment`]) is left alone, whatever this machine's label says: draining or
//! deleting it would take it from a machine that nobody asked to delete. So is one of which nobody can tell whose it is.

mod drain;
mod removal;

pub use removal::removal_failed;

use std::time::Duration;

use api::deletion::Step as Stage;
use api::descriptions::deletion as text;
use api::names::{annotations, descriptions, events, finalizers};
use api::view::NodeView;
use api::{Code, CodedText, MachinePhase, Object};

use super::hold::{Hold, Outlook};
use super::living::{assignment, assignment_of, correct_label, requests_deletion};
use super::node_lookup::{Absence, absence, confess, removal_given_up};
use super::vm::{Call, Failure, Vm, VmState};
use super::{
    DriverState, Facts, MachinePatch, Observed, Plan, Reason, SecretState, StatusWrite, Step, Target, awaits_class,
    facts, hold, shared_vm,
};
use crate::drain::{ForceLabel, Request};
use crate::node::{Mismatch, NodeAssignment};
use crate::{Awaited, Event, EventType, Presence, Wake, node};

pub(super) fn plan(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    if facts.without_our_finalizer().is_none() {
        return Plan::wait(Wake::On(Awaited::Change), Reason::NotOurs);
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
            Absence::Open(plan) => plan,
            Absence::Certain | Absence::Assumed(_) => drain::detach(seen, facts),
        },
        Stage::DeleteVm => delete_vm(seen),
        Stage::DeleteNode => keep_note(seen).unwrap_or_else(|| delete_node(seen, facts)),
        Stage::RemoveFinalizer => let_go(facts),
    }
}

/// How far the deletion has come: what the text says, moved on by what the cloud has said since. `None` = it has not begun.
pub(super) fn stage(seen: &Observed<'_>) -> Option<Stage> {
    let written = Stage::of(seen.machine)?;
    let vm_gone = matches!(seen.vm, VmState::Gone { .. });
    Some(if vm_gone && matches!(written, Stage::DeleteVolumeAttachments | Stage::DeleteVm) {
        Stage::DeleteNode
    } else {
        written
    })
}

/// D1: nobody may count on it any more. A machine goes at once if its class never existed or nobody serves its provider, and nothing
/// that is written down says that a VM was asked for: nobody can have made one.
fn begin(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let nobody_to_ask = matches!(seen.class, Presence::Absent) || matches!(seen.driver, DriverState::Missing(_));
    let untried = matches!(facts.phase, MachinePhase::New | MachinePhase::Terminating)
        && seen.machine.status.last_operation.error_code.is_empty();
    let unmade = facts.provider_id.is_none()
        && facts.node_name.is_none()
        && !matches!(seen.vm, VmState::Known(_))
        && !facts::may_have_lost_vm(seen);
    if nobody_to_ask && untried && unmade {
        return awaits_class(seen).unwrap_or_else(|| let_go(facts));
    }
    let write = StatusWrite::terminating(seen.machine, deletion_reason(seen).as_deref(), seen.now);
    let event =
        Event { event_type: EventType::Normal, reason: events::ours::TERMINATING, message: "deletion begins".into() };
    Plan::of(vec![Step::Status(write), Step::Tell(event)], Wake::Again, Reason::DeletionAsked)
}

/// Returns why the Machine is deleted, if its Node says so.
fn deletion_reason(seen: &Observed<'_>) -> Option<String> {
    let Target::Cluster { node: Presence::Present(node), .. } = seen.target else { return None };
    let requested = requests_deletion(seen, node) && assignment(seen, node).holds();
    requested.then(|| format!("Node {} has the annotation {}.", node.name(), annotations::TRIGGER_DELETION))
}

/// D2: which node the machine became. Only then can it be emptied.
fn locate_node(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let Target::Cluster { node, drain_view, .. } = seen.target else {
        return begin_vm_deletion(seen, descriptions::NO_TARGET_CLUSTER);
    };
    if let Absence::Open(plan) = absence(seen, facts, Stage::Drain) {
        return plan;
    }
    let Some(name) = node.present().map(Object::name).or(facts.node_name) else { return find_node(seen) };
    match assignment_of(seen, node) {
        NodeAssignment::Lost { to } => {
            begin_vm_deletion(seen, &format!("Node {name} runs on the VM of machine {to} and is left alone."))
        }
        NodeAssignment::Foreign(mismatch) => begin_vm_deletion(seen, &left_alone(name, &mismatch)),
        NodeAssignment::Open { with } => drain::wait_for_owner(seen, name, node, &with),
        NodeAssignment::Undisputed | NodeAssignment::Won { .. } => drain::drain(seen, name, node, drain_view),
    }
}

/// What a deletion reports about a Node that cannot be the Machine's.
fn left_alone(name: &str, mismatch: &Mismatch) -> String {
    format!("Node {name} {mismatch} and is left alone.")
}

/// Nobody has written down which node the machine became: it was deleted before that, or the process died in between. The cloud
/// knows; without asking it, a node that has registered all the same would be left behind.
fn find_node(seen: &Observed<'_>) -> Plan {
    let unknown = || begin_vm_deletion(seen, descriptions::NO_NODE_NAME);
    if let Some(wait) = awaits_class(seen) {
        return wait;
    }
    if seen.class.present().is_none() || matches!(seen.driver, DriverState::Missing(_)) {
        return unknown(); // nobody can be asked; the deletion of the VM will say what is missing
    }
    match seen.vm {
        // The label is not written: it would claim the Node of another VM.
        VmState::Known(vm) if let Some((node, mismatch)) = foreign_namesake(seen, vm) => {
            begin_vm_deletion(seen, &left_alone(node.name(), &mismatch))
        }
        VmState::Known(vm) if !vm.node_name.is_empty() => {
            let patch = MachinePatch { node_label: Some(vm.node_name.clone()), ..MachinePatch::default() };
            Plan::of(vec![Step::Patch(patch)], Wake::Again, Reason::NodeNamed(vm.node_name.to_string()))
        }
        VmState::Known(_) | VmState::Absent | VmState::Gone { .. } => unknown(),
        // There is a VM, and the driver does not say which node it is to become. It can be deleted all the same.
        VmState::Failed(failure) if (failure.call, failure.code) == (Call::Status, Code::Uninitialized) => unknown(),
        // Several VMs have the name of the Machine, so no single Node can be named. A deletion by name removes all of them.
        VmState::Failed(failure) if (failure.call, failure.code) == (Call::Status, Code::OutOfRange) => {
            begin_vm_deletion_without_node(seen, failure)
        }
        VmState::Failed(failure) if failure.call == Call::Status && is_lasting(seen, failure) => {
            begin_vm_deletion_without_node(seen, failure)
        }
        VmState::Failed(failure) if failure.call == Call::Status => {
            let (delay, text) = if hold::passes(failure.code) {
                (seen.policy.short_retry, text::vm_status_unavailable())
            } else {
                (seen.policy.medium_retry, text::vm_status_failed(&failure.text))
            };
            let write = StatusWrite::deletion_failed(text, seen.now);
            hold::hold_up(seen, failure, Hold { delay, write, again: Call::Status, outlook: Outlook::NextTry })
        }
        VmState::Unasked | VmState::Failed(_) => {
            Plan::of(vec![Step::Driver(Call::Status)], Wake::On(Awaited::DriverAnswer), Reason::NodeUnknown)
        }
    }
}

/// Returns whether the deletion stops waiting for the driver to name the Node: if force is asked for and the failure does not pass by
/// itself, and in any case once the drain timeout has passed.
fn is_lasting(seen: &Observed<'_>, failure: &Failure) -> bool {
    let request = Request::for_deletion(seen.machine, "", Presence::Absent, &seen.policy.drain, seen.outages);
    let forced = request.force == ForceLabel::Set && !hold::passes(failure.code);
    let timed_out =
        |deleted| seen.outages.deadline_within(deleted, request.timeout, Duration::ZERO, seen.now) <= seen.now;
    forced || request.reference.is_some_and(timed_out)
}

/// Starts the deletion of a VM whose Node is unknown, and reports that a Node may be left.
fn begin_vm_deletion_without_node(seen: &Observed<'_>, failure: &Failure) -> Plan {
    let said = CodedText::parse(&failure.text).map_or(failure.text.as_str(), |coded| coded.message);
    let mut plan = begin_vm_deletion(seen, &format!("Driver failed to name the Node: {}: {said}.", failure.code));
    let message = format!(
        "deleting the VM by the name of the Machine without a drain, because the driver failed to name its Node: {}: {said}; \
         if a Node of the VM remains, delete it by hand",
        failure.code
    );
    let (event_type, reason) = (EventType::Warning, events::ours::NODE_MAY_BE_LEFT);
    plan.steps.push(Step::Tell(Event { event_type, reason, message }));
    plan
}

/// Returns the Node that has the name which the driver reports for the VM, if that Node cannot be the Machine's.
fn foreign_namesake<'a>(seen: &Observed<'a>, vm: &Vm) -> Option<(&'a NodeView, Mismatch)> {
    let node = seen.namesake.present()?;
    node::mismatch(&vm.provider_id, node).map(|mismatch| (node, mismatch))
}

/// From here on the node is not touched again until the VM is gone, whoever carries on.
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
        Presence::Absent => return stuck(seen, Reason::NoClass(class_name), Awaited::Class),
        Presence::Undecodable => return stuck(seen, Reason::UnreadableClass(class_name), Awaited::Class),
        Presence::Present(_) => {}
    }
    if let DriverState::Missing(why) = seen.driver {
        return stuck(seen, Reason::NoDriver(why.clone()), Awaited::Class);
    }
    if *seen.secret == SecretState::Fetching {
        let at = facts::later(seen.now, seen.policy.short_retry);
        return Plan::wait(
            Wake::By { awaited: Awaited::Secret, at },
            Reason::NoSecret("its Secret is being read".into()),
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
    let (delay, text) = if hold::passes(failure.code) {
        (seen.policy.short_retry, text::vm_deletion_unavailable(&failure.text))
    } else {
        (seen.policy.long_retry, text::vm_deletion_failed(&failure.text))
    };
    // A driver that leaves no note leaves its last one as it is. The reference clears it here.
    let last_known_state = failure.last_known_state.clone();
    let write = StatusWrite { last_known_state, ..StatusWrite::deletion_failed(text, seen.now) };
    hold::hold_up(seen, failure, Hold { delay, write, again: Call::Delete, outlook: Outlook::NextTry })
}

/// The note that the driver left when it deleted the VM, if it is news: the machine may stay for its node, and whoever asks for
/// the deletion again after a restart must be able to show it.
fn keep_note(seen: &Observed<'_>) -> Option<Plan> {
    let VmState::Gone { last_known_state: Some(note) } = seen.vm else { return None };
    if *note == seen.machine.status.last_known_state {
        return None;
    }
    let write = StatusWrite {
        last_known_state: Some(note.clone()),
        ..StatusWrite::deletion_goes_on(text::vm_deleted(), seen.now)
    };
    Some(Plan::of(vec![Step::Status(write)], Wake::Again, Reason::VmDeleted))
}

/// Our finalizer leaves the node first, and with the node's uid as guard: a new node of the same name is somebody else's.
fn delete_node(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let node = match seen.target {
        Target::Cluster { node: Presence::Present(node), .. } => match assignment(seen, node) {
            NodeAssignment::Undisputed | NodeAssignment::Won { .. } => node,
            // Whose VM it runs on is not ours to guess; the last machine that names it will see to it.
            NodeAssignment::Lost { .. } | NodeAssignment::Open { .. } => return let_go(facts),
            NodeAssignment::Foreign(mismatch) => {
                let message = format!("VM is deleted; {}", left_alone(node.name(), &mismatch));
                let event = Event { event_type: EventType::Normal, reason: events::ours::GONE, message };
                return remove_finalizer(facts, event, Reason::NothingLeft);
            }
        },
        // It is there: without it the machine would leave a node behind that nobody can delete, for our finalizer is on it.
        Target::Cluster { node: Presence::Undecodable, .. } => return unreadable_node(seen, facts),
        Target::Cluster { node: Presence::Absent, .. } | Target::None => return end_without_node(seen, facts),
    };
    let name = node.name().to_owned();
    if let Some((event, because)) = removal_given_up(seen, &name) {
        return remove_finalizer(facts, event, because);
    }
    let uid = node.uid();
    let mut steps: Vec<Step> = node::let_go(node).map(Step::PatchNode).into_iter().collect();
    if !node.is_deleting() {
        steps.push(Step::DeleteNode { name: name.clone(), uid });
    }
    if steps.is_empty() {
        // Someone else's finalizer holds the node. It is no longer ours to wait for: the machine may go.
        return let_go(facts);
    }
    Plan::of(steps, Wake::Again, Reason::NodeLeft(name))
}

/// It has no node, as far as anybody knows.
fn end_without_node(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    match absence(seen, facts, Stage::DeleteNode) {
        Absence::Open(plan) => plan,
        Absence::Certain => let_go(facts),
        Absence::Assumed(failure) => {
            let (name, why) = (facts.node_name.unwrap_or_default().to_owned(), failure.why.clone());
            remove_finalizer(facts, confess(&name, failure), Reason::NodeUncertain { name, why })
        }
    }
}

/// Whether nothing is left to do about its node.
pub(super) fn is_done_with_node(seen: &Observed<'_>, facts: &Facts<'_>) -> bool {
    match seen.target {
        Target::Cluster { node: Presence::Present(node), .. } => {
            !assignment(seen, node).holds() || (node.is_deleting() && node::let_go(node).is_none())
        }
        Target::Cluster { node: Presence::Undecodable, .. } => false,
        Target::Cluster { node: Presence::Absent, .. } | Target::None => {
            !matches!(absence(seen, facts, Stage::DeleteNode), Absence::Open(_))
        }
    }
}

fn let_go(facts: &Facts<'_>) -> Plan {
    let event =
        Event { event_type: EventType::Normal, reason: events::ours::GONE, message: Reason::NothingLeft.to_string() };
    remove_finalizer(facts, event, Reason::NothingLeft)
}

fn remove_finalizer(facts: &Facts<'_>, event: Event, because: Reason) -> Plan {
    let patch = MachinePatch { finalizers: facts.without_our_finalizer(), ..MachinePatch::default() };
    Plan::of(vec![Step::Tell(event), Step::Patch(patch)], Wake::On(Awaited::Change), because)
}

/// The VM cannot be deleted for want of its class; the text keeps its place in the deletion.
fn stuck(seen: &Observed<'_>, because: Reason, awaited: Awaited) -> Plan {
    let text = Stage::DeleteVm.describe(&format!("{because}."));
    blocked(seen, text, because, awaited)
}

fn unreadable_node(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let because = Reason::NodeUnreadable(facts.node_name.unwrap_or_default().to_owned());
    let text = text::node_lookup_failed(Stage::DeleteNode, facts.node_name.unwrap_or_default(), "it cannot be read");
    blocked(seen, text, because, Awaited::Node)
}

/// What people can do about it, where the reason alone does not say.
fn advice(because: &Reason) -> String {
    match because {
        Reason::NoDriver(_) => format!(
            "; start a driver for this provider, or correct the provider of its MachineClass; if it certainly has no VM, \
             remove the finalizer {} from the Machine",
            finalizers::MACHINE
        ),
        Reason::NoClass(_) => format!(
            "; create the MachineClass again; if the Machine certainly has no VM, remove the finalizer {} from the Machine",
            finalizers::MACHINE
        ),
        _ => String::new(),
    }
}

/// Somebody has to mend something before the deletion can go on.
fn blocked(seen: &Observed<'_>, text: String, because: Reason, awaited: Awaited) -> Plan {
    let write = StatusWrite::deletion_failed(text, seen.now);
    let mut steps = Vec::new();
    if write.is_news(seen.machine, seen.policy, seen.now) {
        let message = format!("deletion cannot go on: {because}{}", advice(&because));
        steps.push(Step::Status(write));
        steps.push(Step::Tell(Event { event_type: EventType::Warning, reason: "DeletionBlocked", message }));
    }
    let at = facts::later(seen.now, seen.policy.long_retry);
    Plan::of(steps, Wake::By { awaited, at }, because)
}
