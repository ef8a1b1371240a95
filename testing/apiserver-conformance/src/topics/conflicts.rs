//! Two writers, one object.

use serde_json::{Value, json};

use crate::fixture::{Fixture, Patch, config_map, same, says};
use crate::{CaseResult, cases, ensure};

cases![
    the_second_of_two_replacements_of_one_version_conflicts,
    a_replacement_without_a_version_overwrites_a_built_in_object,
    a_replacement_without_a_version_is_refused_for_a_custom_object,
    a_replacement_meant_for_another_object_of_the_name_conflicts,
    a_patch_with_an_old_version_conflicts,
    a_patch_without_a_version_never_conflicts,
    a_name_can_be_taken_only_once,
];

const MODIFIED: &str = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply \
                        your changes to the latest version and try again";

async fn the_second_of_two_replacements_of_one_version_conflicts(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({})).await?;
    let with = |value: &str| {
        let mut object = made.clone();
        object["data"] = json!({"k": value});
        object
    };
    s.put(&s.core("configmaps/a"), &with("first")).await?.succeeds()?;
    let answer = s.put(&s.core("configmaps/a"), &with("second")).await?;
    let status = answer.fails_saying(409, "Conflict", MODIFIED)?;
    same("details", &status["details"], &json!({"name": "a", "kind": "configmaps"}))?;
    let kept = s.get(&s.core("configmaps/a")).await?.succeeds()?;
    same("data", &kept["data"], &json!({"k": "first"}))
}

async fn a_replacement_without_a_version_overwrites_a_built_in_object(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    s.patch(&s.core("configmaps/a"), Patch::Merge, &json!({"data": {"k": "v"}})).await?.succeeds()?;
    let replaced = s.put(&s.core("configmaps/a"), &config_map("a", &json!({}))).await?.succeeds()?;
    ensure!(replaced.get("data").is_none(), "the old data is still there");
    Ok(())
}

async fn a_replacement_without_a_version_is_refused_for_a_custom_object(s: Fixture) -> CaseResult {
    s.define(&json!({"type": "object", "properties": {"n": {"type": "integer"}}})).await?;
    s.make_widget("a", &json!({"n": 1})).await?;
    let answer = s.put(&s.widget("a"), &s.new_widget("a", &json!({"n": 2}))).await?;
    let status = answer.fails(422, "Invalid")?;
    says(&status["message"], "metadata.resourceVersion: Invalid value: ")?;
    says(&status["message"], "must be specified for an update")
}

async fn a_replacement_meant_for_another_object_of_the_name_conflicts(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let mut object = config_map("a", &json!({}));
    object["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    let status = s.put(&s.core("configmaps/a"), &object).await?.fails(409, "Conflict")?;
    says(
        &status["message"],
        "Precondition failed: UID in precondition: 00000000-0000-4000-8000-000000000000, UID in object meta: ",
    )
}

async fn a_patch_with_an_old_version_conflicts(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({})).await?;
    let patch = |value: &str| json!({"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"k": value}});
    s.patch(&s.core("configmaps/a"), Patch::Merge, &patch("first")).await?.succeeds()?;
    let answer = s.patch(&s.core("configmaps/a"), Patch::Merge, &patch("second")).await?;
    answer.fails_saying(409, "Conflict", MODIFIED)?;
    Ok(())
}

async fn a_patch_without_a_version_never_conflicts(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    for key in ["first", "second"] {
        s.patch(&s.core("configmaps/a"), Patch::Merge, &json!({"data": {key: "v"}})).await?.succeeds()?;
    }
    let kept = s.get(&s.core("configmaps/a")).await?.succeeds()?;
    same("data", &kept["data"], &json!({"first": "v", "second": "v"}))
}

async fn a_name_can_be_taken_only_once(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let answer = s.post(&s.core("configmaps"), &config_map("a", &json!({}))).await?;
    let status = answer.fails_saying(409, "AlreadyExists", "configmaps \"a\" already exists")?;
    same("details", &status["details"], &json!({"name": "a", "kind": "configmaps"}))?;
    same("status", &status["status"], &Value::from("Failure"))
}
