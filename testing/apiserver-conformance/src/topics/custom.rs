//! Custom kinds: validation, pruning, defaults.

use serde_json::{Value, json};

use crate::fixture::{Fixture, Patch, causes, same, says};
use crate::{CaseResult, cases, ensure};

cases![
    a_value_of_the_wrong_type_is_refused,
    every_mistake_has_a_cause_of_its_own,
    a_missing_required_field_is_refused,
    a_value_outside_of_an_enumeration_is_refused,
    a_text_that_does_not_match_its_pattern_is_refused,
    an_int_or_string_is_either_and_nothing_else,
    unknown_fields_are_pruned,
    unknown_fields_are_preserved_where_the_schema_says_so,
    unknown_fields_are_refused_when_the_client_asks_for_it,
    a_null_that_may_not_be_is_left_out,
    defaults_are_filled_in,
    a_patch_is_validated_like_a_creation,
    the_status_is_validated_too,
    a_mistake_that_was_there_before_the_schema_forbids_no_other_change,
    a_set_holds_no_value_twice,
    a_schema_without_types_is_refused,
    a_definition_is_established,
    a_kind_that_is_not_defined_is_not_served,
];

fn schema() -> Value {
    json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "replicas": {"type": "integer", "format": "int32", "minimum": 0},
        "strategy": {"type": "string", "enum": ["Recreate", "Rolling"]},
        "surge": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "zones": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "defaulted": {"type": "object", "default": {}, "properties": {"n": {"type": "integer", "default": 3}}},
    }})
}

/// The `Status` with which a widget with this spec is refused.
async fn refused(s: &Fixture, spec: &Value) -> Result<Value, crate::Difference> {
    s.post(&s.widget(""), &s.new_widget("a", spec)).await?.fails(422, "Invalid")
}

async fn a_value_of_the_wrong_type_is_refused(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let status = refused(&s, &json!({"name": "a", "replicas": "two"})).await?;
    let complaint = "Invalid value: \"string\": spec.replicas in body must be of type integer: \"string\"";
    let message = format!("Widget.{} \"a\" is invalid: spec.replicas: {complaint}", s.group());
    same("message", &status["message"], &json!(message))?;
    let cause = json!({"reason": "FieldValueTypeInvalid", "message": complaint, "field": "spec.replicas"});
    let details = json!({"name": "a", "group": s.group(), "kind": "Widget", "causes": [cause]});
    same("details", &status["details"], &details)
}

async fn every_mistake_has_a_cause_of_its_own(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let status = refused(&s, &json!({"name": "a", "replicas": -1, "strategy": "Odd"})).await?;
    let causes = causes(&status);
    let cause = |reason: &str, message: &str| Some((reason.to_owned(), message.to_owned()));
    let negative = "Invalid value: -1: spec.replicas in body should be greater than or equal to 0";
    ensure!(causes.get("spec.replicas").cloned() == cause("FieldValueInvalid", negative), "{causes:?}");
    let odd = "Unsupported value: \"Odd\": supported values: \"Recreate\", \"Rolling\"";
    ensure!(causes.get("spec.strategy").cloned() == cause("FieldValueNotSupported", odd), "{causes:?}");
    ensure!(causes.len() == 2, "{causes:?}");
    says(&status["message"], "is invalid: [")
}

async fn a_missing_required_field_is_refused(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let status = refused(&s, &json!({})).await?;
    let cause = json!({"reason": "FieldValueRequired", "message": "Required value", "field": "spec.name"});
    same("causes", &status["details"]["causes"], &json!([cause]))
}

async fn a_value_outside_of_an_enumeration_is_refused(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let status = refused(&s, &json!({"name": "a", "strategy": ""})).await?;
    says(&status["message"], "spec.strategy: Unsupported value: \"\": supported values: \"Recreate\", \"Rolling\"")
}

async fn a_text_that_does_not_match_its_pattern_is_refused(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let status = refused(&s, &json!({"name": "A"})).await?;
    says(&status["message"], "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'")
}

async fn an_int_or_string_is_either_and_nothing_else(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    s.make_widget("i", &json!({"name": "a", "surge": 1})).await?;
    s.make_widget("s", &json!({"name": "a", "surge": "25%"})).await?;
    let status = refused(&s, &json!({"name": "a", "surge": true})).await?;
    says(&status["message"], "spec.surge in body must be of type integer,string: \"boolean\"")
}

async fn unknown_fields_are_pruned(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let made = s.make_widget("a", &json!({"name": "a", "odd": 1})).await?;
    ensure!(made["spec"].get("odd").is_none(), "kept {}", made["spec"]);
    same("name", &made["spec"]["name"], &json!("a"))
}

async fn unknown_fields_are_preserved_where_the_schema_says_so(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let free = json!({"anything": {"goes": [1, {"deep": null}]}});
    let made = s.make_widget("a", &json!({"name": "a", "free": free})).await?;
    same("free", &made["spec"]["free"], &free)
}

async fn unknown_fields_are_refused_when_the_client_asks_for_it(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let path = format!("{}?fieldValidation=Strict", s.widget(""));
    let answer = s.post(&path, &s.new_widget("a", &json!({"name": "a", "odd": 1}))).await?;
    says(&answer.fails(400, "BadRequest")?["message"], "strict decoding error: unknown field \"spec.odd\"")
}

async fn a_null_that_may_not_be_is_left_out(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let made = s.make_widget("a", &json!({"name": "a", "replicas": null})).await?;
    ensure!(made["spec"].get("replicas").is_none(), "kept {}", made["spec"]);
    Ok(())
}

async fn defaults_are_filled_in(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let made = s.make_widget("a", &json!({"name": "a"})).await?;
    same("defaulted", &made["spec"]["defaulted"], &json!({"n": 3}))?;
    let made = s.make_widget("b", &json!({"name": "a", "defaulted": {"n": null}})).await?;
    same("defaulted", &made["spec"]["defaulted"], &json!({"n": 3}))
}

async fn a_patch_is_validated_like_a_creation(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let made = s.make_widget("a", &json!({"name": "a"})).await?;
    let answer = s.patch(&s.widget("a"), Patch::Merge, &json!({"spec": {"name": null}})).await?;
    says(&answer.fails(422, "Invalid")?["message"], "spec.name: Required value")?;
    same("object", &s.get(&s.widget("a")).await?.succeeds()?, &made)
}

async fn the_status_is_validated_too(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    s.make_widget("a", &json!({"name": "a"})).await?;
    let answer = s.patch(&s.widget("a/status"), Patch::Merge, &json!({"status": {"ready": "yes"}})).await?;
    let status = answer.fails(422, "Invalid")?;
    says(
        &status["message"],
        "status.ready: Invalid value: \"string\": ready in body must be of type integer: \"string\"",
    )
}

async fn a_mistake_that_was_there_before_the_schema_forbids_no_other_change(s: Fixture) -> CaseResult {
    s.define(&json!({"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}})).await?;
    s.make_widget("a", &json!({"n": 9})).await?;
    let definition = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{}", s.group());
    let at = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/n/maximum";
    let stricter = json!([{"op": "add", "path": at, "value": 5}]);
    s.patch(&definition, Patch::Json, &stricter).await?.succeeds()?;
    // The new schema may take a moment; it is in force once a new mistake is refused.
    for attempt in 0.. {
        ensure!(attempt < 200, "the new schema never came into force");
        let probe = s.post(&format!("{}?dryRun=All", s.widget("")), &s.new_widget("probe", &json!({"n": 8}))).await?;
        if probe.code == 422 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    s.patch(&s.widget("a"), Patch::Merge, &json!({"spec": {"m": 1}})).await?.succeeds()?;
    s.patch(&s.widget("a"), Patch::Merge, &json!({"spec": {"n": 8}})).await?.fails(422, "Invalid")?;
    Ok(())
}

async fn a_set_holds_no_value_twice(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let status = refused(&s, &json!({"name": "a", "zones": ["x", "y", "x"]})).await?;
    let cause = json!({"reason": "FieldValueDuplicate", "message": "Duplicate value: \"x\"", "field": "spec.zones[2]"});
    same("causes", &status["details"]["causes"], &json!([cause]))
}

async fn a_schema_without_types_is_refused(s: Fixture) -> CaseResult {
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {}}}},
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let status = s.post(definitions, &s.definition(&version)).await?.fails(422, "Invalid")?;
    let rule = "spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields";
    says(&status["message"], rule)
}

async fn a_definition_is_established(s: Fixture) -> CaseResult {
    s.define(&schema()).await?;
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{}", s.group());
    let definition = s.get(&path).await?.succeeds()?;
    let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
    for wanted in ["NamesAccepted", "Established"] {
        let met = conditions.iter().any(|c| c["type"] == wanted && c["status"] == "True");
        ensure!(met, "not {wanted}: {conditions:?}");
    }
    same("accepted", &definition["status"]["acceptedNames"]["kind"], &json!("Widget"))?;
    same("stored", &definition["status"]["storedVersions"], &json!(["v1"]))
}

async fn a_kind_that_is_not_defined_is_not_served(s: Fixture) -> CaseResult {
    let answer = s.get(&s.widget("")).await?;
    ensure!(answer.code == 404, "answered {}", answer.code);
    Ok(())
}
