//! What a step of a roll-out must not do, judged by numbers and by nothing of the planner.

use super::Action;
use super::state::{Set, State};

/// Neither limit is left by our own doing: who makes room for more machines than allowed, or takes away machines that have to be
/// available, is wrong. What others do (a failure, a smaller number wanted) may leave a limit behind; then it must not get worse.
pub(super) fn judge(before: &State, action: &Action, after: &State) -> Result<(), String> {
    let (most, held) = (most(after), held(after));
    if held > most && held > self::held(before) {
        return Err(format!("{held} machines are possible, {most} are allowed: {}", after.told()));
    }
    let ours = matches!(action, Action::Reconcile | Action::ReconcileUntil(_));
    let (least, kept) = (least(after), kept(after));
    if ours && kept < least && kept < self::kept(before) {
        return Err(format!("{kept} machines stay available, {least} have to: {}", after.told()));
    }
    Ok(())
}

fn rolling(state: &State, name: &str) -> i32 {
    let value = serde_json::to_value(&state.deployment.spec.strategy).unwrap_or_default();
    let value = value.pointer(&format!("/rollingUpdate/{name}")).and_then(serde_json::Value::as_i64);
    value.and_then(|value| i32::try_from(value).ok()).unwrap_or_default()
}

fn most(state: &State) -> i32 {
    state.replicas() + rolling(state, "maxSurge")
}

fn least(state: &State) -> i32 {
    (state.replicas() - rolling(state, "maxUnavailable")).max(0)
}

/// Living machines, and those that sets may make at any moment.
fn held(state: &State) -> i32 {
    let of = |set: &Set| {
        let size = if api::Object::is_deleting(&set.object) { 0 } else { set.object.spec.replicas };
        size.max(set.machines.living())
    };
    state.sets.values().map(of).sum()
}

/// Machines that run and still do when every set has the size that it was given: a set deletes those that do not run first. One that has
/// failed counts until its set has counted anew, because until then nobody can know.
fn kept(state: &State) -> i32 {
    let of = |set: &Set| i32::from(set.machines.running + set.uncounted).min(set.object.spec.replicas);
    state.sets.values().filter(|set| !api::Object::is_deleting(&set.object)).map(of).sum()
}
