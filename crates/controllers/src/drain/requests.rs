//! The few requests a drain makes, each about one very object.
//!
//! Evictions and deletions of pods do not go through `controllers::write`: an eviction is a POST to a subresource and answers with no pod, and
//! pods are in many namespaces and in a cache a drain. Nobody else of us writes to pods, so there is nothing to lock; the uid guards them.
//! What an answer means is more than its retry class (a 429 may be a budget, which starts a clock): `planner::drain::Answer` says it. No
//! answer at all is read as everywhere else, by `ApiError`.

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

use crate::write::{Deletion, Guard, Retry, Writer};

/// Asks this very pod to leave. Not by kube's own call: the server does not know how that one spells `deleteOptions`, and takes
/// an eviction without its precondition.
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

/// Deletes this very pod without grace, and tells what is left of it, if a finalizer holds it.
pub(super) async fn delete(client: &Client, pod: &Key, uid: &str, tell: impl FnOnce(Option<PodView>)) -> Answer {
    let pods: Api<PodView> = Api::namespaced(client.clone(), &pod.namespace);
    let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
    let very_one = DeleteParams { preconditions, ..DeleteParams::default() }.grace_period(0);
    answer(pods.delete(&pod.name, &very_one).await.map(|left| tell(left.left())))
}

/// Deletes this very VolumeAttachment; whoever detaches takes its finalizer away when it has.
pub(super) async fn delete_attachment(attachments: &Writer<VolumeAttachmentView>, id: &AttachmentId) -> Answer {
    let guard = Guard { name: &id.name, uid: id.uid.as_str(), version: None };
    let held = match attachments.hold(guard, &"delete a VolumeAttachment").await {
        Ok(held) => held,
        Err(error) => return Answer::lost(error.to_string()),
    };
    match held.delete().await {
        Ok(Deletion::Done | Deletion::Terminating) => Answer::Accepted,
        Ok(Deletion::AlreadyGone) => Answer::Gone,
        // Its name belongs to another by now.
        Err(error) if error.retry() == Retry::Stale => Answer::Gone,
        Err(error) => Answer::lost(error.to_string()),
    }
}

/// A claim, by list: the role that most installations grant has no get.
pub(super) async fn claim(client: &Client, claim: &Key) -> Result<Option<PersistentVolumeClaimView>, ApiError> {
    named(&Api::namespaced(client.clone(), &claim.namespace), &claim.name).await
}

/// A volume, by list.
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

/// What an answer of the API server about a pod means.
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
