//! Checks the limits of a rollout by numbers, without the planner.

use super::Action;
use super::state::{Set, State};

/// No step may exceed the maximum number of Machines, and no reconcile may fall below the minimum number of available
/// Machines. External steps (a failure, a smaller number of replicas) may violate a limit; then it must not get worse.
pub(super) fn check_limits(before: &State, action: &Action, after: &State) -> Result<(), String> {
    let (max_machines, possible) = (max_machines(after), possible(after));
    if possible > max_machines && possible > self::possible(before) {
        return Err(format!("{possible} machines are possible, but {max_machines} are allowed: {}", after.describe()));
    }
    let is_reconcile = matches!(action, Action::Reconcile | Action::ReconcileUntil(_));
    let (min_available, available) = (min_available(after), available(after));
    if is_reconcile && available < min_available && available < self::available(before) {
        return Err(format!("{available} machines stay available of at least {min_available}: {}", after.describe()));
    }
    Ok(())
}

fn rolling(state: &State, name: &str) -> i32 {
    let value = serde_json::to_value(&state.deployment.spec.strategy).unwrap_or_default();
    let value = value.pointer(&format!("/rollingUpdate/{name}")).and_then(serde_json::Value::as_i64);
    value.and_then(|value| i32::try_from(value).ok()).unwrap_or_default()
}

fn max_machines(state: &State) -> i32 {
    state.replicas() + rolling(state, "maxSurge")
}

fn min_available(state: &State) -> i32 {
    (state.replicas() - rolling(state, "maxUnavailable")).max(0)
}

/// Returns the Machines that exist or may be created at any moment.
fn possible(state: &State) -> i32 {
    let of = |set: &Set| {
        let size = if api::Object::is_deleting(&set.object) { 0 } else { set.object.spec.replicas };
        size.max(set.machines.living())
    };
    state.sets.values().map(of).sum()
}

/// Returns the Machines that remain Running when every MachineSet has its replicas: a MachineSet deletes Machines that
/// are not Running first. A Failed Machine counts as Running until its MachineSet has counted again.
fn available(state: &State) -> i32 {
    let of = |set: &Set| i32::from(set.machines.running + set.uncounted).min(set.object.spec.replicas);
    state.sets.values().filter(|set| !api::Object::is_deleting(&set.object)).map(of).sum()
}
