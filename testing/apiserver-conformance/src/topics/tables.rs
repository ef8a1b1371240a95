//! Objects as rows, as `kubectl get` shows them.

use serde_json::{Value, json};

use crate::difference::Difference;
use crate::fixture::{Fixture, same, says};
use crate::{CaseResult, cases, ensure};

cases![
    a_list_is_shown_as_a_table,
    one_object_is_a_table_of_one_row,
    a_row_brings_as_much_of_its_object_as_was_asked_for,
    a_table_is_paged_like_a_list,
    a_refusal_is_no_table,
    a_custom_kind_has_the_columns_of_its_definition,
    a_kind_without_columns_of_its_own_shows_its_age,
    the_columns_of_built_in_kinds_are_known,
];

async fn table(s: &Fixture, path: &str) -> Result<Value, Difference> {
    let table = s.get_metadata(path, "Table").await?.succeeds()?;
    same("kind", &table["kind"], &json!("Table"))?;
    same("version", &table["apiVersion"], &json!("meta.k8s.io/v1"))?;
    Ok(table)
}

fn columns(table: &Value) -> Value {
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    columns.map(|column| column["name"].clone()).collect()
}

/// Shows KIN-9.
async fn a_list_is_shown_as_a_table(s: Fixture) -> CaseResult {
    for name in ["table-a", "table-b"] {
        s.config_map(name, &json!({"shown": "yes"})).await?;
    }
    let table = table(&s, &s.core("configmaps?labelSelector=shown")).await?;
    same("columns", &columns(&table), &json!(["Name", "Data", "Age"]))?;
    let first = &table["columnDefinitions"][0];
    same("type", &first["type"], &json!("string"))?;
    same("format", &first["format"], &json!("name"))?;
    same("first", &table["rows"][0]["cells"][0], &json!("table-a"))?;
    same("entries", &table["rows"][1]["cells"][1], &json!(0))?;
    same("what comes along", &table["rows"][0]["object"]["kind"], &json!("PartialObjectMetadata"))?;
    ensure!(table["metadata"]["resourceVersion"].is_string(), "no version in {}", table["metadata"]);
    Ok(())
}

async fn one_object_is_a_table_of_one_row(s: Fixture) -> CaseResult {
    let object = s.config_map("a", &json!({})).await?;
    let table = table(&s, &s.core("configmaps/a")).await?;
    same("rows", &json!(table["rows"].as_array().map(Vec::len)), &json!(1))?;
    same("version", &table["metadata"]["resourceVersion"], &object["metadata"]["resourceVersion"])
}

async fn a_row_brings_as_much_of_its_object_as_was_asked_for(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let none = table(&s, &s.core("configmaps/a?includeObject=None")).await?;
    same("nothing", &none["rows"][0]["object"], &Value::Null)?;
    let whole = table(&s, &s.core("configmaps/a?includeObject=Object")).await?;
    same("all", &whole["rows"][0]["object"]["kind"], &json!("ConfigMap"))?;
    let refused = s.get_metadata(&s.core("configmaps/a?includeObject=Some"), "Table").await?;
    says(&refused.fails(400, "BadRequest")?["message"], "must be 'Metadata', 'Object', 'None', or empty")
}

async fn a_table_is_paged_like_a_list(s: Fixture) -> CaseResult {
    for name in ["a", "b", "c"] {
        s.config_map(name, &json!({"page": "yes"})).await?;
    }
    let path = s.core("configmaps?labelSelector=page&limit=2");
    let first = table(&s, &path).await?;
    same("rows", &json!(first["rows"].as_array().map(Vec::len)), &json!(2))?;
    let token = first["metadata"]["continue"].as_str().unwrap_or_default();
    let second = table(&s, &format!("{path}&continue={token}")).await?;
    same("the rest", &second["rows"][0]["cells"][0], &json!("c"))
}

async fn a_refusal_is_no_table(s: Fixture) -> CaseResult {
    s.get_metadata(&s.core("configmaps/nobody"), "Table").await?.fails(404, "NotFound")?;
    Ok(())
}

async fn a_custom_kind_has_the_columns_of_its_definition(s: Fixture) -> CaseResult {
    let columns_wanted = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "First", "type": "string", "jsonPath": ".spec.list[0]", "priority": 1},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "Missing", "type": "string", "jsonPath": ".spec.missing"},
    ]);
    s.define_version(&json!({
        "name": "v1", "served": true, "storage": true, "additionalPrinterColumns": columns_wanted,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }))
    .await?;
    s.make_widget("w", &json!({"size": 3, "list": ["x", "y"], "on": true})).await?;
    let table = table(&s, &s.widget("w")).await?;
    same("columns", &columns(&table), &json!(["Name", "Size", "First", "On", "Missing"]))?;
    same("cells", &table["rows"][0]["cells"], &json!(["w", 3, "x", true, null]))?;
    same("priority", &table["columnDefinitions"][2]["priority"], &json!(1))
}

async fn a_kind_without_columns_of_its_own_shows_its_age(s: Fixture) -> CaseResult {
    s.define(&json!({"type": "object"})).await?;
    s.make_widget("w", &json!({})).await?;
    let widgets = table(&s, &s.widget("w")).await?;
    same("columns", &columns(&widgets), &json!(["Name", "Age"]))?;
    let definition = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{}", s.group());
    same("columns", &columns(&table(&s, &definition).await?), &json!(["Name", "Created At"]))
}

async fn the_columns_of_built_in_kinds_are_known(s: Fixture) -> CaseResult {
    let known = [
        ("/api/v1/nodes", 10, "Container-Runtime"),
        ("/api/v1/pods", 9, "Readiness Gates"),
        ("/api/v1/events", 10, "Name"),
        ("/api/v1/namespaces", 3, "Age"),
        ("/api/v1/secrets", 4, "Age"),
        ("/api/v1/serviceaccounts", 2, "Age"),
        ("/api/v1/persistentvolumes", 11, "VolumeMode"),
        ("/api/v1/persistentvolumeclaims", 9, "VolumeMode"),
        ("/apis/apps/v1/replicasets", 8, "Selector"),
        ("/apis/apps/v1/statefulsets", 5, "Images"),
        ("/apis/apps/v1/daemonsets", 11, "Selector"),
        ("/apis/apps/v1/deployments", 8, "Selector"),
        ("/apis/coordination.k8s.io/v1/leases", 3, "Age"),
        ("/apis/policy/v1/poddisruptionbudgets", 5, "Age"),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", 5, "PreemptionPolicy"),
        ("/apis/storage.k8s.io/v1/volumeattachments", 6, "Age"),
        ("/apis/storage.k8s.io/v1/storageclasses", 6, "Age"),
        ("/apis/storage.k8s.io/v1/csinodes", 3, "Age"),
        ("/apis/storage.k8s.io/v1/csidrivers", 8, "Age"),
    ];
    for (path, count, last) in known {
        let names = columns(&table(&s, path).await?);
        same(path, &json!(names.as_array().map(Vec::len)), &json!(count))?;
        same(path, &json!(names.as_array().and_then(|names| names.last().cloned())), &json!(last))?;
    }
    Ok(())
}
