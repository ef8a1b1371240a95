//! The end of a namespace. Of a real cluster this needs kube-controller-manager, and of ours the housekeeper.

use serde_json::{Value, json};

use super::pods::{make, new_pod};
use crate::fixture::{Fixture, Patch, config_map, same, says};
use crate::{CaseResult, Difference, cases, ensure};

cases![
    a_deleted_namespace_terminates_first,
    a_namespace_that_ends_takes_nothing_new,
    a_namespace_takes_its_contents_along,
    a_finalizer_holds_the_namespace_and_is_named,
    pods_go_before_everything_else,
];

fn path(s: &Fixture) -> String {
    format!("/api/v1/namespaces/{}", s.namespace())
}

async fn end(s: &Fixture) -> Result<Value, Difference> {
    s.delete(&path(s), None).await?.succeeds()
}

/// One of the namespace's conditions: its status and what it says.
fn condition(namespace: &Value, kind: &str) -> (String, String) {
    let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|c| c["type"] == kind).unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

async fn a_deleted_namespace_terminates_first(s: Fixture) -> CaseResult {
    let ending = end(&s).await?;
    same("phase", &ending["status"]["phase"], &json!("Terminating"))?;
    same("finalizers", &ending["spec"]["finalizers"], &json!(["kubernetes"]))?;
    ensure!(ending["metadata"]["deletionTimestamp"].is_string(), "no time: {ending}");
    s.until_gone(&path(&s)).await
}

async fn a_namespace_that_ends_takes_nothing_new(s: Fixture) -> CaseResult {
    let mut held = config_map("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    s.post(&s.core("configmaps"), &held).await?.succeeds()?;
    end(&s).await?;
    let answer = s.post(&s.core("configmaps"), &config_map("new", &json!({}))).await?;
    let message = format!(
        "configmaps \"new\" is forbidden: unable to create new content in namespace {} because it is being terminated",
        s.namespace()
    );
    let status = answer.fails_saying(403, "Forbidden", &message)?;
    let cause = &status["details"]["causes"][0];
    same("cause", &json!([cause["reason"], cause["field"]]), &json!(["NamespaceTerminating", "metadata.namespace"]))?;
    // What is there can still be changed, or nothing would ever end.
    s.patch(&s.core("configmaps/held"), Patch::Merge, &json!({"data": {"a": "b"}})).await?.succeeds()?;
    release(&s, "configmaps/held").await
}

async fn release(s: &Fixture, rest: &str) -> CaseResult {
    let none = json!({"metadata": {"finalizers": null}});
    s.patch(&s.core(rest), Patch::Merge, &none).await?.succeeds()?;
    s.until_gone(&path(s)).await
}

/// Shows KIN-7.
async fn a_namespace_takes_its_contents_along(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let claim = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    s.post(&s.core("secrets"), &claim).await?.succeeds()?;
    make(&s, &new_pod("a", &json!({}), None)).await?;
    end(&s).await?;
    s.until_gone(&s.core("pods/a")).await?;
    s.until_gone(&s.core("configmaps/a")).await?;
    s.until_gone(&s.core("secrets/a")).await?;
    s.until_gone(&path(&s)).await
}

/// Shows KIN-7.
async fn a_finalizer_holds_the_namespace_and_is_named(s: Fixture) -> CaseResult {
    let mut held = config_map("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    s.post(&s.core("configmaps"), &held).await?.succeeds()?;
    end(&s).await?;
    let told = |namespace: &Value| condition(namespace, "NamespaceFinalizersRemaining").0 == "True";
    let namespace = s.until(&path(&s), told).await?;
    let (_, message) = condition(&namespace, "NamespaceFinalizersRemaining");
    says(
        &json!(message),
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
    )?;
    let (_, message) = condition(&namespace, "NamespaceContentRemaining");
    says(&json!(message), "configmaps. has 1 resource instances")?;
    release(&s, "configmaps/held").await
}

async fn pods_go_before_everything_else(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let mut pod = new_pod("a", &json!({}), None);
    pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    make(&s, &pod).await?;
    end(&s).await?;
    s.until(&s.core("pods/a"), |pod| pod["metadata"]["deletionTimestamp"].is_string()).await?;
    let kept = s.get(&s.core("configmaps/a")).await?.succeeds()?;
    ensure!(kept["metadata"].get("deletionTimestamp").is_none(), "it went while a pod was there");
    super::pods::release(&s, "pods/a").await?;
    s.until_gone(&path(&s)).await
}
