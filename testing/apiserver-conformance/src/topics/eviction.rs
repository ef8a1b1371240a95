//! Evictions and the budgets they spend.
//!
//! On a real cluster a controller keeps the status of budgets; the cases write what it would write, so that they mean the same
//! where there is none.

use serde_json::{Value, json};

use super::pods::{make, new_pod};
use crate::fixture::{Answer, Fixture, Patch, same, says};
use crate::{CaseResult, Difference, cases, ensure};

cases![
    without_a_budget_an_eviction_is_a_deletion,
    an_eviction_leaves_word_in_the_pod,
    an_eviction_must_name_its_pod,
    an_eviction_may_say_which_pod_it_means,
    an_eviction_brings_its_own_grace,
    a_budget_that_is_spent_refuses_with_its_numbers,
    an_eviction_spends_the_budget,
    two_budgets_for_one_pod_are_too_many,
    a_pod_that_does_not_run_yet_needs_no_budget,
    a_pod_that_has_ended_needs_no_budget,
    a_pod_that_is_leaving_needs_no_budget,
    an_unready_pod_is_guarded_while_others_are_missing,
    an_unready_pod_goes_where_the_policy_always_allows_it,
    an_eviction_that_is_only_tried_changes_nothing,
    a_budget_only_guards_what_it_selects,
];

fn budgets(s: &Fixture, name: &str) -> String {
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets{slash}{name}", s.namespace())
}

/// What the controller of budgets says of these numbers.
fn numbers(healthy: i64, desired: i64, expected: i64) -> Value {
    let allowed = (healthy - desired).max(0);
    json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": allowed,
        "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected,
    }})
}

/// Creates a budget for all pods that are called `guarded`, with one that must stay.
async fn budget(s: &Fixture, name: &str, status: &Value, policy: Option<&str>) -> CaseResult {
    let mut spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}});
    if let Some(policy) = policy {
        spec["unhealthyPodEvictionPolicy"] = json!(policy);
    }
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec,
    });
    s.post(&budgets(s, ""), &budget).await?.succeeds()?;
    s.patch(&budgets(s, &format!("{name}/status")), Patch::Merge, status).await?.succeeds()?;
    Ok(())
}

/// Creates a guarded pod that runs, ready or not.
async fn running(s: &Fixture, name: &str, ready: &str) -> Result<Value, Difference> {
    make(s, &new_pod(name, &json!({"app": "guarded"}), Some("node-1"))).await?;
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
    s.patch(&s.core(&format!("pods/{name}/status")), Patch::Merge, &json!({"status": status})).await?.succeeds()
}

async fn evict(s: &Fixture, name: &str, options: Option<Value>) -> Result<Answer, Difference> {
    let mut eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    if let Some(options) = options {
        eviction["deleteOptions"] = options;
    }
    s.post(&s.core(&format!("pods/{name}/eviction")), &eviction).await
}

async fn is_leaving(s: &Fixture, name: &str) -> Result<bool, Difference> {
    let answer = s.get(&s.core(&format!("pods/{name}"))).await?;
    Ok(answer.code == 404 || answer.succeeds()?["metadata"]["deletionTimestamp"].is_string())
}

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

async fn without_a_budget_an_eviction_is_a_deletion(s: Fixture) -> CaseResult {
    running(&s, "a", "True").await?;
    let answer = evict(&s, "a", None).await?;
    ensure!(answer.code == 201, "answered {}: {}", answer.code, answer.body);
    same("status", &json!([answer.body["kind"], answer.body["status"]]), &json!(["Status", "Success"]))?;
    let pod = s.get(&s.core("pods/a")).await?.succeeds()?;
    same("grace", &pod["metadata"]["deletionGracePeriodSeconds"], &json!(30))
}

async fn an_eviction_leaves_word_in_the_pod(s: Fixture) -> CaseResult {
    running(&s, "a", "True").await?;
    evict(&s, "a", None).await?.succeeds()?;
    let pod = s.get(&s.core("pods/a")).await?.succeeds()?;
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let target = conditions.iter().find(|c| c["type"] == "DisruptionTarget").cloned().unwrap_or_default();
    let told = json!([target["status"], target["reason"], target["message"]]);
    same("condition", &told, &json!(["True", "EvictionByEvictionAPI", "Eviction API: evicting"]))
}

async fn an_eviction_must_name_its_pod(s: Fixture) -> CaseResult {
    running(&s, "a", "True").await?;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"}});
    let answer = s.post(&s.core("pods/a/eviction"), &eviction).await?;
    answer.fails_saying(400, "BadRequest", "name in URL does not match name in Eviction object")?;
    evict(&s, "b", None).await?.fails_saying(404, "NotFound", "pods \"b\" not found")?;
    s.get(&s.core("pods/a/eviction")).await?.fails(405, "MethodNotAllowed")?;
    Ok(())
}

/// Shows KIN-3.
async fn an_eviction_may_say_which_pod_it_means(s: Fixture) -> CaseResult {
    let pod = running(&s, "a", "True").await?;
    let uid = |uid: &Value| Some(json!({"preconditions": {"uid": uid}}));
    let status = evict(&s, "a", uid(&json!("another"))).await?.fails(409, "Conflict")?;
    says(&status["message"], "the UID in the precondition (another) does not match the UID in record (")?;
    ensure!(!is_leaving(&s, "a").await?, "the wrong pod was evicted");
    evict(&s, "a", uid(&pod["metadata"]["uid"])).await?.succeeds()?;
    ensure!(is_leaving(&s, "a").await?, "the pod stays");
    Ok(())
}

/// Shows KIN-3.
async fn an_eviction_brings_its_own_grace(s: Fixture) -> CaseResult {
    running(&s, "a", "True").await?;
    evict(&s, "a", Some(json!({"gracePeriodSeconds": 7}))).await?.succeeds()?;
    let pod = s.get(&s.core("pods/a")).await?.succeeds()?;
    same("grace", &pod["metadata"]["deletionGracePeriodSeconds"], &json!(7))?;
    evict(&s, "a", Some(json!({"gracePeriodSeconds": 0}))).await?.succeeds()?;
    s.get(&s.core("pods/a")).await?.fails(404, "NotFound")?;
    Ok(())
}

/// Shows KIN-1.
async fn a_budget_that_is_spent_refuses_with_its_numbers(s: Fixture) -> CaseResult {
    running(&s, "a", "True").await?;
    budget(&s, "b", &numbers(1, 1, 1), None).await?;
    let status = evict(&s, "a", None).await?.fails_saying(429, "TooManyRequests", REFUSED)?;
    let message = "The disruption budget b needs 1 healthy pods and has 1 currently";
    let causes = json!({"causes": [{"reason": "DisruptionBudget", "message": message}]});
    same("details", &status["details"], &causes)?;
    ensure!(!is_leaving(&s, "a").await?, "the rejected eviction deleted the pod");
    Ok(())
}

async fn an_eviction_spends_the_budget(s: Fixture) -> CaseResult {
    running(&s, "a", "True").await?;
    running(&s, "b", "True").await?;
    budget(&s, "b", &numbers(2, 1, 2), None).await?;
    evict(&s, "a", None).await?.succeeds()?;
    let budget = s.get(&budgets(&s, "b")).await?.succeeds()?;
    same("left", &budget["status"]["disruptionsAllowed"], &json!(0))?;
    evict(&s, "b", None).await?.fails_saying(429, "TooManyRequests", REFUSED)?;
    ensure!(is_leaving(&s, "a").await?, "the first stays");
    ensure!(!is_leaving(&s, "b").await?, "the rejected second eviction deleted the pod");
    Ok(())
}

/// Shows KIN-1.
async fn two_budgets_for_one_pod_are_too_many(s: Fixture) -> CaseResult {
    running(&s, "a", "True").await?;
    budget(&s, "b", &numbers(1, 1, 1), None).await?;
    budget(&s, "c", &numbers(1, 1, 1), None).await?;
    let answer = evict(&s, "a", None).await?;
    ensure!(answer.code == 500, "answered {}: {}", answer.code, answer.body);
    let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    same("message", &answer.body["message"], &json!(message))
}

async fn a_pod_that_does_not_run_yet_needs_no_budget(s: Fixture) -> CaseResult {
    make(&s, &new_pod("a", &json!({"app": "guarded"}), None)).await?;
    budget(&s, "b", &numbers(0, 1, 1), None).await?;
    evict(&s, "a", None).await?.succeeds()?;
    s.get(&s.core("pods/a")).await?.fails(404, "NotFound")?;
    Ok(())
}

async fn a_pod_that_has_ended_needs_no_budget(s: Fixture) -> CaseResult {
    running(&s, "a", "False").await?;
    s.patch(&s.core("pods/a/status"), Patch::Merge, &json!({"status": {"phase": "Failed"}})).await?.succeeds()?;
    budget(&s, "b", &numbers(0, 1, 1), None).await?;
    evict(&s, "a", None).await?.succeeds()?;
    s.get(&s.core("pods/a")).await?.fails(404, "NotFound")?;
    Ok(())
}

/// Shows KIN-1.
async fn a_pod_that_is_leaving_needs_no_budget(s: Fixture) -> CaseResult {
    running(&s, "a", "True").await?;
    budget(&s, "b", &numbers(1, 1, 1), None).await?;
    s.delete(&s.core("pods/a"), None).await?.succeeds()?;
    evict(&s, "a", None).await?.succeeds()?;
    Ok(())
}

/// Shows KIN-1.
async fn an_unready_pod_is_guarded_while_others_are_missing(s: Fixture) -> CaseResult {
    running(&s, "a", "False").await?;
    budget(&s, "b", &numbers(0, 1, 1), None).await?;
    let status = evict(&s, "a", None).await?.fails_saying(429, "TooManyRequests", REFUSED)?;
    let message = "The disruption budget b needs 1 healthy pods and has 0 currently";
    same("cause", &status["details"]["causes"][0]["message"], &json!(message))?;
    // When enough others are well, it goes and costs nothing.
    running(&s, "c", "True").await?;
    s.patch(&budgets(&s, "b/status"), Patch::Merge, &numbers(1, 1, 2)).await?.succeeds()?;
    evict(&s, "a", None).await?.succeeds()?;
    evict(&s, "c", None).await?.fails(429, "TooManyRequests")?;
    Ok(())
}

async fn an_unready_pod_goes_where_the_policy_always_allows_it(s: Fixture) -> CaseResult {
    running(&s, "a", "False").await?;
    budget(&s, "b", &numbers(0, 1, 1), Some("AlwaysAllow")).await?;
    evict(&s, "a", None).await?.succeeds()?;
    ensure!(is_leaving(&s, "a").await?, "the pod stays");
    Ok(())
}

async fn an_eviction_that_is_only_tried_changes_nothing(s: Fixture) -> CaseResult {
    running(&s, "a", "True").await?;
    running(&s, "b", "True").await?;
    budget(&s, "b", &numbers(2, 1, 2), None).await?;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    s.post(&s.core("pods/a/eviction?dryRun=All"), &eviction).await?.succeeds()?;
    evict(&s, "b", Some(json!({"dryRun": ["All"]}))).await?.succeeds()?;
    ensure!(!is_leaving(&s, "a").await? && !is_leaving(&s, "b").await?, "a trial evicted");
    let budget = s.get(&budgets(&s, "b")).await?.succeeds()?;
    same("left", &budget["status"]["disruptionsAllowed"], &json!(1))
}

async fn a_budget_only_guards_what_it_selects(s: Fixture) -> CaseResult {
    running(&s, "a", "True").await?;
    budget(&s, "b", &numbers(1, 1, 1), None).await?;
    make(&s, &new_pod("c", &json!({"app": "other"}), Some("node-1"))).await?;
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    s.patch(&s.core("pods/c/status"), Patch::Merge, &json!({"status": status})).await?.succeeds()?;
    evict(&s, "c", None).await?.succeeds()?;
    ensure!(is_leaving(&s, "c").await?, "the pod stays");
    Ok(())
}
