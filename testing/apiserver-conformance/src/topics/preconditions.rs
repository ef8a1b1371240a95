//! Deletions that are meant for one object, or one version of it.

use serde_json::{Value, json};

use crate::fixture::{Fixture, Patch, says};
use crate::{CaseResult, cases};

cases![
    a_deletion_meant_for_another_uid_conflicts,
    a_deletion_meant_for_another_version_conflicts,
    a_deletion_with_the_right_uid_and_version_succeeds,
    a_precondition_is_checked_again_on_an_object_that_is_already_leaving,
    a_precondition_on_an_object_that_is_gone_finds_nothing,
];

fn options(preconditions: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions})
}

async fn a_deletion_meant_for_another_uid_conflicts(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let options = options(&json!({"uid": "00000000-0000-4000-8000-000000000000"}));
    let status = s.delete(&s.core("configmaps/a"), Some(&options)).await?.fails(409, "Conflict")?;
    says(
        &status["message"],
        "the UID in the precondition (00000000-0000-4000-8000-000000000000) does not match the UID in record (",
    )?;
    s.get(&s.core("configmaps/a")).await?.succeeds()?;
    Ok(())
}

/// Shows SRV-5.
async fn a_deletion_meant_for_another_version_conflicts(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let options = options(&json!({"resourceVersion": "1"}));
    let status = s.delete(&s.core("configmaps/a"), Some(&options)).await?.fails(409, "Conflict")?;
    says(
        &status["message"],
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (",
    )?;
    s.get(&s.core("configmaps/a")).await?.succeeds()?;
    Ok(())
}

async fn a_deletion_with_the_right_uid_and_version_succeeds(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({})).await?;
    let metadata = &made["metadata"];
    let options = options(&json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}));
    s.delete(&s.core("configmaps/a"), Some(&options)).await?.succeeds()?;
    s.get(&s.core("configmaps/a")).await?.fails(404, "NotFound")?;
    Ok(())
}

async fn a_precondition_is_checked_again_on_an_object_that_is_already_leaving(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let held = json!({"metadata": {"finalizers": ["example.com/a"]}});
    s.patch(&s.core("configmaps/a"), Patch::Merge, &held).await?.succeeds()?;
    s.delete(&s.core("configmaps/a"), None).await?.succeeds()?;
    let options = options(&json!({"uid": "00000000-0000-4000-8000-000000000000"}));
    s.delete(&s.core("configmaps/a"), Some(&options)).await?.fails(409, "Conflict")?;
    s.patch(&s.core("configmaps/a"), Patch::Merge, &json!({"metadata": {"finalizers": null}})).await?.succeeds()?;
    Ok(())
}

async fn a_precondition_on_an_object_that_is_gone_finds_nothing(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({})).await?;
    s.delete(&s.core("configmaps/a"), None).await?.succeeds()?;
    let options = options(&json!({"uid": made["metadata"]["uid"]}));
    s.delete(&s.core("configmaps/a"), Some(&options)).await?.fails(404, "NotFound")?;
    Ok(())
}
