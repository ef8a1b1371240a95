//! Lists of some objects.

use serde_json::json;

use crate::fixture::{Fixture, names, same, says};
use crate::{CaseResult, cases};

cases![
    a_list_shows_the_objects_whose_labels_are_selected,
    an_exclusion_selects_objects_without_the_label,
    requirements_are_joined_by_and,
    a_field_selector_finds_an_object_by_name,
    a_field_selector_can_exclude_a_name,
    both_selectors_must_match,
    a_malformed_label_selector_is_a_bad_request,
    a_field_that_a_kind_does_not_offer_is_a_bad_request,
    a_field_that_a_kind_without_own_fields_does_not_offer_is_a_bad_request,
    pods_are_selected_by_the_node_they_run_on,
    secrets_are_selected_by_type,
    a_custom_kind_offers_the_fields_its_definition_names,
];

/// Creates the objects every case here selects from.
async fn pools(s: &Fixture) -> CaseResult {
    s.config_map("a", &json!({"pool": "x", "tier": "1"})).await?;
    s.config_map("b", &json!({"pool": "y", "tier": "1"})).await?;
    s.config_map("c", &json!({"other": ""})).await?;
    Ok(())
}

/// A difference unless this query finds these. A namespace may hold a config map of the server's own; it is left out.
async fn finds(s: &Fixture, query: &str, expected: &[&str]) -> CaseResult {
    let list = s.get(&s.core(&format!("configmaps?{query}"))).await?.succeeds()?;
    let found = names(&list);
    let own = |name: &&serde_json::Value| *name != "kube-root-ca.crt";
    let found: Vec<_> = found.as_array().into_iter().flatten().filter(own).collect();
    same(query, &json!(found), &json!(expected))
}

async fn a_list_shows_the_objects_whose_labels_are_selected(s: Fixture) -> CaseResult {
    pools(&s).await?;
    finds(&s, "labelSelector=pool%3Dx", &["a"]).await?;
    finds(&s, "labelSelector=pool%3D%3Dy", &["b"]).await?;
    finds(&s, "labelSelector=pool", &["a", "b"]).await?;
    finds(&s, "labelSelector=pool+in+%28x%2Cy%29", &["a", "b"]).await?;
    finds(&s, "labelSelector=other%3D", &["c"]).await?;
    finds(&s, "labelSelector=pool%3Dz", &[]).await
}

async fn an_exclusion_selects_objects_without_the_label(s: Fixture) -> CaseResult {
    pools(&s).await?;
    finds(&s, "labelSelector=pool%21%3Dx", &["b", "c"]).await?;
    finds(&s, "labelSelector=pool+notin+%28x%29", &["b", "c"]).await?;
    finds(&s, "labelSelector=%21pool", &["c"]).await
}

async fn requirements_are_joined_by_and(s: Fixture) -> CaseResult {
    pools(&s).await?;
    finds(&s, "labelSelector=tier%3D1%2Cpool%21%3Dx", &["b"]).await
}

async fn a_field_selector_finds_an_object_by_name(s: Fixture) -> CaseResult {
    pools(&s).await?;
    finds(&s, "fieldSelector=metadata.name%3Db", &["b"]).await?;
    finds(&s, &format!("fieldSelector=metadata.name%3Db%2Cmetadata.namespace%3D{}", s.namespace()), &["b"]).await
}

async fn a_field_selector_can_exclude_a_name(s: Fixture) -> CaseResult {
    pools(&s).await?;
    finds(&s, "fieldSelector=metadata.name%21%3Db", &["a", "c"]).await
}

async fn both_selectors_must_match(s: Fixture) -> CaseResult {
    pools(&s).await?;
    finds(&s, "labelSelector=pool&fieldSelector=metadata.name%21%3Db", &["a"]).await
}

async fn a_malformed_label_selector_is_a_bad_request(s: Fixture) -> CaseResult {
    let status = s.get(&s.core("configmaps?labelSelector=a+b")).await?.fails(400, "BadRequest")?;
    says(&status["message"], "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt")
}

async fn a_field_that_a_kind_does_not_offer_is_a_bad_request(s: Fixture) -> CaseResult {
    let answer = s.get(&s.core("pods?fieldSelector=spec.color%3Dred")).await?;
    says(&answer.fails(400, "BadRequest")?["message"], "field label not supported: spec.color")
}

async fn a_field_that_a_kind_without_own_fields_does_not_offer_is_a_bad_request(s: Fixture) -> CaseResult {
    let answer = s.get(&s.core("configmaps?fieldSelector=data%3Dred")).await?;
    let message = "\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    says(&answer.fails(400, "BadRequest")?["message"], message)
}

/// Shows SRV-10.
async fn pods_are_selected_by_the_node_they_run_on(s: Fixture) -> CaseResult {
    for (name, node) in [("a", Some("node-1")), ("b", Some("node-2")), ("c", None)] {
        let mut spec =
            json!({"containers": [{"name": "c", "image": "example.com/c"}], "automountServiceAccountToken": false});
        if let Some(node) = node {
            spec["nodeName"] = json!(node);
        }
        // Pods ask for a service account, which a real server's controllers may not have made yet.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        s.post(&s.core("serviceaccounts"), &account).await?;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        s.post(&s.core("pods"), &pod).await?.succeeds()?;
    }
    for (query, expected) in [("spec.nodeName%3Dnode-1", json!(["a"])), ("spec.nodeName%3D", json!(["c"]))] {
        let list = s.get(&s.core(&format!("pods?fieldSelector={query}"))).await?.succeeds()?;
        same(query, &names(&list), &expected)?;
    }
    Ok(())
}

async fn secrets_are_selected_by_type(s: Fixture) -> CaseResult {
    for (name, kind) in [("a", "Opaque"), ("b", "example.com/bootstrap")] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind});
        s.post(&s.core("secrets"), &secret).await?.succeeds()?;
    }
    let list = s.get(&s.core("secrets?fieldSelector=type%3Dexample.com%2Fbootstrap")).await?.succeeds()?;
    same("found", &names(&list), &json!(["b"]))
}

async fn a_custom_kind_offers_the_fields_its_definition_names(s: Fixture) -> CaseResult {
    s.define_version(&json!({
        "name": "v1", "served": true, "storage": true, "selectableFields": [{"jsonPath": ".spec.color"}],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"color": {"type": "string"}, "size": {"type": "string"}}},
        }}},
    }))
    .await?;
    s.make_widget("a", &json!({"color": "red"})).await?;
    s.make_widget("b", &json!({"color": "blue"})).await?;
    let list = s.get(&format!("{}?fieldSelector=spec.color%3Dred", s.widget(""))).await?.succeeds()?;
    same("found", &names(&list), &json!(["a"]))?;
    let answer = s.get(&format!("{}?fieldSelector=spec.size%3Dbig", s.widget(""))).await?;
    says(&answer.fails(400, "BadRequest")?["message"], "field label not supported: spec.size")
}
