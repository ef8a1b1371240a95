//! The steps of a plan that empty a node.

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
use crate::write::{Found, Guard, Retry, WriteError};

/// Carries out a step about the drain of a node. Requests to pods and volumes leave the reconcile and run on their own.
pub(super) async fn carry_out(
    controller: &MachineController,
    key: &Key,
    seen: &MachineSnapshot,
    step: &Step,
) -> Result<(), WriteError> {
    let (target, drains) = (act::target(controller)?, drains(controller)?);
    let uid = seen.machine.uid();
    match step {
        Step::KeepPodsAway { part, write } => {
            let obstacle = keep_pods_away(target, *part, write, step).await;
            drains.obstructed(key, &uid, &write.name, *part, obstacle);
        }
        Step::Watch { node, what } => {
            drains.watch(key, &uid, node, *what, planner::replacement_limit::deployment(&seen.machine));
        }
        Step::Drain { notes, requests } => {
            let class = seen.class.as_ref().present().cloned();
            drains.run(key, &uid, class, notes, requests);
        }
        Step::Detach { notes, attachments } => drains.detach(key, &uid, notes, attachments),
        Step::Emptied => drains.drained(key, &uid, planner::replacement_limit::deployment(&seen.machine)),
        Step::TellNode { name, uid, event } => tell_node(drains, name, uid.as_str(), event),
        _ => {}
    }
    Ok(())
}

/// Lets go of what is no longer needed.
pub(super) fn settle(controller: &MachineController, key: &Key, plan: &Plan) {
    if let (Some(drains), planner::machine::DrainNeed::Over) = (&controller.drains, plan.drain) {
        drains.release(key);
    }
}

/// A node that is gone needs no barrier. Answers with what was in the way.
async fn keep_pods_away(target: &Target, part: Barrier, write: &NodeWrite, step: &Step) -> Option<String> {
    let mut node = match target.writer.hold(Guard::of_node(write), step).await {
        Ok(node) => node,
        Err(error) => return Some(said_of(part, &write.name, &error.to_string())),
    };
    let error = match node.write(write).await {
        Ok(answer) => {
            let kept = answer.is_none_or(|answer| not_kept(write, &answer).is_empty());
            return (!kept).then(|| said_of(part, &write.name, NOT_KEPT));
        }
        Err(error) => error,
    };
    match error.retry() {
        Retry::Gone => {
            node.is_gone();
            return None;
        }
        Retry::Stale if matches!(node.catch_up().await, Ok(Found::Another | Found::Nothing)) => return None,
        _ => {}
    }
    let said = match error {
        WriteError::Api { said, .. } => said,
        other => other.to_string(),
    };
    Some(said_of(part, &write.name, &said))
}

fn said_of(part: Barrier, node: &str, said: &str) -> String {
    let why = match part {
        Barrier::Announcement => format!("failed to create/update conditions on node {node:?}: {said}"),
        Barrier::Cordon | Barrier::Taint => said.to_owned(),
    };
    tracing::warn!(node, why, "new pods could not be kept away");
    why
}

/// Remembers which barriers of a write were kept and which were not.
pub(super) fn remember(controller: &MachineController, key: &Key, uid: &Uid, write: &NodeWrite, not_kept: &[Barrier]) {
    let Some(drains) = &controller.drains else { return };
    for part in set_up_by(write) {
        let obstacle = not_kept.contains(&part).then(|| said_of(part, &write.name, NOT_KEPT));
        drains.obstructed(key, uid, &write.name, part, obstacle);
    }
}

fn tell_node(drains: &Drains, name: &str, uid: &str, event: &Event) {
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    };
    drains.tell_node(about, event);
}

fn drains(controller: &MachineController) -> Result<&Drains, WriteError> {
    controller.drains.as_ref().ok_or(WriteError::Missing("a target cluster"))
}
