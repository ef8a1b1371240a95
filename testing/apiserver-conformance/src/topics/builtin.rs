//! What the built-in kinds do on their own.

use serde_json::{Value, json};

use crate::fixture::{Fixture, Patch, config_map, same, says};
use crate::{CaseResult, Difference, cases, ensure};

cases![
    text_in_a_secret_is_stored_encoded,
    the_type_of_a_secret_does_not_change,
    data_of_a_secret_must_be_encoded,
    a_key_of_a_config_map_must_be_a_key,
    an_immutable_config_map_stays_as_it_is,
    a_lease_can_be_made_by_replacing_it,
    a_lease_has_one_winner,
    the_times_of_a_lease_keep_their_microseconds,
    a_namespace_is_active_and_carries_its_name,
    a_new_pod_is_pending_whatever_the_client_says,
    a_new_pod_has_defaults,
    a_pod_on_a_node_is_deleted_with_grace,
    a_pod_on_no_node_is_deleted_at_once,
    a_pod_does_not_move_to_another_node,
    a_node_is_created_with_its_status,
    the_status_of_a_node_is_written_apart,
    an_event_must_be_about_its_own_namespace,
];

fn secret(fields: &Value) -> Value {
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    for (field, value) in fields.as_object().into_iter().flatten() {
        secret[field] = value.clone();
    }
    secret
}

async fn text_in_a_secret_is_stored_encoded(s: Fixture) -> CaseResult {
    let object = secret(&json!({"data": {"k": "dg=="}, "stringData": {"l": "w"}}));
    let made = s.post(&s.core("secrets"), &object).await?.succeeds()?;
    same("data", &made["data"], &json!({"k": "dg==", "l": "dw=="}))?;
    same("type", &made["type"], &json!("Opaque"))?;
    ensure!(made.get("stringData").is_none(), "the text is shown again");
    Ok(())
}

async fn the_type_of_a_secret_does_not_change(s: Fixture) -> CaseResult {
    s.post(&s.core("secrets"), &secret(&json!({}))).await?.succeeds()?;
    let answer = s.patch(&s.core("secrets/a"), Patch::Merge, &json!({"type": "example.com/other"})).await?;
    says(&answer.fails(422, "Invalid")?["message"], "type: Invalid value: \"example.com/other\": field is immutable")
}

async fn data_of_a_secret_must_be_encoded(s: Fixture) -> CaseResult {
    let answer = s.post(&s.core("secrets"), &secret(&json!({"data": {"k": "not base64!"}}))).await?;
    let message = answer.fails(400, "BadRequest")?["message"].clone();
    says(&message, "Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data")?;
    ensure!(!message.to_string().contains("not base64"), "the answer repeats a secret: {message}");
    Ok(())
}

async fn a_key_of_a_config_map_must_be_a_key(s: Fixture) -> CaseResult {
    let mut object = config_map("a", &json!({}));
    object["data"] = json!({"not a key": "v"});
    let status = s.post(&s.core("configmaps"), &object).await?.fails(422, "Invalid")?;
    says(&status["message"], "data[not a key]: Invalid value: \"not a key\": a valid config key must consist of")
}

/// Shows SRV-12.
async fn an_immutable_config_map_stays_as_it_is(s: Fixture) -> CaseResult {
    let mut object = config_map("a", &json!({}));
    object["data"] = json!({"k": "v"});
    object["immutable"] = json!(true);
    s.post(&s.core("configmaps"), &object).await?.succeeds()?;
    let answer = s.patch(&s.core("configmaps/a"), Patch::Merge, &json!({"data": {"k": "w"}})).await?;
    says(&answer.fails(422, "Invalid")?["message"], "data: Forbidden: field is immutable when `immutable` is set")?;
    let patch = json!({"metadata": {"labels": {"still": "possible"}}});
    s.patch(&s.core("configmaps/a"), Patch::Merge, &patch).await?.succeeds()?;
    Ok(())
}

fn leases(s: &Fixture, name: &str) -> String {
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases{slash}{name}", s.namespace())
}

fn lease(holder: &str) -> Value {
    let spec =
        json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.123456Z"});
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": spec})
}

async fn a_lease_can_be_made_by_replacing_it(s: Fixture) -> CaseResult {
    let answer = s.put(&leases(&s, "a"), &lease("me")).await?;
    ensure!(answer.code == 201, "answered {}: {}", answer.code, answer.body);
    Ok(())
}

async fn a_lease_has_one_winner(s: Fixture) -> CaseResult {
    let made = s.post(&leases(&s, ""), &lease("nobody")).await?.succeeds()?;
    let taken_by = |holder: &str| {
        let mut lease = made.clone();
        lease["spec"]["holderIdentity"] = json!(holder);
        lease
    };
    s.put(&leases(&s, "a"), &taken_by("first")).await?.succeeds()?;
    let answer = s.put(&leases(&s, "a"), &taken_by("second")).await?;
    let message = "Operation cannot be fulfilled on leases.coordination.k8s.io \"a\": the object has been modified; please \
                   apply your changes to the latest version and try again";
    answer.fails_saying(409, "Conflict", message)?;
    let kept = s.get(&leases(&s, "a")).await?.succeeds()?;
    same("holder", &kept["spec"]["holderIdentity"], &json!("first"))
}

async fn the_times_of_a_lease_keep_their_microseconds(s: Fixture) -> CaseResult {
    let made = s.post(&leases(&s, ""), &lease("me")).await?.succeeds()?;
    same("renewTime", &made["spec"]["renewTime"], &json!("2026-01-01T00:00:00.123456Z"))
}

async fn a_namespace_is_active_and_carries_its_name(s: Fixture) -> CaseResult {
    let namespace = s.get(&format!("/api/v1/namespaces/{}", s.namespace())).await?.succeeds()?;
    same("phase", &namespace["status"]["phase"], &json!("Active"))?;
    same("finalizers", &namespace["spec"]["finalizers"], &json!(["kubernetes"]))?;
    same("label", &namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], &json!(s.namespace()))
}

/// Creates a pod, on this node if there is one.
async fn pod(s: &Fixture, node: Option<&str>) -> Result<Value, Difference> {
    // Pods ask for a service account, which a real server's controllers may not have made yet.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    s.post(&s.core("serviceaccounts"), &account).await?;
    let mut spec =
        json!({"containers": [{"name": "c", "image": "example.com/c"}], "automountServiceAccountToken": false});
    if let Some(node) = node {
        spec["nodeName"] = json!(node);
    }
    let status = json!({"phase": "Running"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec, "status": status});
    s.post(&s.core("pods"), &pod).await?.succeeds()
}

async fn a_new_pod_is_pending_whatever_the_client_says(s: Fixture) -> CaseResult {
    let made = pod(&s, None).await?;
    same("phase", &made["status"]["phase"], &json!("Pending"))
}

async fn a_new_pod_has_defaults(s: Fixture) -> CaseResult {
    let made = pod(&s, None).await?;
    same("restartPolicy", &made["spec"]["restartPolicy"], &json!("Always"))?;
    same("grace", &made["spec"]["terminationGracePeriodSeconds"], &json!(30))
}

async fn a_pod_on_a_node_is_deleted_with_grace(s: Fixture) -> CaseResult {
    pod(&s, Some("node-1")).await?;
    let answer = s.delete(&s.core("pods/a"), None).await?.succeeds()?;
    same("kind", &answer["kind"], &json!("Pod"))?;
    let leaving = s.get(&s.core("pods/a")).await?.succeeds()?;
    same("grace", &leaving["metadata"]["deletionGracePeriodSeconds"], &json!(30))?;
    ensure!(leaving["metadata"]["deletionTimestamp"].is_string(), "no deletionTimestamp");
    let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    s.delete(&s.core("pods/a"), Some(&now)).await?.succeeds()?;
    s.get(&s.core("pods/a")).await?.fails(404, "NotFound")?;
    Ok(())
}

async fn a_pod_on_no_node_is_deleted_at_once(s: Fixture) -> CaseResult {
    pod(&s, None).await?;
    s.delete(&s.core("pods/a"), None).await?.succeeds()?;
    s.get(&s.core("pods/a")).await?.fails(404, "NotFound")?;
    Ok(())
}

async fn a_pod_does_not_move_to_another_node(s: Fixture) -> CaseResult {
    pod(&s, Some("node-1")).await?;
    let answer = s.patch(&s.core("pods/a"), Patch::Merge, &json!({"spec": {"nodeName": "node-2"}})).await?;
    says(&answer.fails(422, "Invalid")?["message"], "pod updates may not change fields other than")
}

/// Creates a node with a condition. It is named like the namespace, since nodes are outside of all.
async fn node(s: &Fixture) -> Result<(String, Value), Difference> {
    let path = format!("/api/v1/nodes/{}", s.namespace());
    let status = json!({"conditions": [{"type": "Ready", "status": "False"}]});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": s.namespace()}, "status": status});
    let made = s.post("/api/v1/nodes", &node).await?.succeeds()?;
    Ok((path, made))
}

async fn a_node_is_created_with_its_status(s: Fixture) -> CaseResult {
    let (path, made) = node(&s).await?;
    same("ready", &made["status"]["conditions"][0]["status"], &json!("False"))?;
    s.delete(&path, None).await?.succeeds()?;
    Ok(())
}

async fn the_status_of_a_node_is_written_apart(s: Fixture) -> CaseResult {
    let (path, _) = node(&s).await?;
    let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let patched = s.patch(&path, Patch::Merge, &ready("True")).await?.succeeds()?;
    same("ready", &patched["status"]["conditions"][0]["status"], &json!("False"))?;
    let patched = s.patch(&format!("{path}/status"), Patch::Merge, &ready("True")).await?.succeeds()?;
    same("ready", &patched["status"]["conditions"][0]["status"], &json!("True"))?;
    s.delete(&path, None).await?.succeeds()?;
    Ok(())
}

async fn an_event_must_be_about_its_own_namespace(s: Fixture) -> CaseResult {
    let event = |namespace: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "reason": "Created", "type": "Normal",
            "involvedObject": {"kind": "Machine", "name": "m", "namespace": namespace},
        })
    };
    let status = s.post(&s.core("events"), &event("default")).await?.fails(422, "Invalid")?;
    says(&status["message"], "involvedObject.namespace: Invalid value: \"default\": does not match event.namespace")?;
    s.post(&s.core("events"), &event(s.namespace())).await?.succeeds()?;
    Ok(())
}
