//! The model of the controller around the planner: which requests it sends, and what a response changes. The rules for
//! responses are those of the controller ([`Response`]).

use std::collections::BTreeSet;
use std::fmt;

use planner::machineset::{Attempt, DeletionReason, Response, Step};
use planner::{Policy, Wake};

use super::objects::Objects;
use super::state::{ActiveReconcile, Controller, Machine, NextReconcile, Operation, Phase, Request, State};

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Processed, with a response.
    Done,
    /// Rejected without an effect.
    Rejected,
    /// Processed, but the response is lost.
    ResponseLost,
    /// Lost before it is processed.
    RequestLost,
    /// It times out and may still be processed later.
    TimedOut,
}

impl Outcome {
    /// All outcomes except [`Self::Done`].
    pub(super) const FAULTS: [Self; 4] = [Self::Rejected, Self::ResponseLost, Self::RequestLost, Self::TimedOut];
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Rejected => "rejected",
            Self::ResponseLost => "done, but the response is lost",
            Self::RequestLost => "lost",
            Self::TimedOut => "timed out",
        })
    }
}

/// Plans for the MachineSet and sends the first batch of requests.
pub(super) fn reconcile(state: &mut State, objects: &Objects, policy: &Policy) -> Result<(), String> {
    let Some(controller) = &mut state.controller else { return Ok(()) };
    controller.queued = false;
    let plan = objects.plan(controller, policy);
    let replicas = controller.replicas;
    let mut batches: Vec<Vec<Request>> = Vec::new();
    let mut surplus = BTreeSet::new();
    for step in &plan.steps {
        match step {
            Step::Create(creates) => {
                for batch in creates {
                    let request = |create: &planner::machineset::MachineCreate| {
                        let name = objects.name(controller, &create.name)?;
                        Some(Request {
                            operation: Operation::Create(name),
                            replicas,
                            is_repeat: create.attempt == Attempt::Repeat,
                        })
                    };
                    let known = batch.iter().map(request).collect::<Option<Vec<_>>>();
                    batches.push(known.ok_or("the planner used a name of no known seed")?);
                }
            }
            Step::Delete(deletes) => {
                let mut requests = Vec::new();
                for delete in deletes {
                    let target =
                        controller.machines.iter().find(|machine| machine.uid.to_string() == delete.uid.as_str());
                    let machine = target.ok_or("the planner deletes a machine that does not exist")?;
                    let (name, uid, version) = (machine.name, machine.uid, machine.version);
                    // A Failed Machine is deleted whatever the number of replicas.
                    if delete.why == DeletionReason::Surplus && machine.phase != Phase::Failed {
                        surplus.insert(uid);
                    }
                    let operation = Operation::Delete { name, uid, version };
                    requests.push(Request { operation, replicas, is_repeat: delete.attempt == Attempt::Repeat });
                }
                batches.push(requests);
            }
            other => return Err(format!("the model does not support the step: {other}")),
        }
    }
    let next = match plan.wake {
        Wake::Again => NextReconcile::Immediately,
        Wake::By { .. } => NextReconcile::AtTimeout,
        Wake::On(_) => NextReconcile::OnChange,
    };
    check_surplus(state, &surplus)?;
    let Some(controller) = &mut state.controller else { return Ok(()) };
    controller.active = Some(ActiveReconcile { sent: Vec::new(), batches, failed: false, next });
    send_next_batch(controller);
    Ok(())
}

/// Checks that enough Machines remain without the surplus ones and without those that other requests of the controller
/// delete. Deletions by other clients that the cache does not show yet cannot be known.
fn check_surplus(state: &State, surplus: &BTreeSet<u8>) -> Result<(), String> {
    let Some(controller) = &state.controller else { return Ok(()) };
    if surplus.is_empty() {
        return Ok(());
    }
    // A delete with an older version will be rejected.
    let will_be_deleted = |machine: &Machine| state.late.iter().any(|late| deletes(late, machine));
    let going = |uid: u8| surplus.contains(&uid) || state.machines.iter().any(|m| m.uid == uid && will_be_deleted(m));
    let unknown = |uid: &u8| state.deleted_externally.contains(uid);
    let alive = state.machines.iter().filter(|machine| !machine.deleting).map(|machine| machine.uid);
    let shown = controller.machines.iter().filter(|machine| !machine.deleting).map(|machine| machine.uid);
    let staying: BTreeSet<u8> = alive.chain(shown.filter(unknown)).filter(|uid| !going(*uid)).collect();
    if staying.len() < usize::from(controller.replicas) {
        let (wanted, remaining) = (controller.replicas, staying.len());
        return Err(format!("healthy machines are deleted: {remaining} of {wanted} remain: {}", state.describe()));
    }
    Ok(())
}

fn deletes(request: &Request, machine: &Machine) -> bool {
    matches!(request.operation, Operation::Delete { uid, version, .. } if (uid, version) == (machine.uid, machine.version))
}

/// Sends the next batch, or ends the reconcile.
fn send_next_batch(controller: &mut Controller) {
    let Some(active) = &mut controller.active else { return };
    if !active.sent.is_empty() {
        return;
    }
    if active.failed || active.batches.is_empty() {
        controller.queued |= active.failed || active.next == NextReconcile::Immediately;
        controller.wakes_on_expiry = active.next == NextReconcile::AtTimeout;
        controller.active = None;
        return;
    }
    active.sent = active.batches.remove(0);
    for request in &active.sent {
        match &request.operation {
            Operation::Create(name) if !controller.creates.contains(name) => controller.creates.push(*name),
            Operation::Delete { uid, .. } if !controller.deletes.contains(uid) => controller.deletes.push(*uid),
            Operation::Create(_) | Operation::Delete { .. } => {}
        }
    }
    controller.creates.sort_unstable();
    controller.deletes.sort_unstable();
}

/// Processes the outcome of a request.
pub(super) fn answer(state: &mut State, request: &Request, outcome: Outcome) -> Result<(), String> {
    if outcome != Outcome::Done {
        state.remaining.faults -= 1;
    }
    let machines_before = state.machines.clone();
    match outcome {
        Outcome::Done | Outcome::ResponseLost => state.carry_out(request)?,
        Outcome::TimedOut => state.add_late(request.clone()),
        Outcome::Rejected | Outcome::RequestLost => {}
    }
    let is_stale = |uid: u8, version: u8| machines_before.iter().any(|m| m.uid == uid && m.version != version);
    let response = match (outcome, &request.operation) {
        (Outcome::Done, Operation::Delete { uid, version, .. }) if is_stale(*uid, *version) => Response::Stale,
        (Outcome::Done, _) => Response::Succeeded,
        (Outcome::Rejected, _) => Response::NoEffect,
        (Outcome::ResponseLost | Outcome::RequestLost | Outcome::TimedOut, _) => Response::Unknown,
    };
    let is_named = matches!(request.operation, Operation::Create(_)) && response.uses_name();
    let seed = if is_named { Some(state.next_seed()) } else { None };
    let machines = state.machines.clone();
    let Some(controller) = &mut state.controller else { return Ok(()) };
    if let Some(seed) = seed {
        controller.seed = seed;
    }
    let attempt = if request.is_repeat { Attempt::Repeat } else { Attempt::First };
    if response.ends_expectation(attempt) {
        match &request.operation {
            Operation::Create(name) => controller.created(*name),
            Operation::Delete { uid, .. } => controller.deleted(*uid),
        }
    }
    if outcome == Outcome::Done {
        let find = |is_target: &dyn Fn(&Machine) -> bool| machines.iter().find(|machine| is_target(machine));
        match &request.operation {
            Operation::Create(name) => {
                if let Some(machine) = find(&|machine| machine.name == *name) {
                    controller.wrote(machine);
                }
            }
            Operation::Delete { uid, .. } => match find(&|machine| machine.uid == *uid) {
                Some(machine) => controller.wrote(machine),
                None => controller.is_gone(*uid),
            },
        }
    }
    if let Some(active) = &mut controller.active {
        active.failed |= !response.sends_next_batch();
        active.sent.retain(|sent| sent != request);
    }
    send_next_batch(controller);
    Ok(())
}
