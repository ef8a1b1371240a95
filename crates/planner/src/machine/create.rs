//! From nothing to a VM that is written down and waited for.
//!
//! The order is what makes it safe: ask, create, write down, initialize, wait. A crash between *create* and *write down* is
//! found by asking again; nothing is created on a guess. A machine that has failed for good makes no further VM: it waits to be
//! replaced.

use std::collections::BTreeMap;

use api::names::{annotations, events};
use api::printable::printable;
use api::{Code, CodedText, MachinePhase, Object};
use jiff::Timestamp;

use super::hold::{Hold, Outlook};
use super::reason::MAY_HAVE_VM;
use super::vm::{Call, Failure, Initialized, Origin, Vm, VmState};
use super::{
    DriverState, Facts, MachinePatch, Observed, Plan, Reason, SecretState, StatusWrite, Step, Target, awaits_class,
    facts, hold, refusal, shared_vm, stale,
};
use crate::limiter::{Capacity, Refusal};
use crate::{Awaited, Event, EventType, Presence, Wake, class};

/// Whether the machine has no VM that is known to be waited for.
pub(super) fn is_due(facts: &Facts<'_>) -> bool {
    match facts.phase {
        MachinePhase::New | MachinePhase::CrashLoopBackOff => true,
        MachinePhase::Failed => false,
        _ => facts.provider_id.is_none(),
    }
}

pub(super) fn plan(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    if let Some(wait) = awaits_class(seen) {
        return wait;
    }
    let class_name = seen.machine.spec.class.name.clone();
    match seen.class {
        Presence::Absent if facts::may_have_lost_vm(seen) && facts.provider_id.is_none() => {
            return refusal(seen, Reason::NoClassAnyMore(class_name), "MachineClassNotFound", Awaited::Class);
        }
        Presence::Absent => return refusal(seen, Reason::NoClass(class_name), "MachineClassNotFound", Awaited::Class),
        Presence::Undecodable => {
            return refusal(seen, Reason::UnreadableClass(class_name), "MachineClassUnreadable", Awaited::Class);
        }
        Presence::Present(_) => {}
    }
    if let DriverState::Missing(why) = seen.driver {
        // The phase stays empty: that nothing was asked of any cloud is what lets the machine be deleted.
        let lost = if facts::may_have_lost_vm(seen) { format!("; {MAY_HAVE_VM}") } else { String::new() };
        return refusal(seen, Reason::NoDriver(format!("{why}{lost}")), "DriverNotFound", Awaited::Class);
    }
    match seen.secret {
        SecretState::Unusable(why) => {
            return refusal(seen, Reason::NoSecret(why.clone()), "SecretUnusable", Awaited::Secret);
        }
        SecretState::Fetching => {
            let at = facts::later(seen.now, seen.policy.short_retry);
            return Plan::wait(
                Wake::By { awaited: Awaited::Secret, at },
                Reason::NoSecret("its Secret is being read".into()),
            );
        }
        SecretState::Ready => {}
    }
    if let Some(call) = seen.call_under_way {
        return Plan::await_answer(call);
    }
    match seen.vm {
        VmState::Unasked | VmState::Gone { .. } => ask(),
        VmState::Absent => create_or_trust(seen, facts),
        VmState::Known(vm) => carry_on(seen, facts, vm),
        VmState::Failed(failure) => back_off(seen, facts, failure),
    }
}

fn ask() -> Plan {
    Plan::of(vec![Step::Driver(Call::Status)], Wake::On(Awaited::DriverAnswer), Reason::AskFirst)
}

/// The cloud shows no VM. If one was written down it is trusted all the same: clouds show new VMs late, a second one would be
/// worse than a machine that fails to join, and some drivers cannot tell at all.
fn create_or_trust(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    if let Some(id) = facts.provider_id {
        let written_down = Vm {
            provider_id: id.into(),
            node_name: facts.node_name.unwrap_or_default().into(),
            addresses: Vec::new(),
            initialized: Initialized::Yes,
            unusable: Some(format!(
                "the driver finds no VM for spec.providerID {:?}, and no label names its Node; correct spec.providerID, or delete \
                 the Machine",
                printable(id)
            )),
            origin: Origin::Found,
            at: seen.now,
        };
        return carry_on(seen, facts, &written_down);
    }
    if *facts.phase == MachinePhase::CrashLoopBackOff && facts::creation_deadline(seen) < seen.now {
        // Another attempt would make a VM only to give its machine up.
        let write = StatusWrite::creation_given_up(seen.machine, seen.now);
        let message = format!("{}: {}", Reason::CreationTimedOut, seen.machine.status.last_operation.description);
        let event = Event { event_type: EventType::Warning, reason: events::ours::GIVEN_UP, message };
        return Plan::of(vec![Step::Status(write), Step::Tell(event)], Wake::Again, Reason::CreationTimedOut);
    }
    if let Some(plan) = class_in_the_way(seen) {
        return plan;
    }
    match seen.capacity {
        Capacity::Exhausted { refusal, until } => held_back(seen, refusal, until),
        Capacity::Open => Plan::of(vec![Step::Driver(Call::Create)], Wake::On(Awaited::DriverAnswer), Reason::NoVm),
    }
}

/// What must be in order with the class before a VM is made from it: it says what it must, and it carries our finalizer, because a
/// VM whose class has gone cannot be deleted any more. The finalizer costs one write for a class, none for a machine.
fn class_in_the_way(seen: &Observed<'_>) -> Option<Plan> {
    let class = seen.class.present()?;
    let errors = api::validation::machine_class(class);
    if !errors.is_empty() {
        let because = Reason::InvalidClass(class.name().to_owned(), api::validation::joined(&errors));
        return Some(refusal(seen, because, events::ours::INVALID, Awaited::Class));
    }
    if class::is_held(class) {
        return None;
    }
    if class.is_deleting() {
        let because = Reason::ClassLeaves(class.name().to_owned());
        return Some(refusal(seen, because, "MachineClassDeleted", Awaited::Class));
    }
    let at = facts::later(seen.now, seen.policy.short_retry);
    Some(Plan::wait(Wake::By { awaited: Awaited::Class, at }, Reason::ClassNotHeld(class.name().to_owned())))
}

/// The VM exists: write it down, initialize it, then wait for its node.
fn carry_on(seen: &Observed<'_>, facts: &Facts<'_>, vm: &Vm) -> Plan {
    let joins = matches!(seen.target, Target::Cluster { .. });
    if vm.provider_id.is_empty() || (joins && vm.node_name.is_empty()) {
        return unusable(seen, facts, vm);
    }
    if let Some(other) = shared_vm::holder(seen) {
        let because = shared_vm::shared(seen, other);
        return not_usable(seen, facts, vm, &because.to_string(), because.clone());
    }
    if let Some(node) = stale::taken_over(seen, vm) {
        return stale::give_up(seen, node);
    }
    if let Some(patch) = to_write_down(seen, facts, vm, joins) {
        let event = Event {
            event_type: EventType::Normal,
            reason: events::ours::VM_CREATED,
            message: format!("VM {} exists; its node will be {:?}", vm.provider_id, vm.node_name),
        };
        return Plan::of(
            vec![Step::Patch(patch), Step::Tell(event)],
            Wake::Again,
            Reason::VmFound(vm.provider_id.to_string()),
        );
    }
    match vm.initialized {
        Initialized::NotYet => return initialize(seen, vm, joins),
        Initialized::JustNow if !joins => return look_where_it_is(seen, vm),
        Initialized::JustNow | Initialized::Yes => {}
    }
    let write = if joins {
        StatusWrite::pending(seen.machine, vm, seen.now)
    } else {
        StatusWrite::available(seen.machine, vm, seen.now)
    };
    Plan::of(vec![Step::Status(write)], Wake::Again, Reason::VmRuns)
}

/// Without a cluster to join, the cloud is asked once more after each initialization: one that still calls the VM uninitialized is
/// given a moment.
fn initialize(seen: &Observed<'_>, vm: &Vm, joins: bool) -> Plan {
    let at = facts::later(vm.at, seen.policy.short_retry);
    if !joins && vm.origin == Origin::Found && at > seen.now {
        return Plan::wait(Wake::By { awaited: Awaited::Retry, at }, Reason::VmNotInitialized);
    }
    Plan::of(vec![Step::Driver(Call::Initialize)], Wake::On(Awaited::DriverAnswer), Reason::VmNotInitialized)
}

/// Its addresses are all that people have of a VM that joins nothing. What was told of them so far is written down, because the next
/// answer does not repeat it; then the cloud is asked what it shows by now.
fn look_where_it_is(seen: &Observed<'_>, vm: &Vm) -> Plan {
    let write = StatusWrite::reached(seen.machine, vm);
    if write.addresses.as_ref() == Some(&seen.machine.status.addresses) {
        return Plan { because: Reason::VmRuns, ..ask() };
    }
    Plan::of(vec![Step::Status(write)], Wake::Again, Reason::VmRuns)
}

/// The VM exists and is paid for, but nothing can go on with what its driver said of it. Its id is written down all the same,
/// if it has one: whoever deletes the machine must know that there is a VM.
fn unusable(seen: &Observed<'_>, facts: &Facts<'_>, vm: &Vm) -> Plan {
    if facts.provider_id.is_none() && !vm.provider_id.is_empty() && seen.vm_rivals.is_empty() {
        let patch = MachinePatch { provider_id: Some(vm.provider_id.clone()), ..MachinePatch::default() };
        return Plan::of(vec![Step::Patch(patch)], Wake::Again, Reason::NamelessVm);
    }
    let message = vm.unusable.as_deref().unwrap_or("the driver answered without a provider id or a node name");
    not_usable(seen, facts, vm, message, Reason::NamelessVm)
}

/// What the driver reported of the VM is a failure, and it is asked again.
fn not_usable(seen: &Observed<'_>, facts: &Facts<'_>, vm: &Vm, message: &str, because: Reason) -> Plan {
    let failure = Failure {
        call: match vm.origin {
            Origin::Made { .. } => Call::Create,
            Origin::Found => Call::Status,
        },
        code: Code::Internal,
        text: CodedText { code: Code::Internal, message }.to_string(),
        last_known_state: None,
        at: vm.at,
    };
    Plan { because, ..back_off(seen, facts, &failure) }
}

/// Link to the node, default priority and provider id, in one write; nothing if all of them are there. While one is missing nobody
/// has linked the machine to its VM, and a label that it was created with (a copied manifest) names somebody else's node.
fn to_write_down(seen: &Observed<'_>, facts: &Facts<'_>, vm: &Vm, joins: bool) -> Option<MachinePatch> {
    let has_priority = seen.machine.annotation(annotations::PRIORITY).is_some_and(|p| !p.is_empty());
    let linked = has_priority && facts.provider_id.is_some() && facts.node_name.is_some();
    let renames = facts.node_name != Some(vm.node_name.as_str());
    let patch = MachinePatch {
        finalizers: None,
        node_label: (joins && !linked && renames).then(|| vm.node_name.clone()),
        annotations: if has_priority {
            BTreeMap::new()
        } else {
            [(annotations::PRIORITY, Some(annotations::PRIORITY_DEFAULT.to_owned()))].into()
        },
        provider_id: facts.provider_id.is_none().then(|| vm.provider_id.clone()),
    };
    (patch != MachinePatch::default()).then_some(patch)
}

/// A call failed: say so, and try again after a while that depends on what went wrong, or not at all once it is too late.
fn back_off(seen: &Observed<'_>, facts: &Facts<'_>, failure: &Failure) -> Plan {
    let write = StatusWrite::creation_failed(seen, failure);
    if facts::creation_deadline(seen) < seen.now && facts.provider_id.is_none() {
        let steps = hold::told(seen, failure, write, "it is marked Failed, because its creation timeout has passed");
        return Plan::of(steps, Wake::Again, Reason::CreationTimedOut);
    }
    let delay = hold::creation_delay(failure, seen.policy);
    let given_up_before =
        facts.provider_id.is_none() && facts::past(facts::creation_deadline(seen)) <= facts::later(failure.at, delay);
    if let Capacity::Exhausted { refusal, until } = seen.capacity
        && failure.code == Code::ResourceExhausted
        && facts::later(failure.at, delay) <= seen.now
    {
        return held_back(seen, refusal, until);
    }
    let outlook = if given_up_before {
        Outlook::GivenUpBefore(facts::creation_deadline(seen))
    } else if failure.code == Code::ResourceExhausted {
        Outlook::InTurns // one machine of its class tries, and which one is not known
    } else {
        Outlook::NextTry
    };
    let plan = hold::hold_up(seen, failure, Hold { delay, write, again: Call::Status, outlook });
    until_deadline(seen, plan)
}

/// The cloud has refused another machine of this class for want of room. Asking for each of the others would only be refused as
/// often, so they wait for the one that tries again, and show the same code: the autoscaler reads it and tries another pool.
fn held_back(seen: &Observed<'_>, refusal: &Refusal, until: Timestamp) -> Plan {
    let message = format!("held back, because another machine of its class was refused: {}", refusal.message);
    let failure = Failure {
        call: Call::Create,
        code: refusal.code,
        text: CodedText { code: refusal.code, message: &message }.to_string(),
        last_known_state: None,
        at: seen.now,
    };
    let write = StatusWrite::creation_failed(seen, &failure);
    let steps = hold::told(seen, &failure, write, &hold::in_turns());
    let wake = Wake::By { awaited: Awaited::Retry, at: until };
    until_deadline(seen, Plan::of(steps, wake, Reason::HeldBack { code: refusal.code }))
}

/// Looks again when the creation timeout has passed, should that come first.
fn until_deadline(seen: &Observed<'_>, plan: Plan) -> Plan {
    let deadline = facts::past(facts::creation_deadline(seen)).max(seen.now);
    match plan.wake {
        Wake::By { awaited, at } => Plan { wake: Wake::By { awaited, at: at.min(deadline) }, ..plan },
        _ => plan,
    }
}
