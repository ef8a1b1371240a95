use std::time::Duration;

use api::Machine;
use fake_apiserver::faults::{Rule, RuleId, Verb};
use fake_apiserver::{Options, Server};
use rstest::rstest;
use runtime::cache::Reflector;
use runtime::client::{ClientSpec, ErrorClass, UserAgent, in_process};
use runtime::{Clock, Metrics};
use serde_json::json;

use super::*;

const STEP: &str = "change the Machine";

/// An API server with one Machine, and two components that write it.
struct WriterFixture {
    server: Server,
    writer: Writer<Machine>,
    other: Writer<Machine>,
    cache: Cache<Machine>,
    /// The reflector does not run: the cache contains what tests and writes put there.
    _reflector: Reflector<Machine>,
}

async fn fixture() -> WriterFixture {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let server = Server::new(Options::new(Arc::new(move || clock.now()), 1));
    for definition in api::crd::definitions() {
        server.insert(&definition).unwrap();
    }
    for object in [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "pool" } }),
        json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
            "metadata": { "name": "m", "namespace": "pool" },
            "spec": { "class": { "kind": "MachineClass", "name": "small" } },
        }),
    ] {
        server.insert(&object).unwrap();
    }
    let metrics = Metrics::new().unwrap();
    let api = |agent| {
        let spec = ClientSpec::new(UserAgent::new(agent, "0", "test")).within(Duration::from_secs(20));
        Api::namespaced(in_process(server.service(), "pool", &spec, &metrics.rest), "pool")
    };
    let (cache, reflector) = Cache::<Machine>::builder().namespace("pool").build();
    let writer = Writer::new(api("one"), &cache);
    let other = writer.with_client(api("other"));
    writer.read("m").await.unwrap().unwrap();
    WriterFixture { server, writer, other, cache, _reflector: reflector }
}

impl WriterFixture {
    fn cached(&self) -> Option<Arc<Machine>> {
        self.cache.get(&Key::new("pool", "m"))
    }

    fn seen(&self) -> Arc<Machine> {
        self.cached().unwrap()
    }

    /// Returns the number of writes that reached the API server.
    fn writes(&self) -> u64 {
        let counts = self.server.request_counts();
        counts.iter().filter(|(tally, _)| ["patch", "delete"].contains(&tally.verb.as_str())).map(|(_, n)| n).sum()
    }
}

fn label(value: &str) -> Value {
    json!({ "metadata": { "labels": { "a": value } } })
}

/// Shows THR-6b.
#[tokio::test(start_paused = true)]
async fn stale_object_is_rejected_without_a_request() {
    let fixture = fixture().await;
    let seen = fixture.seen();
    fixture.other.patch(Guard::as_seen(&*seen), Part::Object, label("1"), &STEP).await.unwrap();
    let sent = fixture.writes();
    let patch = fixture.writer.patch(Guard::as_seen(&*seen), Part::Object, label("2"), &STEP).await;
    assert!(matches!(patch, Err(WriteError::Stale { .. })));
    assert!(matches!(fixture.writer.hold(Guard::as_seen(&*seen), &STEP).await, Err(WriteError::Stale { .. })));
    assert_eq!(fixture.writes(), sent);
    fixture.writer.patch(Guard::any_version(&*seen), Part::Object, label("3"), &STEP).await.unwrap();
    assert_eq!(fixture.seen().label("a"), Some("3"), "a write without a version succeeds");
}

/// Shows THR-6b.
#[tokio::test(start_paused = true)]
async fn second_component_waits_and_sees_the_write_of_the_first() {
    let fixture = fixture().await;
    let seen = fixture.seen();
    let mut first = fixture.writer.hold(Guard::as_seen(&*seen), &STEP).await.unwrap();
    let mut second = Box::pin(fixture.other.patch(Guard::as_seen(&*seen), Part::Object, label("2"), &STEP));
    assert!(tokio::time::timeout(Duration::from_mins(1), &mut second).await.is_err(), "the lock is held");
    first.patch(Part::Object, label("1")).await.unwrap();
    drop(first);
    assert!(matches!(second.await, Err(WriteError::Stale { .. })));
    assert_eq!(fixture.writes(), 1);
}

#[tokio::test(start_paused = true)]
async fn response_is_cached_and_guards_the_next_write() {
    let fixture = fixture().await;
    let seen = fixture.seen();
    let mut held = fixture.writer.hold(Guard::as_seen(&*seen), &STEP).await.unwrap();
    let mut version = None;
    let on_written = |written: &Machine| {
        version = Some(written.resource_version().to_owned());
        assert_eq!(fixture.seen().label("a"), None, "the cache does not show it yet");
    };
    held.patch_with(Part::Object, label("1"), on_written).await.unwrap();
    assert_eq!(fixture.seen().label("a"), Some("1"));
    assert_eq!(version.as_deref(), Some(fixture.seen().resource_version()));
    let status = json!({ "status": { "currentStatus": { "phase": "Running" } } });
    held.patch(Part::Status, status).await.unwrap().kept().unwrap();
    assert_eq!(fixture.seen().phase(), &api::MachinePhase::Running);
}

#[tokio::test(start_paused = true)]
async fn write_that_changes_nothing_is_an_error() {
    let fixture = fixture().await;
    let (seen, nothing) = (fixture.seen(), json!({ "metadata": { "labels": { "a": null } } }));
    let written = fixture.writer.patch(Guard::as_seen(&*seen), Part::Object, nothing, &STEP).await.unwrap();
    assert!(matches!(written.kept(), Err(WriteError::NothingChanged { .. })));
    let written = fixture.writer.patch(Guard::as_seen(&*seen), Part::Object, label("1"), &STEP).await.unwrap();
    assert!(written.kept().is_ok());
}

#[rstest]
#[case::conflict(Rule::conflict, ErrorClass::Conflict)]
#[case::forbidden(Rule::forbid, ErrorClass::Forbidden)]
#[case::server_error(Rule::fail, ErrorClass::Transient)]
#[case::response_lost(Rule::lose_answer, ErrorClass::Transient)]
#[case::throttled(|rule: Rule| rule.throttle(None), ErrorClass::Throttled { after: None })]
#[tokio::test(start_paused = true)]
async fn failed_write_has_the_class_of_the_error(#[case] fault: fn(Rule) -> RuleId, #[case] expected: ErrorClass) {
    let fixture = fixture().await;
    let seen = fixture.seen();
    // All writes: a patch that is forbidden is repeated as an update.
    fault(fixture.server.faults().on(Verb::WRITES));
    let error = fixture.writer.patch(Guard::as_seen(&*seen), Part::Object, label("1"), &STEP).await.err().unwrap();
    assert_eq!(error.api_error().map(|error| error.class), Some(expected), "{error}");
    assert_eq!((error.is_stale(), error.is_gone()), (expected == ErrorClass::Conflict, false), "{error}");
    assert!(error.to_string().starts_with("failed to change the Machine: "), "{error}");
    assert_eq!(fixture.seen().resource_version(), seen.resource_version(), "the cache is unchanged");
}

#[tokio::test(start_paused = true)]
async fn deletion_and_refresh_update_the_cache() {
    let fixture = fixture().await;
    let seen = fixture.seen();
    let held = fixture.writer.hold(Guard::as_seen(&*seen), &STEP).await.unwrap();
    assert_eq!(held.refresh().await.unwrap(), Found::Itself);
    assert_eq!(held.delete().await.unwrap(), Deletion::Done);
    assert!(fixture.cached().is_none());
    assert_eq!(held.delete().await.unwrap(), Deletion::AlreadyGone);
    assert_eq!(held.refresh().await.unwrap(), Found::Nothing);
    drop(held);
    let gone = fixture.writer.patch(Guard::as_seen(&*seen), Part::Object, label("1"), &STEP).await.err().unwrap();
    assert!(gone.is_gone(), "{gone}");
    let body = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine", "metadata": { "name": "m" },
        "spec": { "class": { "kind": "MachineClass", "name": "small" } },
    });
    let created = fixture.writer.create(&body, &STEP).await.unwrap();
    assert_eq!(fixture.seen().uid(), created.uid());
    let again = fixture.writer.create(&body, &STEP).await.err().unwrap();
    assert_eq!(again.api_error().map(|error| error.class), Some(ErrorClass::AlreadyExists));
    let held = fixture.writer.hold(Guard::as_seen(&*seen), &STEP).await.unwrap();
    assert_eq!(held.refresh().await.unwrap(), Found::Another, "another object has the name");
    assert_eq!(fixture.seen().uid(), created.uid());
}

#[tokio::test(start_paused = true)]
async fn write_without_a_cache_is_guarded_by_the_uid() {
    let fixture = fixture().await;
    let uncached = Writer { cache: None, ..fixture.writer.clone() };
    let seen = fixture.seen();
    let another = Guard { uid: "another", ..Guard::any_version(&*seen) };
    let error = uncached.hold(another, &STEP).await.unwrap().delete().await.err().unwrap();
    assert!(error.is_stale(), "{error}");
    let held = uncached.hold(Guard::any_version(&*seen), &STEP).await.unwrap();
    assert_eq!(held.delete().await.unwrap(), Deletion::Done);
    assert_eq!(held.delete().await.unwrap(), Deletion::AlreadyGone);
    assert!(uncached.read("m").await.unwrap().is_none());
}
