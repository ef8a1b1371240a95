//! The number that says how often somebody changed their mind.

use serde_json::{Value, json};

use crate::fixture::{Fixture, Patch, same};
use crate::{CaseResult, cases, ensure};

cases![
    a_custom_object_starts_at_one_whatever_the_client_says,
    a_changed_spec_is_a_new_generation,
    changed_metadata_is_no_new_generation,
    a_changed_status_is_no_new_generation,
    a_wish_to_be_deleted_is_a_new_generation,
    a_kind_without_a_spec_has_no_generation,
];

fn schema() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}})
}

fn generation(object: &Value) -> &Value {
    &object["metadata"]["generation"]
}

async fn a_custom_object_starts_at_one_whatever_the_client_says(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let mut widget = s.new_widget("a", &json!({"n": 1}));
    widget["metadata"]["generation"] = json!(7);
    let made = s.post(&s.widget(""), &widget).await?.succeeds()?;
    same("generation", generation(&made), &json!(1))
}

async fn a_changed_spec_is_a_new_generation(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    s.make_widget("a", &json!({"n": 1})).await?;
    let patched = s.patch(&s.widget("a"), Patch::Merge, &json!({"spec": {"n": 2}})).await?.succeeds()?;
    same("generation", generation(&patched), &json!(2))?;
    let patch = json!({"spec": {"n": 3}, "metadata": {"generation": 9}});
    let patched = s.patch(&s.widget("a"), Patch::Merge, &patch).await?.succeeds()?;
    same("generation", generation(&patched), &json!(3))
}

async fn changed_metadata_is_no_new_generation(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    s.make_widget("a", &json!({"n": 1})).await?;
    let patch = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/a"]}});
    let patched = s.patch(&s.widget("a"), Patch::Merge, &patch).await?.succeeds()?;
    same("generation", generation(&patched), &json!(1))?;
    s.patch(&s.widget("a"), Patch::Merge, &json!({"metadata": {"finalizers": null}})).await?.succeeds()?;
    Ok(())
}

async fn a_changed_status_is_no_new_generation(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    s.make_widget("a", &json!({"n": 1})).await?;
    let patched = s.patch(&s.widget("a/status"), Patch::Merge, &json!({"status": {"ready": 1}})).await?.succeeds()?;
    same("status", &patched["status"], &json!({"ready": 1}))?;
    same("generation", generation(&patched), &json!(1))
}

async fn a_wish_to_be_deleted_is_a_new_generation(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let mut widget = s.new_widget("a", &json!({"n": 1}));
    widget["metadata"]["finalizers"] = json!(["example.com/a"]);
    s.post(&s.widget(""), &widget).await?.succeeds()?;
    s.delete(&s.widget("a"), None).await?.succeeds()?;
    let leaving = s.get(&s.widget("a")).await?.succeeds()?;
    same("generation", generation(&leaving), &json!(2))?;
    s.patch(&s.widget("a"), Patch::Merge, &json!({"metadata": {"finalizers": null}})).await?.succeeds()?;
    Ok(())
}

async fn a_kind_without_a_spec_has_no_generation(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({})).await?;
    ensure!(made["metadata"].get("generation").is_none(), "generation {}", generation(&made));
    Ok(())
}
