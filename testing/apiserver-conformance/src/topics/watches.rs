//! Following changes.

use k8s_openapi::api::core::v1::ConfigMap;
use runtime::cache::{Cache, Delta, State};
use runtime::{Clock, Random};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::connection::CuttableConnection;
use crate::fixture::{Fixture, PATIENCE, Patch, same};
use crate::{CaseResult, Difference, cases, ensure};

cases![
    a_watch_from_a_list_shows_every_later_change_in_order,
    a_watch_without_a_version_starts_with_what_is_there,
    an_object_that_stops_being_selected_is_deleted_for_that_watch,
    a_watch_by_name_shows_one_object,
    a_deletion_shows_the_last_state_with_a_new_version,
    a_deletion_with_a_finalizer_is_a_modification_first,
    a_write_that_changes_nothing_is_no_event,
    a_watch_ends_when_its_time_is_up,
    initial_events_end_with_a_bookmark,
    a_watch_shows_only_its_namespace,
    a_watch_goes_on_from_the_last_version_it_showed,
    a_cache_whose_watch_drops_while_an_object_is_deleted_still_tells_of_the_deletion,
];

const OURS: &str = "labelSelector=ours";

/// The version of a list made now.
async fn version(s: &Fixture) -> Result<String, Difference> {
    let list = s.get(&s.core("configmaps")).await?.succeeds()?;
    Ok(list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
}

fn ours() -> Value {
    json!({"ours": ""})
}

async fn a_watch_from_a_list_shows_every_later_change_in_order(s: Fixture) -> CaseResult {
    s.config_map("before", &ours()).await?;
    let version = version(&s).await?;
    s.config_map("a", &ours()).await?;
    s.patch(&s.core("configmaps/a"), Patch::Merge, &json!({"data": {"k": "v"}})).await?.succeeds()?;
    let mut watch = s.watch(&s.core("configmaps"), &format!("{OURS}&resourceVersion={version}")).await?;
    watch.shows(&[("ADDED", "a"), ("MODIFIED", "a")]).await?;
    s.delete(&s.core("configmaps/a"), None).await?.succeeds()?;
    s.config_map("b", &ours()).await?;
    watch.shows(&[("DELETED", "a"), ("ADDED", "b")]).await?;
    watch.is_silent().await
}

async fn a_watch_without_a_version_starts_with_what_is_there(s: Fixture) -> CaseResult {
    s.config_map("a", &ours()).await?;
    let mut watch = s.watch(&s.core("configmaps"), OURS).await?;
    watch.shows(&[("ADDED", "a")]).await?;
    s.config_map("b", &ours()).await?;
    watch.shows(&[("ADDED", "b")]).await
}

async fn an_object_that_stops_being_selected_is_deleted_for_that_watch(s: Fixture) -> CaseResult {
    let version = version(&s).await?;
    let query = format!("labelSelector=pool%3Dx&resourceVersion={version}");
    let mut watch = s.watch(&s.core("configmaps"), &query).await?;
    s.config_map("a", &json!({"pool": "y"})).await?;
    for pool in ["x", "z"] {
        let patch = json!({"metadata": {"labels": {"pool": pool}}});
        s.patch(&s.core("configmaps/a"), Patch::Merge, &patch).await?.succeeds()?;
    }
    s.delete(&s.core("configmaps/a"), None).await?.succeeds()?;
    watch.shows(&[("ADDED", "a"), ("DELETED", "a")]).await?;
    watch.is_silent().await
}

async fn a_watch_by_name_shows_one_object(s: Fixture) -> CaseResult {
    let version = version(&s).await?;
    let query = format!("fieldSelector=metadata.name%3Db&resourceVersion={version}");
    let mut watch = s.watch(&s.core("configmaps"), &query).await?;
    for name in ["a", "b", "c"] {
        s.config_map(name, &json!({})).await?;
    }
    watch.shows(&[("ADDED", "b")]).await?;
    watch.is_silent().await
}

async fn a_deletion_shows_the_last_state_with_a_new_version(s: Fixture) -> CaseResult {
    let made = s.config_map("a", &ours()).await?;
    let mut watch = s.watch(&s.core("configmaps"), &format!("{OURS}&resourceVersion={}", version(&s).await?)).await?;
    s.delete(&s.core("configmaps/a"), None).await?.succeeds()?;
    let (kind, last) = watch.change().await?;
    same("event", &json!(kind), &json!("DELETED"))?;
    same("labels", &last["metadata"]["labels"], &made["metadata"]["labels"])?;
    let number = |v: &Value| v["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse::<u64>().ok());
    ensure!(number(&last) > number(&made), "deleted at {:?}, made at {:?}", number(&last), number(&made));
    Ok(())
}

async fn a_deletion_with_a_finalizer_is_a_modification_first(s: Fixture) -> CaseResult {
    s.config_map("a", &ours()).await?;
    let guard = json!({"metadata": {"finalizers": ["example.com/guard"]}});
    s.patch(&s.core("configmaps/a"), Patch::Merge, &guard).await?.succeeds()?;
    let mut watch = s.watch(&s.core("configmaps"), &format!("{OURS}&resourceVersion={}", version(&s).await?)).await?;
    s.delete(&s.core("configmaps/a"), None).await?.succeeds()?;
    let (kind, object) = watch.change().await?;
    same("event", &json!(kind), &json!("MODIFIED"))?;
    ensure!(object["metadata"]["deletionTimestamp"].is_string(), "no deletionTimestamp");
    let release = json!({"metadata": {"finalizers": null}});
    s.patch(&s.core("configmaps/a"), Patch::Merge, &release).await?.succeeds()?;
    watch.shows(&[("DELETED", "a")]).await
}

async fn a_write_that_changes_nothing_is_no_event(s: Fixture) -> CaseResult {
    s.config_map("a", &ours()).await?;
    let mut watch = s.watch(&s.core("configmaps"), &format!("{OURS}&resourceVersion={}", version(&s).await?)).await?;
    let patch = json!({"metadata": {"labels": {"ours": ""}}});
    s.patch(&s.core("configmaps/a"), Patch::Merge, &patch).await?.succeeds()?;
    watch.is_silent().await
}

async fn a_watch_ends_when_its_time_is_up(s: Fixture) -> CaseResult {
    let query = format!("{OURS}&timeoutSeconds=1&resourceVersion={}", version(&s).await?);
    let mut watch = s.watch(&s.core("configmaps"), &query).await?;
    ensure!(watch.next().await?.is_none(), "the watch did not end");
    Ok(())
}

async fn initial_events_end_with_a_bookmark(s: Fixture) -> CaseResult {
    s.config_map("a", &ours()).await?;
    s.config_map("b", &ours()).await?;
    let query = format!("{OURS}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    let mut watch = s.watch(&s.core("configmaps"), &query).await?;
    watch.shows(&[("ADDED", "a"), ("ADDED", "b")]).await?;
    let bookmark = watch.next().await?.unwrap_or_default();
    same("event", &bookmark["type"], &json!("BOOKMARK"))?;
    let annotations = &bookmark["object"]["metadata"]["annotations"];
    same("annotation", &annotations["k8s.io/initial-events-end"], &json!("true"))?;
    s.config_map("c", &ours()).await?;
    watch.shows(&[("ADDED", "c")]).await
}

async fn a_watch_shows_only_its_namespace(s: Fixture) -> CaseResult {
    let mut watch = s.watch(&s.core("configmaps"), &format!("{OURS}&resourceVersion={}", version(&s).await?)).await?;
    let elsewhere = format!("/api/v1/namespaces/default/configmaps/{}", s.namespace());
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": s.namespace(), "labels": ours()}});
    s.post("/api/v1/namespaces/default/configmaps", &object).await?.succeeds()?;
    s.delete(&elsewhere, None).await?.succeeds()?;
    s.config_map("a", &ours()).await?;
    watch.shows(&[("ADDED", "a")]).await
}

async fn a_watch_goes_on_from_the_last_version_it_showed(s: Fixture) -> CaseResult {
    let query = format!("{OURS}&resourceVersion={}", version(&s).await?);
    let mut watch = s.watch(&s.core("configmaps"), &query).await?;
    s.config_map("a", &ours()).await?;
    s.config_map("b", &ours()).await?;
    watch.shows(&[("ADDED", "a")]).await?;
    let (_, last) = watch.change().await?;
    drop(watch);
    s.delete(&s.core("configmaps/a"), None).await?.succeeds()?;
    s.config_map("c", &ours()).await?;
    let version = last["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let mut watch = s.watch(&s.core("configmaps"), &format!("{OURS}&resourceVersion={version}")).await?;
    watch.shows(&[("DELETED", "a"), ("ADDED", "c")]).await
}

/// Not only about the server: the cache that every controller of ours reads from must not miss what happens while it is deaf.
async fn a_cache_whose_watch_drops_while_an_object_is_deleted_still_tells_of_the_deletion(s: Fixture) -> CaseResult {
    s.config_map("stays", &ours()).await?;
    s.config_map("goes", &ours()).await?;
    let (connection, client) = CuttableConnection::to(s.client());
    let (tell, mut told) = mpsc::channel(100);
    let removed = move |delta: &Delta<ConfigMap>| delta.now().is_none();
    let builder = Cache::<ConfigMap>::builder().namespace(s.namespace()).labels("ours");
    let (cache, feed) = builder
        .on_delta(move |key, delta| {
            if removed(delta) {
                let _full = tell.try_send(key.name.to_string());
            }
        })
        .build();
    let scenario = async {
        while cache.status().state != State::Watching {
            tokio::time::sleep(PATIENCE / 400).await;
        }
        connection.cut();
        s.delete(&s.core("configmaps/goes"), None).await?.succeeds()?;
        ensure!(timeout(PATIENCE / 20, told.recv()).await.is_err(), "the cache heard through a connection that is cut");
        connection.mend();
        let name = timeout(PATIENCE, told.recv()).await.ok().flatten();
        same("removed", &json!(name), &json!("goes"))?;
        same("left", &json!(cache.len()), &json!(1))
    };
    let stop = CancellationToken::new();
    tokio::select! {
        biased;
        result = scenario => result,
        () = feed.run(client, Clock::system(), Random::seeded(1), stop) => Err(Difference::new("the cache stopped")),
    }
}
