//! A server with a clock, a real client in front of it, and small objects to play with.

use std::sync::Arc;

use fake_apiserver::{Options, Server};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

pub(crate) const START: &str = "2026-01-01T00:00:00Z";

/// A server whose wall clock follows tokio's.
pub(crate) fn server() -> Server {
    server_with(|_| {})
}

pub(crate) fn server_with(change: impl FnOnce(&mut Options)) -> Server {
    let start: Timestamp = START.parse().unwrap();
    let origin = tokio::time::Instant::now();
    let now = move || start + SignedDuration::try_from(origin.elapsed()).unwrap();
    let mut options = Options::new(Arc::new(now), 7);
    change(&mut options);
    Server::new(options)
}

pub(crate) fn client(server: &Server) -> Client {
    Client::new(server.service(), "default")
}

pub(crate) fn config_maps(server: &Server) -> Api<ConfigMap> {
    Api::namespaced(client(server), "default")
}

pub(crate) fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "key": "value" } })).unwrap()
}

/// A definition of a custom resource with a status subresource.
pub(crate) fn widgets(server: &Server) -> Api<DynamicObject> {
    server.insert(&widget_definition()).unwrap();
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("test.io", "v1", "Widget"), "widgets");
    Api::namespaced_with(client(server), "default", &kind)
}

pub(crate) fn widget_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.test.io" },
        "spec": {
            "group": "test.io",
            "names": { "kind": "Widget", "plural": "widgets", "shortNames": ["wd"] },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": { "type": "object", "properties": { "size": { "type": "integer", "minimum": 0 } } },
                        "status": { "type": "object", "properties": { "phase": { "type": "string" } } },
                    },
                } },
            }],
        },
    })
}

pub(crate) fn widget(name: &str, size: i64) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "test.io/v1", "kind": "Widget", "metadata": { "name": name }, "spec": { "size": size },
    }))
    .unwrap()
}

pub(crate) async fn create_many(api: &Api<ConfigMap>, names: impl IntoIterator<Item = String>) {
    for name in names {
        api.create(&PostParams::default(), &config_map(&name)).await.unwrap();
    }
}

/// The status code and reason of a refusal.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> (u16, String, String) {
    match result.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("not a refusal: {other}"),
    }
}
