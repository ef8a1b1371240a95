//! Tests of the connection signals of a cache.

use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::faults::{After, Verb};
use fake_apiserver::{Options, Server};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use parking_lot::Mutex;
use runtime::cache::{Cache, DisconnectReason, Signal, Tally, Watch};
use runtime::{Clock, Random, Tasks};
use serde_json::json;

const MINUTE: Duration = Duration::from_mins(1);

struct SignalFixture {
    server: Server,
    cache: Cache<ConfigMap>,
    signals: Arc<Mutex<Vec<Signal>>>,
    /// Number of signals at the time of each removal.
    removals: Arc<Mutex<Vec<usize>>>,
    _tasks: Tasks,
}

async fn fixture(prepare: impl FnOnce(&Server)) -> SignalFixture {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
    let now = clock.clone();
    let server = Server::new(Options::new(Arc::new(move || now.now()), 7));
    for n in 0..5 {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("m-{n}"), "namespace": "default" } });
        server.insert(&map).unwrap();
    }
    prepare(&server);
    let (signals, removals, tasks) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())), Tasks::new());
    let (cache, mut reflector) = Cache::<ConfigMap>::builder().namespace("default").build();
    let received = signals.clone();
    reflector.on_signal(move |signal| received.lock().push(*signal));
    let (received, gone) = (signals.clone(), removals.clone());
    reflector.on_delta(move |_, delta| {
        if delta.now().is_none() {
            gone.lock().push(received.lock().len());
        }
    });
    let client = Client::new(server.service(), "default");
    tasks.spawn("reflector", reflector.run(client, clock, Random::seeded(3), tasks.stopping()));
    cache.synced().await.unwrap();
    SignalFixture { server, cache, signals, removals, _tasks: tasks }
}

#[tokio::test(start_paused = true)]
async fn disconnect_and_recovery_are_signaled() {
    let fixture = fixture(|server| {
        server.faults().on(Verb::Watch).once().drop_watch(After::Time(MINUTE));
    })
    .await;
    assert_eq!(fixture.cache.watch(), Watch::Connected);
    fixture.server.faults().on(Verb::List).times(3).disconnect();
    tokio::time::sleep(MINUTE + Duration::from_millis(10)).await;
    let Watch::Disconnected { since, why, .. } = fixture.cache.watch() else { panic!("expected a disconnect") };
    assert!(why.starts_with("failed to watch"), "{why}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let Watch::Disconnected { since: still, .. } = fixture.cache.watch() else { panic!("expected a disconnect") };
    assert_eq!(still, since, "failed retries do not change the time");
    tokio::time::sleep(MINUTE).await;
    assert_eq!(fixture.cache.watch(), Watch::Connected);
    let listed = |before| Signal::Listed(Tally { before, gone: 0 });
    // After this outage the server may have been restored, so all objects are listed.
    assert_eq!(*fixture.signals.lock(), [listed(0), Signal::Disconnected, Signal::Recovered, listed(5)]);
}

#[tokio::test(start_paused = true)]
async fn number_of_missing_objects_is_signaled_before_their_deltas() {
    let fixture = fixture(|server| {
        server.faults().on(Verb::Watch).once().stall_watch(After::Events(0));
    })
    .await;
    for n in 0..3 {
        let key = format!("m-{n}");
        let client = Client::new(fixture.server.service(), "default");
        let api: kube::Api<ConfigMap> = kube::Api::default_namespaced(client);
        api.delete(&key, &kube::api::DeleteParams::default()).await.unwrap();
    }
    fixture.server.compact(fixture.server.revision());
    tokio::time::sleep(3 * MINUTE).await;
    let listed = Signal::Listed(Tally { before: 5, gone: 3 });
    assert_eq!(fixture.signals.lock().last(), Some(&listed));
    assert_eq!(*fixture.removals.lock(), [2; 3], "the list is signaled first");
}

/// Shows ROL-5.
#[tokio::test(start_paused = true)]
async fn forbidden_is_distinguished_from_unreachable() {
    let fixture = fixture(|server| {
        server.faults().on(Verb::Watch).once().drop_watch(After::Time(MINUTE));
    })
    .await;
    let outage = fixture.server.faults().on([Verb::List, Verb::Watch]).disconnect();
    tokio::time::sleep(2 * MINUTE).await;
    let by = |fixture: &SignalFixture| match fixture.cache.watch() {
        Watch::Disconnected { by, .. } => Some(by),
        Watch::Connected => None,
    };
    assert_eq!(by(&fixture), Some(DisconnectReason::Unreachable));
    fixture.server.faults().withdraw(outage);
    fixture.server.faults().on([Verb::List, Verb::Watch]).forbid();
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(by(&fixture), Some(DisconnectReason::Refused));
    let first = Signal::Listed(Tally { before: 0, gone: 0 });
    assert_eq!(*fixture.signals.lock(), [first, Signal::Disconnected, Signal::Disconnected], "one for each reason");
}
