//! A VM that took over the name of a node which is not its own.
//!
//! Clouds hand addresses out again, and where nodes are named after addresses a new VM can be about to register as a node that
//! an earlier VM has left behind. It would inherit that node's labels, taints and pods. So the VM goes at once, the machine is
//! Failed and its set makes another one.
//!
//! The text of the failure is the memory of this: a process that dies before the VM is gone leaves a machine that the next one
//! recognizes, and no machine in this state makes a second VM.

use api::names::{descriptions, events};
use api::view::NodeView;
use api::{Machine, MachinePhase, Object, OperationState, OperationType};

use super::vm::{Call, Origin, Vm, VmState};
use super::{DriverState, Facts, Observed, Plan, Reason, StatusWrite, Step, hold};
use crate::node::is_same_vm;
use crate::{Awaited, Event, EventType, Presence, Wake};

/// The node whose name a VM that was just made has been given, if it is not the VM's own.
pub(super) fn taken_over<'a>(seen: &Observed<'a>, vm: &Vm) -> Option<&'a NodeView> {
    let Presence::Present(node) = seen.namesake else { return None };
    let fresh = matches!(vm.origin, Origin::Made { .. });
    // A node that is named after its machine may well have come before the answer did.
    let own_name = vm.node_name.as_str() == seen.machine.name();
    (fresh && !own_name && node.name() == vm.node_name.as_str() && !is_same_vm(&node.spec.provider_id, &vm.provider_id))
        .then_some(node)
}

/// Gives the machine up, and its VM back.
pub(super) fn give_up(seen: &Observed<'_>, node: &NodeView) -> Plan {
    let because = Reason::StaleNode(node.name().to_owned());
    let text = descriptions::STALE_NODE.to_owned();
    let (kind, state) = (OperationType::Create, OperationState::Failed);
    let write = StatusWrite::change(seen.machine, MachinePhase::Failed, kind, state, text, seen.now);
    let event = Event { event_type: EventType::Warning, reason: events::ours::GIVEN_UP, message: because.to_string() };
    let steps = vec![Step::Status(write), Step::Tell(event), Step::Driver(Call::Delete)];
    Plan::of(steps, Wake::On(Awaited::DriverAnswer), because)
}

/// Whether the machine was marked Failed for a stale node and may still have its VM.
pub(super) fn was_given_up(machine: &Machine, facts: &Facts<'_>) -> bool {
    *facts.phase == MachinePhase::Failed
        && facts.provider_id.is_none()
        && machine.status.last_operation.description == descriptions::STALE_NODE
}

/// Sees to it that the VM goes.
pub(super) fn plan(seen: &Observed<'_>) -> Plan {
    let waits = || Plan::wait(Wake::On(Awaited::Change), Reason::AwaitsReplacement);
    let call = |call| Plan::of(vec![Step::Driver(call)], Wake::On(Awaited::DriverAnswer), Reason::LeftoverVm);
    if seen.class.present().is_none() || matches!(seen.driver, DriverState::Missing(_)) {
        return waits(); // nobody can be asked; the machine's own deletion will say so
    }
    if let Some(call) = seen.call_under_way {
        return Plan::await_answer(call);
    }
    match seen.vm {
        VmState::Unasked => call(Call::Status),
        VmState::Known(_) => call(Call::Delete),
        VmState::Absent | VmState::Gone { .. } => waits(),
        VmState::Failed(failure) => {
            let at = super::facts::later(failure.at, hold::creation_delay(failure, seen.policy));
            if at <= seen.now {
                return call(Call::Status);
            }
            let because = Reason::CallFailed { call: failure.call, code: failure.code };
            Plan::wait(Wake::By { awaited: Awaited::Retry, at }, because)
        }
    }
}
