//! What is special about single kinds.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::{client, config_map, refusal, server, widget, widget_definition, widgets};

fn of<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn there<K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>>(client: Client) -> Api<K> {
    Api::default_namespaced(client)
}

/// Shows SRV-11.
#[tokio::test(start_paused = true)]
async fn unknown_fields_are_pruned_with_a_warning_or_refused_when_the_client_is_strict() {
    let server = server();
    let api = widgets(&server);
    let mut odd = widget("a", 1);
    odd.data["spec"]["colour"] = json!("red");
    let post = |query: &str| {
        let body = serde_json::to_vec(&odd).unwrap();
        http::Request::post(format!("/apis/test.io/v1/namespaces/default/widgets?{query}")).body(body).unwrap()
    };
    let (code, _, message) = refusal(client(&server).request::<Value>(post("fieldValidation=Strict")).await);
    assert_eq!(code, 400);
    assert!(message.ends_with("strict decoding error: unknown field \"spec.colour\""), "{message}");
    let warned = client(&server).send(post("dryRun=All").map(Into::into)).await.unwrap();
    assert_eq!(warned.headers()["warning"], r#"299 - "unknown field \"spec.colour\"""#);
    let made = api.create(&PostParams::default(), &odd).await.unwrap();
    assert_eq!(made.data["spec"], json!({ "size": 1 }));
}

/// Shows SRV-11.
#[tokio::test(start_paused = true)]
async fn a_custom_resource_is_held_to_its_schema() {
    let server = server();
    let api = widgets(&server);
    let (code, reason, message) = refusal(api.create(&PostParams::default(), &widget("a", -1)).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert!(message.starts_with("Widget.test.io \"a\" is invalid: spec.size: Invalid value: -1:"), "{message}");
    api.create(&PostParams::default(), &widget("a", 1)).await.unwrap();
    let patch = Patch::Merge(json!({ "spec": { "size": "large" } }));
    assert_eq!(refusal(api.patch("a", &PatchParams::default(), &patch).await).0, 422);
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_established_at_once_and_takes_its_objects_along() {
    let server = server();
    let api = widgets(&server);
    let definitions: Api<CustomResourceDefinition> = Api::all(client(&server));
    let conditions = definitions.get("widgets.test.io").await.unwrap().status.unwrap().conditions.unwrap();
    assert!(conditions.iter().any(|c| c.type_ == "Established" && c.status == "True"));
    api.create(&PostParams::default(), &widget("a", 1)).await.unwrap();
    definitions.delete("widgets.test.io", &DeleteParams::default()).await.unwrap();
    assert_eq!(refusal(api.list(&ListParams::default()).await).0, 404);
    server.insert(&widget_definition()).unwrap();
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_definition_with_a_broken_schema_is_refused() {
    let mut definition = widget_definition();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["type"] = json!("thing");
    let refusal = server().insert(&definition).unwrap_err();
    assert_eq!(refusal.code.as_u16(), 422);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_terminates_takes_nothing_new_and_goes_when_it_is_finalized() {
    let server = server();
    let namespaces: Api<Namespace> = Api::all(client(&server));
    namespaces.create(&PostParams::default(), &of(json!({ "metadata": { "name": "x" } }))).await.unwrap();
    let ending = namespaces.delete("x", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(ending.status.unwrap().phase.as_deref(), Some("Terminating"));
    let inside: Api<ConfigMap> = Api::namespaced(client(&server), "x");
    let (code, reason, message) = refusal(inside.create(&PostParams::default(), &config_map("a")).await);
    assert_eq!((code, reason.as_str()), (403, "Forbidden"));
    assert!(
        message.contains("unable to create new content in namespace x because it is being terminated"),
        "{message}"
    );

    let body = serde_json::to_vec(&json!({ "metadata": { "name": "x" }, "spec": { "finalizers": [] } })).unwrap();
    let finalize = http::Request::put("/api/v1/namespaces/x/finalize").body(body).unwrap();
    client(&server).request::<Value>(finalize).await.unwrap();
    assert!(namespaces.get_opt("x").await.unwrap().is_none());
}

/// Shows SRV-12.
#[tokio::test(start_paused = true)]
async fn an_event_is_filed_where_its_object_lives() {
    let events: Api<Event> = there(client(&server()));
    let about = |namespace: Option<&str>| -> Event {
        of(
            json!({ "metadata": { "name": "e" }, "involvedObject": { "kind": "Node", "name": "n", "namespace": namespace } }),
        )
    };
    assert_eq!(refusal(events.create(&PostParams::default(), &about(Some("elsewhere"))).await).0, 422);
    events.create(&PostParams::default(), &about(None)).await.unwrap();
}

/// Shows SRV-12.
#[tokio::test(start_paused = true)]
async fn a_lease_is_made_by_the_put_that_misses_it_and_never_overwritten_blindly() {
    let leases: Api<Lease> = there(client(&server()));
    let lease: Lease = of(json!({ "metadata": { "name": "l" }, "spec": { "holderIdentity": "me" } }));
    let made = leases.replace("l", &PostParams::default(), &lease).await.unwrap();
    assert_eq!(refusal(leases.replace("l", &PostParams::default(), &lease).await).0, 422);
    leases.replace("l", &PostParams::default(), &made).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_spec_of_a_pod_is_frozen_but_for_its_images() {
    let pods: Api<Pod> = there(client(&server()));
    let pod: Pod =
        of(json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } }));
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let moved = Patch::Merge(json!({ "spec": { "nodeName": "n" } }));
    let (code, _, message) = refusal(pods.patch("p", &PatchParams::default(), &moved).await);
    assert_eq!(code, 422);
    assert!(message.contains("spec: Forbidden: pod updates may not change fields other than"), "{message}");
    let image =
        Patch::Merge(json!({ "spec": { "containers": [{ "name": "c", "image": "j", "imagePullPolicy": "Always" }] } }));
    assert_eq!(pods.patch("p", &PatchParams::default(), &image).await.unwrap().metadata.generation, Some(2));
}

#[tokio::test(start_paused = true)]
async fn values_of_the_wrong_type_are_refused_for_built_in_kinds_too() {
    let server = server();
    let nodes: Api<Node> = Api::all(client(&server));
    let node =
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" }, "spec": { "unschedulable": "yes" } });
    let refused = server.insert(&node).unwrap_err();
    assert_eq!(refused.code.as_u16(), 400);
    assert!(refused.message.starts_with("Node in version \"v1\" cannot be handled as a Node: "), "{}", refused.message);
    nodes.create(&PostParams::default(), &of(json!({ "metadata": { "name": "n" } }))).await.unwrap();
    let patch = Patch::Merge(json!({ "spec": { "unschedulable": "yes" } }));
    assert_eq!(refusal(nodes.patch("n", &PatchParams::default(), &patch).await).0, 422);
}

#[tokio::test(start_paused = true)]
async fn the_times_and_numbers_of_a_lease_have_to_make_sense() {
    let leases: Api<Lease> = there(client(&server()));
    leases.create(&PostParams::default(), &of(json!({ "metadata": { "name": "l" } }))).await.unwrap();
    let params = PatchParams::default();
    for spec in [
        json!({ "leaseDurationSeconds": 0 }),
        json!({ "leaseTransitions": -1 }),
        json!({ "renewTime": "2026-01-01T00:00:00Z" }),
    ] {
        assert_eq!(refusal(leases.patch("l", &params, &Patch::Merge(json!({ "spec": spec }))).await).0, 422);
    }
    let spec = json!({ "leaseDurationSeconds": 1, "leaseTransitions": 0, "renewTime": "2026-01-01T00:00:00.000000Z" });
    leases.patch("l", &params, &Patch::Merge(json!({ "spec": spec }))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_trial_nobody_knows_is_not_taken_for_the_real_thing() {
    let server = server();
    let api: Api<ConfigMap> = there(client(&server));
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let delete =
        http::Request::delete("/api/v1/namespaces/default/configmaps/a?dryRun=Maybe").body(Vec::new()).unwrap();
    let (code, _, message) = refusal(client(&server).request::<Value>(delete).await);
    assert_eq!(code, 422);
    assert_eq!(
        message,
        "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Maybe\"]: supported values: \"All\""
    );
    assert!(api.get_opt("a").await.unwrap().is_some());
}

/// Shows SRV-12.
#[tokio::test(start_paused = true)]
async fn a_node_keeps_its_provider_id_and_has_no_taint_twice() {
    let nodes: Api<Node> = Api::all(client(&server()));
    nodes.create(&PostParams::default(), &of(json!({ "metadata": { "name": "n" } }))).await.unwrap();
    let patch = |spec: Value| Patch::Merge(json!({ "spec": spec }));
    let params = PatchParams::default();
    nodes.patch("n", &params, &patch(json!({ "providerID": "virtual:///a" }))).await.unwrap();
    let (code, _, message) = refusal(nodes.patch("n", &params, &patch(json!({ "providerID": "virtual:///b" }))).await);
    assert_eq!(code, 422);
    assert!(message.contains("spec.providerID: Forbidden: node updates may not change providerID"), "{message}");
    let taint = json!({ "key": "k", "effect": "NoSchedule" });
    assert_eq!(refusal(nodes.patch("n", &params, &patch(json!({ "taints": [taint, taint] }))).await).0, 422);
    assert_eq!(
        refusal(nodes.patch("n", &params, &patch(json!({ "taints": [{ "key": "k", "effect": "Odd" }] }))).await).0,
        422
    );
    let heartbeat = Patch::Merge(json!({ "status": { "phase": "Running" }, "spec": { "unschedulable": true } }));
    let node = nodes.patch_status("n", &params, &heartbeat).await.unwrap();
    assert_eq!(node.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(node.spec.unwrap().unschedulable, None);
}

/// Shows SRV-12.
#[tokio::test(start_paused = true)]
async fn a_secret_is_no_other_secret_and_its_bytes_are_not_repeated() {
    let secrets: Api<Secret> = there(client(&server()));
    secrets.create(&PostParams::default(), &of(json!({ "metadata": { "name": "s" }, "type": "a" }))).await.unwrap();
    let params = PatchParams::default();
    assert_eq!(refusal(secrets.patch("s", &params, &Patch::Merge(json!({ "type": "b" }))).await).0, 422);
    let (code, _, message) =
        refusal(secrets.patch("s", &params, &Patch::Merge(json!({ "data": { "k": "hunter2!" } }))).await);
    assert_eq!(code, 422);
    assert!(!message.contains("hunter2"), "{message}");
    secrets.patch("s", &params, &Patch::Merge(json!({ "immutable": true }))).await.unwrap();
    assert_eq!(refusal(secrets.patch("s", &params, &Patch::Merge(json!({ "data": { "k": "eA==" } }))).await).0, 422);
}

#[tokio::test(start_paused = true)]
async fn what_is_served_can_be_discovered() {
    let server = server();
    server.insert(&widget_definition()).unwrap();
    let client = client(&server);
    let groups = client.list_api_groups().await.unwrap();
    assert!(groups.groups.iter().any(|g| g.name == "test.io"));
    let resources = client.list_api_group_resources("test.io/v1").await.unwrap().resources;
    let names: Vec<&str> = resources.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["widgets", "widgets/status"]);
    assert_eq!(resources[0].short_names.as_deref(), Some(["wd".to_owned()].as_slice()));
    assert!(client.list_core_api_resources("v1").await.unwrap().resources.iter().any(|r| r.name == "pods/status"));
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_answered_and_forgotten() {
    let server = server();
    let api: Api<ConfigMap> = there(client(&server));
    let before = server.revision();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    assert!(api.create(&dry, &config_map("a")).await.unwrap().metadata.uid.is_some());
    assert_eq!(server.revision(), before);
    assert!(api.get_opt("a").await.unwrap().is_none());
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    api.delete("a", &DeleteParams { dry_run: true, ..DeleteParams::default() }).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn server_side_apply_is_refused_with_a_sentence_and_the_list_of_what_is_spoken() {
    let server = server();
    let api: Api<ConfigMap> = there(client(&server));
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let patch = Patch::Apply(json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "b" } }));
    let (code, reason, message) = refusal(api.patch("a", &PatchParams::apply("me"), &patch).await);
    assert_eq!((code, reason.as_str()), (415, "UnsupportedMediaType"));
    assert!(message.starts_with("server-side apply is not supported"), "{message}");
    assert!(message.contains("application/strategic-merge-patch+json"), "{message}");
}

/// Shows SRV-16.
#[tokio::test(start_paused = true)]
async fn the_same_requests_give_the_same_cluster() {
    async fn run() -> String {
        let server = server();
        let api: Api<ConfigMap> = there(client(&server));
        let mut object = config_map("");
        object.metadata.generate_name = Some("g-".to_owned());
        for _ in 0..5 {
            api.create(&PostParams::default(), &object).await.unwrap();
        }
        format!("{:?} {:?}", server.objects("configmaps"), server.requests())
    }
    assert_eq!(run().await, run().await);
}

#[tokio::test(start_paused = true)]
async fn a_whole_group_that_is_not_served_is_not_found_in_plain_text() {
    let server = server();
    let ask = async |path: &str| {
        let request = http::Request::get(path).body(kube::client::Body::empty()).unwrap();
        let response = client(&server).send(request).await.unwrap();
        (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap().to_owned())
    };
    assert_eq!(ask("/apis/test.io/v1/widgets").await, (404, "text/plain; charset=utf-8".to_owned()));
    assert_eq!(ask("/api/v1/widgets").await, (404, "application/json".to_owned()));
    assert_eq!(ask("/healthz").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_pod_put_back_without_its_defaults_has_not_changed() {
    let pods: Api<Pod> = there(client(&server()));
    // The account is no default of the kind: who leaves it out wants it gone.
    let spec = json!({ "containers": [{ "name": "c", "image": "i:1" }], "serviceAccountName": "default" });
    let pod: Pod = of(json!({ "metadata": { "name": "p" }, "spec": spec }));
    let made = pods.create(&PostParams::default(), &pod).await.unwrap();
    let again = pods.replace("p", &PostParams::default(), &pod).await.unwrap();
    assert_eq!(again.metadata.resource_version, made.metadata.resource_version);
}

#[tokio::test(start_paused = true)]
async fn only_built_in_kinds_insist_on_finalizers_with_a_domain() {
    let server = server();
    let mut object = config_map("a");
    object.metadata.finalizers = Some(vec!["mine".to_owned()]);
    let api: Api<ConfigMap> = there(client(&server));
    let (code, _, message) = refusal(api.create(&PostParams::default(), &object).await);
    assert_eq!(code, 422);
    assert!(message.contains("metadata.finalizers[0]: Invalid value: \"mine\": name is neither"), "{message}");
    let mut object = widget("a", 1);
    object.metadata.finalizers = Some(vec!["mine".to_owned()]);
    widgets(&server).create(&PostParams::default(), &object).await.unwrap();
}
