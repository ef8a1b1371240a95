//! Deletions that somebody holds up.

use serde_json::json;

use crate::fixture::{Fixture, Patch, config_map, same, says};
use crate::{CaseResult, cases, ensure};

cases![
    a_name_is_taken_until_its_object_has_left,
    a_finalizer_turns_a_deletion_into_a_wish,
    a_second_deletion_changes_nothing,
    the_last_finalizer_takes_the_object_with_it,
    no_finalizer_can_be_added_to_a_leaving_object,
    a_leaving_object_can_still_be_changed,
    a_finalizer_that_is_no_name_is_refused,
];

/// Creates a config map held by these finalizers, and asks for its deletion.
async fn leaving(s: &Fixture, finalizers: &[&str]) -> Result<serde_json::Value, crate::Difference> {
    let metadata = json!({"name": "a", "finalizers": finalizers});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    s.post(&s.core("configmaps"), &object).await?.succeeds()?;
    s.delete(&s.core("configmaps/a"), None).await?.succeeds()
}

async fn a_finalizer_turns_a_deletion_into_a_wish(s: Fixture) -> CaseResult {
    leaving(&s, &["example.com/a"]).await?;
    let object = s.get(&s.core("configmaps/a")).await?.succeeds()?;
    ensure!(object["metadata"]["deletionTimestamp"].is_string(), "no deletionTimestamp");
    same("grace", &object["metadata"]["deletionGracePeriodSeconds"], &json!(0))
}

async fn a_second_deletion_changes_nothing(s: Fixture) -> CaseResult {
    leaving(&s, &["example.com/a"]).await?;
    let before = s.get(&s.core("configmaps/a")).await?.succeeds()?;
    s.delete(&s.core("configmaps/a"), None).await?.succeeds()?;
    same("object", &s.get(&s.core("configmaps/a")).await?.succeeds()?, &before)
}

async fn the_last_finalizer_takes_the_object_with_it(s: Fixture) -> CaseResult {
    leaving(&s, &["example.com/a", "example.com/b"]).await?;
    let keep = |finalizers: &[&str]| json!({"metadata": {"finalizers": finalizers}});
    s.patch(&s.core("configmaps/a"), Patch::Merge, &keep(&["example.com/b"])).await?.succeeds()?;
    s.get(&s.core("configmaps/a")).await?.succeeds()?;
    s.patch(&s.core("configmaps/a"), Patch::Merge, &keep(&[])).await?.succeeds()?;
    s.get(&s.core("configmaps/a")).await?.fails(404, "NotFound")?;
    Ok(())
}

async fn no_finalizer_can_be_added_to_a_leaving_object(s: Fixture) -> CaseResult {
    leaving(&s, &["example.com/a"]).await?;
    let patch = json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}});
    let status = s.patch(&s.core("configmaps/a"), Patch::Merge, &patch).await?.fails(422, "Invalid")?;
    let rule = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, \
                found new finalizers []string{\"example.com/b\"}";
    says(&status["message"], rule)
}

async fn a_leaving_object_can_still_be_changed(s: Fixture) -> CaseResult {
    leaving(&s, &["example.com/a"]).await?;
    let patched = s.patch(&s.core("configmaps/a"), Patch::Merge, &json!({"data": {"k": "v"}})).await?.succeeds()?;
    same("data", &patched["data"], &json!({"k": "v"}))?;
    ensure!(patched["metadata"]["deletionTimestamp"].is_string(), "the deletionTimestamp is gone");
    Ok(())
}

async fn a_finalizer_that_is_no_name_is_refused(s: Fixture) -> CaseResult {
    let metadata = json!({"name": "a", "finalizers": ["not a name"]});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let status = s.post(&s.core("configmaps"), &object).await?.fails(422, "Invalid")?;
    says(&status["message"], "metadata.finalizers")
}

async fn a_name_is_taken_until_its_object_has_left(s: Fixture) -> CaseResult {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    s.post(&s.core("configmaps"), &object).await?.succeeds()?;
    s.delete(&s.core("configmaps/a"), None).await?.succeeds()?;
    let message = "object is being deleted: configmaps \"a\" already exists";
    s.post(&s.core("configmaps"), &object).await?.fails_saying(409, "AlreadyExists", message)?;
    let none = json!({"metadata": {"finalizers": null}});
    s.patch(&s.core("configmaps/a"), Patch::Merge, &none).await?.succeeds()?;
    s.post(&s.core("configmaps"), &config_map("a", &json!({}))).await?.succeeds()?;
    Ok(())
}
