//! Checks for PodDisruptionBudgets that prevent drains.

use api::Object;
use serde_json::Value;

use super::Findings;

pub(super) fn check(found: &mut Findings<'_>) {
    let snapshot = found.input.snapshot;
    let budgets = snapshot.cluster().and_then(|cluster| cluster.budgets.as_ref());
    for budget in budgets.into_iter().flat_map(|budgets| &budgets.readable) {
        let object = format!("poddisruptionbudget/{}/{}", budget.namespace(), budget.name());
        if budget.is_misconfigured() {
            let status = &budget.status;
            let problem = format!(
                "all {} pods are healthy, but no eviction is allowed: a drain waits until its timeout and then deletes the pods",
                status.expected_pods
            );
            found.add(&object, "spec", problem, "raise maxUnavailable, lower minAvailable, or run more replicas");
        }
        let is_duplicate = |other: &&std::sync::Arc<api::view::PodDisruptionBudgetView>| {
            other.namespace() == budget.namespace()
                && other.name() < budget.name()
                && other.spec.selector == budget.spec.selector
        };
        let duplicates = budgets.into_iter().flat_map(|budgets| &budgets.readable).filter(is_duplicate);
        if let Some(other) = duplicates.into_iter().next().filter(|_| budget.spec.selector.is_some()) {
            let problem = format!(
                "it selects the same pods as poddisruptionbudget/{}/{}: pods with two PodDisruptionBudgets cannot be evicted",
                other.namespace(),
                other.name()
            );
            found.add(&object, "spec.selector", problem, "remove one of them");
        }
    }
    for document in found.input.documents {
        if document.get("kind").and_then(Value::as_str) == Some("PodDisruptionBudget") {
            check_document(found, document);
        }
    }
}

/// Checks a PodDisruptionBudget in a file, which has no status.
fn check_document(found: &mut Findings<'_>, document: &Value) {
    let text = |path: &str| document.pointer(path).and_then(Value::as_str);
    let namespace = text("/metadata/namespace").unwrap_or(&found.input.snapshot.namespace).to_owned();
    let object = format!("poddisruptionbudget/{namespace}/{}", text("/metadata/name").unwrap_or_default());
    let is = |path: &str, words: &[&str], number: Option<i64>| {
        document.pointer(path).is_some_and(|value| match value {
            Value::String(text) => words.contains(&text.as_str()),
            other => other.as_i64().is_some() && other.as_i64() == number,
        })
    };
    let never = "no eviction is ever allowed: a drain waits until its timeout and then deletes the pods";
    if is("/spec/maxUnavailable", &["0", "0%"], Some(0)) {
        found.add(&object, "spec.maxUnavailable", never, "set it to 1 or more");
    }
    if is("/spec/minAvailable", &["100%"], None) {
        found.add(&object, "spec.minAvailable", never, "set it below 100%, or use maxUnavailable: 1");
    }
}
