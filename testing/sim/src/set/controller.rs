//! The shell around the planner: what is sent, and what an answer means.

use std::collections::BTreeSet;
use std::fmt;

use planner::machineset::{Asked, Step, Why};
use planner::{Policy, Wake};

use super::objects::Objects;
use super::state::{Acting, Controller, Machine, Phase, Request, State, Then, What};

/// How a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Carried out and answered.
    Done,
    /// Refused: it certainly has no effect.
    Refused,
    /// Carried out, and the answer is lost.
    DoneUnheard,
    /// Lost on the way.
    LostUnheard,
    /// The answer is waited for in vain, and it is still under way.
    Late,
}

impl Outcome {
    /// Everything but the good one.
    pub(super) const FAULTS: [Self; 4] = [Self::Refused, Self::DoneUnheard, Self::LostUnheard, Self::Late];
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::DoneUnheard => "done, and the answer is lost",
            Self::LostUnheard => "lost on the way",
            Self::Late => "no answer in time",
        })
    }
}

/// The controller looks at the set and sends what its plan says.
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
                        Some(Request { what: What::Create(name), replicas, again: create.asked == Asked::Again })
                    };
                    let known = batch.iter().map(request).collect::<Option<Vec<_>>>();
                    batches.push(known.ok_or("a name that no seed has given")?);
                }
            }
            Step::Delete(deletes) => {
                let mut requests = Vec::new();
                for delete in deletes {
                    let meant =
                        controller.machines.iter().find(|machine| machine.uid.to_string() == delete.uid.as_str());
                    let machine = meant.ok_or("a machine that is not there is to be deleted")?;
                    let (name, uid, version) = (machine.name, machine.uid, machine.version);
                    // One that has failed goes whatever the number is.
                    if delete.why == Why::Surplus && machine.phase != Phase::Failed {
                        surplus.insert(uid);
                    }
                    let what = What::Delete { name, uid, version };
                    requests.push(Request { what, replicas, again: delete.asked == Asked::Again });
                }
                batches.push(requests);
            }
            other => return Err(format!("a step that this model does not know: {other}")),
        }
    }
    let then = match plan.wake {
        Wake::Again => Then::AtOnce,
        Wake::By { .. } => Then::InTime,
        Wake::On(_) => Then::OnChange,
    };
    judge(state, &surplus)?;
    let Some(controller) = &mut state.controller else { return Ok(()) };
    controller.acting = Some(Acting { sent: Vec::new(), batches, failed: false, then });
    go_on(controller);
    Ok(())
}

/// Nobody goes as surplus who is needed: whoever lives and is not going by our own doing is enough without them. What somebody else has
/// deleted and the cache does not show yet cannot be known.
fn judge(state: &State, surplus: &BTreeSet<u8>) -> Result<(), String> {
    let Some(controller) = &state.controller else { return Ok(()) };
    if surplus.is_empty() {
        return Ok(());
    }
    // A delete that was decided on an older version will be refused.
    let doomed = |machine: &Machine| state.late.iter().any(|late| deletes(late, machine));
    let going = |uid: u8| surplus.contains(&uid) || state.machines.iter().any(|m| m.uid == uid && doomed(m));
    let unknown = |uid: &u8| state.by_somebody.contains(uid);
    let alive = state.machines.iter().filter(|machine| !machine.deleting).map(|machine| machine.uid);
    let shown = controller.machines.iter().filter(|machine| !machine.deleting).map(|machine| machine.uid);
    let staying: BTreeSet<u8> = alive.chain(shown.filter(unknown)).filter(|uid| !going(*uid)).collect();
    if staying.len() < usize::from(controller.replicas) {
        let (wanted, left) = (controller.replicas, staying.len());
        return Err(format!("healthy machines are deleted: {left} stay of {wanted} wanted: {}", state.told()));
    }
    Ok(())
}

fn deletes(request: &Request, machine: &Machine) -> bool {
    matches!(request.what, What::Delete { uid, version, .. } if (uid, version) == (machine.uid, machine.version))
}

/// Sends the next batch, or ends the reconcile.
fn go_on(controller: &mut Controller) {
    let Some(acting) = &mut controller.acting else { return };
    if !acting.sent.is_empty() {
        return;
    }
    if acting.failed || acting.batches.is_empty() {
        controller.queued |= acting.failed || acting.then == Then::AtOnce;
        controller.alarm = acting.then == Then::InTime;
        controller.acting = None;
        return;
    }
    acting.sent = acting.batches.remove(0);
    for request in &acting.sent {
        match &request.what {
            What::Create(name) if !controller.creates.contains(name) => controller.creates.push(*name),
            What::Delete { uid, .. } if !controller.deletes.contains(uid) => controller.deletes.push(*uid),
            What::Create(_) | What::Delete { .. } => {}
        }
    }
    controller.creates.sort_unstable();
    controller.deletes.sort_unstable();
}

/// A request that was sent is answered, or is not.
pub(super) fn answer(state: &mut State, request: &Request, outcome: Outcome) -> Result<(), String> {
    if outcome != Outcome::Done {
        state.left.faults -= 1;
    }
    let as_it_was = state.machines.clone();
    match outcome {
        Outcome::Done | Outcome::DoneUnheard => state.carry_out(request)?,
        Outcome::Late => state.leave_late(request.clone()),
        Outcome::Refused | Outcome::LostUnheard => {}
    }
    let made = matches!(request.what, What::Create(_)) && outcome == Outcome::Done;
    let seed = if made { Some(state.draw()) } else { None };
    let machines = state.machines.clone();
    let Some(controller) = &mut state.controller else { return Ok(()) };
    if let Some(seed) = seed {
        controller.seed = seed;
    }
    let failed = match (outcome, &request.what) {
        (Outcome::Done, What::Create(name)) => {
            if let Some(machine) = machines.iter().find(|machine| machine.name == *name) {
                controller.wrote(machine);
            }
            controller.created(*name);
            false
        }
        (Outcome::Done, What::Delete { uid, version, .. }) => {
            controller.deleted(*uid);
            match machines.iter().find(|machine| machine.uid == *uid) {
                Some(machine) => controller.wrote(machine),
                None => controller.is_gone(*uid),
            }
            let meant = as_it_was.iter().find(|machine| machine.uid == *uid);
            meant.is_some_and(|machine| machine.version != *version)
        }
        (Outcome::Refused, What::Create(name)) => {
            if !request.again {
                controller.created(*name);
            }
            true
        }
        (Outcome::Refused, What::Delete { uid, .. }) => {
            if !request.again {
                controller.deleted(*uid);
            }
            true
        }
        (Outcome::DoneUnheard | Outcome::LostUnheard | Outcome::Late, _) => true,
    };
    if let Some(acting) = &mut controller.acting {
        acting.failed |= failed;
        acting.sent.retain(|sent| sent != request);
    }
    go_on(controller);
    Ok(())
}
