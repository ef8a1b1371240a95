//! How objects go.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent, WatchParams};
use serde_json::json;

use crate::cluster::{client, config_map, config_maps, create_many, refusal, server, widget, widgets};

#[tokio::test(start_paused = true)]
async fn an_object_without_finalizers_is_gone_at_once() {
    let api = config_maps(&server());
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let answer = api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(answer.right().unwrap().is_success());
    let (code, _, message) = refusal(api.delete("a", &DeleteParams::default()).await);
    assert_eq!((code, message.as_str()), (404, "configmaps \"a\" not found"));
}

/// Shows SRV-8.
#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_the_object_until_it_is_removed() {
    let server = server();
    let api = widgets(&server);
    let mut object = widget("a", 1);
    object.metadata.finalizers = Some(vec!["test.io/hold".to_owned()]);
    api.create(&PostParams::default(), &object).await.unwrap();

    let held = api.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    assert_eq!(held.metadata.deletion_grace_period_seconds, Some(0));
    assert_eq!(held.metadata.generation, Some(2));

    let before = server.revision();
    let again = api.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(again.metadata.resource_version, held.metadata.resource_version);
    assert_eq!(server.revision(), before);

    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    api.patch("a", &PatchParams::default(), &release).await.unwrap();
    assert_eq!(refusal(api.get("a").await).0, 404);
}

/// Shows SRV-8.
#[tokio::test(start_paused = true)]
async fn no_finalizer_is_added_to_what_is_being_deleted() {
    let api = widgets(&server());
    let mut object = widget("a", 1);
    object.metadata.finalizers = Some(vec!["test.io/hold".to_owned()]);
    api.create(&PostParams::default(), &object).await.unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let more = Patch::Merge(json!({ "metadata": { "finalizers": ["test.io/hold", "test.io/more"] } }));
    let (code, reason, message) = refusal(api.patch("a", &PatchParams::default(), &more).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert_eq!(
        message,
        "Widget.test.io \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is \
         being deleted, found new finalizers []string{\"test.io/more\"}"
    );
}

/// Shows SRV-5.
#[tokio::test(start_paused = true)]
async fn a_deletion_means_the_object_it_names() {
    let api = config_maps(&server());
    let made = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let wrong_uid = Preconditions { uid: Some("other".to_owned()), resource_version: None };
    let (code, reason, message) = refusal(api.delete("a", &DeleteParams::default().preconditions(wrong_uid)).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(message.contains("the UID in the precondition (other) does not match the UID in record"), "{message}");
    let wrong_version = Preconditions { uid: None, resource_version: Some("1".to_owned()) };
    assert_eq!(refusal(api.delete("a", &DeleteParams::default().preconditions(wrong_version)).await).0, 409);
    let right = Preconditions { uid: made.metadata.uid, resource_version: made.metadata.resource_version };
    api.delete("a", &DeleteParams::default().preconditions(right)).await.unwrap();
}

fn pod(node: Option<&str>) -> Pod {
    let spec = json!({ "nodeName": node, "containers": [{ "name": "c", "image": "i" }] });
    serde_json::from_value(json!({ "metadata": { "name": "p" }, "spec": spec })).unwrap()
}

/// Shows SRV-12.
#[tokio::test(start_paused = true)]
async fn a_running_pod_gets_its_time_and_only_ever_less() {
    let api: Api<Pod> = Api::default_namespaced(client(&server()));
    api.create(&PostParams::default(), &pod(Some("n"))).await.unwrap();
    let leaving = api.delete("p", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(leaving.metadata.deletion_grace_period_seconds, Some(30));
    assert_eq!(leaving.metadata.deletion_timestamp.unwrap().0.to_string(), "2026-01-01T00:00:30Z");
    let longer = api.delete("p", &DeleteParams::default().grace_period(60)).await.unwrap().left().unwrap();
    assert_eq!(longer.metadata.deletion_grace_period_seconds, Some(30));
    let shorter = api.delete("p", &DeleteParams::default().grace_period(10)).await.unwrap().left().unwrap();
    assert_eq!(shorter.metadata.deletion_timestamp.unwrap().0.to_string(), "2026-01-01T00:00:10Z");
    api.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(refusal(api.get("p").await).0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_nowhere_is_gone_at_once() {
    let api: Api<Pod> = Api::default_namespaced(client(&server()));
    let made = api.create(&PostParams::default(), &pod(None)).await.unwrap();
    let events = api.watch(&WatchParams::default(), &made.metadata.resource_version.unwrap()).await.unwrap();
    let last = api.delete("p", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!((last.metadata.deletion_grace_period_seconds, last.metadata.generation), (Some(0), Some(2)));
    assert_eq!(refusal(api.get("p").await).0, 404);
    // Watchers see that it was marked, then that it is gone.
    let seen: Vec<_> = events.take(2).try_collect().await.unwrap();
    assert!(matches!(seen.as_slice(), [WatchEvent::Modified(_), WatchEvent::Deleted(_)]), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_as_far_as_it_matches() {
    let api = config_maps(&server());
    create_many(&api, ["a".to_owned(), "b".to_owned()]).await;
    let only = ListParams::default().fields("metadata.name=a");
    api.delete_collection(&DeleteParams::default(), &only).await.unwrap();
    let left: Vec<_> = api.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].metadata.name.as_deref(), Some("b"));
}
