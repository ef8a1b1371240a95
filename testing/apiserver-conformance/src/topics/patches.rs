//! Changes written as patches.

use http::Method;
use serde_json::json;

use crate::fixture::{Fixture, Patch, same};
use crate::{CaseResult, cases, ensure};

cases![
    a_merge_patch_changes_what_it_names_and_null_removes,
    a_merge_patch_replaces_lists_whole,
    a_merge_patch_that_is_no_object_is_a_bad_request,
    a_json_patch_is_carried_out_in_order,
    a_json_patch_whose_test_fails_changes_nothing,
    a_json_patch_may_test_that_a_field_is_missing,
    a_json_patch_to_a_missing_path_is_unprocessable,
    a_json_patch_that_is_no_list_is_a_bad_request,
    a_patch_that_changes_nothing_is_no_write,
    a_patch_does_not_create,
    a_patch_of_an_unknown_sort_is_not_understood,
    a_patch_cannot_change_the_uid,
];

const REJECTED: &str = "the server rejected our request due to an error in our request";

async fn a_merge_patch_changes_what_it_names_and_null_removes(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({"keep": "1", "drop": "1"})).await?;
    let patch = json!({"metadata": {"labels": {"drop": null, "add": "1"}}, "data": {"k": "v"}});
    let patched = s.patch(&s.core("configmaps/a"), Patch::Merge, &patch).await?.succeeds()?;
    same("labels", &patched["metadata"]["labels"], &json!({"keep": "1", "add": "1"}))?;
    same("data", &patched["data"], &json!({"k": "v"}))
}

async fn a_merge_patch_replaces_lists_whole(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    for finalizers in [json!(["example.com/a", "example.com/b"]), json!(["example.com/b"]), json!([])] {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        let patched = s.patch(&s.core("configmaps/a"), Patch::Merge, &patch).await?.succeeds()?;
        let kept = patched["metadata"].get("finalizers").cloned().unwrap_or_else(|| json!([]));
        same("finalizers", &kept, &finalizers)?;
    }
    Ok(())
}

async fn a_merge_patch_that_is_no_object_is_a_bad_request(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    s.patch(&s.core("configmaps/a"), Patch::Merge, &json!([])).await?.fails(400, "BadRequest")?;
    Ok(())
}

async fn a_json_patch_is_carried_out_in_order(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({"from": "1"})).await?;
    let patch = json!([
        {"op": "test", "path": "/metadata/labels/from", "value": "1"},
        {"op": "add", "path": "/data", "value": {}},
        {"op": "add", "path": "/data/k", "value": "v"},
        {"op": "copy", "from": "/data/k", "path": "/data/l"},
        {"op": "move", "from": "/metadata/labels/from", "path": "/metadata/labels/to"},
        {"op": "replace", "path": "/data/k", "value": "w"},
    ]);
    let patched = s.patch(&s.core("configmaps/a"), Patch::Json, &patch).await?.succeeds()?;
    same("labels", &patched["metadata"]["labels"], &json!({"to": "1"}))?;
    same("data", &patched["data"], &json!({"k": "w", "l": "v"}))
}

/// Shows SRV-6.
async fn a_json_patch_whose_test_fails_changes_nothing(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({"pool": "x"})).await?;
    let patch = json!([
        {"op": "add", "path": "/data", "value": {"k": "v"}},
        {"op": "test", "path": "/metadata/labels/pool", "value": "y"},
    ]);
    let answer = s.patch(&s.core("configmaps/a"), Patch::Json, &patch).await?;
    answer.fails_saying(422, "Invalid", REJECTED)?;
    same("object", &s.get(&s.core("configmaps/a")).await?.succeeds()?, &made)
}

async fn a_json_patch_may_test_that_a_field_is_missing(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({"pool": "x"})).await?;
    let patch = json!([
        {"op": "test", "path": "/metadata/labels/owner", "value": null},
        {"op": "add", "path": "/metadata/labels/owner", "value": "me"},
    ]);
    s.patch(&s.core("configmaps/a"), Patch::Json, &patch).await?.succeeds()?;
    s.patch(&s.core("configmaps/a"), Patch::Json, &patch).await?.fails_saying(422, "Invalid", REJECTED)?;
    Ok(())
}

async fn a_json_patch_to_a_missing_path_is_unprocessable(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    for patch in [
        json!([{"op": "remove", "path": "/data/k"}]),
        json!([{"op": "replace", "path": "/data/k", "value": "v"}]),
        json!([{"op": "add", "path": "/data/k", "value": "v"}]),
    ] {
        s.patch(&s.core("configmaps/a"), Patch::Json, &patch).await?.fails_saying(422, "Invalid", REJECTED)?;
    }
    Ok(())
}

async fn a_json_patch_that_is_no_list_is_a_bad_request(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    s.patch(&s.core("configmaps/a"), Patch::Json, &json!({"op": "add"})).await?.fails(400, "BadRequest")?;
    Ok(())
}

async fn a_patch_that_changes_nothing_is_no_write(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({"pool": "x"})).await?;
    let patch = json!({"metadata": {"labels": {"pool": "x", "gone": null}}});
    same("object", &s.patch(&s.core("configmaps/a"), Patch::Merge, &patch).await?.succeeds()?, &made)
}

async fn a_patch_does_not_create(s: Fixture) -> CaseResult {
    let answer = s.patch(&s.core("configmaps/a"), Patch::Merge, &json!({"data": {"k": "v"}})).await?;
    answer.fails_saying(404, "NotFound", "configmaps \"a\" not found")?;
    Ok(())
}

async fn a_patch_of_an_unknown_sort_is_not_understood(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let answer = s.call(Method::PATCH, &s.core("configmaps/a"), Some("{}".to_owned()), "application/json").await?;
    answer.fails(415, "UnsupportedMediaType")?;
    Ok(())
}

async fn a_patch_cannot_change_the_uid(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({})).await?;
    let patch = json!({"metadata": {"uid": "00000000-0000-4000-8000-000000000000", "labels": {"mine": "1"}}});
    let answer = s.patch(&s.core("configmaps/a"), Patch::Merge, &patch).await?;
    ensure!(matches!(answer.code, 409 | 422), "answered {}: {}", answer.code, answer.body);
    same("object", &s.get(&s.core("configmaps/a")).await?.succeeds()?, &made)
}
