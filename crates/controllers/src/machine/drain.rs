//! Executes the steps of a plan that drain a Node.

use api::{Object, Uid};
use k8s_openapi::api::core::v1::ObjectReference;
use planner::Event;
use planner::machine::{Barrier, NOT_KEPT, Plan, Step, not_kept, set_up_by};
use planner::node::NodeWrite;
use runtime::Key;

use super::act;
use super::observe::MachineSnapshot;
use crate::drain::Drains;
use crate::machine_controller::{MachineController, Target};
use crate::write::{Found, Guard, WriteError};

/// Executes a step of the drain. Requests for pods and volumes run in tasks of their own.
pub(super) async fn execute(
    controller: &MachineController,
    key: &Key,
    seen: &MachineSnapshot,
    step: &Step,
) -> Result<(), WriteError> {
    let (target, drains) = (act::target(controller)?, drains(controller)?);
    let uid = seen.machine.uid();
    match step {
        Step::Cordon { barrier, write } => {
            let failure = cordon(target, *barrier, write, step).await;
            drains.set_barrier_failure(key, &uid, &write.name, *barrier, failure);
        }
        Step::Watch { node, what } => {
            drains.watch(key, &uid, node, *what, planner::replacement_limit::deployment(&seen.machine));
        }
        Step::Drain { notes, requests } => {
            let class = seen.class.as_ref().present().cloned();
            drains.run(key, &uid, class, notes, requests);
        }
        Step::Detach { notes, attachments } => drains.detach(key, &uid, notes, attachments),
        Step::RecordDrained => drains.drained(key, &uid, planner::replacement_limit::deployment(&seen.machine)),
        Step::EmitNodeEvent { name, uid, event } => emit_node_event(drains, name, uid.as_str(), event),
        _ => {}
    }
    Ok(())
}

/// Releases the drain if the plan no longer needs it.
pub(super) fn release_if_not_needed(controller: &MachineController, key: &Key, plan: &Plan) {
    if let (Some(drains), planner::machine::DrainNeed::NotNeeded) = (&controller.drains, plan.drain) {
        drains.release(key);
    }
}

/// Cordons the Node. Returns the failure, if there was one. A Node that no longer exists needs no cordon.
async fn cordon(target: &Target, barrier: Barrier, write: &NodeWrite, step: &Step) -> Option<String> {
    let mut node = match target.writer.hold(Guard::of_node(write), step).await {
        Ok(node) => node,
        Err(error) => return Some(describe(barrier, &write.name, &error.to_string())),
    };
    let error = match node.write(write).await {
        Ok(answer) => {
            let kept = answer.is_none_or(|answer| not_kept(write, &answer).is_empty());
            return (!kept).then(|| describe(barrier, &write.name, NOT_KEPT));
        }
        Err(error) => error,
    };
    if error.is_gone() {
        node.mark_deleted();
        return None;
    }
    if error.is_stale() && matches!(node.refresh().await, Ok(Found::Another | Found::Nothing)) {
        return None;
    }
    let said = match error {
        WriteError::Api { message, .. } => message,
        other => other.to_string(),
    };
    Some(describe(barrier, &write.name, &said))
}

fn describe(barrier: Barrier, node: &str, said: &str) -> String {
    let why = match barrier {
        Barrier::TerminatingCondition => format!("failed to create/update conditions on node {node:?}: {said}"),
        Barrier::Cordon | Barrier::Taint => said.to_owned(),
    };
    tracing::warn!(node, why, "failed to keep new pods off the Node");
    why
}

/// Records which barriers of a write were kept.
pub(super) fn record_barriers(
    controller: &MachineController,
    key: &Key,
    uid: &Uid,
    write: &NodeWrite,
    not_kept: &[Barrier],
) {
    let Some(drains) = &controller.drains else { return };
    for barrier in set_up_by(write) {
        let failure = not_kept.contains(&barrier).then(|| describe(barrier, &write.name, NOT_KEPT));
        drains.set_barrier_failure(key, uid, &write.name, barrier, failure);
    }
}

fn emit_node_event(drains: &Drains, name: &str, uid: &str, event: &Event) {
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    };
    drains.emit_node_event(about, event);
}

fn drains(controller: &MachineController) -> Result<&Drains, WriteError> {
    controller.drains.as_ref().ok_or(WriteError::Missing("a target cluster"))
}
