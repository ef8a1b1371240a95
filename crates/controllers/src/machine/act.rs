//! Executes the steps of a Machine's plan.
//!
//! Leadership is checked before each step. Each write contains the uid and the resourceVersion on which the decision
//! was based, so that it fails if the object has changed. The result of every write goes into the cache before the next
//! step, so that the next reconcile sees it even if the watch lags behind.

use std::sync::Arc;

use api::{Machine, Object};
use jiff::Timestamp;
use planner::Event;
use planner::machine::{Call, NOT_KEPT, NodeLookup, Plan, Reason, Step, token_removal_retry};
use runtime::Key;
use serde_json::Value;

use super::observe::MachineSnapshot;
use super::{drain, node};
use crate::machine_controller::{MachineController, Target};
use crate::write::{Guard, Part, WriteError};

/// Executes the steps. Returns when to reconcile again at the latest because of a step whose failure does not fail the
/// plan.
pub(super) async fn execute(
    controller: &MachineController,
    key: &Key,
    seen: &MachineSnapshot,
    plan: &Plan,
) -> Result<Option<Timestamp>, WriteError> {
    let mut again = None;
    // A plan may write the same object twice: the second write is guarded by the result of the first.
    let mut machine = seen.machine.clone();
    for step in &plan.steps {
        controller.leadership.check()?;
        match step {
            Step::Patch(patch) => machine = write(controller, &machine, patch.to_json(), Part::Object, step).await?,
            Step::Status(status) => {
                let before = machine.phase().clone();
                machine = write(controller, &machine, status.to_patch(), Part::Status, step).await?;
                if *machine.phase() != before {
                    measure(controller, seen, &machine, &plan.because);
                }
            }
            Step::DeleteMachine => delete(controller, &machine, step).await?,
            Step::PatchNode(patch) => match node::write(target(controller)?, patch, step).await {
                Ok(not_kept) => drain::record_barriers(controller, key, &machine.uid(), patch, &not_kept),
                Err(write_error) => {
                    return Err(report_failed_removal(controller, key, &machine, step, write_error).await);
                }
            },
            Step::DeleteNode { name, uid } => match node::delete(target(controller)?, name, uid.as_str(), step).await {
                Ok(node::Remaining::Nothing) => {
                    controller.memory.set_node_lookup(key, &machine.uid(), NodeLookup::Absent);
                }
                Ok(node::Remaining::Something) => {}
                Err(write_error) => {
                    return Err(report_failed_removal(controller, key, &machine, step, write_error).await);
                }
            },
            Step::LookUpNode { name } => {
                let before = controller.memory.record(key, &machine.uid()).node_lookup;
                let answer = node::look_up(target(controller)?, name, &before, controller.shared.clock.now()).await;
                controller.memory.set_node_lookup(key, &machine.uid(), answer);
            }
            Step::Cordon { .. }
            | Step::Watch { .. }
            | Step::Drain { .. }
            | Step::Detach { .. }
            | Step::RecordDrained
            | Step::EmitNodeEvent { .. } => drain::execute(controller, key, seen, step).await?,
            Step::RemoveToken => again = remove_token(controller, key, &machine).await,
            Step::Driver(call) => call_driver(controller, key, seen, &machine, *call)?,
            Step::EmitEvent(event) => emit(controller, &machine, event),
        }
    }
    for remark in controller.memory.new_remarks(key, &machine.uid(), &plan.remarks) {
        emit(controller, &machine, &remark);
    }
    Ok(again)
}

/// Reports in the status and the Events of the Machine that its Node cannot be removed although the VM is gone. Returns
/// the error of the step, even if the report fails.
async fn report_failed_removal(
    controller: &MachineController,
    key: &Key,
    machine: &Arc<Machine>,
    step: &Step,
    write_error: WriteError,
) -> WriteError {
    let why = match &write_error {
        WriteError::Api { .. } if write_error.is_stale() => return write_error, // a conflict only
        WriteError::Api { message, .. } => message.clone(),
        WriteError::NothingChanged { .. } => NOT_KEPT.to_owned(),
        WriteError::NotLeading(_) | WriteError::Stale { .. } | WriteError::Deleted(_) | WriteError::Missing(_) => {
            return write_error;
        }
    };
    let now = controller.shared.clock.now();
    let report = planner::machine::removal_failed(machine, step, &why, &controller.shared.policy, now);
    if machine.is_deleting() {
        let before = controller.memory.record(key, &machine.uid()).node_lookup;
        controller.memory.set_node_lookup(key, &machine.uid(), before.removal_failed(why, now));
    }
    for step in report {
        match &step {
            Step::Status(status) => {
                if let Err(why) = write(controller, machine, status.to_patch(), Part::Status, &step).await {
                    tracing::warn!(machine = machine.name(), %why, "failed to update Machine status");
                    break;
                }
            }
            Step::EmitEvent(event) => emit(controller, machine, event),
            _ => {}
        }
    }
    write_error
}

async fn write(
    controller: &MachineController,
    machine: &Arc<Machine>,
    body: Value,
    part: Part,
    step: &Step,
) -> Result<Arc<Machine>, WriteError> {
    controller.machine_writer.patch(Guard::as_seen(&**machine), part, body, step).await?.kept()
}

/// Deletes this very Machine. A Machine that no longer exists counts as deleted. After a conflict, the watch shows the
/// change.
async fn delete(controller: &MachineController, machine: &Machine, step: &Step) -> Result<(), WriteError> {
    controller.machine_writer.hold(Guard::any_version(machine), step).await?.delete().await.map(drop)
}

/// Measures whether the Node joined, after the new phase was written.
fn measure(controller: &MachineController, seen: &MachineSnapshot, machine: &Machine, because: &Reason) {
    let class = seen.class.as_ref().present().map(|class| &**class);
    match (because, class) {
        (Reason::Joined, class) => controller.lifecycle.joined(machine, class),
        (Reason::JoinTimedOut, Some(class)) => controller.lifecycle.never_joined(machine, class),
        _ => {}
    }
}

fn call_driver(
    controller: &MachineController,
    key: &Key,
    seen: &MachineSnapshot,
    machine: &Arc<Machine>,
    call: Call,
) -> Result<(), WriteError> {
    let planner::Presence::Present(class) = &seen.class else { return Err(WriteError::Missing("its MachineClass")) };
    controller.driver_calls.start(key, machine, class, call);
    Ok(())
}

/// Removes the bootstrap token. A failure does not fail the plan. Returns when to retry, unless the token expires
/// before.
async fn remove_token(controller: &MachineController, key: &Key, machine: &Machine) -> Option<Timestamp> {
    let tokens = controller.tokens.as_ref()?;
    let (uid, known) = (machine.uid(), controller.memory.record(key, &machine.uid()));
    match tokens.remove(machine, known.issued()).await {
        Ok(()) => {
            controller.memory.set_no_token(key, &uid);
            None
        }
        Err(why) => {
            let record = controller.memory.token_removal_failed(key, &uid, controller.shared.clock.now());
            let again = token_removal_retry(machine, record, &controller.shared.policy);
            let until = again.map_or_else(|| "never; the token expires".to_owned(), |at| at.to_string());
            tracing::warn!(machine = %key, %why, next_try = until, "failed to remove bootstrap token");
            again
        }
    }
}

fn emit(controller: &MachineController, machine: &Machine, event: &Event) {
    controller.events.emit(machine.object_ref(), event.clone());
}

pub(super) fn target(controller: &MachineController) -> Result<&Target, WriteError> {
    controller.target.as_ref().ok_or(WriteError::Missing("a target cluster"))
}
