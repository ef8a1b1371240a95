//! What becomes of the dependents of a deleted object. Of a real cluster this needs kube-controller-manager, and of ours the
//! housekeeper.

use serde_json::{Value, json};

use crate::fixture::{Answer, Fixture, Patch, config_map, names, same, says};
use crate::{CaseResult, Difference, cases, ensure};

cases![
    dependents_follow_their_owner,
    dependents_of_dependents_follow_too,
    a_dependent_with_another_owner_stays_and_forgets_the_first,
    an_owner_deleted_in_the_foreground_waits_for_those_who_block_it,
    an_owner_deleted_in_the_foreground_does_not_wait_for_others,
    a_dependent_with_two_owners_does_not_block_the_one_in_the_foreground,
    orphans_stay_and_forget_their_owner,
    an_owner_that_does_not_exist_owns_nothing,
    an_owner_of_another_uid_is_another_owner,
    an_owner_in_another_namespace_does_not_exist,
    an_owner_of_the_whole_cluster_takes_its_dependents_along,
    an_owner_of_an_unknown_kind_is_let_be,
    a_finalizer_from_before_decides_what_becomes_of_dependents,
    a_policy_nobody_knows_is_refused,
    a_deletion_says_one_thing_about_dependents,
    the_policy_can_stand_in_the_query,
];

/// An entry in the list of owners.
fn owned_by(owner: &Value, blocks: bool) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks,
    })
}

async fn dependent(s: &Fixture, name: &str, owners: &[Value], finalizers: &Value) -> Result<Value, Difference> {
    let mut object = config_map(name, &json!({}));
    object["metadata"]["ownerReferences"] = json!(owners);
    object["metadata"]["finalizers"] = finalizers.clone();
    s.post(&s.core("configmaps"), &object).await?.succeeds()
}

async fn delete(s: &Fixture, name: &str, policy: &str) -> Result<Answer, Difference> {
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
    s.delete(&s.core(&format!("configmaps/{name}")), Some(&options)).await
}

async fn release(s: &Fixture, name: &str) -> CaseResult {
    let path = s.core(&format!("configmaps/{name}"));
    s.patch(&path, Patch::Merge, &json!({"metadata": {"finalizers": null}})).await?.succeeds()?;
    Ok(())
}

async fn gone(s: &Fixture, name: &str) -> CaseResult {
    s.until_gone(&s.core(&format!("configmaps/{name}"))).await
}

async fn leaving(s: &Fixture, name: &str) -> Result<Value, Difference> {
    s.until(&s.core(&format!("configmaps/{name}")), |object| object["metadata"]["deletionTimestamp"].is_string()).await
}

/// Shows KIN-6.
async fn dependents_follow_their_owner(s: Fixture) -> CaseResult {
    let owner = s.config_map("owner", &json!({})).await?;
    dependent(&s, "a", &[owned_by(&owner, true)], &json!([])).await?;
    dependent(&s, "b", &[owned_by(&owner, false)], &json!([])).await?;
    let answer = s.delete(&s.core("configmaps/owner"), None).await?.succeeds()?;
    same("kind", &answer["kind"], &json!("Status"))?;
    s.get(&s.core("configmaps/owner")).await?.fails(404, "NotFound")?;
    gone(&s, "a").await?;
    gone(&s, "b").await
}

async fn dependents_of_dependents_follow_too(s: Fixture) -> CaseResult {
    let first = s.config_map("first", &json!({})).await?;
    let second = dependent(&s, "second", &[owned_by(&first, false)], &json!([])).await?;
    dependent(&s, "third", &[owned_by(&second, false)], &json!([])).await?;
    delete(&s, "first", "Background").await?.succeeds()?;
    gone(&s, "third").await?;
    gone(&s, "second").await
}

async fn a_dependent_with_another_owner_stays_and_forgets_the_first(s: Fixture) -> CaseResult {
    let (first, second) = (s.config_map("first", &json!({})).await?, s.config_map("second", &json!({})).await?);
    let owners = [owned_by(&first, false), owned_by(&second, false)];
    dependent(&s, "a", &owners, &json!([])).await?;
    delete(&s, "first", "Background").await?.succeeds()?;
    let left = json!([owned_by(&second, false)]);
    s.until(&s.core("configmaps/a"), |a| a["metadata"]["ownerReferences"] == left).await?;
    delete(&s, "second", "Background").await?.succeeds()?;
    gone(&s, "a").await
}

/// Shows KIN-6.
async fn an_owner_deleted_in_the_foreground_waits_for_those_who_block_it(s: Fixture) -> CaseResult {
    let owner = s.config_map("owner", &json!({})).await?;
    dependent(&s, "a", &[owned_by(&owner, true)], &json!(["example.com/hold"])).await?;
    let answer = delete(&s, "owner", "Foreground").await?;
    ensure!(answer.code == 200, "answered {}: {}", answer.code, answer.body);
    same("finalizers", &answer.body["metadata"]["finalizers"], &json!(["foregroundDeletion"]))?;
    leaving(&s, "a").await?;
    let waiting = s.get(&s.core("configmaps/owner")).await?.succeeds()?;
    same("finalizers", &waiting["metadata"]["finalizers"], &json!(["foregroundDeletion"]))?;
    release(&s, "a").await?;
    gone(&s, "owner").await
}

async fn an_owner_deleted_in_the_foreground_does_not_wait_for_others(s: Fixture) -> CaseResult {
    let owner = s.config_map("owner", &json!({})).await?;
    dependent(&s, "a", &[owned_by(&owner, false)], &json!(["example.com/hold"])).await?;
    delete(&s, "owner", "Foreground").await?.succeeds()?;
    gone(&s, "owner").await?;
    leaving(&s, "a").await?;
    release(&s, "a").await
}

async fn a_dependent_with_two_owners_does_not_block_the_one_in_the_foreground(s: Fixture) -> CaseResult {
    let (first, second) = (s.config_map("first", &json!({})).await?, s.config_map("second", &json!({})).await?);
    dependent(&s, "a", &[owned_by(&first, true), owned_by(&second, true)], &json!([])).await?;
    delete(&s, "first", "Foreground").await?.succeeds()?;
    gone(&s, "first").await?;
    let kept = s.get(&s.core("configmaps/a")).await?.succeeds()?;
    same("owners", &kept["metadata"]["ownerReferences"], &json!([owned_by(&second, true)]))?;
    ensure!(kept["metadata"].get("deletionTimestamp").is_none(), "it was deleted although it has an owner");
    Ok(())
}

/// Shows KIN-6.
async fn orphans_stay_and_forget_their_owner(s: Fixture) -> CaseResult {
    let owner = s.config_map("owner", &json!({})).await?;
    dependent(&s, "a", &[owned_by(&owner, true)], &json!([])).await?;
    let answer = delete(&s, "owner", "Orphan").await?;
    ensure!(answer.code == 200, "answered {}: {}", answer.code, answer.body);
    same("finalizers", &answer.body["metadata"]["finalizers"], &json!(["orphan"]))?;
    gone(&s, "owner").await?;
    let orphan = s.get(&s.core("configmaps/a")).await?.succeeds()?;
    ensure!(orphan["metadata"].get("ownerReferences").is_none(), "it remembers {}", orphan["metadata"]);
    ensure!(orphan["metadata"].get("deletionTimestamp").is_none(), "it was deleted");
    Ok(())
}

async fn an_owner_that_does_not_exist_owns_nothing(s: Fixture) -> CaseResult {
    let nobody = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "nobody", "uid": "none"}});
    dependent(&s, "a", &[owned_by(&nobody, false)], &json!([])).await?;
    gone(&s, "a").await
}

async fn an_owner_of_another_uid_is_another_owner(s: Fixture) -> CaseResult {
    let mut owner = s.config_map("owner", &json!({})).await?;
    owner["metadata"]["uid"] = json!("an-earlier-one");
    dependent(&s, "a", &[owned_by(&owner, false)], &json!([])).await?;
    gone(&s, "a").await?;
    s.get(&s.core("configmaps/owner")).await?.succeeds()?;
    Ok(())
}

async fn an_owner_in_another_namespace_does_not_exist(s: Fixture) -> CaseResult {
    let object = config_map(s.namespace(), &json!({}));
    let elsewhere = s.post("/api/v1/namespaces/default/configmaps", &object).await?.succeeds()?;
    dependent(&s, "a", &[owned_by(&elsewhere, false)], &json!([])).await?;
    gone(&s, "a").await?;
    s.delete(&format!("/api/v1/namespaces/default/configmaps/{}", s.namespace()), None).await?.succeeds()?;
    Ok(())
}

async fn an_owner_of_the_whole_cluster_takes_its_dependents_along(s: Fixture) -> CaseResult {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": s.namespace()}, "value": 1,
    });
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let owner = s.post(classes, &class).await?.succeeds()?;
    dependent(&s, "a", &[owned_by(&owner, false)], &json!([])).await?;
    s.is_kept(&s.core("configmaps/a")).await?;
    s.delete(&format!("{classes}/{}", s.namespace()), None).await?.succeeds()?;
    gone(&s, "a").await
}

async fn an_owner_of_an_unknown_kind_is_let_be(s: Fixture) -> CaseResult {
    let unknown = json!({"apiVersion": "nowhere.example.com/v1", "kind": "Odd", "metadata": {"name": "o", "uid": "u"}});
    dependent(&s, "a", &[owned_by(&unknown, false)], &json!([])).await?;
    s.is_kept(&s.core("configmaps/a")).await
}

async fn a_finalizer_from_before_decides_what_becomes_of_dependents(s: Fixture) -> CaseResult {
    let mut owner = config_map("owner", &json!({}));
    owner["metadata"]["finalizers"] = json!(["orphan"]);
    let owner = s.post(&s.core("configmaps"), &owner).await?.succeeds()?;
    dependent(&s, "a", &[owned_by(&owner, false)], &json!([])).await?;
    s.delete(&s.core("configmaps/owner"), None).await?.succeeds()?;
    gone(&s, "owner").await?;
    let left = s.get(&s.core("configmaps")).await?.succeeds()?;
    ensure!(names(&left).as_array().is_some_and(|names| names.contains(&json!("a"))), "it was not orphaned");
    Ok(())
}

async fn a_policy_nobody_knows_is_refused(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let status = delete(&s, "a", "Gently").await?.fails(422, "Invalid")?;
    says(&status["message"], "propagationPolicy: Unsupported value: \"Gently\": supported values: ")?;
    s.get(&s.core("configmaps/a")).await?.succeeds()?;
    Ok(())
}

async fn a_deletion_says_one_thing_about_dependents(s: Fixture) -> CaseResult {
    s.config_map("a", &json!({})).await?;
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan", "orphanDependents": true,
    });
    let status = s.delete(&s.core("configmaps/a"), Some(&options)).await?.fails(422, "Invalid")?;
    says(&status["message"], "orphanDependents and deletionPropagation cannot be both set")
}

async fn the_policy_can_stand_in_the_query(s: Fixture) -> CaseResult {
    let owner = s.config_map("owner", &json!({})).await?;
    dependent(&s, "a", &[owned_by(&owner, true)], &json!(["example.com/hold"])).await?;
    let answer = s.delete(&s.core("configmaps/owner?propagationPolicy=Foreground"), None).await?;
    same("finalizers", &answer.succeeds()?["metadata"]["finalizers"], &json!(["foregroundDeletion"]))?;
    release(&s, "a").await?;
    gone(&s, "owner").await
}
