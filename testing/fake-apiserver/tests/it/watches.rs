//! Watches.

use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, WatchEvent, WatchParams};
use serde_json::json;

use crate::cluster::{client, config_maps, create_many, server, server_with, widgets};

/// The next event in short: `+a`, `~a`, `-a`, `bookmark`, `410`.
async fn next(events: &mut (impl Stream<Item = Result<WatchEvent<ConfigMap>, kube::Error>> + Unpin)) -> String {
    match tokio::time::timeout(Duration::from_mins(10), events.next()).await {
        Err(_) => "silence".to_owned(),
        Ok(None) => "end".to_owned(),
        Ok(Some(Err(error))) => format!("broken: {error}"),
        Ok(Some(Ok(event))) => match event {
            WatchEvent::Added(object) => format!("+{}", object.metadata.name.unwrap()),
            WatchEvent::Modified(object) => format!("~{}", object.metadata.name.unwrap()),
            WatchEvent::Deleted(object) => format!("-{}", object.metadata.name.unwrap()),
            WatchEvent::Bookmark(bookmark) => format!("bookmark {}", bookmark.metadata.annotations.len()),
            WatchEvent::Error(status) => status.code.to_string(),
        },
    }
}

fn quiet() -> WatchParams {
    WatchParams { bookmarks: false, ..WatchParams::default() }
}

/// Shows SRV-4.
#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_the_list_ended() {
    let server = server();
    let api = config_maps(&server);
    create_many(&api, ["a".to_owned()]).await;
    let from = server.revision().to_string();
    create_many(&api, ["b".to_owned()]).await;
    let mut events = api.watch(&quiet(), &from).await.unwrap().boxed();
    assert_eq!(next(&mut events).await, "+b");
    let patch = Patch::Merge(json!({ "data": { "x": "y" } }));
    api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(next(&mut events).await, "~a");
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(next(&mut events).await, "-a");
    assert_eq!(server.open_watches(), 1);
    drop(events);
    assert_eq!(server.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_stops_matching_is_gone_for_the_watcher() {
    let server = server();
    let api = config_maps(&server);
    create_many(&api, ["a".to_owned()]).await;
    let from = server.revision().to_string();
    let mut events = api.watch(&quiet().labels("on=yes"), &from).await.unwrap().boxed();
    for (value, expected) in [(json!("yes"), "+a"), (json!("no"), "-a")] {
        let patch = Patch::Merge(json!({ "metadata": { "labels": { "on": value } } }));
        api.patch("a", &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(next(&mut events).await, expected);
    }
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(next(&mut events).await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_carries_a_version_of_its_own() {
    let server = server();
    let api = config_maps(&server);
    create_many(&api, ["a".to_owned()]).await;
    let from = server.revision();
    let events = api.watch(&quiet(), &from.to_string()).await.unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let event = events.boxed().try_next().await.unwrap().unwrap();
    let WatchEvent::Deleted(last) = event else { panic!("{event:?}") };
    assert_eq!(last.metadata.resource_version, Some((from + 1).to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_zero_begins_with_what_is_there() {
    let api = config_maps(&server());
    create_many(&api, ["a".to_owned(), "b".to_owned()]).await;
    let mut events = api.watch(&quiet(), "0").await.unwrap().boxed();
    assert_eq!(next(&mut events).await, "+a");
    assert_eq!(next(&mut events).await, "+b");
}

/// Shows SRV-4.
#[tokio::test(start_paused = true)]
async fn a_streaming_list_says_when_it_is_complete() {
    let api = config_maps(&server());
    create_many(&api, ["a".to_owned()]).await;
    let mut events = api.watch(&WatchParams::default().initial_events(), "0").await.unwrap().boxed();
    assert_eq!(next(&mut events).await, "+a");
    assert_eq!(next(&mut events).await, "bookmark 1");
    create_many(&api, ["b".to_owned()]).await;
    assert_eq!(next(&mut events).await, "+b");
}

/// Shows SRV-4.
#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_carry_the_present() {
    let server = server();
    let api = config_maps(&server);
    let from = server.revision().to_string();
    let events = api.watch(&WatchParams::default(), &from).await.unwrap();
    server.insert(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "elsewhere" } })).unwrap();
    let started = tokio::time::Instant::now();
    let event = events.boxed().try_next().await.unwrap().unwrap();
    let WatchEvent::Bookmark(bookmark) = event else { panic!("{event:?}") };
    assert_eq!(bookmark.metadata.resource_version, server.revision().to_string());
    assert_eq!(started.elapsed().as_secs(), 60);
}

/// Shows SRV-4.
#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_time_is_over() {
    let api = config_maps(&server());
    let started = tokio::time::Instant::now();
    let mut events = api.watch(&quiet().timeout(100), "1").await.unwrap().boxed();
    assert_eq!(next(&mut events).await, "end");
    assert_eq!(started.elapsed().as_secs(), 100);
}

/// Shows SRV-4.
#[tokio::test(start_paused = true)]
async fn a_watch_from_before_the_compaction_is_told_to_begin_anew() {
    let server = server_with(|options| options.history.writes = 2);
    let api = config_maps(&server);
    let from = server.revision().to_string();
    create_many(&api, (0..5).map(|i| format!("m{i}"))).await;
    let mut events = api.watch(&quiet(), &from).await.unwrap().boxed();
    assert_eq!(next(&mut events).await, "410");
    assert_eq!(next(&mut events).await, "end");
}

/// Shows SRV-15.
#[tokio::test(start_paused = true)]
async fn a_restored_backup_ends_watches_and_gives_numbers_out_again() {
    let server = server();
    let api = config_maps(&server);
    create_many(&api, ["a".to_owned()]).await;
    let backup = server.revision();
    create_many(&api, ["b".to_owned()]).await;
    let mut events = api.watch(&quiet(), &server.revision().to_string()).await.unwrap().boxed();
    assert!(events.next().now_or_never().is_none(), "it waits");
    server.restore(backup).unwrap();
    let restored = tokio::time::Instant::now();
    assert_eq!(next(&mut events).await, "end");
    assert_eq!(restored.elapsed(), Duration::ZERO);
    assert!(api.get_opt("b").await.unwrap().is_none());
    create_many(&api, ["c".to_owned()]).await;
    assert_eq!(server.revision(), backup + 1);
}

#[tokio::test(start_paused = true)]
async fn secrets_can_be_watched_without_their_data() {
    let server = server();
    let api: Api<Secret> = Api::default_namespaced(client(&server));
    let events = api.watch_metadata(&quiet(), "0").await.unwrap();
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": "default" }, "stringData": { "a": "b" } });
    server.insert(&secret).unwrap();
    let event = events.boxed().try_next().await.unwrap().unwrap();
    let WatchEvent::Added(partial) = event else { panic!("{event:?}") };
    assert_eq!(partial.metadata.name.as_deref(), Some("s"));
    assert_eq!(partial.types.unwrap().kind, "PartialObjectMetadata");
}

#[tokio::test(start_paused = true)]
async fn the_watches_of_a_kind_end_with_its_definition() {
    let server = server();
    let api = widgets(&server);
    let mut events = api.watch(&quiet(), "0").await.unwrap().boxed();
    assert!(events.next().now_or_never().is_none(), "it waits");
    let definitions: Api<CustomResourceDefinition> = Api::all(client(&server));
    definitions.delete("widgets.test.io", &DeleteParams::default()).await.unwrap();
    let started = tokio::time::Instant::now();
    assert!(events.next().await.is_none());
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_the_future_is_silent_until_the_future_has_come() {
    let server = server();
    let api = config_maps(&server);
    let future = server.revision() + 2;
    let mut events = api.watch(&quiet(), &future.to_string()).await.unwrap().boxed();
    create_many(&api, ["a", "b", "c"].map(str::to_owned)).await;
    assert_eq!(next(&mut events).await, "+c");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_is_slower_than_history_is_told_to_begin_anew() {
    let server = server_with(|options| options.history.writes = 3);
    let api = config_maps(&server);
    let mut events = api.watch(&quiet(), &server.revision().to_string()).await.unwrap().boxed();
    create_many(&api, (0..3).map(|i| format!("m{i}"))).await;
    assert_eq!(next(&mut events).await, "+m0");
    create_many(&api, (3..9).map(|i| format!("m{i}"))).await;
    assert_eq!(next(&mut events).await, "+m1");
    assert_eq!(next(&mut events).await, "+m2");
    assert_eq!(next(&mut events).await, "410");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_wants_the_future_ends_with_an_error() {
    let api = config_maps(&server());
    let mut events = api.watch(&WatchParams::default().initial_events(), "9999").await.unwrap().boxed();
    assert_eq!(next(&mut events).await, "504");
    assert_eq!(next(&mut events).await, "end");
}
