//! Tests of caches with the in-memory API server and the paused clock.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::view::NodeView;
use fake_apiserver::faults::{After, Staleness, Verb};
use fake_apiserver::{Options, Server};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use parking_lot::Mutex;
use runtime::cache::{Cache, CacheBuilder, Cached, Caches, Delta, Listing, Lookup, Reading, Removal, State, Trust};
use runtime::{Clock, Key, Random, Tasks};
use serde_json::{Value, json};

/// Server, client and tasks of a test.
struct CacheFixture {
    server: Server,
    client: Client,
    clock: Clock,
    tasks: Tasks,
}

impl CacheFixture {
    fn new() -> Self {
        Self::seeded(7)
    }

    fn seeded(seed: u64) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
        let now = clock.clone();
        let server = Server::new(Options::new(Arc::new(move || now.now()), seed));
        let client = Client::new(server.service(), "default");
        Self { server, client, clock, tasks: Tasks::new() }
    }

    fn reflector<K: Cached>(&self, builder: CacheBuilder<K>) -> Cache<K> {
        self.reflector_by(self.client.clone(), builder)
    }

    fn reflector_by<K: Cached>(&self, client: Client, builder: CacheBuilder<K>) -> Cache<K> {
        let (cache, reflector) = builder.build();
        self.tasks
            .spawn("reflector", reflector.run(client, self.clock.clone(), Random::seeded(3), self.tasks.stopping()));
        cache
    }

    /// Returns a synced cache of ConfigMaps and the deltas of its handlers.
    async fn maps(&self, builder: CacheBuilder<ConfigMap>) -> (Cache<ConfigMap>, Log) {
        let log = Log::default();
        let cache = self.reflector(builder.namespace("default").on_delta(log.writer()));
        cache.synced().await.unwrap();
        log.read();
        (cache, log)
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    async fn create(&self, name: &str) -> ConfigMap {
        self.api().create(&PostParams::default(), &config_map(name)).await.unwrap()
    }

    async fn touch(&self, name: &str, value: &str) -> ConfigMap {
        let patch = Patch::Merge(json!({ "data": { "key": value } }));
        self.api().patch(name, &PatchParams::default(), &patch).await.unwrap()
    }

    async fn delete(&self, name: &str) {
        self.api().delete(name, &DeleteParams::default()).await.unwrap();
    }

    fn requests(&self, verb: &str, resource: &str) -> u64 {
        let counts = self.server.request_counts();
        let of = |tally: &&fake_apiserver::ledger::Tally| tally.verb == verb && tally.resource == resource;
        counts.keys().filter(of).map(|tally| counts[tally]).sum()
    }
}

/// Deltas received by handlers.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn writer<K>(&self) -> impl Fn(&Key, &Delta<K>) + Send + Sync + 'static {
        let log = self.0.clone();
        move |key, delta| {
            let name = &key.name;
            log.lock().push(match delta {
                Delta::Added(_) => format!("added {name}"),
                Delta::Changed { .. } => format!("changed {name}"),
                Delta::Fixed { .. } => format!("fixed {name}"),
                Delta::Undecodable { .. } => format!("undecodable {name}"),
                Delta::Removed { how: Removal::Deleted, .. } => format!("deleted {name}"),
                Delta::Removed { how: Removal::Vanished, .. } => format!("vanished {name}"),
                Delta::Removed { how: Removal::Forgotten, .. } => format!("forgotten {name}"),
                Delta::RemovedUndecodable { .. } => format!("removed undecodable {name}"),
            });
        }
    }

    fn read(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "key": "value" } })).unwrap()
}

fn names(cache: &Cache<ConfigMap>) -> Vec<String> {
    cache.list().iter().filter_map(|map| map.metadata.name.clone()).collect()
}

fn key(name: &str) -> Key {
    Key::new("default", name)
}

/// Runs all ready tasks.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn a_cache_follows_what_others_do() {
    let fixture = CacheFixture::new();
    fixture.create("a").await;
    let (cache, log) = fixture.maps(Cache::builder()).await;
    assert_eq!(names(&cache), ["a"]);
    fixture.create("b").await;
    fixture.touch("a", "new").await;
    fixture.delete("b").await;
    settle().await;
    assert_eq!(log.read(), ["added b", "changed a", "deleted b"]);
    assert_eq!(cache.get(&key("a")).unwrap().data.as_ref().unwrap()["key"], "new");
}

#[tokio::test(start_paused = true)]
async fn a_long_list_is_read_in_pages_that_fit_together() {
    let fixture = CacheFixture::new();
    for n in 0..25 {
        fixture.create(&format!("m{n:02}")).await;
    }
    let (cache, _) = fixture.maps(Cache::builder().with(|settings| settings.page = 10)).await;
    assert_eq!(cache.len(), 25);
    assert_eq!(fixture.requests("list", "configmaps"), 3);
}

/// Shows MC-W7.
#[tokio::test(start_paused = true)]
async fn own_write_is_visible_immediately_and_delivered_once() {
    let fixture = CacheFixture::new();
    fixture.create("a").await;
    fixture.server.faults().on(Verb::Watch).of("configmaps").once().stall_watch(After::Events(0));
    let (cache, log) = fixture.maps(Cache::builder()).await;
    cache.wrote(fixture.touch("a", "ours").await);
    cache.wrote(fixture.create("b").await);
    assert_eq!(cache.get(&key("a")).unwrap().data.as_ref().unwrap()["key"], "ours");
    assert_eq!(names(&cache), ["a", "b"]);
    let uid = cache.get(&key("b")).unwrap().metadata.uid.clone().unwrap();
    fixture.delete("b").await;
    cache.deleted(&key("b"), &uid);
    assert_eq!(names(&cache), ["a"]);
    tokio::time::sleep(3 * MINUTE).await; // the stalled watch is restarted; the next one delivers all events again
    assert_eq!(log.read(), ["changed a", "added b", "deleted b"]);
    assert_eq!(names(&cache), ["a"]);
    let counters = cache.status().counters;
    assert_eq!((counters.stalls, counters.lists), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stale_list_does_not_undo_our_write() {
    let fixture = CacheFixture::new();
    fixture.create("a").await;
    let watch = fixture.server.faults().on(Verb::Watch).of("configmaps").stall_watch(After::Events(0));
    let (cache, log) = fixture.maps(Cache::builder()).await;
    cache.wrote(fixture.create("ours").await);
    fixture.server.faults().on(Verb::List).of("configmaps").once().be_stale(Staleness::Revisions(1));
    let refreshed = cache.refresh().await;
    assert_eq!((refreshed, names(&cache)), (Ok(()), vec!["a".to_owned(), "ours".to_owned()]));
    assert_eq!((cache.trust(), log.read()), (Trust::Firm, vec!["added ours".to_owned()]));
    fixture.server.faults().withdraw(watch);
    tokio::time::sleep(3 * MINUTE).await;
    assert_eq!((names(&cache).len(), log.read().len()), (2, 0));
}

/// Shows CAC-3.
#[tokio::test(start_paused = true)]
async fn what_was_deleted_while_the_history_was_lost_has_vanished() {
    let fixture = CacheFixture::new();
    for name in ["a", "b"] {
        fixture.create(name).await;
    }
    fixture.server.faults().on(Verb::Watch).of("configmaps").once().stall_watch(After::Events(0));
    let (cache, log) = fixture.maps(Cache::builder()).await;
    fixture.delete("a").await;
    fixture.create("c").await;
    fixture.server.compact(fixture.server.revision());
    tokio::time::sleep(3 * MINUTE).await;
    assert_eq!(log.read(), ["vanished a", "added c"]);
    assert_eq!((names(&cache), cache.status().counters.expirations), (vec!["b".to_owned(), "c".to_owned()], 1));
}

/// Shows CAC-13.
#[tokio::test(start_paused = true)]
async fn dropped_watch_resumes_without_a_list() {
    let fixture = CacheFixture::new();
    fixture.server.faults().on(Verb::Watch).of("configmaps").times(5).drop_watch(After::Events(1));
    let (cache, log) = fixture.maps(Cache::builder()).await;
    for n in 0..10 {
        fixture.create(&format!("m{n}")).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!((cache.len(), log.read().len()), (10, 10));
    assert_eq!(cache.status().counters.lists, 1);
    assert_eq!(fixture.requests("list", "configmaps"), 1 + 5, "one small list each time, to detect a restore");
    assert_eq!(cache.status().counters.failures, 5);
}

/// Shows CAC-13.
#[tokio::test(start_paused = true)]
async fn bookmarks_keep_a_quiet_watch_from_expiring() {
    let fixture = CacheFixture::new();
    let (cache, _) = fixture.maps(Cache::builder()).await;
    let pods: Api<Pod> = Api::default_namespaced(fixture.client.clone());
    for n in 0..60 {
        let pod = json!({ "metadata": { "name": format!("p{n}") }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        tokio::time::sleep(MINUTE).await;
        fixture.server.compact(fixture.server.revision().saturating_sub(5));
    }
    let counters = cache.status().counters;
    assert_eq!((fixture.requests("list", "configmaps"), counters.expirations), (1, 0));
    assert!(counters.bookmarks > 0 && counters.watches >= 30, "{counters:?}");
}

/// Shows CAC-6.
#[tokio::test(start_paused = true)]
async fn restored_server_is_untrusted_until_relisted() {
    let fixture = CacheFixture::new();
    fixture.create("before").await;
    let backup = fixture.server.revision();
    for name in ["lost-1", "lost-2"] {
        fixture.create(name).await;
    }
    let log = Log::default();
    let trusts = Arc::new(Mutex::new(Vec::new()));
    let (cache, mut reflector) = Cache::<ConfigMap>::builder().namespace("default").on_delta(log.writer()).build();
    let (seen, looking) = (trusts.clone(), cache.clone());
    reflector.on_delta(move |_, delta| {
        if let Delta::Removed { .. } = delta {
            seen.lock().push(looking.trust());
        }
    });
    let stopping = fixture.tasks.stopping();
    fixture
        .tasks
        .spawn("reflector", reflector.run(fixture.client.clone(), fixture.clock.clone(), Random::seeded(3), stopping));
    cache.synced().await.unwrap();
    log.read();
    fixture.server.restore(backup).unwrap();
    tokio::time::sleep(5 * MINUTE).await;
    assert_eq!(names(&cache), ["before"]);
    assert_eq!((cache.trust(), cache.status().counters.regressions), (Trust::Firm, 1));
    let removed: Vec<_> = log.read().into_iter().filter(|line| line.starts_with("forgotten")).collect();
    assert_eq!(removed, ["forgotten lost-1", "forgotten lost-2"]);
    assert_eq!(*trusts.lock(), [Trust::Firm; 2], "the new list is trusted when handlers are called");
    fixture.create("after").await;
    settle().await;
    assert_eq!(names(&cache), ["after", "before"]);
}

/// Shows CAC-19.
#[tokio::test(start_paused = true)]
async fn restore_detected_by_one_kind_affects_all() {
    let fixture = CacheFixture::new();
    fixture.create("before").await;
    let backup = fixture.server.revision();
    fixture.create("lost").await;
    let (maps, log) = fixture.maps(Cache::builder()).await;
    let nodes: Cache<Node> = fixture.reflector(Cache::builder());
    let mut caches = Caches::new();
    caches.add(&maps);
    caches.add(&nodes);
    caches.all_synced().await.unwrap();
    let node = |n: u32| json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": format!("n{n}") } });
    for n in 0..20 {
        fixture.server.insert(&node(n)).unwrap();
    }
    settle().await;
    fixture.server.restore(backup).unwrap();
    // Other clients write: the last version of the cache is not in the future any more.
    for n in 100..110 {
        fixture.server.insert(&node(n)).unwrap();
    }
    tokio::time::sleep(5 * MINUTE).await;
    assert_eq!((maps.status().counters.regressions, nodes.status().counters.regressions), (0, 1));
    assert_eq!(names(&maps), ["before"]);
    assert!(log.read().contains(&"forgotten lost".to_owned()));
    assert_eq!(caches.trust(), Trust::Firm);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_ends_up_as_a_plain_one_does() {
    let fixture = CacheFixture::new();
    for name in ["a", "b"] {
        fixture.create(name).await;
    }
    let (cache, log) = fixture.maps(Cache::builder().listing(Listing::Streamed)).await;
    assert_eq!(names(&cache), ["a", "b"]);
    fixture.create("c").await;
    settle().await;
    assert_eq!((log.read(), fixture.requests("list", "configmaps")), (vec!["added c".to_owned()], 0));
}

/// Shows CAC-11.
#[tokio::test(start_paused = true)]
async fn a_new_leader_sees_everything_written_before_it_asked() {
    let fixture = CacheFixture::new();
    fixture.server.faults().on(Verb::Watch).of("configmaps").stall_watch(After::Events(0));
    let (maps, _) = fixture.maps(Cache::builder().reading(Reading::Cached)).await;
    let pods: Cache<Pod> = fixture.reflector(Cache::builder());
    let mut caches = Caches::new();
    caches.add(&maps);
    caches.add(&pods);
    caches.all_synced().await.unwrap();
    fixture.create("written-by-the-last-leader").await;
    settle().await;
    assert!(maps.is_empty(), "the watch is stalled");
    caches.refresh_all().await.unwrap();
    assert_eq!(names(&maps), ["written-by-the-last-leader"]);
}

/// Shows CAC-10.
#[tokio::test(start_paused = true)]
async fn forbidden_kind_is_retried_and_delays_no_other() {
    let fixture = CacheFixture::new();
    let allowed = Arc::new(Mutex::new(false));
    let (rule, server) = (allowed.clone(), fixture.server.service());
    let picky = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let refused = request.uri().path().ends_with("/secrets") && !*rule.lock();
        let mut server = server.clone();
        async move {
            if !refused {
                let answer = tower::Service::call(&mut server, request).await.map_err(tower::BoxError::from)?;
                return Ok::<_, tower::BoxError>(answer.map(|body| body.map_err(tower::BoxError::from).boxed_unsync()));
            }
            let status =
                json!({ "kind": "Status", "code": 403, "reason": "Forbidden", "message": "secrets is forbidden" });
            let body = Full::new(bytes::Bytes::from(status.to_string())).map_err(|never| match never {});
            Ok(http::Response::builder().status(403).body(body.boxed_unsync())?)
        }
    });
    let client = Client::new(picky, "default");
    let log = Log::default();
    let maps: Cache<ConfigMap> = fixture.reflector_by(client.clone(), Cache::builder().on_delta(log.writer()));
    let secrets: Cache<Secret> = fixture.reflector_by(client, Cache::builder().metadata_only());
    let mut caches = Caches::new();
    caches.add(&maps);
    caches.add(&secrets);
    for n in 0..20 {
        tokio::time::sleep(Duration::from_secs(37)).await;
        fixture.create(&format!("m{n}")).await;
        settle().await;
        assert_eq!(log.read(), [format!("added m{n}")], "the forbidden kind does not delay events");
    }
    assert!(!caches.is_synced());
    let waiting = caches.waiting_for();
    assert!(waiting.len() == 1 && waiting[0].starts_with("secrets: ") && waiting[0].contains("403"), "{waiting:?}");
    assert!(matches!(secrets.status().state, State::WaitingToRetry { .. }));
    *allowed.lock() = true;
    caches.all_synced().await.unwrap();
    assert_eq!(caches.waiting_for(), [""; 0]);
}

/// Shows CAC-12.
#[tokio::test(start_paused = true)]
async fn heartbeats_of_kubelets_cause_no_deltas() {
    let fixture = CacheFixture::new();
    let status = |beat: &str, ready: &str| json!({ "status": { "conditions": [{ "type": "Ready", "status": ready, "lastHeartbeatTime": beat }] } });
    let nodes: Api<Node> = Api::all(fixture.client.clone());
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } });
    fixture.server.insert(&node).unwrap();
    let log = Log::default();
    let quiet = Cache::builder().ignore_updates(NodeView::differs_only_in_heartbeats).on_delta(log.writer());
    let cache: Cache<NodeView> = fixture.reflector(quiet);
    cache.synced().await.unwrap();
    let report = async |beat: &str, ready: &str| {
        let patch = Patch::Merge(status(beat, ready));
        nodes.patch_status("n", &PatchParams::default(), &patch).await.unwrap();
        settle().await;
        log.read()
    };
    assert_eq!(report("2026-01-01T00:00:00Z", "True").await, ["added n", "changed n"]);
    assert_eq!(report("2026-01-01T00:05:00Z", "True").await, [""; 0]);
    assert_eq!(report("2026-01-01T00:10:00Z", "True").await, [""; 0]);
    let revision = fixture.server.revision().to_string();
    assert_eq!(cache.list()[0].metadata.resource_version, revision, "the cache is updated");
    assert_eq!(report("2026-01-01T00:15:00Z", "False").await, ["changed n"]);
}

/// Shows CAC-8.
#[tokio::test(start_paused = true)]
async fn undecodable_object_is_present_and_hides_no_other() {
    let fixture = CacheFixture::new();
    for name in ["good", "odd"] {
        fixture.create(name).await;
    }
    fixture.touch("good", "7").await;
    let log = Log::default();
    let cache: Cache<Count> = fixture.reflector(Cache::builder().on_delta(log.writer()));
    cache.synced().await.unwrap();
    assert_eq!((cache.len(), cache.list().len()), (2, 1), "it is counted, but not listed");
    assert!(matches!(cache.look_up(&key("odd")), Lookup::Undecodable(_)));
    assert!(cache.get(&key("odd")).is_none());
    assert_eq!(log.read(), ["added good", "undecodable odd"]);
    fixture.touch("odd", "8").await;
    fixture.touch("good", "not a number any more").await;
    settle().await;
    assert_eq!(log.read(), ["fixed odd", "undecodable good"]);
    assert_eq!(cache.get(&key("odd")).unwrap().number, 8);
    assert_eq!(cache.undecodable()[0].name, "good");
}

/// A ConfigMap with a required number.
#[derive(Debug)]
struct Count {
    metadata: ObjectMeta,
    number: u32,
}

impl<'de> serde::Deserialize<'de> for Count {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let map = ConfigMap::deserialize(source)?;
        let number = map.data.unwrap_or_default()["key"].parse().map_err(serde::de::Error::custom)?;
        Ok(Self { metadata: map.metadata, number })
    }
}

impl kube::Resource for Count {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "ConfigMap".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "configmaps".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Shows CAC-16, MC-W42.
#[tokio::test(start_paused = true)]
async fn a_selector_keeps_everything_else_out() {
    let fixture = CacheFixture::new();
    let pods: Api<Pod> = Api::default_namespaced(fixture.client.clone());
    for (name, node) in [("here", "n1"), ("there", "n2")] {
        let pod = json!({ "metadata": { "name": name }, "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i" }] } });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    let cache: Cache<Pod> = fixture.reflector(Cache::builder().fields("spec.nodeName=n1"));
    cache.synced().await.unwrap();
    assert_eq!((cache.len(), pods.list(&ListParams::default()).await.unwrap().items.len()), (1, 2));
}

/// Shows API-16.
#[tokio::test(start_paused = true)]
async fn secrets_leave_their_data_at_the_server() {
    let fixture = CacheFixture::new();
    let secrets: Api<Secret> = Api::default_namespaced(fixture.client.clone());
    let secret = json!({ "metadata": { "name": "s" }, "stringData": { "password": "hunter2" } });
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    // Decoded as metadata only: the kind is always PartialObjectMetadata.
    let cache: Cache<kube::core::PartialObjectMeta<Secret>> = fixture.reflector(Cache::builder().metadata_only());
    cache.synced().await.unwrap();
    let held = cache.get(&key("s")).unwrap();
    assert_eq!(held.types.as_ref().unwrap().kind, "PartialObjectMetadata");
    assert_eq!(cache.status().undecodable, 0);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_makes_the_same_requests() {
    async fn course() -> Vec<String> {
        let fixture = CacheFixture::new();
        fixture.server.faults().on(Verb::READS).of("configmaps").with_probability(0.4).fail();
        let cache: Cache<ConfigMap> = fixture.reflector(Cache::builder());
        let _pods: Cache<Pod> = fixture.reflector(Cache::builder().listing(Listing::Streamed));
        for n in 0..20 {
            fixture.create(&format!("m{n}")).await;
            tokio::time::sleep(Duration::from_secs(31)).await;
        }
        tokio::time::sleep(10 * MINUTE).await;
        assert_eq!(cache.len(), 20);
        let line =
            |entry: &fake_apiserver::ledger::Entry| format!("{} {} {}", entry.at, entry.tally.verb, entry.tally.code);
        fixture.server.requests().iter().map(line).collect()
    }
    let (first, second) = (course().await, course().await);
    let mut tally: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &first {
        *tally.entry(line.split(' ').nth(1).unwrap()).or_default() += 1;
    }
    assert!(tally["watch"] > 10, "{tally:?}");
    assert_eq!(first, second);
}

/// Shows CAC-18.
#[tokio::test(start_paused = true)]
async fn after_any_storm_the_cache_is_what_the_server_holds() {
    for seed in 0..10 {
        let fixture = CacheFixture::seeded(seed);
        let random = Random::seeded(seed);
        let listing = if seed % 2 == 0 { Listing::Paged } else { Listing::Streamed };
        let reading = if seed % 3 == 0 { Reading::Cached } else { Reading::Quorum };
        let small_pages = Cache::builder().listing(listing).reading(reading).with(|settings| settings.page = 3);
        let cache: Cache<ConfigMap> = fixture.reflector(small_pages);
        fixture.server.faults().brew(1.0);
        for _ in 0..150 {
            let name = format!("m{}", random.below(8));
            // Some of these fail, some are executed without a response.
            match random.below(3) {
                0 => drop(
                    fixture.api().create(&PostParams::default(), &config_map(&name)).await.map(|map| cache.wrote(map)),
                ),
                1 => {
                    let patch = Patch::Merge(json!({ "data": { "key": random.number().to_string() } }));
                    drop(fixture.api().patch(&name, &PatchParams::default(), &patch).await.map(|map| cache.wrote(map)));
                }
                _ => {
                    let Some(uid) = cache.get(&key(&name)).and_then(|map| map.metadata.uid.clone()) else { continue };
                    let only_this = Preconditions { uid: Some(uid.clone()), resource_version: None };
                    let params = DeleteParams { preconditions: Some(only_this), ..DeleteParams::default() };
                    drop(fixture.api().delete(&name, &params).await.map(|_| cache.deleted(&key(&name), &uid)));
                }
            }
            tokio::time::sleep(Duration::from_millis(random.below(20_000))).await;
        }
        fixture.server.faults().calm();
        tokio::time::sleep(5 * MINUTE).await;
        let real: Vec<ConfigMap> = (fixture.server.objects("configmaps").iter())
            .map(|object| serde_json::from_value(Value::clone(object)).unwrap())
            .collect();
        let cached: Vec<ConfigMap> = cache.list().iter().map(|map| ConfigMap::clone(map)).collect();
        assert_eq!(cached, real, "seed {seed}");
        assert_eq!(cache.trust(), Trust::Firm, "seed {seed}");
    }
}
