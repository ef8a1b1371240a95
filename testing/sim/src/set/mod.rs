//! One MachineSet of a few machines, in every order of events.
//!
//! What is real: [`planner::machineset::plan`]. What is modelled, as the shell of `crates/controllers` and the API server do it:
//!
//! | | |
//! | --- | --- |
//! | the API server | the set's replicas, its machines, guarded deletes, names that can be taken once |
//! | the cache | two watches, each in its order and arbitrarily late; an answer to a write is in the cache before the watch shows it |
//! | requests | one reconcile at a time; the requests of a batch are carried out in any order, and each is answered, refused, or its answer is lost: before it was carried out, after it, or so that it is carried out at any time later |
//! | expectations | as `runtime::expectations`: by name and by uid, met by the cache or the answer, lapsing when nothing is under way any more |
//! | the process | ends at any moment; the next one begins with what the API server holds, when the lease has run out and nothing of the first is under way |
//! | others | scale the set, delete a machine, make it run or fail, take it away when it may go |
//!
//! How often each of these happens is bounded by [`Bounds`]; within them nothing is left out.
//!
//! Three assumptions are the model's and not the planner's; each was found by the search, which fails without it:
//!
//! - An expectation lapses only when its request is carried out or never will be, and the watch has shown everything: five minutes
//!   against a request's deadline of less than one.
//! - A successor starts only when nothing of its predecessor is under way: that is what the lease is for. [`SetModel::lease`] takes it
//!   away.
//! - A create whose answer was waited for in vain is carried out, if ever, before a machine that took its name is deleted and gone:
//!   otherwise it makes that machine once more.

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
use crate::search::{Settles, Settling};

/// How much may happen.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most replicas that anybody asks for.
    pub replicas: u8,
    /// How often the set is scaled.
    pub scales: u8,
    /// How many machines fail.
    pub failures: u8,
    /// How many machines somebody else deletes.
    pub deletions: u8,
    /// How many requests are refused, lost or late.
    pub faults: u8,
    /// How often the process ends.
    pub crashes: u8,
}

/// The model.
pub struct SetModel {
    /// How much may happen.
    pub bounds: Bounds,
    /// Whether a successor waits for the end of what its predecessor has sent.
    pub lease: bool,
    policy: Policy,
    objects: Objects,
    /// States that are known to come to rest rightly when nothing goes wrong any more.
    settling: Settling,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The watch of the set shows its next event.
    ShowSet,
    /// The watch of the machines shows its next event.
    ShowMachine,
    /// The controller looks at the set.
    Reconcile,
    /// A request that was sent goes this way.
    Answer(Request, Outcome),
    /// A request whose answer nobody waits for any more is carried out.
    CarryOutLate(Request),
    /// A request whose answer nobody waits for any more is never carried out.
    DropLate(Request),
    /// What is expected is no longer waited for.
    Lapse,
    /// Somebody wants this many.
    Scale(u8),
    /// A machine reaches a phase.
    Reach(Machine, Phase),
    /// Somebody deletes a machine.
    DeleteBySomebody(Machine),
    /// A machine that is being deleted is gone.
    Vanish(Machine),
    /// The process ends.
    Crash,
    /// The next one begins.
    Start,
}

impl SetModel {
    /// A set of no machines that somebody will scale.
    pub fn new(bounds: Bounds) -> Self {
        let (policy, objects) = (Policy::default(), Objects::new(bounds.replicas));
        Self { bounds, lease: true, policy, objects, settling: Settling::default() }
    }
}

fn at_rest(state: &State) -> Result<(), String> {
    let living = state.living();
    if living != usize::from(state.replicas) {
        return Err(format!("rests with {living} machines of {}: {}", state.replicas, state.told()));
    }
    match state.machines.iter().find(|machine| machine.phase == Phase::Failed) {
        Some(machine) => Err(format!("rests with the failed machine {machine}: {}", state.told())),
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
        let mut actions = self.of_others(state);
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
        match &controller.acting {
            Some(acting) => {
                for request in &acting.sent {
                    actions.push(Action::Answer(request.clone(), Outcome::Done));
                    if state.left.faults > 0 {
                        actions.extend(Outcome::FAULTS.map(|outcome| Action::Answer(request.clone(), outcome)));
                    }
                }
            }
            None if controller.queued => actions.push(Action::Reconcile),
            None => {}
        }
        if state.is_quiet() && controller.expects_something() {
            actions.push(Action::Lapse);
        }
        if state.left.crashes > 0 {
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
                next.take_late(request);
                next.carry_out(request)?;
            }
            Action::DropLate(request) => next.take_late(request),
            Action::Lapse => next.lapse(),
            Action::Scale(replicas) => next.scale(*replicas),
            Action::Reach(machine, phase) => next.reach(machine, *phase),
            Action::DeleteBySomebody(machine) => next.delete_by_somebody(machine),
            Action::Vanish(machine) => next.vanish(machine),
            Action::Crash => next.crash(),
            Action::Start => next.start(),
        }
        canonical::rename(&mut next);
        Ok(next)
    }

    fn check(&self, state: &State) -> Result<(), String> {
        self.settling.check(self, state)
    }
}

impl Settles for SetModel {
    const STEPS: usize = 200;

    fn fair(&self, state: &State) -> Option<Action> {
        if let Some(request) = state.late.first() {
            return Some(Action::CarryOutLate(request.clone()));
        }
        let Some(controller) = &state.controller else { return Some(Action::Start) };
        if let Some(acting) = &controller.acting {
            return acting.sent.first().map(|request| Action::Answer(request.clone(), Outcome::Done));
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
            return Some(Action::Vanish(machine.clone()));
        }
        if let Some(machine) = state.machines.iter().find(|machine| machine.phase == Phase::Pending) {
            return Some(Action::Reach(machine.clone(), Phase::Running));
        }
        controller.expects_something().then_some(Action::Lapse)
    }

    fn rests(&self, state: &State) -> Result<(), String> {
        at_rest(state)
    }

    fn told(&self, state: &State) -> String {
        state.told()
    }
}

impl SetModel {
    fn of_others(&self, state: &State) -> Vec<Action> {
        let mut actions = Vec::new();
        if state.left.scales > 0 {
            let wanted = (0..=self.bounds.replicas).filter(|replicas| *replicas != state.replicas);
            actions.extend(wanted.map(Action::Scale));
        }
        for machine in &state.machines {
            if machine.deleting {
                if !state.late.iter().any(|request| request.creates(machine.name)) {
                    actions.push(Action::Vanish(machine.clone()));
                }
                continue;
            }
            match machine.phase {
                Phase::Pending => actions.push(Action::Reach(machine.clone(), Phase::Running)),
                Phase::Running if state.left.failures > 0 => {
                    actions.push(Action::Reach(machine.clone(), Phase::Failed));
                }
                Phase::Running | Phase::Failed => {}
            }
            if state.left.deletions > 0 {
                actions.push(Action::DeleteBySomebody(machine.clone()));
            }
        }
        actions
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShowSet => f.write_str("the watch shows the set"),
            Self::ShowMachine => f.write_str("the watch shows the next change of a machine"),
            Self::Reconcile => f.write_str("the controller reconciles"),
            Self::Answer(request, outcome) => write!(f, "{request}: {outcome}"),
            Self::CarryOutLate(request) => write!(f, "{request}: carried out late"),
            Self::DropLate(request) => write!(f, "{request}: was never carried out"),
            Self::Lapse => f.write_str("what is expected lapses"),
            Self::Scale(replicas) => write!(f, "somebody scales the set to {replicas}"),
            Self::Reach(machine, phase) => write!(f, "machine {machine} becomes {phase:?}"),
            Self::DeleteBySomebody(machine) => write!(f, "somebody deletes machine {machine}"),
            Self::Vanish(machine) => write!(f, "machine {machine} is gone"),
            Self::Crash => f.write_str("the process ends"),
            Self::Start => f.write_str("the next process begins"),
        }
    }
}

#[cfg(test)]
mod tests;
