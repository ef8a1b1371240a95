//! Creates the VM of a Machine, up to the wait for its Node.
//!
//! The order prevents duplicate VMs: query the driver, create, record, initialize, wait. If the process stops between
//! *create* and *record*, the next query finds the VM. A VM is never created without a query. A Machine that is Failed
//! creates no further VM and waits for its replacement.

use api::names::{annotations, events};
use api::printable::printable;
use api::{Code, CodedText, MachinePhase, Object};
use jiff::Timestamp;

use super::reason::MAY_HAVE_VM;
use super::retry::{NextAttempt, Retry};
use super::vm::{Call, Failure, Initialized, Origin, Vm, VmState};
use super::{
    DriverState, Facts, MachinePatch, Observed, Plan, Reason, SecretState, StatusWrite, Step, Target, awaits_class,
    facts, refusal, retry, shared_vm, stale,
};
use crate::limiter::{Capacity, Refusal};
use crate::{Awaited, Event, EventType, Presence, Wake, class};

/// Returns whether the Machine has no VM whose Node it waits for.
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
            return refusal(
                seen,
                Reason::ClassMissingVmPossible(class_name),
                events::millwright::CLASS_NOT_FOUND,
                Awaited::Class,
            );
        }
        Presence::Absent => {
            return refusal(
                seen,
                Reason::ClassMissing(class_name),
                events::millwright::CLASS_NOT_FOUND,
                Awaited::Class,
            );
        }
        Presence::Undecodable(()) => {
            return refusal(
                seen,
                Reason::ClassUndecodable(class_name),
                events::millwright::CLASS_UNREADABLE,
                Awaited::Class,
            );
        }
        Presence::Present(_) => {}
    }
    if let DriverState::Missing(why) = seen.driver {
        // The phase stays empty. An empty phase shows that no driver was called, so that the Machine can be deleted.
        let lost = if facts::may_have_lost_vm(seen) { format!("; {MAY_HAVE_VM}") } else { String::new() };
        return refusal(
            seen,
            Reason::DriverMissing(format!("{why}{lost}")),
            events::millwright::DRIVER_NOT_FOUND,
            Awaited::Class,
        );
    }
    match seen.secret {
        SecretState::Unusable(why) => {
            return refusal(
                seen,
                Reason::SecretUnusable(why.clone()),
                events::millwright::SECRET_UNUSABLE,
                Awaited::Secret,
            );
        }
        SecretState::Fetching => {
            let at = facts::later(seen.now, seen.policy.short_retry);
            return Plan::wait(
                Wake::By { awaited: Awaited::Secret, at },
                Reason::SecretUnusable("waiting for the Secret of the MachineClass".into()),
            );
        }
        SecretState::Ready => {}
    }
    if let Some(call) = seen.call_under_way {
        return Plan::await_answer(call);
    }
    match seen.vm {
        VmState::Unknown | VmState::Deleted { .. } => query(),
        VmState::Absent => create_or_trust(seen, facts),
        VmState::Known(vm) => continue_with(seen, facts, vm),
        VmState::Failed(failure) => back_off(seen, facts, failure),
    }
}

fn query() -> Plan {
    Plan::of(vec![Step::Driver(Call::Status)], Wake::On(Awaited::DriverAnswer), Reason::VmUnknown)
}

/// The driver reports no VM. A recorded VM is trusted nevertheless: providers show new VMs late, and some drivers
/// cannot report the state at all. A duplicate VM would be worse than a Machine that fails to join.
fn create_or_trust(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    if let Some(id) = facts.provider_id {
        let recorded = Vm {
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
        return continue_with(seen, facts, &recorded);
    }
    if *facts.phase == MachinePhase::CrashLoopBackOff && facts::creation_deadline(seen) < seen.now {
        // Another attempt would create a VM for a Machine that is then marked Failed.
        let write = StatusWrite::creation_timed_out(seen.machine, seen.now);
        let message = format!("{}: {}", Reason::CreationTimedOut, seen.machine.status.last_operation.description);
        let event = Event { event_type: EventType::Warning, reason: events::millwright::GIVEN_UP, message };
        return Plan::of(vec![Step::Status(write), Step::EmitEvent(event)], Wake::Again, Reason::CreationTimedOut);
    }
    if let Some(plan) = check_class(seen) {
        return plan;
    }
    match seen.capacity {
        Capacity::Exhausted { refusal, until } => wait_for_capacity(seen, refusal, until),
        Capacity::Open => {
            Plan::of(vec![Step::Driver(Call::Create)], Wake::On(Awaited::DriverAnswer), Reason::VmMissing)
        }
    }
}

/// Checks the MachineClass before a VM is created from it: it must be valid and have the finalizer, because a VM
/// without its MachineClass cannot be deleted. The finalizer costs one write per MachineClass, none per Machine.
fn check_class(seen: &Observed<'_>) -> Option<Plan> {
    let class = seen.class.present()?;
    let errors = api::validation::machine_class(class);
    if !errors.is_empty() {
        let because = Reason::ClassInvalid(class.name().to_owned(), api::validation::joined(&errors));
        return Some(refusal(seen, because, events::millwright::INVALID, Awaited::Class));
    }
    if class::has_finalizer(class) {
        return None;
    }
    if class.is_deleting() {
        let because = Reason::ClassDeleting(class.name().to_owned());
        return Some(refusal(seen, because, events::millwright::CLASS_DELETED, Awaited::Class));
    }
    let at = facts::later(seen.now, seen.policy.short_retry);
    Some(Plan::wait(Wake::By { awaited: Awaited::Class, at }, Reason::ClassFinalizerMissing(class.name().to_owned())))
}

/// Records the VM, initializes it, then waits for its Node.
fn continue_with(seen: &Observed<'_>, facts: &Facts<'_>, vm: &Vm) -> Plan {
    let joins = matches!(seen.target, Target::Cluster { .. });
    if vm.provider_id.is_empty() || (joins && vm.node_name.is_empty()) {
        return unnamed(seen, facts, vm);
    }
    if let Some(other) = shared_vm::holder(seen) {
        let because = shared_vm::shared(seen, other);
        return not_usable(seen, facts, vm, &because.to_string(), because.clone());
    }
    if let Some(node) = stale::stale_node(seen, vm) {
        return stale::mark_failed(seen, node);
    }
    if let Some(patch) = to_record(seen, facts, vm, joins) {
        let event = Event {
            event_type: EventType::Normal,
            reason: events::millwright::VM_CREATED,
            message: format!("VM {} exists; its Node will be {:?}", vm.provider_id, vm.node_name),
        };
        return Plan::of(
            vec![Step::Patch(patch), Step::EmitEvent(event)],
            Wake::Again,
            Reason::VmFound(vm.provider_id.to_string()),
        );
    }
    match vm.initialized {
        Initialized::NotYet => return initialize(seen, vm, joins),
        Initialized::JustNow if !joins => return report_addresses(seen, vm),
        Initialized::JustNow | Initialized::Yes => {}
    }
    let write = if joins {
        StatusWrite::pending(seen.machine, vm, seen.now)
    } else {
        StatusWrite::available(seen.machine, vm, seen.now)
    };
    Plan::of(vec![Step::Status(write)], Wake::Again, Reason::VmRunning)
}

/// Initializes the VM. Without a target cluster the driver is queried again after each initialization. If the VM is
/// still not initialized, the next attempt waits.
fn initialize(seen: &Observed<'_>, vm: &Vm, joins: bool) -> Plan {
    let at = facts::later(vm.at, seen.policy.short_retry);
    if !joins && vm.origin == Origin::Found && at > seen.now {
        return Plan::wait(Wake::By { awaited: Awaited::Retry, at }, Reason::VmNotInitialized);
    }
    Plan::of(vec![Step::Driver(Call::Initialize)], Wake::On(Awaited::DriverAnswer), Reason::VmNotInitialized)
}

/// Reports the addresses of a VM that joins no cluster. Known addresses are recorded first, because the next response
/// does not repeat them; then the driver is queried.
fn report_addresses(seen: &Observed<'_>, vm: &Vm) -> Plan {
    let write = StatusWrite::with_addresses(seen.machine, vm);
    if write.addresses.as_ref() == Some(&seen.machine.status.addresses) {
        return Plan { because: Reason::VmRunning, ..query() };
    }
    Plan::of(vec![Step::Status(write)], Wake::Again, Reason::VmRunning)
}

/// Handles a VM without a provider ID or a Node name. An existing ID is recorded nevertheless, because it is needed for
/// the deletion.
fn unnamed(seen: &Observed<'_>, facts: &Facts<'_>, vm: &Vm) -> Plan {
    if facts.provider_id.is_none() && !vm.provider_id.is_empty() && seen.vm_rivals.is_empty() {
        let patch = MachinePatch::default().with_provider_id(&vm.provider_id);
        return Plan::of(vec![Step::Patch(patch)], Wake::Again, Reason::VmUnnamed);
    }
    let message = vm.unusable.as_deref().unwrap_or("the driver returned no provider ID or no Node name");
    not_usable(seen, facts, vm, message, Reason::VmUnnamed)
}

/// Handles the driver's report as a failure and queries the driver again.
fn not_usable(seen: &Observed<'_>, facts: &Facts<'_>, vm: &Vm, message: &str, because: Reason) -> Plan {
    let failure = Failure {
        call: match vm.origin {
            Origin::Created { .. } => Call::Create,
            Origin::Found => Call::Status,
        },
        code: Code::Internal,
        text: CodedText { code: Code::Internal, message }.to_string(),
        last_known_state: None,
        at: vm.at,
    };
    Plan { because, ..back_off(seen, facts, &failure) }
}

/// Returns the patch with the Node, the default priority and the provider ID, or `None` if all of them are recorded.
/// While one is missing, an existing label comes from a copied manifest and names the Node of another Machine.
fn to_record(seen: &Observed<'_>, facts: &Facts<'_>, vm: &Vm, joins: bool) -> Option<MachinePatch> {
    let has_priority = seen.machine.annotation(annotations::PRIORITY).is_some_and(|p| !p.is_empty());
    let linked = has_priority && facts.provider_id.is_some() && facts.node_name.is_some();
    let renames = facts.node_name != Some(vm.node_name.as_str());
    let mut patch = MachinePatch::default();
    if joins && !linked && renames {
        patch = patch.with_node(vm.node_name.as_str());
    }
    if !has_priority {
        patch.annotations.insert(annotations::PRIORITY, Some(annotations::PRIORITY_DEFAULT.to_owned()));
    }
    if facts.provider_id.is_none() {
        patch = patch.with_provider_id(&vm.provider_id);
    }
    (patch != MachinePatch::default()).then_some(patch)
}

/// Reports a failed call and retries after a backoff that depends on the error, or not at all after the creation
/// timeout.
fn back_off(seen: &Observed<'_>, facts: &Facts<'_>, failure: &Failure) -> Plan {
    let write = StatusWrite::creation_failed(seen, failure);
    if facts::creation_deadline(seen) < seen.now && facts.provider_id.is_none() {
        let steps = retry::report(
            seen,
            failure,
            write,
            "the Machine is marked Failed, because its creation timeout has passed",
        );
        return Plan::of(steps, Wake::Again, Reason::CreationTimedOut);
    }
    let delay = retry::creation_delay(failure, seen.policy);
    let fails_before =
        facts.provider_id.is_none() && facts::past(facts::creation_deadline(seen)) <= facts::later(failure.at, delay);
    if let Capacity::Exhausted { refusal, until } = seen.capacity
        && failure.code == Code::ResourceExhausted
        && facts::later(failure.at, delay) <= seen.now
    {
        return wait_for_capacity(seen, refusal, until);
    }
    let next = if fails_before {
        NextAttempt::FailedBefore(facts::creation_deadline(seen))
    } else if failure.code == Code::ResourceExhausted {
        NextAttempt::OnePerClass // one Machine of the MachineClass retries, and it is not known which one
    } else {
        NextAttempt::AfterBackoff
    };
    let plan = retry::plan(seen, failure, Retry { delay, write, call: Call::Status, next });
    until_deadline(seen, plan)
}

/// Reports that creation of another Machine of the MachineClass failed because capacity is exhausted. Only one of these
/// Machines retries. The others wait and report the same code, because the cluster-autoscaler reads the code and then
/// scales up another pool.
fn wait_for_capacity(seen: &Observed<'_>, refusal: &Refusal, until: Timestamp) -> Plan {
    let message =
        format!("waiting, because creation of another Machine of the MachineClass failed: {}", refusal.message);
    let failure = Failure {
        call: Call::Create,
        code: refusal.code,
        text: CodedText { code: refusal.code, message: &message }.to_string(),
        last_known_state: None,
        at: seen.now,
    };
    let write = StatusWrite::creation_failed(seen, &failure);
    let steps = retry::report(seen, &failure, write, &retry::one_per_class());
    let wake = Wake::By { awaited: Awaited::Retry, at: until };
    until_deadline(seen, Plan::of(steps, wake, Reason::CapacityExhausted { code: refusal.code }))
}

/// Plans the Machine again no later than its creation timeout.
fn until_deadline(seen: &Observed<'_>, plan: Plan) -> Plan {
    let deadline = facts::past(facts::creation_deadline(seen)).max(seen.now);
    match plan.wake {
        Wake::By { awaited, at } => Plan { wake: Wake::By { awaited, at: at.min(deadline) }, ..plan },
        _ => plan,
    }
}
