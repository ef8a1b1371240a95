//! How many replicas an object has, in the one form that all scalable kinds share.

use serde_json::{Value, json};

use crate::fixture::{Fixture, Patch, same, says};
use crate::{CaseResult, Difference, cases, ensure};

cases![
    a_scale_shows_what_is_wanted_counted_and_selected,
    a_scale_is_put_and_the_generation_follows,
    a_scale_is_patched,
    a_scale_can_conflict,
    a_scale_without_a_version_overwrites,
    a_scale_is_not_negative,
    a_scale_means_the_object_of_that_uid,
    a_kind_without_scale_has_no_scale_path,
    a_custom_scale_stands_where_its_definition_says,
    a_custom_scale_that_nobody_set_can_be_set_but_not_read,
    a_custom_object_wants_no_negative_replicas,
    a_custom_scale_can_conflict,
];

fn sets(s: &Fixture, name: &str) -> String {
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/apis/apps/v1/namespaces/{}/replicasets{slash}{name}", s.namespace())
}

async fn set(s: &Fixture) -> Result<Value, Difference> {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "a"},
        "spec": {
            "replicas": 0,
            "selector": {
                "matchLabels": {"b": "x"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["z", "y"]}],
            },
            "template": {
                "metadata": {"labels": {"a": "y", "b": "x"}},
                "spec": {"containers": [{"name": "c", "image": "example.com/c"}], "schedulerName": "the-case"},
            },
        },
    });
    s.post(&sets(s, ""), &set).await?.succeeds()
}

/// The scale as one would write it, with the version that was read or without.
fn wanting(replicas: i64, read: Option<&Value>) -> Value {
    let version = read.map(|object| object["metadata"]["resourceVersion"].clone());
    let mut scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": replicas},
    });
    if let Some(version) = version {
        scale["metadata"]["resourceVersion"] = version;
    }
    scale
}

async fn a_scale_shows_what_is_wanted_counted_and_selected(s: Fixture) -> CaseResult {
    let set = set(&s).await?;
    let scale = s.get(&sets(&s, "a/scale")).await?.succeeds()?;
    same("type", &json!([scale["apiVersion"], scale["kind"]]), &json!(["autoscaling/v1", "Scale"]))?;
    same("uid", &scale["metadata"]["uid"], &set["metadata"]["uid"])?;
    same("spec", &scale["spec"], &json!({}))?;
    same("status", &scale["status"], &json!({"replicas": 0, "selector": "a in (y,z),b=x"}))
}

/// Shows KIN-5.
async fn a_scale_is_put_and_the_generation_follows(s: Fixture) -> CaseResult {
    set(&s).await?;
    let scale = s.put(&sets(&s, "a/scale"), &wanting(2, None)).await?.succeeds()?;
    same("kind", &scale["kind"], &json!("Scale"))?;
    same("wanted", &scale["spec"]["replicas"], &json!(2))?;
    let set = s.get(&sets(&s, "a")).await?.succeeds()?;
    same("replicas", &set["spec"]["replicas"], &json!(2))?;
    same("generation", &set["metadata"]["generation"], &json!(2))
}

async fn a_scale_is_patched(s: Fixture) -> CaseResult {
    set(&s).await?;
    let patch = json!({"spec": {"replicas": 1}});
    let scale = s.patch(&sets(&s, "a/scale"), Patch::Merge, &patch).await?.succeeds()?;
    same("wanted", &scale["spec"]["replicas"], &json!(1))?;
    let patch = json!([{"op": "replace", "path": "/spec/replicas", "value": 0}]);
    s.patch(&sets(&s, "a/scale"), Patch::Json, &patch).await?.succeeds()?;
    let set = s.get(&sets(&s, "a")).await?.succeeds()?;
    same("replicas", &set["spec"]["replicas"], &json!(0))
}

/// Shows KIN-5.
async fn a_scale_can_conflict(s: Fixture) -> CaseResult {
    let old = set(&s).await?;
    let patch = json!({"metadata": {"labels": {"some": "body"}}});
    s.patch(&sets(&s, "a"), Patch::Merge, &patch).await?.succeeds()?;
    let answer = s.put(&sets(&s, "a/scale"), &wanting(1, Some(&old))).await?;
    let message = "Operation cannot be fulfilled on replicasets.apps \"a\": the object has been modified; please apply your \
                   changes to the latest version and try again";
    answer.fails_saying(409, "Conflict", message)?;
    Ok(())
}

async fn a_scale_without_a_version_overwrites(s: Fixture) -> CaseResult {
    set(&s).await?;
    s.patch(&sets(&s, "a"), Patch::Merge, &json!({"metadata": {"labels": {"some": "body"}}})).await?.succeeds()?;
    s.put(&sets(&s, "a/scale"), &wanting(1, None)).await?.succeeds()?;
    let set = s.get(&sets(&s, "a")).await?.succeeds()?;
    same("label", &set["metadata"]["labels"]["some"], &json!("body"))
}

async fn a_scale_is_not_negative(s: Fixture) -> CaseResult {
    set(&s).await?;
    let message =
        "Scale.autoscaling \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0";
    s.put(&sets(&s, "a/scale"), &wanting(-1, None)).await?.fails_saying(422, "Invalid", message)?;
    let answer = s.patch(&sets(&s, "a"), Patch::Merge, &json!({"spec": {"replicas": -1}})).await?;
    let message =
        "ReplicaSet.apps \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0";
    answer.fails_saying(422, "Invalid", message)?;
    Ok(())
}

async fn a_scale_means_the_object_of_that_uid(s: Fixture) -> CaseResult {
    set(&s).await?;
    let mut scale = wanting(1, None);
    scale["metadata"]["uid"] = json!("another");
    let status = s.put(&sets(&s, "a/scale"), &scale).await?.fails(409, "Conflict")?;
    says(&status["message"], "Precondition failed: UID in precondition: another, UID in object meta: ")
}

async fn a_kind_without_scale_has_no_scale_path(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let answer = s.get(&s.core("configmaps/a/scale")).await?;
    ensure!(answer.code == 404, "answered {}", answer.code);
    s.get(&sets(&s, "absent/scale")).await?.fails_saying(404, "NotFound", "replicasets.apps \"absent\" not found")?;
    Ok(())
}

async fn define(s: &Fixture) -> CaseResult {
    s.define_version(&json!({
        "name": "v1", "served": true, "storage": true,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready", "labelSelectorPath": ".status.who",
            },
        },
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}},
            "status": {"type": "object", "properties": {"ready": {"type": "integer"}, "who": {"type": "string"}}},
        }}},
    }))
    .await
}

/// Shows KIN-5.
async fn a_custom_scale_stands_where_its_definition_says(s: Fixture) -> CaseResult {
    define(&s).await?;
    s.make_widget("a", &json!({"size": 3, "color": "red"})).await?;
    let status = json!({"status": {"ready": 2, "who": "a=b"}});
    s.patch(&s.widget("a/status"), Patch::Merge, &status).await?.succeeds()?;
    let scale = s.get(&s.widget("a/scale")).await?.succeeds()?;
    same("type", &json!([scale["apiVersion"], scale["kind"]]), &json!(["autoscaling/v1", "Scale"]))?;
    same("spec", &scale["spec"], &json!({"replicas": 3}))?;
    same("status", &scale["status"], &json!({"replicas": 2, "selector": "a=b"}))?;
    s.put(&s.widget("a/scale"), &wanting(5, None)).await?.succeeds()?;
    let widget = s.get(&s.widget("a")).await?.succeeds()?;
    same("spec", &widget["spec"], &json!({"size": 5, "color": "red"}))?;
    same("generation", &widget["metadata"]["generation"], &json!(2))
}

async fn a_custom_scale_that_nobody_set_can_be_set_but_not_read(s: Fixture) -> CaseResult {
    define(&s).await?;
    s.make_widget("a", &json!({})).await?;
    let answer = s.get(&s.widget("a/scale")).await?;
    let message = "Internal error occurred: the spec replicas field \".spec.size\" does not exist";
    answer.fails_saying(500, "InternalError", message)?;
    s.patch(&s.widget("a/scale"), Patch::Merge, &json!({"spec": {"replicas": 2}})).await?.succeeds()?;
    same("spec", &s.get(&s.widget("a")).await?.succeeds()?["spec"], &json!({"size": 2}))
}

async fn a_custom_object_wants_no_negative_replicas(s: Fixture) -> CaseResult {
    define(&s).await?;
    let status = s.post(&s.widget(""), &s.new_widget("a", &json!({"size": -1}))).await?.fails(422, "Invalid")?;
    says(&status["message"], "spec.size: Invalid value: -1: should be a non-negative integer")?;
    s.make_widget("a", &json!({"size": 1})).await?;
    let status = s.put(&s.widget("a/scale"), &wanting(-1, None)).await?.fails(422, "Invalid")?;
    says(&status["message"], "spec.size: Invalid value: -1: should be a non-negative integer")
}

async fn a_custom_scale_can_conflict(s: Fixture) -> CaseResult {
    define(&s).await?;
    let old = s.make_widget("a", &json!({"size": 1})).await?;
    s.patch(&s.widget("a"), Patch::Merge, &json!({"spec": {"color": "red"}})).await?.succeeds()?;
    s.put(&s.widget("a/scale"), &wanting(2, Some(&old))).await?.fails(409, "Conflict")?;
    s.put(&s.widget("a/scale"), &wanting(2, None)).await?.succeeds()?;
    Ok(())
}
