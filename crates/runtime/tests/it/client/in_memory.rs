//! Tests of the client with the in-memory API server, over loopback and in process with the paused clock.

use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::faults::Verb;
use fake_apiserver::{Options, Server, loopback};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use kube::Api;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use runtime::client::{
    ApiError, Connection, Effect, ErrorClass, Obstacle, Place, RequiredKind, Source, Waited, check_ready, in_process,
    wait_until_ready,
};
use runtime::{Clock, Metrics, Random};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::spec;

fn server() -> Server {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    Server::new(Options::new(Arc::new(move || clock.now()), 7))
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

fn in_memory(server: &Server) -> Api<ConfigMap> {
    let metrics = Metrics::new().unwrap();
    Api::namespaced(in_process(server.service(), "default", &spec(), &metrics.rest), "default")
}

/// Shows SRV-2.
#[tokio::test]
async fn its_kubeconfig_works_as_it_is_written() {
    let server = server();
    let running = loopback::serve(server.clone(), loopback::Options::default()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    running.write_kubeconfig(&path).unwrap();
    let connection = Connection::load(&Source::Kubeconfig { path, flag: "--kubeconfig".to_owned() }).unwrap();
    let client = connection.client(&spec(), &Metrics::new().unwrap().rest);
    let place = Place::from(&connection);

    let required = [RequiredKind::of::<Node>(), RequiredKind::of::<Namespace>()];
    let (random, stop) = (Random::seeded(1), CancellationToken::new());
    let waited = wait_until_ready(&client, &place, &required, &random, &stop, |obstacle| panic!("{obstacle}")).await;
    assert_eq!(waited, Waited::Ready);

    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut watch = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let added = watch.try_next().await.unwrap();
    assert!(matches!(added, Some(WatchEvent::Added(object)) if object.metadata.name.as_deref() == Some("a")));
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let conflict = api.create(&PostParams::default(), &config_map("a")).await.unwrap_err();
    assert_eq!(ApiError::from(conflict).class, ErrorClass::AlreadyExists);

    let missing = RequiredKind { api_version: "example.org/v1".to_owned(), plural: "things".to_owned() };
    let obstacle = check_ready(&client, &place, std::slice::from_ref(&missing)).await.unwrap_err();
    assert_eq!(obstacle, Obstacle::KindsMissing { place: place.clone(), kinds: vec![missing] });
    server.revoke(&running.token);
    let obstacle = check_ready(&client, &place, &required).await.unwrap_err();
    assert_eq!(obstacle, Obstacle::Unauthorized { place });
    running.shutdown().await;
}

/// Shows CLI-3.
#[tokio::test(start_paused = true)]
async fn a_throttled_request_is_answered_at_once_and_asked_once() {
    let server = server();
    let rule = server.faults().on(Verb::Create).of("configmaps").throttle(None);
    let start = Instant::now();
    let refused = in_memory(&server).create(&PostParams::default(), &config_map("a")).await.unwrap_err();
    assert_eq!(ApiError::from(refused).class, ErrorClass::Throttled { after: None });
    assert_eq!((start.elapsed(), server.faults().times_fired(rule)), (Duration::ZERO, 1));
}

#[tokio::test(start_paused = true)]
async fn a_wish_to_wait_is_heard() {
    let server = server();
    server.faults().on(Verb::Get).of("configmaps").throttle(Some(3));
    let refused = in_memory(&server).get("a").await.unwrap_err();
    assert_eq!(ApiError::from(refused).class, ErrorClass::Throttled { after: Some(Duration::from_secs(3)) });
}

/// Shows CLI-7.
#[tokio::test(start_paused = true)]
async fn write_with_a_lost_response_is_not_repeated() {
    let server = server();
    let rule = server.faults().on(Verb::Create).of("configmaps").lose_answer();
    let lost = ApiError::from(in_memory(&server).create(&PostParams::default(), &config_map("a")).await.unwrap_err());
    assert_eq!((lost.class, lost.class.effect()), (ErrorClass::Transient, Effect::Unknown));
    assert_eq!(server.faults().times_fired(rule), 1);
    assert!(server.object("configmaps", "default", "a").is_some(), "it was written");
}

#[tokio::test(start_paused = true)]
async fn slow_response_fails_at_the_deadline() {
    let server = server();
    server.faults().on(Verb::Get).of("configmaps").delay(Duration::from_hours(1));
    let start = Instant::now();
    let late = ApiError::from(in_memory(&server).get("a").await.unwrap_err());
    assert_eq!((late.class, start.elapsed()), (ErrorClass::Transient, super::TIMEOUT));
}

/// Shows DR-Q4, CLI-8.
#[tokio::test(start_paused = true)]
async fn each_refusal_of_the_server_has_its_class() {
    let server = server();
    let api = in_memory(&server);
    let class = |error: kube::Error| ApiError::from(error).class;
    assert_eq!(class(api.get("a").await.unwrap_err()), ErrorClass::NotFound);
    let made = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert_eq!(
        class(api.create(&PostParams::default(), &config_map("a")).await.unwrap_err()),
        ErrorClass::AlreadyExists
    );
    let change = |version: &str| {
        Patch::Merge(serde_json::json!({ "metadata": { "resourceVersion": version }, "data": { "k": "v" } }))
    };
    let version = made.metadata.resource_version.unwrap();
    api.patch("a", &PatchParams::default(), &change(&version)).await.unwrap();
    let stale = api.patch("a", &PatchParams::default(), &change(&version)).await.unwrap_err();
    assert_eq!(class(stale), ErrorClass::Conflict);
    assert_eq!(
        class(api.create(&PostParams::default(), &config_map("Not A Name")).await.unwrap_err()),
        ErrorClass::Invalid
    );
    server.faults().on(Verb::List).of("configmaps").once().expire();
    assert_eq!(class(api.list(&ListParams::default()).await.unwrap_err()), ErrorClass::Gone);
    server.faults().on(Verb::List).of("configmaps").once().fail();
    assert_eq!(class(api.list(&ListParams::default()).await.unwrap_err()), ErrorClass::Transient);
    server.faults().on(Verb::List).of("configmaps").once().disconnect();
    assert_eq!(class(api.list(&ListParams::default()).await.unwrap_err()), ErrorClass::Transient);
}
