//! Model of one rollout of a few Machines, in every order of events.
//!
//! [`planner::deployment::plan`] is real. The following parts are modelled:
//!
//! | | |
//! | --- | --- |
//! | API server | the MachineDeployment and its MachineSets, complete, with the patches of the planner |
//! | deployment controller | carries out the steps of a plan in order, and may end after any of them |
//! | MachineSet controller | creates or deletes one Machine at a time until the number matches the replicas; counts its Machines at any later time or immediately ([`crate::set`] verifies that it creates no surplus) |
//! | cache | shows the Machines of a MachineSet of some earlier time or of now ([`CacheLag`]) |
//! | others | change the class or the replicas during the rollout; Machines join, fail, and are removed after their deletion |
//!
//! Nodes are left out: their taints and annotations do not affect the replicas.

mod limits;
mod state;

use std::fmt;

use planner::Policy;

use self::state::State;
use crate::Model;
use crate::search::{ConvergenceCheck, Settles};

/// Limits of the model.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Initial number of Machines, all Running.
    pub replicas: i32,
    /// `maxSurge`.
    pub surge: i32,
    /// `maxUnavailable`.
    pub unavailable: i32,
    /// Number of changes of the class.
    pub classes: u8,
    /// Number of scale operations, to at most one Machine more than initially.
    pub scales: u8,
    /// Number of Machines that fail.
    pub failures: u8,
    /// Number of reconciles that end before their last step.
    pub crashes: u8,
    /// How far the cache and the counts lag.
    pub lag: CacheLag,
}

/// How far the cache of the MachineDeployment and the counts of its MachineSets lag. Each lag multiplies the number of
/// states, so searches with many Machines have less of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheLag {
    /// The cache and the counts lag.
    CacheAndCounts,
    /// The counts lag; the cache is current.
    Counts,
    /// Cache and counts are current.
    None,
}

/// The model of a rollout.
pub struct RolloutModel {
    bounds: Bounds,
    policy: Policy,
    initial: State,
    convergence: ConvergenceCheck,
}

/// A step of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The MachineDeployment is reconciled.
    Reconcile,
    /// The MachineDeployment is reconciled and ends after this number of steps.
    ReconcileUntil(usize),
    /// The MachineSet controller creates or deletes one Machine.
    RunSet(String),
    /// The MachineSet controller counts its Machines.
    Count(String),
    /// The cache shows the current Machines of a MachineSet.
    Show(String),
    /// A Machine joins.
    Join(String),
    /// A machine fails.
    Fail(String),
    /// A Machine that is being deleted is removed.
    Remove(String),
    /// The class is changed.
    Class(u8),
    /// The MachineDeployment is scaled.
    Scale(i32),
}

impl RolloutModel {
    /// Creates the model of a MachineDeployment whose Machines run.
    pub fn new(bounds: Bounds) -> Result<Self, String> {
        let policy = Policy::default();
        let mut state = State::new(bounds);
        while let Some(action) = fair_action(&state) {
            state.apply(&action, &policy)?;
        }
        state.check_settled()?;
        Ok(Self { bounds, policy, initial: state, convergence: ConvergenceCheck::default() })
    }
}

/// Returns the next step without faults. The MachineDeployment waits for a change, as its controller does.
fn fair_action(state: &State) -> Option<Action> {
    let sets = || state.sets.iter();
    let set = |found: Option<(&String, &state::Set)>| found.map(|(name, _)| name.clone());
    set(sets().find(|(_, set)| set.is_behind()))
        .map(Action::Show)
        .or_else(|| set(sets().find(|(_, set)| set.counts_differ())).map(Action::Count))
        .or_else(|| (!state.steps.is_empty()).then_some(Action::Reconcile))
        .or_else(|| set(sets().find(|(_, set)| set.has_work())).map(Action::RunSet))
        .or_else(|| set(sets().find(|(_, set)| set.machines.pending > 0)).map(Action::Join))
        .or_else(|| set(sets().find(|(_, set)| set.machines.deleting > 0)).map(Action::Remove))
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
            may(set.machines.running > 0 && state.remaining.failures > 0, Action::Fail);
            may(set.machines.deleting > 0, Action::Remove);
        }
        if !state.steps.is_empty() {
            actions.push(Action::Reconcile);
            if state.remaining.crashes > 0 {
                actions.extend((1..state.steps.len()).map(Action::ReconcileUntil));
            }
        }
        if state.remaining.classes > 0 {
            actions.push(Action::Class(state.remaining.classes));
        }
        if state.remaining.scales > 0 {
            let replicas = (0..=self.bounds.replicas + 1).filter(|replicas| *replicas != state.replicas());
            actions.extend(replicas.map(Action::Scale));
        }
        actions
    }

    fn next(&self, state: &State, action: &Action) -> Result<State, String> {
        let mut next = state.clone();
        next.apply(action, &self.policy)?;
        limits::check_limits(state, action, &next)?;
        Ok(next)
    }

    fn check(&self, state: &State) -> Result<(), String> {
        self.convergence.check(self, state)
    }
}

impl Settles for RolloutModel {
    const MAX_STEPS: usize = 500;

    fn fair_action(&self, state: &State) -> Option<Action> {
        fair_action(state)
    }

    fn check_settled(&self, state: &State) -> Result<(), String> {
        state.check_settled()
    }

    fn describe(&self, state: &State) -> String {
        state.describe()
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reconcile => f.write_str("the deployment is reconciled"),
            Self::ReconcileUntil(steps) => write!(f, "the deployment is reconciled and ends after {steps} steps"),
            Self::RunSet(set) => write!(f, "set {set} creates or deletes a machine"),
            Self::Count(set) => write!(f, "set {set} counts"),
            Self::Show(set) => write!(f, "the cache shows the machines of set {set}"),
            Self::Join(set) => write!(f, "a machine of set {set} joins"),
            Self::Fail(set) => write!(f, "a machine of set {set} fails"),
            Self::Remove(set) => write!(f, "a machine of set {set} is removed"),
            Self::Class(class) => write!(f, "user changes the class to {class}"),
            Self::Scale(replicas) => write!(f, "user scales to {replicas}"),
        }
    }
}

#[cfg(test)]
mod tests;
