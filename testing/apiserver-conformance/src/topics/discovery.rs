//! What a server says about itself.

use serde_json::{Value, json};

use crate::fixture::{Fixture, same};
use crate::{CaseResult, cases, ensure};

cases![
    a_server_knows_its_version,
    a_server_says_that_it_is_well,
    the_core_group_is_listed,
    other_groups_are_listed_with_their_versions,
    a_kind_is_listed_with_what_can_be_done_to_it,
    a_custom_kind_is_listed_with_its_status,
];

async fn a_server_knows_its_version(s: Fixture) -> CaseResult {
    let version = s.get("/version").await?.succeeds()?;
    same("major", &version["major"], &json!("1"))?;
    for field in ["minor", "gitVersion", "platform"] {
        ensure!(version[field].as_str().is_some_and(|v| !v.is_empty()), "no {field} in {version}");
    }
    Ok(())
}

async fn a_server_says_that_it_is_well(s: Fixture) -> CaseResult {
    for path in ["/healthz", "/livez", "/readyz"] {
        same(path, &s.get(path).await?.succeeds()?, &json!("ok"))?;
    }
    Ok(())
}

async fn the_core_group_is_listed(s: Fixture) -> CaseResult {
    let versions = s.get("/api").await?.succeeds()?;
    same("kind", &versions["kind"], &json!("APIVersions"))?;
    same("versions", &versions["versions"], &json!(["v1"]))
}

async fn other_groups_are_listed_with_their_versions(s: Fixture) -> CaseResult {
    let groups = s.get("/apis").await?.succeeds()?;
    same("kind", &groups["kind"], &json!("APIGroupList"))?;
    let group = groups["groups"].as_array().into_iter().flatten().find(|g| g["name"] == "coordination.k8s.io");
    let preferred = group.map(|g| g["preferredVersion"].clone()).unwrap_or_default();
    same("preferred", &preferred, &json!({"groupVersion": "coordination.k8s.io/v1", "version": "v1"}))
}

fn find<'a>(resources: &'a Value, name: &str) -> &'a Value {
    let resources = resources["resources"].as_array();
    resources.into_iter().flatten().find(|r| r["name"] == name).unwrap_or(&Value::Null)
}

async fn a_kind_is_listed_with_what_can_be_done_to_it(s: Fixture) -> CaseResult {
    let resources = s.get("/api/v1").await?.succeeds()?;
    same("kind", &resources["kind"], &json!("APIResourceList"))?;
    same("groupVersion", &resources["groupVersion"], &json!("v1"))?;
    let found = find(&resources, "configmaps");
    for (field, value) in [("kind", json!("ConfigMap")), ("namespaced", json!(true)), ("shortNames", json!(["cm"]))] {
        same(field, &found[field], &value)?;
    }
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    same("verbs", &found["verbs"], &json!(verbs))?;
    same("nodes", &find(&resources, "nodes")["namespaced"], &json!(false))?;
    same("status", &find(&resources, "nodes/status")["verbs"], &json!(["get", "patch", "update"]))
}

async fn a_custom_kind_is_listed_with_its_status(s: Fixture) -> CaseResult {
    s.define(&json!({"type": "object"})).await?;
    let resources = s.get(&format!("/apis/{}/v1", s.group())).await?.succeeds()?;
    same("groupVersion", &resources["groupVersion"], &json!(format!("{}/v1", s.group())))?;
    same("kind", &find(&resources, "widgets")["kind"], &json!("Widget"))?;
    same("singular", &find(&resources, "widgets")["singularName"], &json!("widget"))?;
    same("status", &find(&resources, "widgets/status")["verbs"], &json!(["get", "patch", "update"]))
}
