//! The housekeeper: what it collects, and that nothing of it happens without it.

use std::future::Future;
use std::time::Duration;

use fake_apiserver::Server;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{client, config_map, config_maps, server, widget_definition};

/// Lets the housekeeper work beside the test.
async fn kept<T>(server: &Server, test: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        done = test => done,
        never = server.keep_house() => match never {},
    }
}

/// Long enough for anything that follows without a wait.
async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// A config map that names these others as owners.
fn owned(name: &str, owners: &[Value]) -> Value {
    let metadata = json!({ "name": name, "namespace": "default", "ownerReferences": owners });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata })
}

fn entry(kind: &str, api_version: &str, name: &str, uid: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": true })
}

fn owner_entry(owner: &Value) -> Value {
    let text = |pointer: &str| owner.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    entry(&text("/kind"), &text("/apiVersion"), &text("/metadata/name"), &text("/metadata/uid"))
}

fn insert(server: &Server, name: &str, owners: &[Value]) -> Value {
    server.insert(&owned(name, owners)).unwrap().as_ref().clone()
}

fn names(server: &Server) -> Vec<String> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    server.objects("configmaps").iter().map(|object| name(object)).collect()
}

#[tokio::test(start_paused = true)]
async fn without_a_housekeeper_nothing_is_collected() {
    let server = server();
    let owner = insert(&server, "owner", &[]);
    insert(&server, "a", &[owner_entry(&owner)]);
    config_maps(&server).delete("owner", &DeleteParams::foreground()).await.unwrap();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(names(&server), ["a", "owner"]);
}

#[tokio::test(start_paused = true)]
async fn a_housekeeper_that_comes_late_finds_what_was_left_behind() {
    let server = server();
    let owner = insert(&server, "owner", &[]);
    insert(&server, "a", &[owner_entry(&owner)]);
    config_maps(&server).delete("owner", &DeleteParams::default()).await.unwrap();
    kept(&server, a_moment()).await;
    assert!(names(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn owners_that_own_each_other_go_in_the_foreground_all_the_same() {
    let server = server();
    let api = config_maps(&server);
    let first = insert(&server, "first", &[]);
    let second = insert(&server, "second", &[owner_entry(&first)]);
    let patch = json!({ "metadata": { "ownerReferences": [owner_entry(&second)] } });
    api.patch("first", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    kept(&server, async {
        a_moment().await;
        assert_eq!(names(&server), ["first", "second"]);
        api.delete("first", &DeleteParams::foreground()).await.unwrap();
        a_moment().await;
    })
    .await;
    assert!(names(&server).is_empty(), "{:?}", server.objects("configmaps"));
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_comes_back_under_its_name_is_another() {
    let server = server();
    let owner = insert(&server, "owner", &[]);
    insert(&server, "a", &[owner_entry(&owner)]);
    kept(&server, async {
        config_maps(&server).delete("owner", &DeleteParams::default()).await.unwrap();
        insert(&server, "owner", &[]);
        a_moment().await;
    })
    .await;
    assert_eq!(names(&server), ["owner"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_defined_later_settles_who_owned_what() {
    let server = server();
    insert(&server, "a", &[entry("Widget", "test.io/v1", "w", "no-such-widget")]);
    kept(&server, async {
        a_moment().await;
        assert_eq!(names(&server), ["a"]);
        server.insert(&widget_definition()).unwrap();
        a_moment().await;
    })
    .await;
    assert!(names(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_goes_takes_what_its_objects_owned_along() {
    let server = server();
    server.insert(&widget_definition()).unwrap();
    let widget =
        json!({ "apiVersion": "test.io/v1", "kind": "Widget", "metadata": { "name": "w", "namespace": "default" } });
    let widget = server.insert(&widget).unwrap();
    insert(&server, "a", &[owner_entry(&widget)]);
    let definitions: Api<kube::core::DynamicObject> = {
        let gvk = kube::core::GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        Api::all_with(client(&server), &kube::core::ApiResource::from_gvk(&gvk))
    };
    kept(&server, async {
        a_moment().await;
        assert_eq!(names(&server), ["a"]);
        definitions.delete("widgets.test.io", &DeleteParams::default()).await.unwrap();
        a_moment().await;
    })
    .await;
    assert!(names(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_restored_backup_is_looked_through_anew() {
    let server = server();
    let owner = insert(&server, "owner", &[]);
    insert(&server, "a", &[owner_entry(&owner)]);
    let backup = server.revision();
    kept(&server, async {
        a_moment().await;
        config_maps(&server).delete("owner", &DeleteParams::default()).await.unwrap();
        a_moment().await;
        assert!(names(&server).is_empty());
        server.restore(backup).unwrap();
        a_moment().await;
        assert_eq!(names(&server), ["a", "owner"]);
        config_maps(&server).delete("owner", &DeleteParams::default()).await.unwrap();
        a_moment().await;
    })
    .await;
    assert!(names(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn events_are_never_collected() {
    let server = server();
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": "e", "namespace": "default", "ownerReferences": [entry("ConfigMap", "v1", "no", "none")] },
        "involvedObject": { "kind": "ConfigMap", "name": "no", "namespace": "default" },
    });
    server.insert(&event).unwrap();
    kept(&server, a_moment()).await;
    assert_eq!(server.objects("events").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_let_be_for_five_seconds_and_then_it_is_empty_and_gone() {
    let server = server();
    let namespaces: Api<Namespace> = Api::all(client(&server));
    let inside: Api<ConfigMap> = Api::namespaced(client(&server), "x");
    let namespace = serde_json::from_value(json!({ "metadata": { "name": "x" } })).unwrap();
    kept(&server, async {
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        inside.create(&PostParams::default(), &config_map("a")).await.unwrap();
        namespaces.delete("x", &DeleteParams::default()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(inside.list(&ListParams::default()).await.unwrap().items.len(), 1);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(namespaces.get_opt("x").await.unwrap().is_none());
        assert!(names(&server).is_empty());
    })
    .await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whoever owns whom, and whatever is deleted how: in the end nobody names an owner that is not there, and nobody waits.
    /// Shows KIN-6.
    #[test]
    fn no_dependent_outlives_its_owners_and_nobody_waits_for_ever(
        owners in prop::collection::vec(prop::collection::vec(0usize..8, 0..3), 8),
        deletions in prop::collection::vec((0usize..8, 0usize..3), 1..5),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let server = server();
            let api = config_maps(&server);
            let mut made: Vec<Value> = Vec::new();
            for (i, owners) in owners.iter().enumerate() {
                let mut mine: Vec<usize> = owners.iter().copied().filter(|o| *o < i).collect();
                mine.dedup();
                let mine: Vec<Value> = mine.iter().map(|o| owner_entry(&made[*o])).collect();
                made.push(insert(&server, &format!("m{i}"), &mine));
            }
            kept(&server, async {
                for (which, how) in &deletions {
                    let how = [DeleteParams::background(), DeleteParams::foreground(), DeleteParams::orphan()][*how].clone();
                    let _gone_already = api.delete(&format!("m{which}"), &how).await;
                    a_moment().await;
                }
                a_moment().await;
            })
            .await;
            let left = server.objects("configmaps");
            let uids: Vec<&str> = left.iter().map(|o| o["metadata"]["uid"].as_str().unwrap()).collect();
            for object in &left {
                assert!(object["metadata"].get("deletionTimestamp").is_none(), "waits: {object}");
                for owner in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
                    assert!(uids.contains(&owner["uid"].as_str().unwrap()), "dangles: {object}");
                }
            }
        });
    }
}
