//! Creation and change.

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::cluster::{START, client, config_map, config_maps, refusal, server, widget, widgets};

/// Shows SRV-16.
#[tokio::test(start_paused = true)]
async fn a_new_object_gets_its_identity_from_the_server() {
    let api = config_maps(&server());
    let made = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert_eq!(made.metadata.uid.as_ref().map(String::len), Some(36));
    assert_eq!(made.metadata.creation_timestamp.unwrap().0.to_string(), START);
    assert!(made.metadata.resource_version.unwrap().parse::<u64>().unwrap() > 1);
    assert_eq!(made.metadata.namespace.as_deref(), Some("default"));
}

/// Shows SRV-9.
#[tokio::test(start_paused = true)]
async fn a_name_is_given_out_once() {
    let api = config_maps(&server());
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let (code, reason, message) = refusal(api.create(&PostParams::default(), &config_map("a")).await);
    assert_eq!((code, reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(message, "configmaps \"a\" already exists");
}

/// Shows SRV-9.
#[tokio::test(start_paused = true)]
async fn generated_names_differ_and_begin_as_asked() {
    let api = config_maps(&server());
    let mut object = config_map("");
    object.metadata.name = None;
    object.metadata.generate_name = Some("pool-".to_owned());
    let first = api.create(&PostParams::default(), &object).await.unwrap().metadata.name.unwrap();
    let second = api.create(&PostParams::default(), &object).await.unwrap().metadata.name.unwrap();
    assert!(first.starts_with("pool-") && first.len() == 10, "{first}");
    assert_ne!(first, second);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_in_a_namespace_that_does_not_exist() {
    let api: Api<ConfigMap> = Api::namespaced(client(&server()), "nowhere");
    let (code, reason, message) = refusal(api.create(&PostParams::default(), &config_map("a")).await);
    assert_eq!((code, reason.as_str()), (404, "NotFound"));
    assert_eq!(message, "namespaces \"nowhere\" not found");
}

#[tokio::test(start_paused = true)]
async fn a_bad_name_is_invalid() {
    let api = config_maps(&server());
    let (code, reason, message) = refusal(api.create(&PostParams::default(), &config_map("Bad_Name")).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(
        message
            .starts_with("ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": a lowercase")
    );
}

/// Shows SRV-5.
#[tokio::test(start_paused = true)]
async fn an_update_of_a_version_that_is_gone_is_a_conflict() {
    let api = config_maps(&server());
    let first = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let mut second = first.clone();
    second.data = Some([("key".to_owned(), "other".to_owned())].into());
    api.replace("a", &PostParams::default(), &second).await.unwrap();
    let (code, reason, message) = refusal(api.replace("a", &PostParams::default(), &second).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert_eq!(
        message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to \
         the latest version and try again"
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_that_changes_nothing_is_no_write() {
    let server = server();
    let api = config_maps(&server);
    let made = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let before = server.revision();
    let again = api.replace("a", &PostParams::default(), &made).await.unwrap();
    assert_eq!(again.metadata.resource_version, made.metadata.resource_version);
    assert_eq!(server.revision(), before);
}

/// Shows SRV-5.
#[tokio::test(start_paused = true)]
async fn an_update_means_the_object_of_that_uid() {
    let api = config_maps(&server());
    let mut made = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    made.metadata.uid = Some("00000000-0000-4000-8000-000000000000".to_owned());
    let (code, reason, message) = refusal(api.replace("a", &PostParams::default(), &made).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(
        message.contains("Precondition failed: UID in precondition: 00000000-0000-4000-8000-000000000000"),
        "{message}"
    );
}

/// Shows SRV-6.
#[tokio::test(start_paused = true)]
async fn a_patch_changes_what_it_names_and_nothing_else() {
    let api = config_maps(&server());
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let patch = Patch::Merge(json!({ "data": { "more": "x" }, "metadata": { "labels": { "l": "v" } } }));
    let patched = api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.data.unwrap().len(), 2);
    assert_eq!(patched.metadata.labels.unwrap()["l"], "v");
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_names_an_old_version_is_a_conflict() {
    let api = config_maps(&server());
    let made = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let patch = |value: &str| {
        Patch::Merge(
            json!({ "metadata": { "resourceVersion": made.metadata.resource_version }, "data": { "key": value } }),
        )
    };
    api.patch("a", &PatchParams::default(), &patch("1")).await.unwrap();
    let (code, reason, _) = refusal(api.patch("a", &PatchParams::default(), &patch("2")).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
}

#[tokio::test(start_paused = true)]
async fn a_patch_for_another_uid_is_invalid() {
    let api = config_maps(&server());
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let patch = Patch::Merge(json!({ "metadata": { "uid": "other" } }));
    let (code, _, message) = refusal(api.patch("a", &PatchParams::default(), &patch).await);
    assert_eq!(code, 422);
    assert!(message.contains("metadata.uid: Invalid value: \"other\": field is immutable"), "{message}");
}

/// Shows SRV-7.
#[tokio::test(start_paused = true)]
async fn the_generation_follows_the_spec_only() {
    let api = widgets(&server());
    let params = PatchParams::default();
    let made = api.create(&PostParams::default(), &widget("a", 1)).await.unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    let labelled = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    assert_eq!(api.patch("a", &params, &labelled).await.unwrap().metadata.generation, Some(1));
    let status = Patch::Merge(json!({ "status": { "phase": "Running" } }));
    assert_eq!(api.patch_status("a", &params, &status).await.unwrap().metadata.generation, Some(1));
    let spec = Patch::Merge(json!({ "spec": { "size": 2 } }));
    assert_eq!(api.patch("a", &params, &spec).await.unwrap().metadata.generation, Some(2));
}

/// Shows SRV-7.
#[tokio::test(start_paused = true)]
async fn status_is_written_through_its_own_door_only() {
    let api = widgets(&server());
    let params = PatchParams::default();
    api.create(&PostParams::default(), &widget("a", 1)).await.unwrap();
    let both = Patch::Merge(
        json!({ "spec": { "size": 5 }, "status": { "phase": "Running" }, "metadata": { "labels": { "a": "b" } } }),
    );
    let through_main = api.patch("a", &params, &both).await.unwrap();
    assert_eq!(through_main.data.get("status"), None);
    let patch = Patch::Merge(
        json!({ "spec": { "size": 9 }, "status": { "phase": "Running" }, "metadata": { "labels": { "x": "y" } } }),
    );
    let through_status = api.patch_status("a", &params, &patch).await.unwrap();
    assert_eq!(through_status.data["status"]["phase"], "Running");
    assert_eq!(through_status.data["spec"]["size"], 5);
    assert_eq!(through_status.metadata.labels.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_is_not_overwritten_blindly() {
    let api = widgets(&server());
    api.create(&PostParams::default(), &widget("a", 1)).await.unwrap();
    let (code, _, message) = refusal(api.replace("a", &PostParams::default(), &widget("a", 2)).await);
    assert_eq!(code, 422);
    assert_eq!(
        message,
        "widgets.test.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_the_status_it_registers_with_and_a_pod_does_not() {
    let server = server();
    let nodes: Api<Node> = Api::all(client(&server));
    let node =
        serde_json::from_value(json!({ "metadata": { "name": "n" }, "status": { "phase": "Running" } })).unwrap();
    assert_eq!(
        nodes.create(&PostParams::default(), &node).await.unwrap().status.unwrap().phase.as_deref(),
        Some("Running")
    );
    let pods: Api<Pod> = Api::default_namespaced(client(&server));
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
        "status": { "phase": "Running" },
    }))
    .unwrap();
    assert_eq!(
        pods.create(&PostParams::default(), &pod).await.unwrap().status.unwrap().phase.as_deref(),
        Some("Pending")
    );
}

#[tokio::test(start_paused = true)]
async fn secret_text_is_stored_encoded() {
    let api: Api<Secret> = Api::default_namespaced(client(&server()));
    let secret = serde_json::from_value(json!({ "metadata": { "name": "s" }, "stringData": { "a": "b" } })).unwrap();
    let made = api.create(&PostParams::default(), &secret).await.unwrap();
    assert_eq!(made.data.unwrap()["a"].0, b"b");
    assert_eq!(made.string_data, None);
    assert_eq!(made.type_.as_deref(), Some("Opaque"));
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_the_server_cannot_be_brought_along() {
    let api = config_maps(&server());
    let object = serde_json::from_value(json!({ "metadata": {
        "name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5,
    } }));
    let made = api.create(&PostParams::default(), &object.unwrap()).await.unwrap();
    assert_ne!(made.metadata.uid.as_deref(), Some("mine"));
    assert_eq!(made.metadata.creation_timestamp.unwrap().0.to_string(), START);
    assert_eq!((made.metadata.deletion_timestamp, made.metadata.deletion_grace_period_seconds), (None, None));
}
