//! One roll-out of a few machines, in every order of events.
//!
//! What is real: [`planner::deployment::plan`]. What is modelled:
//!
//! | | |
//! | --- | --- |
//! | the API server | the deployment and its sets, whole, as the planner's patches leave them |
//! | the deployment's shell | carries out the steps of a plan in their order, and may end after any of them |
//! | the sets' controller | makes or deletes one machine at a time towards a set's size, and counts whenever it gets round to it, or at once (that it makes none too many is what [`crate::set`] shows) |
//! | the cache | shows the machines of a set as they were some time ago, or as they are ([`News`]) |
//! | others | change the class or the replicas in mid-flight; machines join, fail, and are gone when they may go |
//!
//! Nodes are left out: whether a node is tainted or annotated changes no size.

mod judge;
mod state;

use std::fmt;

use planner::Policy;

use self::state::State;
use crate::Model;
use crate::search::{Settles, Settling};

/// How much may happen.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many machines the deployment begins with, all of them running.
    pub replicas: i32,
    /// `maxSurge`.
    pub surge: i32,
    /// `maxUnavailable`.
    pub unavailable: i32,
    /// How often somebody wants another class.
    pub classes: u8,
    /// How often somebody wants another number of machines, up to one more than at first.
    pub scales: u8,
    /// How many machines fail.
    pub failures: u8,
    /// How often a reconcile ends before its last step.
    pub crashes: u8,
    /// What the deployment knows of machines.
    pub news: News,
}

/// What the deployment knows of machines, and when. Every set can be behind in two ways, so this is what makes many machines too many
/// states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum News {
    /// The cache shows them at any later moment, and sets count them at any later moment.
    Late,
    /// Sets count them at any later moment; the cache is never behind.
    LateCounts,
    /// The cache is never behind, and sets count at once.
    AtOnce,
}

/// The model.
pub struct RolloutModel {
    bounds: Bounds,
    policy: Policy,
    initial: State,
    settling: Settling,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The deployment is planned, and all its steps are carried out.
    Reconcile,
    /// The deployment is planned, and only so many of its steps are carried out.
    ReconcileUntil(usize),
    /// The controller of sets makes or deletes one machine.
    RunSet(String),
    /// The controller of sets counts.
    Count(String),
    /// The cache shows the machines of a set as they are.
    Show(String),
    /// A machine joins.
    Join(String),
    /// A machine fails.
    Fail(String),
    /// A machine that is being deleted is gone.
    Vanish(String),
    /// Somebody wants another class.
    Class(u8),
    /// Somebody wants another number of machines.
    Scale(i32),
}

impl RolloutModel {
    /// A deployment whose machines run.
    pub fn new(bounds: Bounds) -> Result<Self, String> {
        let policy = Policy::default();
        let mut state = State::new(bounds);
        while let Some(action) = fair(&state) {
            state.happen(&action, &policy)?;
        }
        state.rests()?;
        Ok(Self { bounds, policy, initial: state, settling: Settling::default() })
    }
}

/// What happens next when nothing goes wrong. The deployment waits until there is news for it, as its shell does.
fn fair(state: &State) -> Option<Action> {
    let sets = || state.sets.iter();
    let set = |found: Option<(&String, &state::Set)>| found.map(|(name, _)| name.clone());
    set(sets().find(|(_, set)| set.is_behind()))
        .map(Action::Show)
        .or_else(|| set(sets().find(|(_, set)| set.counts_differ())).map(Action::Count))
        .or_else(|| (!state.steps.is_empty()).then_some(Action::Reconcile))
        .or_else(|| set(sets().find(|(_, set)| set.has_work())).map(Action::RunSet))
        .or_else(|| set(sets().find(|(_, set)| set.machines.pending > 0)).map(Action::Join))
        .or_else(|| set(sets().find(|(_, set)| set.machines.deleting > 0)).map(Action::Vanish))
}

impl Model for RolloutModel {
    type State = State;
    type Action = Action;

    fn initial(&self) -> State {
        self.initial.clone()
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        let mut actions = Vec::new();
        for (name, set) in &state.sets {
            let mut may = |possible: bool, action: fn(String) -> Action| {
                if possible {
                    actions.push(action(name.clone()));
                }
            };
            may(set.has_work(), Action::RunSet);
            may(set.counts_differ(), Action::Count);
            may(set.is_behind(), Action::Show);
            may(set.machines.pending > 0, Action::Join);
            may(set.machines.running > 0 && state.left.failures > 0, Action::Fail);
            may(set.machines.deleting > 0, Action::Vanish);
        }
        if !state.steps.is_empty() {
            actions.push(Action::Reconcile);
            if state.left.crashes > 0 {
                actions.extend((1..state.steps.len()).map(Action::ReconcileUntil));
            }
        }
        if state.left.classes > 0 {
            actions.push(Action::Class(state.left.classes));
        }
        if state.left.scales > 0 {
            let replicas = (0..=self.bounds.replicas + 1).filter(|replicas| *replicas != state.replicas());
            actions.extend(replicas.map(Action::Scale));
        }
        actions
    }

    fn next(&self, state: &State, action: &Action) -> Result<State, String> {
        let mut next = state.clone();
        next.happen(action, &self.policy)?;
        judge::judge(state, action, &next)?;
        Ok(next)
    }

    fn check(&self, state: &State) -> Result<(), String> {
        self.settling.check(self, state)
    }
}

impl Settles for RolloutModel {
    const STEPS: usize = 500;

    fn fair(&self, state: &State) -> Option<Action> {
        fair(state)
    }

    fn rests(&self, state: &State) -> Result<(), String> {
        state.rests()
    }

    fn told(&self, state: &State) -> String {
        state.told()
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reconcile => f.write_str("the deployment is reconciled"),
            Self::ReconcileUntil(steps) => write!(f, "the deployment is reconciled, and ends after {steps} steps"),
            Self::RunSet(set) => write!(f, "set {set} makes or deletes a machine"),
            Self::Count(set) => write!(f, "set {set} counts"),
            Self::Show(set) => write!(f, "the cache shows the machines of set {set}"),
            Self::Join(set) => write!(f, "a machine of set {set} joins"),
            Self::Fail(set) => write!(f, "a machine of set {set} fails"),
            Self::Vanish(set) => write!(f, "a machine of set {set} is gone"),
            Self::Class(class) => write!(f, "somebody wants class {class}"),
            Self::Scale(replicas) => write!(f, "somebody wants {replicas} machines"),
        }
    }
}

#[cfg(test)]
mod tests;
