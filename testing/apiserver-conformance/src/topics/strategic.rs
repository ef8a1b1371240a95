//! Patches that know the types of built-in kinds.

use http::Method;
use serde_json::{Value, json};

use crate::difference::Difference;
use crate::fixture::{Answer, Fixture, same, says};
use crate::{CaseResult, cases, ensure};

cases![
    a_strategic_patch_finds_an_element_by_its_key,
    a_strategic_patch_deletes_an_element_by_its_key,
    a_strategic_patch_replaces_a_list_on_request,
    a_strategic_patch_puts_elements_in_order,
    a_strategic_patch_adds_and_removes_texts,
    a_strategic_patch_replaces_what_is_atomic,
    a_strategic_patch_retains_only_what_it_names,
    a_strategic_patch_without_the_key_is_refused,
    a_strategic_patch_of_a_custom_kind_is_not_understood,
];

async fn patch(s: &Fixture, path: &str, body: &Value) -> Result<Answer, Difference> {
    s.call(Method::PATCH, path, Some(body.to_string()), "application/strategic-merge-patch+json").await
}

/// A pod nobody schedules, and the path of its status.
async fn pod(s: &Fixture) -> Result<String, Difference> {
    let containers = json!([{"name": "a", "image": "none.invalid/a:1"}, {"name": "b", "image": "none.invalid/b:1"}]);
    let spec = json!({"schedulerName": "nobody", "automountServiceAccountToken": false, "containers": containers});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    s.post(&s.core("pods"), &pod).await?.succeeds()?;
    let conditions = json!([{"type": "One", "status": "True"}, {"type": "Two", "status": "False"}]);
    let path = s.core("pods/p/status");
    patch(s, &path, &json!({"status": {"conditions": conditions}})).await?.succeeds()?;
    Ok(path)
}

/// The conditions that were written here, as `type=status`.
fn conditions(pod: &Value) -> Value {
    let list = pod["status"]["conditions"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list.map(|c| Value::from(format!("{}={}", text(&c["type"]), text(&c["status"])))).collect()
}

/// Shows KIN-9.
async fn a_strategic_patch_finds_an_element_by_its_key(s: Fixture) -> CaseResult {
    pod(&s).await?;
    let change = json!({"spec": {"containers": [{"name": "b", "image": "none.invalid/b:2"}]}});
    let patched = patch(&s, &s.core("pods/p"), &change).await?.succeeds()?;
    same("first image", &patched["spec"]["containers"][0]["image"], &json!("none.invalid/a:1"))?;
    same("second image", &patched["spec"]["containers"][1]["image"], &json!("none.invalid/b:2"))
}

async fn a_strategic_patch_deletes_an_element_by_its_key(s: Fixture) -> CaseResult {
    let status = pod(&s).await?;
    let change = json!({"status": {"conditions": [{"$patch": "delete", "type": "One"}]}});
    same("conditions", &conditions(&patch(&s, &status, &change).await?.succeeds()?), &json!(["Two=False"]))
}

async fn a_strategic_patch_replaces_a_list_on_request(s: Fixture) -> CaseResult {
    let status = pod(&s).await?;
    let change = json!({"status": {"conditions": [{"$patch": "replace"}, {"type": "Three", "status": "True"}]}});
    same("conditions", &conditions(&patch(&s, &status, &change).await?.succeeds()?), &json!(["Three=True"]))
}

async fn a_strategic_patch_puts_elements_in_order(s: Fixture) -> CaseResult {
    let status = pod(&s).await?;
    let change = json!({"status": {"$setElementOrder/conditions": [{"type": "Two"}, {"type": "One"}]}});
    let ordered = patch(&s, &status, &change).await?.succeeds()?;
    same("conditions", &conditions(&ordered), &json!(["Two=False", "One=True"]))?;
    let wrong =
        json!({"status": {"$setElementOrder/conditions": [{"type": "One"}], "conditions": [{"type": "Other"}]}});
    let refused = patch(&s, &status, &wrong).await?;
    ensure!(refused.code == 500, "answered with {}: {}", refused.code, refused.body);
    Ok(())
}

async fn a_strategic_patch_adds_and_removes_texts(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let path = s.core("configmaps/a");
    for finalizers in [json!(["example.com/a"]), json!(["example.com/b"])] {
        patch(&s, &path, &json!({"metadata": {"finalizers": finalizers}})).await?.succeeds()?;
    }
    let gone = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}});
    let patched = patch(&s, &path, &gone).await?.succeeds()?;
    same("finalizers", &patched["metadata"]["finalizers"], &json!(["example.com/b"]))?;
    patch(&s, &path, &json!({"metadata": {"finalizers": null}})).await?.succeeds()?;
    Ok(())
}

async fn a_strategic_patch_replaces_what_is_atomic(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({"keep": "1"})).await?;
    let change = json!({"metadata": {"labels": {"$patch": "replace", "new": "1"}}, "data": {"k": "v"}});
    let patched = patch(&s, &s.core("configmaps/a"), &change).await?.succeeds()?;
    same("labels", &patched["metadata"]["labels"], &json!({"new": "1"}))
}

async fn a_strategic_patch_retains_only_what_it_names(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let path = s.core("configmaps/a");
    patch(&s, &path, &json!({"data": {"a": "1", "b": "2"}})).await?.succeeds()?;
    let patched = patch(&s, &path, &json!({"data": {"$retainKeys": ["a"], "a": "3"}})).await?.succeeds()?;
    same("data", &patched["data"], &json!({"a": "3"}))?;
    let contradiction = json!({"data": {"$retainKeys": ["a"], "b": "3"}});
    let refused = patch(&s, &path, &contradiction).await?;
    refused.fails_saying(400, "BadRequest", "invalid patch format of retainKeys")?;
    Ok(())
}

async fn a_strategic_patch_without_the_key_is_refused(s: Fixture) -> CaseResult {
    let status = pod(&s).await?;
    let refused = patch(&s, &status, &json!({"status": {"conditions": [{"status": "True"}]}})).await?;
    ensure!(refused.code == 500, "answered with {}: {}", refused.code, refused.body);
    says(&refused.body["message"], "does not contain declared merge key: type")
}

async fn a_strategic_patch_of_a_custom_kind_is_not_understood(s: Fixture) -> CaseResult {
    s.define(&json!({"type": "object"})).await?;
    s.make_widget("a", &json!({})).await?;
    patch(&s, &s.widget("a"), &json!({})).await?.fails(415, "UnsupportedMediaType")?;
    Ok(())
}
