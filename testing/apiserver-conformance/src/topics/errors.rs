//! How a server says no.

use http::Method;
use serde_json::json;

use crate::fixture::{Fixture, config_map, same, says};
use crate::{CaseResult, cases, ensure};

cases![
    a_refusal_is_a_status,
    a_missing_object_is_named_in_the_details,
    a_missing_custom_object_is_named_with_its_group,
    a_name_that_is_no_name_is_refused,
    a_name_is_required,
    a_label_that_is_no_label_is_refused,
    a_body_that_is_no_json_is_a_bad_request,
    a_body_of_another_kind_is_a_bad_request,
    a_method_that_a_path_does_not_offer_is_refused,
];

async fn a_refusal_is_a_status(s: Fixture) -> CaseResult {
    let status = s.get(&s.core("configmaps/none")).await?.fails(404, "NotFound")?;
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "configmaps \"none\" not found", "reason": "NotFound",
        "details": {"name": "none", "kind": "configmaps"}, "code": 404,
    });
    same("status", &status, &expected)
}

async fn a_missing_object_is_named_in_the_details(s: Fixture) -> CaseResult {
    let status = s.delete(&s.core("secrets/none"), None).await?.fails(404, "NotFound")?;
    same("details", &status["details"], &json!({"name": "none", "kind": "secrets"}))
}

async fn a_missing_custom_object_is_named_with_its_group(s: Fixture) -> CaseResult {
    s.define(&json!({"type": "object"})).await?;
    let message = format!("widgets.{} \"none\" not found", s.group());
    let status = s.get(&s.widget("none")).await?.fails_saying(404, "NotFound", &message)?;
    same("details", &status["details"], &json!({"name": "none", "group": s.group(), "kind": "widgets"}))
}

async fn a_name_that_is_no_name_is_refused(s: Fixture) -> CaseResult {
    let status = s.post(&s.core("configmaps"), &config_map("Bad_Name", &json!({}))).await?.fails(422, "Invalid")?;
    let rule = "ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain \
                must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric \
                character";
    says(&status["message"], rule)?;
    same("field", &status["details"]["causes"][0]["field"], &json!("metadata.name"))?;
    same("reason", &status["details"]["causes"][0]["reason"], &json!("FieldValueInvalid"))
}

async fn a_name_is_required(s: Fixture) -> CaseResult {
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    let status = s.post(&s.core("configmaps"), &nameless).await?.fails(422, "Invalid")?;
    says(&status["message"], "metadata.name: Required value: name or generateName is required")
}

async fn a_label_that_is_no_label_is_refused(s: Fixture) -> CaseResult {
    let labelled = config_map("a", &json!({"pool": "not a label"}));
    let status = s.post(&s.core("configmaps"), &labelled).await?.fails(422, "Invalid")?;
    says(
        &status["message"],
        "metadata.labels: Invalid value: \"not a label\": a valid label must be an empty string or consist of",
    )
}

async fn a_body_that_is_no_json_is_a_bad_request(s: Fixture) -> CaseResult {
    let answer = s.call(Method::POST, &s.core("configmaps"), Some("{".to_owned()), "application/json").await?;
    answer.fails(400, "BadRequest")?;
    Ok(())
}

async fn a_body_of_another_kind_is_a_bad_request(s: Fixture) -> CaseResult {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    s.post(&s.core("configmaps"), &secret).await?.fails(400, "BadRequest")?;
    Ok(())
}

async fn a_method_that_a_path_does_not_offer_is_refused(s: Fixture) -> CaseResult {
    let answer = s.post(&s.core("configmaps/a"), &config_map("a", &json!({}))).await?;
    let message = "the server does not allow this method on the requested resource";
    ensure!(answer.body["message"] == message, "said {}", answer.body);
    answer.fails(405, "MethodNotAllowed")?;
    Ok(())
}
