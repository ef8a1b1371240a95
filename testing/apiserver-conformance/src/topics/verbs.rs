//! Create, read, replace and delete.

use serde_json::json;

use crate::fixture::{Fixture, config_map, names, same, says};
use crate::{CaseResult, cases, ensure};

cases![
    a_created_object_carries_what_only_the_server_knows,
    a_created_object_is_read_back_as_it_was_answered,
    what_the_client_says_about_server_fields_is_ignored_on_create,
    a_name_can_be_generated,
    an_object_cannot_be_created_in_a_namespace_that_does_not_exist,
    an_object_cannot_be_created_in_another_namespace_than_the_path_names,
    a_replacement_that_changes_nothing_is_no_write,
    a_replacement_keeps_what_only_the_server_knows,
    an_object_that_does_not_exist_cannot_be_replaced,
    the_body_cannot_name_another_object_than_the_path,
    a_deletion_answers_with_a_status,
    a_deleted_object_is_gone_and_its_name_is_free,
    a_collection_can_be_deleted_by_selector,
];

/// Shows SRV-1.
async fn a_created_object_carries_what_only_the_server_knows(s: Fixture) -> CaseResult {
    let answer = s.post(&s.core("configmaps"), &config_map("a", &json!({}))).await?;
    ensure!(answer.code == 201, "created with {}", answer.code);
    let metadata = &answer.body["metadata"];
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        ensure!(metadata[field].as_str().is_some_and(|v| !v.is_empty()), "no {field} in {metadata}");
    }
    same("namespace", &metadata["namespace"], &json!(s.namespace()))?;
    same("kind", &answer.body["kind"], &json!("ConfigMap"))
}

async fn a_created_object_is_read_back_as_it_was_answered(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({"pool": "x"})).await?;
    same("object", &s.get(&s.core("configmaps/a")).await?.succeeds()?, &made)
}

async fn what_the_client_says_about_server_fields_is_ignored_on_create(s: Fixture) -> CaseResult {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["uid"] = json!("mine");
    object["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    object["metadata"]["deletionTimestamp"] = json!("2001-01-01T00:00:00Z");
    let made = s.post(&s.core("configmaps"), &object).await?.succeeds()?;
    let metadata = &made["metadata"];
    ensure!(metadata["uid"] != "mine", "the client's uid was taken");
    ensure!(metadata["creationTimestamp"] != "2001-01-01T00:00:00Z", "the client's creationTimestamp was taken");
    ensure!(metadata.get("deletionTimestamp").is_none(), "the client's deletionTimestamp was taken");
    Ok(())
}

async fn a_name_can_be_generated(s: Fixture) -> CaseResult {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "pool-"}});
    let made = s.post(&s.core("configmaps"), &object).await?.succeeds()?;
    let name = made["metadata"]["name"].as_str().unwrap_or_default();
    let suffix = name.strip_prefix("pool-").unwrap_or_default();
    let alphabet = "bcdfghjklmnpqrstvwxz2456789";
    ensure!(suffix.len() == 5 && suffix.chars().all(|c| alphabet.contains(c)), "generated {name:?}");
    same("generateName", &made["metadata"]["generateName"], &json!("pool-"))
}

async fn an_object_cannot_be_created_in_a_namespace_that_does_not_exist(s: Fixture) -> CaseResult {
    let answer = s.post("/api/v1/namespaces/no-such-place/configmaps", &config_map("a", &json!({}))).await?;
    let status = answer.fails_saying(404, "NotFound", "namespaces \"no-such-place\" not found")?;
    same("details", &status["details"], &json!({"name": "no-such-place", "kind": "namespaces"}))
}

async fn an_object_cannot_be_created_in_another_namespace_than_the_path_names(s: Fixture) -> CaseResult {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["namespace"] = json!("default");
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    s.post(&s.core("configmaps"), &object).await?.fails_saying(400, "BadRequest", message)?;
    Ok(())
}

async fn a_replacement_that_changes_nothing_is_no_write(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({"pool": "x"})).await?;
    same("object", &s.put(&s.core("configmaps/a"), &made).await?.succeeds()?, &made)
}

async fn a_replacement_keeps_what_only_the_server_knows(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({})).await?;
    let mut object = config_map("a", &json!({}));
    object["data"] = json!({"k": "v"});
    let replaced = s.put(&s.core("configmaps/a"), &object).await?.succeeds()?;
    for field in ["uid", "creationTimestamp", "namespace"] {
        same(field, &replaced["metadata"][field], &made["metadata"][field])?;
    }
    same("data", &replaced["data"], &json!({"k": "v"}))?;
    ensure!(replaced["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"], "no new resourceVersion");
    Ok(())
}

async fn an_object_that_does_not_exist_cannot_be_replaced(s: Fixture) -> CaseResult {
    let answer = s.put(&s.core("configmaps/a"), &config_map("a", &json!({}))).await?;
    answer.fails_saying(404, "NotFound", "configmaps \"a\" not found")?;
    Ok(())
}

async fn the_body_cannot_name_another_object_than_the_path(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let answer = s.put(&s.core("configmaps/a"), &config_map("b", &json!({}))).await?;
    let status = answer.fails(400, "BadRequest")?;
    says(&status["message"], "the name of the object (b) does not match the name on the URL (a)")
}

async fn a_deletion_answers_with_a_status(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({})).await?;
    let answer = s.delete(&s.core("configmaps/a"), None).await?;
    ensure!(answer.code == 200, "deleted with {}", answer.code);
    same("kind", &answer.body["kind"], &json!("Status"))?;
    same("status", &answer.body["status"], &json!("Success"))?;
    let details = json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]});
    same("details", &answer.body["details"], &details)
}

async fn a_deleted_object_is_gone_and_its_name_is_free(s: Fixture) -> CaseResult {
    let first = s.config_map("a", &json!({})).await?;
    s.delete(&s.core("configmaps/a"), None).await?.succeeds()?;
    s.get(&s.core("configmaps/a")).await?.fails_saying(404, "NotFound", "configmaps \"a\" not found")?;
    s.delete(&s.core("configmaps/a"), None).await?.fails(404, "NotFound")?;
    let second = s.config_map("a", &json!({})).await?;
    ensure!(first["metadata"]["uid"] != second["metadata"]["uid"], "the uid was used twice");
    Ok(())
}

async fn a_collection_can_be_deleted_by_selector(s: Fixture) -> CaseResult {
    for (name, pool) in [("a", "x"), ("b", "y"), ("c", "x")] {
        s.config_map(name, &json!({"pool": pool})).await?;
    }
    s.delete(&s.core("configmaps?labelSelector=pool%3Dx"), None).await?.succeeds()?;
    let left = s.get(&s.core("configmaps?labelSelector=pool")).await?.succeeds()?;
    same("left", &names(&left), &json!(["b"]))
}
