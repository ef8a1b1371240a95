//! Status apart from everything else.

use serde_json::{Value, json};

use crate::fixture::{Fixture, Patch, same};
use crate::{CaseResult, cases, ensure};

cases![
    a_new_object_has_no_status_yet,
    the_object_itself_keeps_its_status,
    the_status_is_written_through_its_own_path,
    a_status_write_leaves_the_spec_alone,
    the_status_path_shows_the_whole_object,
    a_status_write_can_conflict,
    a_kind_without_status_has_no_status_path,
    without_a_status_path_status_is_a_field_like_any_other,
];

fn schema() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}})
}

async fn a_new_object_has_no_status_yet(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let mut widget = s.new_widget("a", &json!({"n": 1}));
    widget["status"] = json!({"ready": 1});
    let made = s.post(&s.widget(""), &widget).await?.succeeds()?;
    ensure!(made.get("status").is_none(), "created with status {}", made["status"]);
    Ok(())
}

async fn the_object_itself_keeps_its_status(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    s.make_widget("a", &json!({"n": 1})).await?;
    let with = s.patch(&s.widget("a/status"), Patch::Merge, &json!({"status": {"ready": 1}})).await?.succeeds()?;
    let patch = json!({"status": {"ready": 2}, "spec": {"n": 2}});
    let patched = s.patch(&s.widget("a"), Patch::Merge, &patch).await?.succeeds()?;
    same("status", &patched["status"], &with["status"])?;
    same("spec", &patched["spec"], &json!({"n": 2}))?;
    let mut without = patched.clone();
    without.as_object_mut().map(|object| object.remove("status"));
    let replaced = s.put(&s.widget("a"), &without).await?.succeeds()?;
    same("object", &replaced, &patched)
}

async fn the_status_is_written_through_its_own_path(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let mut widget = s.make_widget("a", &json!({"n": 1})).await?;
    widget["status"] = json!({"ready": 1, "phase": "Running"});
    let written = s.put(&s.widget("a/status"), &widget).await?.succeeds()?;
    same("status", &written["status"], &widget["status"])?;
    same("object", &s.get(&s.widget("a")).await?.succeeds()?, &written)
}

async fn a_status_write_leaves_the_spec_alone(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let mut widget = s.make_widget("a", &json!({"n": 1})).await?;
    widget["spec"]["n"] = json!(2);
    widget["status"] = json!({"ready": 1});
    let written = s.put(&s.widget("a/status"), &widget).await?.succeeds()?;
    same("spec", &written["spec"], &json!({"n": 1}))
}

async fn the_status_path_shows_the_whole_object(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let made = s.make_widget("a", &json!({"n": 1})).await?;
    same("object", &s.get(&s.widget("a/status")).await?.succeeds()?, &made)
}

async fn a_status_write_can_conflict(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let mut widget = s.make_widget("a", &json!({"n": 1})).await?;
    s.patch(&s.widget("a"), Patch::Merge, &json!({"spec": {"n": 2}})).await?.succeeds()?;
    widget["status"] = json!({"ready": 1});
    s.put(&s.widget("a/status"), &widget).await?.fails(409, "Conflict")?;
    Ok(())
}

async fn a_kind_without_status_has_no_status_path(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let answer = s.get(&s.core("configmaps/a/status")).await?;
    ensure!(answer.code == 404, "answered {}", answer.code);
    Ok(())
}

async fn without_a_status_path_status_is_a_field_like_any_other(s: Fixture) -> CaseResult {
    s.define_version(&json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": schema(), "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
        }}},
    }))
    .await?;
    let mut widget = s.new_widget("a", &json!({"n": 1}));
    widget["status"] = json!({"ready": 1});
    let made = s.post(&s.widget(""), &widget).await?.succeeds()?;
    same("status", &made["status"], &json!({"ready": 1}))?;
    let patched = s.patch(&s.widget("a"), Patch::Merge, &json!({"status": {"ready": 2}})).await?.succeeds()?;
    same("generation", &patched["metadata"]["generation"], &json!(2))
}
