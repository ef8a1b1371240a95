//! Model of one MachineSet with a few Machines, in every order of events.
//!
//! [`planner::machineset::plan`] is real. The following parts are modelled as in `crates/controllers` and the API server:
//!
//! | | |
//! | --- | --- |
//! | API server | the replicas of the MachineSet, its Machines, deletes with preconditions, unique names |
//! | cache | two watches, each ordered, with any lag; the response to a write is in the cache before the watch event |
//! | requests | one reconcile at a time; the requests of a batch are processed in any order; a request is done, rejected, lost, loses its response, or times out and may be processed at any later time |
//! | expectations | as in `runtime::expectations`: by name and by UID, fulfilled by the cache or by the response; they expire when nothing is in progress any more |
//! | process | ends at any moment; the next one starts with the state of the API server, after the lease has expired and all requests of the first one have ended |
//! | others | scale the MachineSet, delete a Machine, make it run or fail, remove it after its deletion |
//!
//! [`Bounds`] limits how often each of these happens. Within the limits all orders are searched.
//!
//! The model makes three assumptions that the planner does not state. The search found each of them: it fails without them.
//!
//! - An expectation expires only when its request was processed or never will be, and the watch has delivered everything:
//!   expectations expire after five minutes, and the timeout of a request is less than one.
//! - A successor starts only after all requests of its predecessor have ended. This is the purpose of the lease.
//!   [`SetModel::lease`] removes this assumption.
//! - A create that timed out is processed, if ever, before a Machine with its name is deleted and removed. Otherwise it would
//!   create that Machine again.

mod canonical;
mod controller;
mod objects;
mod state;

use std::fmt;

use planner::Policy;

use self::controller::Outcome;
use self::objects::Objects;
use self::state::{Machine, Phase, Request, State};
use crate::Model;
use crate::search::{ConvergenceCheck, Settles};

/// Limits of the model.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of replicas.
    pub replicas: u8,
    /// Number of scale operations.
    pub scales: u8,
    /// Number of Machines that fail.
    pub failures: u8,
    /// Number of Machines that other clients delete.
    pub deletions: u8,
    /// Number of requests that are rejected, lost or time out.
    pub faults: u8,
    /// Number of times that the process ends.
    pub crashes: u8,
}

/// The model of a MachineSet.
pub struct SetModel {
    /// Limits of the model.
    pub bounds: Bounds,
    /// Whether a successor waits for the end of the requests of its predecessor.
    pub lease: bool,
    policy: Policy,
    objects: Objects,
    /// States that are known to converge.
    convergence: ConvergenceCheck,
}

/// A step of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The watch of the MachineSet delivers its next event.
    ShowSet,
    /// The watch of the Machines delivers its next event.
    ShowMachine,
    /// The controller reconciles the MachineSet.
    Reconcile,
    /// A request ends with this outcome.
    Answer(Request, Outcome),
    /// A request that timed out is processed.
    CarryOutLate(Request),
    /// A request that timed out is dropped.
    DropLate(Request),
    /// The expectations expire.
    Expire,
    /// The MachineSet is scaled.
    Scale(u8),
    /// A Machine changes its phase.
    SetPhase(Machine, Phase),
    /// Another client deletes a Machine.
    DeleteExternally(Machine),
    /// A Machine that is being deleted is removed.
    Remove(Machine),
    /// The process ends.
    Crash,
    /// The next process starts.
    Start,
}

impl SetModel {
    /// Creates the model of an empty MachineSet.
    pub fn new(bounds: Bounds) -> Self {
        let (policy, objects) = (Policy::default(), Objects::new(bounds.replicas));
        Self { bounds, lease: true, policy, objects, convergence: ConvergenceCheck::default() }
    }
}

fn check_settled(state: &State) -> Result<(), String> {
    let living = state.living();
    if living != usize::from(state.replicas) {
        return Err(format!("converged with {living} machines of {}: {}", state.replicas, state.describe()));
    }
    match state.machines.iter().find(|machine| machine.phase == Phase::Failed) {
        Some(machine) => Err(format!("converged with the failed machine {machine}: {}", state.describe())),
        None => Ok(()),
    }
}

impl Model for SetModel {
    type State = State;
    type Action = Action;

    fn initial(&self) -> State {
        State::new(self.bounds)
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        let mut actions = self.external_actions(state);
        for request in &state.late {
            actions.extend([Action::CarryOutLate(request.clone()), Action::DropLate(request.clone())]);
        }
        let Some(controller) = &state.controller else {
            if state.late.is_empty() || !self.lease {
                actions.push(Action::Start);
            }
            return actions;
        };
        if !state.set_events.is_empty() {
            actions.push(Action::ShowSet);
        }
        if !state.machine_events.is_empty() {
            actions.push(Action::ShowMachine);
        }
        match &controller.active {
            Some(active) => {
                for request in &active.sent {
                    actions.push(Action::Answer(request.clone(), Outcome::Done));
                    if state.remaining.faults > 0 {
                        actions.extend(Outcome::FAULTS.map(|outcome| Action::Answer(request.clone(), outcome)));
                    }
                }
            }
            None if controller.queued => actions.push(Action::Reconcile),
            None => {}
        }
        if state.is_quiet() && controller.expects_something() {
            actions.push(Action::Expire);
        }
        if state.remaining.crashes > 0 {
            actions.push(Action::Crash);
        }
        actions
    }

    fn next(&self, state: &State, action: &Action) -> Result<State, String> {
        let mut next = state.clone();
        match action {
            Action::ShowSet => next.show_set(),
            Action::ShowMachine => next.show_machine(),
            Action::Reconcile => controller::reconcile(&mut next, &self.objects, &self.policy)?,
            Action::Answer(request, outcome) => controller::answer(&mut next, request, *outcome)?,
            Action::CarryOutLate(request) => {
                next.remove_late(request);
                next.carry_out(request)?;
            }
            Action::DropLate(request) => next.remove_late(request),
            Action::Expire => next.expire(),
            Action::Scale(replicas) => next.scale(*replicas),
            Action::SetPhase(machine, phase) => next.set_phase(machine, *phase),
            Action::DeleteExternally(machine) => next.delete_externally(machine),
            Action::Remove(machine) => next.remove(machine),
            Action::Crash => next.crash(),
            Action::Start => next.start(),
        }
        canonical::rename(&mut next);
        Ok(next)
    }

    fn check(&self, state: &State) -> Result<(), String> {
        self.convergence.check(self, state)
    }
}

impl Settles for SetModel {
    const MAX_STEPS: usize = 200;

    fn fair_action(&self, state: &State) -> Option<Action> {
        if let Some(request) = state.late.first() {
            return Some(Action::CarryOutLate(request.clone()));
        }
        let Some(controller) = &state.controller else { return Some(Action::Start) };
        if let Some(active) = &controller.active {
            return active.sent.first().map(|request| Action::Answer(request.clone(), Outcome::Done));
        }
        if !state.set_events.is_empty() {
            return Some(Action::ShowSet);
        }
        if !state.machine_events.is_empty() {
            return Some(Action::ShowMachine);
        }
        if controller.queued {
            return Some(Action::Reconcile);
        }
        if let Some(machine) = state.machines.iter().find(|machine| machine.deleting) {
            return Some(Action::Remove(machine.clone()));
        }
        if let Some(machine) = state.machines.iter().find(|machine| machine.phase == Phase::Pending) {
            return Some(Action::SetPhase(machine.clone(), Phase::Running));
        }
        controller.expects_something().then_some(Action::Expire)
    }

    fn check_settled(&self, state: &State) -> Result<(), String> {
        check_settled(state)
    }

    fn describe(&self, state: &State) -> String {
        state.describe()
    }
}

impl SetModel {
    fn external_actions(&self, state: &State) -> Vec<Action> {
        let mut actions = Vec::new();
        if state.remaining.scales > 0 {
            let wanted = (0..=self.bounds.replicas).filter(|replicas| *replicas != state.replicas);
            actions.extend(wanted.map(Action::Scale));
        }
        for machine in &state.machines {
            if machine.deleting {
                if !state.late.iter().any(|request| request.creates(machine.name)) {
                    actions.push(Action::Remove(machine.clone()));
                }
                continue;
            }
            match machine.phase {
                Phase::Pending => actions.push(Action::SetPhase(machine.clone(), Phase::Running)),
                Phase::Running if state.remaining.failures > 0 => {
                    actions.push(Action::SetPhase(machine.clone(), Phase::Failed));
                }
                Phase::Running | Phase::Failed => {}
            }
            if state.remaining.deletions > 0 {
                actions.push(Action::DeleteExternally(machine.clone()));
            }
        }
        actions
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShowSet => f.write_str("the watch delivers the set"),
            Self::ShowMachine => f.write_str("the watch delivers the next change of a machine"),
            Self::Reconcile => f.write_str("the controller reconciles"),
            Self::Answer(request, outcome) => write!(f, "{request}: {outcome}"),
            Self::CarryOutLate(request) => write!(f, "{request}: processed late"),
            Self::DropLate(request) => write!(f, "{request}: dropped"),
            Self::Expire => f.write_str("the expectations expire"),
            Self::Scale(replicas) => write!(f, "user scales the set to {replicas}"),
            Self::SetPhase(machine, phase) => write!(f, "machine {machine} becomes {phase:?}"),
            Self::DeleteExternally(machine) => write!(f, "user deletes machine {machine}"),
            Self::Remove(machine) => write!(f, "machine {machine} is removed"),
            Self::Crash => f.write_str("the process ends"),
            Self::Start => f.write_str("the next process starts"),
        }
    }
}

#[cfg(test)]
mod tests;
