//! What a server says about its types, and how strict it is about them.

use serde_json::{Value, json};

use crate::difference::Difference;
use crate::fixture::{Fixture, config_map, same, says};
use crate::{CaseResult, cases, ensure};

cases![
    every_group_has_a_document_whose_address_follows_its_content,
    a_document_says_that_fields_are_validated,
    a_document_says_how_lists_are_merged,
    a_custom_kind_is_described_in_the_words_of_its_definition,
    a_group_that_nobody_serves_has_no_document,
    a_strict_client_hears_of_fields_that_nobody_knows,
    everything_is_told_at_once_to_those_who_ask,
];

async fn address(s: &Fixture, path: &str) -> Result<Value, Difference> {
    let index = s.get("/openapi/v3").await?.succeeds()?;
    Ok(index["paths"][path]["serverRelativeURL"].clone())
}

/// A schema of a document, by kind.
fn schema<'a>(document: &'a Value, kind: &str) -> &'a Value {
    let schemas = document["components"]["schemas"].as_object().into_iter().flatten();
    let is = |schema: &Value| schema["x-kubernetes-group-version-kind"][0]["kind"] == kind;
    schemas.map(|(_, schema)| schema).find(|schema| is(schema)).unwrap_or(&Value::Null)
}

async fn every_group_has_a_document_whose_address_follows_its_content(s: Fixture) -> CaseResult {
    for path in ["api/v1", "apis/apps/v1", "apis/coordination.k8s.io/v1", "apis/policy/v1"] {
        says(&address(&s, path).await?, &format!("/openapi/v3/{path}?hash="))?;
    }
    Ok(())
}

async fn a_document_says_that_fields_are_validated(s: Fixture) -> CaseResult {
    let document = s.get("/openapi/v3/api/v1").await?.succeeds()?;
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"];
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    same("kind", &patch["x-kubernetes-group-version-kind"], &kind)?;
    let mut parameters = patch["parameters"].as_array().into_iter().flatten();
    ensure!(parameters.any(|p| p["name"] == "fieldValidation"), "no fieldValidation in {patch}");
    Ok(())
}

async fn a_document_says_how_lists_are_merged(s: Fixture) -> CaseResult {
    let document = s.get("/openapi/v3/api/v1").await?.succeeds()?;
    let spec = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"];
    same("key of containers", &spec["containers"]["x-kubernetes-patch-merge-key"], &json!("name"))?;
    same("strategy of volumes", &spec["volumes"]["x-kubernetes-patch-strategy"], &json!("merge,retainKeys"))?;
    same("tolerations", &spec["tolerations"]["x-kubernetes-list-type"], &json!("atomic"))?;
    let node = schema(&document, "Node");
    ensure!(node["properties"]["spec"].is_object(), "no spec in {node}");
    Ok(())
}

async fn a_custom_kind_is_described_in_the_words_of_its_definition(s: Fixture) -> CaseResult {
    s.define(&json!({"type": "object", "description": "What it should be."})).await?;
    let path = format!("/openapi/v3/apis/{}/v1", s.group());
    let described =
        |document: &Value| schema(document, "Widget")["properties"]["spec"]["description"] == "What it should be.";
    s.until(&path, described).await?;
    Ok(())
}

async fn a_group_that_nobody_serves_has_no_document(s: Fixture) -> CaseResult {
    let answer = s.get("/openapi/v3/apis/nobody.example.com/v1").await?;
    ensure!(answer.code == 404, "answered with {}", answer.code);
    Ok(())
}

/// Shows KIN-9.
async fn a_strict_client_hears_of_fields_that_nobody_knows(s: Fixture) -> CaseResult {
    let mut object = config_map("a", &json!({}));
    object["dada"] = json!({});
    let strict = s.post(&s.core("configmaps?fieldValidation=Strict"), &object).await?;
    let said =
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dada\"";
    strict.fails_saying(400, "BadRequest", said)?;
    let taken = s.post(&s.core("configmaps"), &object).await?.succeeds()?;
    same("the unknown field", &taken["dada"], &Value::Null)
}

async fn everything_is_told_at_once_to_those_who_ask(s: Fixture) -> CaseResult {
    let all = s.get_aggregated("/apis").await?.succeeds()?;
    same("kind", &all["kind"], &json!("APIGroupDiscoveryList"))?;
    let mut groups = all["items"].as_array().into_iter().flatten();
    let policy = groups.find(|group| group["metadata"]["name"] == "policy").cloned().unwrap_or_default();
    let budgets = &policy["versions"][0]["resources"][0];
    same("resource", &budgets["resource"], &json!("poddisruptionbudgets"))?;
    same("scope", &budgets["scope"], &json!("Namespaced"))?;
    same("kind", &budgets["responseKind"]["kind"], &json!("PodDisruptionBudget"))?;
    same("part", &budgets["subresources"][0]["subresource"], &json!("status"))
}
