//! The few requests a drain makes, each about one very object.

use api::view::{PersistentVolumeClaimView, PersistentVolumeView, PodView, VolumeAttachmentView};
use either::Either;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Api, Client};
use runtime::Key;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Asks this very pod to leave. Not by kube's own call: the server does not know how that one spells `deleteOptions`, and takes
/// an eviction without its precondition.
pub(super) async fn evict(client: &Client, pod: &Key, uid: &str) -> Result<(), kube::Error> {
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "name": &*pod.name, "namespace": &*pod.namespace },
        "deleteOptions": { "preconditions": { "uid": uid } },
    });
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let params = PostParams::default();
    pods.create_subresource::<Value, Value>("eviction", &pod.name, &params, &eviction).await.map(drop)
}

/// Deletes this very pod without grace. Answers with what is left of it, if a finalizer holds it.
pub(super) async fn delete(client: &Client, pod: &Key, uid: &str) -> Result<Option<PodView>, kube::Error> {
    let pods: Api<PodView> = Api::namespaced(client.clone(), &pod.namespace);
    let very_one = very_one(uid).grace_period(0);
    pods.delete(&pod.name, &very_one).await.map(Either::left)
}

/// Deletes this very VolumeAttachment; whoever detaches takes its finalizer away when it has.
pub(super) async fn delete_attachment(client: &Client, name: &str, uid: &str) -> Result<(), kube::Error> {
    let attachments: Api<VolumeAttachmentView> = Api::all(client.clone());
    attachments.delete(name, &very_one(uid)).await.map(drop)
}

/// A claim, by list: the role that most installations grant has no get.
pub(super) async fn claim(client: &Client, claim: &Key) -> Result<Option<PersistentVolumeClaimView>, kube::Error> {
    named(&Api::namespaced(client.clone(), &claim.namespace), &claim.name).await
}

/// A volume, by list.
pub(super) async fn volume(client: &Client, name: &str) -> Result<Option<PersistentVolumeView>, kube::Error> {
    named(&Api::all(client.clone()), name).await
}

async fn named<K>(api: &Api<K>, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let only = ListParams::default().fields(&format!("metadata.name={name}"));
    api.list(&only).await.map(|list| list.items.into_iter().next())
}

fn very_one(uid: &str) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        ..DeleteParams::default()
    }
}
