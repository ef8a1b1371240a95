//! What every object carries.

use serde_json::{Value, json};

use crate::fixture::{Fixture, config_map, names, same, says};
use crate::{CaseResult, cases, ensure};

cases![
    metadata_alone_can_be_read,
    metadata_alone_can_be_listed,
    an_object_has_one_controller,
    an_owner_is_known_by_its_uid,
    annotations_have_a_limit,
    a_given_name_wins_over_a_generated_one,
    a_dry_run_changes_nothing,
    the_time_of_creation_does_not_change,
];

async fn metadata_alone_can_be_read(s: Fixture) -> CaseResult {
    let mut object = config_map("a", &json!({"pool": "x"}));
    object["data"] = json!({"k": "v"});
    let made = s.post(&s.core("configmaps"), &object).await?.succeeds()?;
    let partial = s.get_metadata(&s.core("configmaps/a"), "PartialObjectMetadata").await?.succeeds()?;
    let expected =
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]});
    same("partial", &partial, &expected)
}

async fn metadata_alone_can_be_listed(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({"pool": "x"})).await?;
    s.config_map("b", &json!({"pool": "y"})).await?;
    let path = s.core("configmaps?labelSelector=pool");
    let list = s.get_metadata(&path, "PartialObjectMetadataList").await?.succeeds()?;
    same("kind", &list["kind"], &json!("PartialObjectMetadataList"))?;
    same("apiVersion", &list["apiVersion"], &json!("meta.k8s.io/v1"))?;
    same("names", &names(&list), &json!(["a", "b"]))?;
    same("item", &list["items"][0]["kind"], &json!("PartialObjectMetadata"))
}

fn owned(owners: &Value) -> Value {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["ownerReferences"] = owners.clone();
    object
}

async fn an_object_has_one_controller(s: Fixture) -> CaseResult {
    let owner =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": true});
    let status =
        s.post(&s.core("configmaps"), &owned(&json!([owner("x"), owner("y")]))).await?.fails(422, "Invalid")?;
    says(&status["message"], "Only one reference can have Controller set to true.")
}

async fn an_owner_is_known_by_its_uid(s: Fixture) -> CaseResult {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x"});
    let status = s.post(&s.core("configmaps"), &owned(&json!([owner]))).await?.fails(422, "Invalid")?;
    says(&status["message"], "uid: Invalid value: \"\": must not be empty")
}

async fn annotations_have_a_limit(s: Fixture) -> CaseResult {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["annotations"] = json!({"large": "x".repeat(256 * 1024)});
    let status = s.post(&s.core("configmaps"), &object).await?.fails(422, "Invalid")?;
    says(&status["message"], "metadata.annotations: Too long: may not be more than 262144 bytes")
}

async fn a_given_name_wins_over_a_generated_one(s: Fixture) -> CaseResult {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["generateName"] = json!("b-");
    let made = s.post(&s.core("configmaps"), &object).await?.succeeds()?;
    same("name", &made["metadata"]["name"], &json!("a"))
}

async fn a_dry_run_changes_nothing(s: Fixture) -> CaseResult {
    let answer = s.post(&s.core("configmaps?dryRun=All"), &config_map("a", &json!({}))).await?;
    ensure!(answer.code == 201, "answered {}", answer.code);
    s.get(&s.core("configmaps/a")).await?.fails(404, "NotFound")?;
    let made = s.config_map("a", &json!({})).await?;
    let mut changed = made.clone();
    changed["data"] = json!({"k": "v"});
    s.put(&s.core("configmaps/a?dryRun=All"), &changed).await?.succeeds()?;
    s.delete(&s.core("configmaps/a?dryRun=All"), None).await?.succeeds()?;
    same("object", &s.get(&s.core("configmaps/a")).await?.succeeds()?, &made)
}

async fn the_time_of_creation_does_not_change(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &json!({})).await?;
    let mut object = made.clone();
    object["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    same("object", &s.put(&s.core("configmaps/a"), &object).await?.succeeds()?, &made)
}
