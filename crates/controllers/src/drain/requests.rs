//! The requests of a drain. Each is about one object.
//!
//! Evictions and deletions of pods do not use `controllers::write`. An eviction is a POST to a subresource that returns
//! no pod, and pods are in many namespaces and in one cache per drain. No other controller of Millwright writes pods,
//! so they need no write lock; the uid guards them. `planner::drain::Answer` interprets the response, because the error
//! class alone is not sufficient: a 429 may be caused by a budget. A request without a response is interpreted by
//! `ApiError`, as everywhere.

use api::Object;
use std::time::Duration;

use api::view::{PersistentVolumeClaimView, PersistentVolumeView, PodView, VolumeAttachmentView};
use kube::Client;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use planner::drain::attachments::AttachmentId;
use planner::drain::{Answer, Reply};
use runtime::Key;
use runtime::client::{Api, ApiError};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::write::{Deletion, Guard, Writer};

/// Evicts this very pod. It does not use the function of kube, which spells `deleteOptions` in a way that the API
/// server ignores, so that the eviction would have no precondition.
pub(super) async fn evict(client: &Client, pod: &Key, uid: &str) -> Answer {
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "name": &*pod.name, "namespace": &*pod.namespace },
        "deleteOptions": { "preconditions": { "uid": uid } },
    });
    let pods: Api<PodView> = Api::namespaced(client.clone(), &pod.namespace);
    let params = PostParams::default();
    answer(pods.create_subresource::<Value>("eviction", &pod.name, &params, &eviction).await.map(drop))
}

/// Deletes this very pod with grace period 0. Calls `on_response` with the pod if it still exists, for example because
/// of a finalizer.
pub(super) async fn delete(client: &Client, pod: &Key, uid: &str, on_response: impl FnOnce(Option<PodView>)) -> Answer {
    let pods: Api<PodView> = Api::namespaced(client.clone(), &pod.namespace);
    let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
    let params = DeleteParams { preconditions, ..DeleteParams::default() }.grace_period(0);
    answer(pods.delete(&pod.name, &params).await.map(|left| on_response(left.left())))
}

/// Deletes this very VolumeAttachment. The external attacher removes its finalizer after the volume was detached.
pub(super) async fn delete_attachment(attachments: &Writer<VolumeAttachmentView>, id: &AttachmentId) -> Answer {
    let guard = Guard { name: &id.name, uid: id.uid.as_str(), version: None };
    let held = match attachments.hold(guard, &"delete a VolumeAttachment").await {
        Ok(held) => held,
        Err(error) => return Answer::lost(error.to_string()),
    };
    match held.delete().await {
        Ok(Deletion::Done | Deletion::Terminating) => Answer::Accepted,
        Ok(Deletion::AlreadyGone) => Answer::Gone,
        // Another object has this name now.
        Err(error) if error.is_stale() => Answer::Gone,
        Err(error) => Answer::lost(error.to_string()),
    }
}

/// Reads a PersistentVolumeClaim by a list request, because the role of most installations does not permit get.
pub(super) async fn claim(client: &Client, claim: &Key) -> Result<Option<PersistentVolumeClaimView>, ApiError> {
    named(&Api::namespaced(client.clone(), &claim.namespace), &claim.name).await
}

/// Reads a PersistentVolume by a list request.
pub(super) async fn volume(client: &Client, name: &str) -> Result<Option<PersistentVolumeView>, ApiError> {
    named(&Api::all(client.clone()), name).await
}

async fn named<K>(api: &Api<K>, name: &str) -> Result<Option<K>, ApiError>
where
    K: Object + Clone + DeserializeOwned,
{
    let only = ListParams::default().fields(&format!("metadata.name={name}"));
    let list = api.list(&only).await.map_err(|error| ApiError::of(&error))?;
    Ok(list.items.into_iter().next())
}

/// Interprets the response of the API server to an eviction or deletion of a pod.
fn answer(outcome: Result<(), kube::Error>) -> Answer {
    match outcome {
        Ok(()) => Answer::Accepted,
        Err(kube::Error::Api(status)) => {
            let details = status.details.as_ref();
            let causes: Vec<&str> =
                details.into_iter().flat_map(|details| &details.causes).map(|cause| cause.reason.as_str()).collect();
            let seconds = details.map_or(0, |details| details.retry_after_seconds);
            Answer::read(&Reply {
                code: status.code,
                message: &status.message,
                about: details.map_or("", |details| &details.kind),
                causes: &causes,
                retry_after: (seconds > 0).then(|| Duration::from_secs(u64::from(seconds))),
            })
        }
        Err(other) => Answer::lost(ApiError::of(&other).to_string()),
    }
}
