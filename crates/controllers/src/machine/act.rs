//! Carrying out the steps of a machine's plan.
//!
//! Before each step the lease is checked once more, and each write carries the uid and version the decision was based on: what
//! was decided about one state of the world is never done to another. The answer to every write goes into the cache before the
//! next step, so that the next reconcile sees it whether or not the watch has caught up.

use std::sync::Arc;

use api::{Machine, Object};
use jiff::Timestamp;
use planner::Event;
use planner::machine::{Call, MachinePatch, NOT_KEPT, NodeLookup, Plan, Reason, Step, token_removal_retry};
use runtime::Key;
use serde_json::{Value, json};

use super::observe::MachineSnapshot;
use super::{drain, node};
use crate::machine_controller::{MachineController, Target};
use crate::write::{Guard, Part, Retry, WriteError};

/// Answers when to look again at the latest, beyond what the plan says, because of a step that failed and stopped nothing.
pub(super) async fn carry_out(
    controller: &MachineController,
    key: &Key,
    seen: &MachineSnapshot,
    plan: &Plan,
) -> Result<Option<Timestamp>, WriteError> {
    let mut again = None;
    // Two writes of one plan touch the same object: the second is guarded by what the first one made of it.
    let mut machine = seen.machine.clone();
    for step in &plan.steps {
        controller.leadership.check()?;
        match step {
            Step::Patch(patch) => machine = write(controller, &machine, body(patch), Part::Object, step).await?,
            Step::Status(status) => {
                let before = machine.phase().clone();
                machine = write(controller, &machine, status.to_patch(), Part::Status, step).await?;
                if *machine.phase() != before {
                    measure(controller, seen, &machine, &plan.because);
                }
            }
            Step::DeleteMachine => delete(controller, &machine, step).await?,
            Step::PatchNode(patch) => match node::write(target(controller)?, patch, step).await {
                Ok(not_kept) => drain::remember(controller, key, &machine.uid(), patch, &not_kept),
                Err(write_error) => return Err(tell_of_removal(controller, key, &machine, step, write_error).await),
            },
            Step::DeleteNode { name, uid } => match node::delete(target(controller)?, name, uid.as_str(), step).await {
                Ok(node::Left::Nothing) => controller.vm_states.inquired(key, &machine.uid(), NodeLookup::Absent),
                Ok(node::Left::Something) => {}
                Err(write_error) => return Err(tell_of_removal(controller, key, &machine, step, write_error).await),
            },
            Step::LookForNode { name } => {
                let before = controller.vm_states.of(key, &machine.uid()).node_lookup;
                let answer = node::look_for(target(controller)?, name, &before, controller.shared.clock.now()).await;
                controller.vm_states.inquired(key, &machine.uid(), answer);
            }
            Step::KeepPodsAway { .. }
            | Step::Watch { .. }
            | Step::Drain { .. }
            | Step::Detach { .. }
            | Step::Emptied
            | Step::TellNode { .. } => drain::carry_out(controller, key, seen, step).await?,
            Step::RemoveToken => again = remove_token(controller, key, &machine).await,
            Step::Driver(call) => call_driver(controller, key, seen, &machine, *call)?,
            Step::Tell(event) => tell(controller, &machine, event),
        }
    }
    for remark in controller.vm_states.news(key, &machine.uid(), &plan.remarks) {
        tell(controller, &machine, &remark);
    }
    Ok(again)
}

/// A Node that cannot be removed, though its VM is gone, keeps its machine: the machine says so. Whatever comes of saying it, the
/// step failed and is tried again.
async fn tell_of_removal(
    controller: &MachineController,
    key: &Key,
    machine: &Arc<Machine>,
    step: &Step,
    write_error: WriteError,
) -> WriteError {
    let why = match &write_error {
        WriteError::Api { .. } if write_error.retry() == Retry::Stale => return write_error, // somebody was faster, no more
        WriteError::Api { said, .. } => said.clone(),
        WriteError::NothingChanged { .. } => NOT_KEPT.to_owned(),
        WriteError::NotLeading(_) | WriteError::Stale { .. } | WriteError::NoLonger(_) | WriteError::Missing(_) => {
            return write_error;
        }
    };
    let now = controller.shared.clock.now();
    let report = planner::machine::removal_failed(machine, step, &why, &controller.shared.policy, now);
    if machine.is_deleting() {
        let before = controller.vm_states.of(key, &machine.uid()).node_lookup;
        controller.vm_states.inquired(key, &machine.uid(), before.not_removed(why, now));
    }
    for step in report {
        match &step {
            Step::Status(status) => {
                if let Err(why) = write(controller, machine, status.to_patch(), Part::Status, &step).await {
                    tracing::warn!(machine = machine.name(), %why, "could not be told why its Node stays");
                    break;
                }
            }
            Step::Tell(event) => tell(controller, machine, event),
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

/// Asks for the deletion of this very machine. One that is gone is gone; a conflict says only that something is not as it was decided
/// on, and the watch will say what.
async fn delete(controller: &MachineController, machine: &Machine, step: &Step) -> Result<(), WriteError> {
    controller.machine_writer.hold(Guard::any_version(machine), step).await?.delete().await.map(drop)
}

/// Notes what has come of waiting for a node, now that it is written down.
fn measure(controller: &MachineController, seen: &MachineSnapshot, machine: &Machine, because: &Reason) {
    let class = seen.class.as_ref().present().map(|class| &**class);
    match (because, class) {
        (Reason::Joined, class) => controller.lifecycle.joined(machine, class),
        (Reason::JoinTimedOut, Some(class)) => controller.lifecycle.never_joined(machine, class),
        _ => {}
    }
}

fn body(patch: &MachinePatch) -> Value {
    let MachinePatch { finalizers, node_label, annotations, provider_id } = patch;
    let mut metadata = serde_json::Map::new();
    let mut body = serde_json::Map::new();
    if let Some(list) = finalizers {
        metadata.insert("finalizers".into(), json!(list));
    }
    if let Some(node) = node_label {
        metadata.insert("labels".into(), json!({ api::names::labels::NODE: node }));
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".into(), json!(annotations));
    }
    if let Some(id) = provider_id {
        body.insert("spec".into(), json!({ "providerID": id }));
    }
    body.insert("metadata".into(), Value::Object(metadata));
    Value::Object(body)
}

fn call_driver(
    controller: &MachineController,
    key: &Key,
    seen: &MachineSnapshot,
    machine: &Arc<Machine>,
    call: Call,
) -> Result<(), WriteError> {
    let planner::Presence::Present(class) = &seen.class else { return Err(WriteError::Missing("its MachineClass")) };
    controller.limiter.begin(key, machine, class, call);
    Ok(())
}

/// A token that cannot be removed now stops nothing. Answers when it is tried again, if it was not removed and has not expired by then.
async fn remove_token(controller: &MachineController, key: &Key, machine: &Machine) -> Option<Timestamp> {
    let tokens = controller.limiter.tokens()?;
    let (uid, known) = (machine.uid(), controller.vm_states.of(key, &machine.uid()));
    match tokens.remove(machine, known.issued()).await {
        Ok(()) => {
            controller.vm_states.needs_no_token(key, &uid);
            None
        }
        Err(why) => {
            let record = controller.vm_states.token_not_removed(key, &uid, controller.shared.clock.now());
            let again = token_removal_retry(machine, record, &controller.shared.policy);
            let until = again.map_or_else(|| "it expires".to_owned(), |at| at.to_string());
            tracing::warn!(machine = %key, %why, until, "a bootstrap token stays");
            again
        }
    }
}

fn tell(controller: &MachineController, machine: &Machine, event: &Event) {
    crate::events::emit(&controller.events, machine.object_ref(), event);
}

pub(super) fn target(controller: &MachineController) -> Result<&Target, WriteError> {
    controller.target.as_ref().ok_or(WriteError::Missing("a target cluster"))
}
