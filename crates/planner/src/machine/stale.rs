//! Handles a VM that has the name of another VM's Node.
//!
//! Providers reuse addresses. Where Nodes are named after addresses, a new VM can register as a Node that an earlier VM
//! has left behind. It would inherit the labels, taints and pods of that Node. Therefore the VM is deleted, the Machine
//! is marked Failed, and its MachineSet replaces it.
//!
//! The text of the failure records this state: if the process stops before the VM is deleted, the next process
//! recognizes the Machine, and no Machine in this state creates a second VM.

use api::names::events;
use api::texts;
use api::view::NodeView;
use api::{Machine, MachinePhase, Object, OperationState, OperationType};

use super::vm::{Call, Origin, Vm, VmState};
use super::{DriverState, Facts, Observed, Plan, Reason, StatusWrite, Step, retry};
use crate::node::is_same_vm;
use crate::{Awaited, Event, EventType, Presence, Wake};

/// Returns the Node whose name a new VM was given, if it is not the Node of that VM.
pub(super) fn stale_node<'a>(seen: &Observed<'a>, vm: &Vm) -> Option<&'a NodeView> {
    let Presence::Present(node) = seen.namesake else { return None };
    let fresh = matches!(vm.origin, Origin::Created { .. });
    // A Node that is named after its Machine may have registered before the response of the driver.
    let own_name = vm.node_name.as_str() == seen.machine.name();
    (fresh && !own_name && node.name() == vm.node_name.as_str() && !is_same_vm(&node.spec.provider_id, &vm.provider_id))
        .then_some(node)
}

/// Marks the Machine Failed and deletes its VM.
pub(super) fn mark_failed(seen: &Observed<'_>, node: &NodeView) -> Plan {
    let because = Reason::StaleNode(node.name().to_owned());
    let text = texts::STALE_NODE.to_owned();
    let (kind, state) = (OperationType::Create, OperationState::Failed);
    let write = StatusWrite::change(seen.machine, MachinePhase::Failed, kind, state, text, seen.now);
    let event =
        Event { event_type: EventType::Warning, reason: events::millwright::GIVEN_UP, message: because.to_string() };
    let steps = vec![Step::Status(write), Step::EmitEvent(event), Step::Driver(Call::Delete)];
    Plan::of(steps, Wake::On(Awaited::DriverAnswer), because)
}

/// Returns whether the Machine was marked Failed because of a stale Node and may still have its VM.
pub(super) fn is_marked_failed(machine: &Machine, facts: &Facts<'_>) -> bool {
    *facts.phase == MachinePhase::Failed
        && facts.provider_id.is_none()
        && machine.status.last_operation.description == texts::STALE_NODE
}

/// Deletes the VM of a Machine that is marked Failed.
pub(super) fn plan(seen: &Observed<'_>) -> Plan {
    let wait = || Plan::wait(Wake::On(Awaited::Change), Reason::AwaitsReplacement);
    let call = |call| Plan::of(vec![Step::Driver(call)], Wake::On(Awaited::DriverAnswer), Reason::LeftoverVm);
    if seen.class.present().is_none() || matches!(seen.driver, DriverState::Missing(_)) {
        return wait(); // no driver can be queried; the deletion of the Machine reports it
    }
    if let Some(call) = seen.call_under_way {
        return Plan::await_answer(call);
    }
    match seen.vm {
        VmState::Unknown => call(Call::Status),
        VmState::Known(_) => call(Call::Delete),
        VmState::Absent | VmState::Deleted { .. } => wait(),
        VmState::Failed(failure) => {
            let at = super::facts::later(failure.at, retry::creation_delay(failure, seen.policy));
            if at <= seen.now {
                return call(Call::Status);
            }
            let because = Reason::CallFailed { call: failure.call, code: failure.code };
            Plan::wait(Wake::By { awaited: Awaited::Retry, at }, because)
        }
    }
}
