//! Which moment a read shows.

use serde_json::json;

use crate::fixture::{Fixture, names, same, says};
use crate::{CaseResult, Difference, cases, ensure};

cases![
    a_list_can_show_a_moment_in_the_past,
    a_list_is_not_older_than_asked_for,
    a_list_of_any_age_is_granted,
    a_match_needs_a_version,
    a_moment_in_the_future_is_not_known_yet,
    an_exact_match_needs_a_moment,
];

const OURS: &str = "labelSelector=ours";

/// The version of a list made now.
async fn version(s: &Fixture) -> Result<String, Difference> {
    let list = s.get(&s.core("configmaps")).await?.succeeds()?;
    Ok(list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
}

async fn a_list_can_show_a_moment_in_the_past(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({"ours": ""})).await?;
    let before = version(&s).await?;
    s.config_map("b", &json!({"ours": ""})).await?;
    s.delete(&s.core("configmaps/a"), None).await?.succeeds()?;
    let query = format!("configmaps?{OURS}&resourceVersion={before}&resourceVersionMatch=Exact");
    let list = s.get(&s.core(&query)).await?.succeeds()?;
    same("names", &names(&list), &json!(["a"]))?;
    same("resourceVersion", &list["metadata"]["resourceVersion"], &json!(before))
}

async fn a_list_is_not_older_than_asked_for(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({"ours": ""})).await?;
    let version = made["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    for matching in ["", "&resourceVersionMatch=NotOlderThan"] {
        let query = format!("configmaps?{OURS}&resourceVersion={version}{matching}");
        let list = s.get(&s.core(&query)).await?.succeeds()?;
        same("names", &names(&list), &json!(["a"]))?;
    }
    Ok(())
}

async fn a_list_of_any_age_is_granted(s: Fixture) -> CaseResult {
    let list = s.get(&s.core("configmaps?resourceVersion=0")).await?.succeeds()?;
    same("kind", &list["kind"], &json!("ConfigMapList"))
}

async fn a_match_needs_a_version(s: Fixture) -> CaseResult {
    let answer = s.get(&s.core("configmaps?resourceVersionMatch=Exact")).await?;
    let rule = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
    says(&answer.fails(422, "Invalid")?["message"], rule)
}

async fn a_moment_in_the_future_is_not_known_yet(s: Fixture) -> CaseResult {
    let query = "configmaps?resourceVersion=999999999999&resourceVersionMatch=NotOlderThan";
    let status = s.get(&s.core(query)).await?.fails(504, "Timeout")?;
    says(&status["message"], "Too large resource version: 999999999999, current: ")?;
    same("cause", &status["details"]["causes"][0]["reason"], &json!("ResourceVersionTooLarge"))
}

async fn an_exact_match_needs_a_moment(s: Fixture) -> CaseResult {
    let answer = s.get(&s.core("configmaps?resourceVersion=0&resourceVersionMatch=Exact")).await?;
    let status = answer.fails(422, "Invalid")?;
    ensure!(status["message"].as_str().is_some_and(|m| m.contains("resourceVersionMatch: Forbidden: ")), "{status}");
    Ok(())
}
