//! The `eviction` subresource: a deletion that asks the pod's disruption budget first.
//!
//! The budget's controller counts how many more pods may go; an eviction spends one of them *before* it deletes, and notes the
//! pod by name, so that two evictions in the same moment cannot both spend the last. What counts as guarded follows the
//! reference to the letter, because a drain relies on each case: a pod that does not run or is already leaving is just deleted,
//! one that is not ready may be let go for free, and two budgets for one pod are an error that no retry heals.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::binding::success;
use super::{Answer, Call, Part, delete};
use crate::conditions;
use crate::decode;
use crate::failure::Failure;
use crate::meta;
use crate::resource::Resource;
use crate::selector::{self, Labels};
use crate::state::{Effect, State};
use crate::store::Key;

/// More unconfirmed evictions than this mean that nobody looks after the budget.
const MOST_UNCONFIRMED: usize = 2000;
const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Evicts the pod in the path.
pub(crate) fn evict(state: &mut State, call: &Call, body: &[u8]) -> Result<Answer, Failure> {
    let eviction = decode::foreign(body, "Eviction")?;
    let key = call.key();
    if *meta::name(&eviction) != *key.name {
        return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = delete::Options::of(eviction.get("deleteOptions"))?;
    if call.effect() == Effect::DryRun {
        options.only_try();
    }
    let pod = state.get(&call.resource, &key).cloned().ok_or_else(|| Failure::not_found(&call.resource, &key.name))?;
    if !goes_unguarded(&pod) {
        match guarding(state, &pod).as_slice() {
            [] => {}
            [(budgets, budget)] => spend(state, call, &options, &pod, budgets, budget)?,
            _ => {
                let message =
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(Failure::unexpected(message));
            }
        }
    }
    if !options.is_dry_run() {
        options.check_preconditions(&call.resource, &pod)?;
        mark_disrupted(state, call, &key, &pod, &mut options);
    }
    let whole = Call { part: Part::Whole, ..call.clone() };
    delete::remove(state, &whole, &key, &options)?;
    Ok(Answer::new(StatusCode::CREATED, success(StatusCode::CREATED).into()))
}

/// Nothing is disrupted by the end of a pod that does not run or is on its way out anyway.
fn goes_unguarded(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed" | "Pending") || meta::is_deleting(pod)
}

/// The budgets whose selectors match a pod.
fn guarding(state: &State, pod: &Value) -> Vec<(std::sync::Arc<Resource>, Value)> {
    let Some(budgets) = state.catalog.find("policy", "v1", "poddisruptionbudgets") else { return Vec::new() };
    let view = state.store.view(budgets.stored_as(), state.store.revision(), Some(meta::namespace(pod)), None);
    let matches = |budget: &Value| {
        let selector = budget.pointer("/spec/selector").and_then(selector::written_out);
        selector.and_then(|text| Labels::parse(&text).ok()).is_some_and(|labels| labels.matches(pod))
    };
    let guarding = view.unwrap_or_default().into_iter().filter(|(_, budget)| matches(budget));
    guarding.map(|(_, budget)| (budgets.clone(), budget.as_ref().clone())).collect()
}

/// Takes one disruption from a budget, unless the pod may go without.
fn spend(
    state: &mut State,
    call: &Call,
    options: &delete::Options,
    pod: &Value,
    budgets: &Resource,
    budget: &Value,
) -> Result<(), Failure> {
    let status = budget.get("status").cloned().unwrap_or_default();
    let number = |field: &str| status.get(field).and_then(Value::as_i64).unwrap_or_default();
    let ready = pod.get("status").is_some_and(|status| conditions::holds(status, "Ready"));
    let always = budget.pointer("/spec/unhealthyPodEvictionPolicy").and_then(Value::as_str) == Some("AlwaysAllow");
    let enough = number("desiredHealthy") > 0 && number("currentHealthy") >= number("desiredHealthy");
    if !ready && (always || enough) {
        return Ok(());
    }
    check(budget, &status)?;
    if options.is_dry_run() {
        return Ok(());
    }
    let mut budget = budget.clone();
    if let Some(status) = budget.get_mut("status").and_then(Value::as_object_mut) {
        let left = number("disruptionsAllowed") - 1;
        status.insert("disruptionsAllowed".to_owned(), json!(left));
        if left == 0 {
            let exhausted = json!({
                "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
                "observedGeneration": number("observedGeneration"),
            });
            conditions::set(status, &exhausted, call.now);
        }
        let disrupted = status.entry("disruptedPods").or_insert_with(|| json!({})).as_object_mut();
        disrupted.map(|pods| pods.insert(meta::name(pod).to_owned(), json!(meta::time(call.now))));
    }
    let key = Key::new(meta::namespace(&budget), meta::name(&budget));
    state.put(budgets, key, budget, call.now, Effect::Real);
    Ok(())
}

/// Whether a budget has something left.
fn check(budget: &Value, status: &Value) -> Result<(), Failure> {
    let name = meta::name(budget);
    let number = |field: &str| status.get(field).and_then(Value::as_i64).unwrap_or_default();
    if number("observedGeneration") < meta::generation(budget) {
        let message = format!("The disruption budget {name} is still being processed by the server.");
        return Err(Failure::disruption(VIOLATION, Some(10), &message));
    }
    let unconfirmed = status.get("disruptedPods").and_then(Value::as_object).map_or(0, Map::len);
    if unconfirmed > MOST_UNCONFIRMED {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Failure::forbidden_budget(name, why));
    }
    match number("disruptionsAllowed") {
        ..0 => Err(Failure::forbidden_budget(name, "pdb disruptions allowed is negative")),
        0 => Err(Failure::disruption(VIOLATION, None, &why_none_is_left(name, status))),
        _ => Ok(()),
    }
}

fn why_none_is_left(name: &str, status: &Value) -> String {
    let number = |field: &str| status.get(field).and_then(Value::as_i64).unwrap_or_default();
    let (current, desired) = (number("currentHealthy"), number("desiredHealthy"));
    let condition = conditions::find(status, "DisruptionAllowed");
    let text = |field: &str| condition.and_then(|c| c.get(field)).and_then(Value::as_str).unwrap_or_default();
    let explained = text("status") == "False" && !text("message").is_empty();
    let (reason, message) = (text("reason"), text("message"));
    if explained && reason == "SyncFailed" {
        format!("The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}")
    } else if current <= desired {
        format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
    } else if explained {
        format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    }
}

/// Leaves word in the pod why it goes, for controllers that tell a disruption from a failure.
fn mark_disrupted(state: &mut State, call: &Call, key: &Key, pod: &Value, options: &mut delete::Options) {
    let mut marked = pod.clone();
    if let Some(status) = marked.get_mut("status").and_then(Value::as_object_mut) {
        let target = json!({
            "type": "DisruptionTarget", "status": "True",
            "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
        });
        conditions::set(status, &target, call.now);
    }
    if marked != *pod {
        let stored = state.put(&call.resource, key.clone(), marked, call.now, Effect::Real);
        options.follow(meta::version(&stored));
    }
}

impl Failure {
    /// A disruption budget says no.
    fn disruption(message: &str, retry_after: Option<u64>, why: &str) -> Self {
        let mut details = json!({ "causes": [{ "reason": "DisruptionBudget", "message": why }] });
        if let (Some(seconds), Some(details)) = (retry_after, details.as_object_mut()) {
            details.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).with_details(details)
    }

    /// A disruption budget that makes no sense.
    fn forbidden_budget(name: &str, why: &str) -> Self {
        let message = format!("poddisruptionbudget.policy {name:?} is forbidden: {why}");
        let details = json!({ "name": name, "group": "policy", "kind": "poddisruptionbudget" });
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).with_details(details)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(json!({"desiredHealthy": 2, "currentHealthy": 2}), "The disruption budget b needs 2 healthy pods and has 2 currently")]
    #[case(json!({"desiredHealthy": 1, "currentHealthy": 2}), "The disruption budget b does not allow evicting pods currently")]
    #[case(
        json!({"desiredHealthy": 1, "currentHealthy": 2, "conditions": [
            {"type": "DisruptionAllowed", "status": "False", "reason": "Why", "message": "so"}]}),
        "The disruption budget b does not allow evicting pods currently (Why): so"
    )]
    #[case(
        json!({"desiredHealthy": 2, "currentHealthy": 1, "conditions": [
            {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale"}]}),
        "The disruption budget b does not allow evicting pods currently because it failed sync: no scale"
    )]
    fn an_exhausted_budget_says_why(#[case] status: Value, #[case] says: &str) {
        assert_eq!(why_none_is_left("b", &status), says);
    }
}
