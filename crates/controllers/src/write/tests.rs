use std::time::Duration;

use api::Machine;
use fake_apiserver::faults::{Rule, RuleId, Verb};
use fake_apiserver::{Options, Server};
use rstest::rstest;
use runtime::cache::Reflector;
use runtime::client::{ClientSpec, UserAgent, in_process};
use runtime::{Clock, Metrics};
use serde_json::json;

use super::*;

const STEP: &str = "change it";

/// A server with one machine, and two components that write to it.
struct WriterFixture {
    server: Server,
    writer: Writer<Machine>,
    other: Writer<Machine>,
    cache: Cache<Machine>,
    /// Nothing is watched: what the cache shows is what a test or a write has put there.
    _unwatched: Reflector<Machine>,
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
    let other = writer.through(api("other"));
    writer.read("m").await.unwrap().unwrap();
    WriterFixture { server, writer, other, cache, _unwatched: reflector }
}

impl WriterFixture {
    fn shown(&self) -> Option<Arc<Machine>> {
        self.cache.get(&Key::new("pool", "m"))
    }

    fn seen(&self) -> Arc<Machine> {
        self.shown().unwrap()
    }

    /// Writes that reached the server.
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
async fn what_is_known_to_be_stale_is_refused_without_a_request() {
    let fixture = fixture().await;
    let seen = fixture.seen();
    fixture.other.patch(Guard::as_seen(&*seen), Part::Object, label("1"), &STEP).await.unwrap();
    let sent = fixture.writes();
    let patch = fixture.writer.patch(Guard::as_seen(&*seen), Part::Object, label("2"), &STEP).await;
    assert!(matches!(patch, Err(WriteError::Stale { .. })));
    assert!(matches!(fixture.writer.hold(Guard::as_seen(&*seen), &STEP).await, Err(WriteError::Stale { .. })));
    assert_eq!(fixture.writes(), sent);
    fixture.writer.patch(Guard::any_version(&*seen), Part::Object, label("3"), &STEP).await.unwrap();
    assert_eq!(fixture.seen().label("a"), Some("3"), "fields that are nobody else's are written to any version");
}

/// Shows THR-6b.
#[tokio::test(start_paused = true)]
async fn two_components_take_the_same_write_lock_and_the_second_sees_what_the_first_wrote() {
    let fixture = fixture().await;
    let seen = fixture.seen();
    let mut first = fixture.writer.hold(Guard::as_seen(&*seen), &STEP).await.unwrap();
    let mut second = Box::pin(fixture.other.patch(Guard::as_seen(&*seen), Part::Object, label("2"), &STEP));
    assert!(tokio::time::timeout(Duration::from_mins(1), &mut second).await.is_err(), "it has to wait");
    first.patch(Part::Object, label("1")).await.unwrap();
    drop(first);
    assert!(matches!(second.await, Err(WriteError::Stale { .. })));
    assert_eq!(fixture.writes(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_in_the_cache_before_the_lock_is_released_and_guards_the_next_write() {
    let fixture = fixture().await;
    let seen = fixture.seen();
    let mut held = fixture.writer.hold(Guard::as_seen(&*seen), &STEP).await.unwrap();
    let mut told = None;
    let tell = |answer: &Machine| {
        told = Some(answer.resource_version().to_owned());
        assert_eq!(fixture.seen().label("a"), None, "the cache does not show it yet");
    };
    held.patch_telling(Part::Object, label("1"), tell).await.unwrap();
    assert_eq!(fixture.seen().label("a"), Some("1"));
    assert_eq!(told.as_deref(), Some(fixture.seen().resource_version()));
    let status = json!({ "status": { "currentStatus": { "phase": "Running" } } });
    held.patch(Part::Status, status).await.unwrap().kept().unwrap();
    assert_eq!(fixture.seen().phase(), &api::MachinePhase::Running);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_can_be_told_from_one_that_did() {
    let fixture = fixture().await;
    let (seen, nothing) = (fixture.seen(), json!({ "metadata": { "labels": { "a": null } } }));
    let written = fixture.writer.patch(Guard::as_seen(&*seen), Part::Object, nothing, &STEP).await.unwrap();
    assert!(matches!(written.kept(), Err(WriteError::NothingChanged { .. })));
    let written = fixture.writer.patch(Guard::as_seen(&*seen), Part::Object, label("1"), &STEP).await.unwrap();
    assert!(written.kept().is_ok());
}

#[rstest]
#[case::conflict(Rule::conflict, Retry::Stale)]
#[case::forbidden(Rule::forbid, Retry::Refused)]
#[case::server_error(Rule::fail, Retry::Transient)]
#[case::answer_lost(Rule::lose_answer, Retry::Transient)]
#[case::throttled(|rule: Rule| rule.throttle(None), Retry::Transient)]
#[tokio::test(start_paused = true)]
async fn each_refusal_of_a_write_has_its_retry_class(#[case] deal: fn(Rule) -> RuleId, #[case] expected: Retry) {
    let fixture = fixture().await;
    let seen = fixture.seen();
    // All writes: a patch that is forbidden is tried as an update.
    deal(fixture.server.faults().on(Verb::WRITES));
    let error = fixture.writer.patch(Guard::as_seen(&*seen), Part::Object, label("1"), &STEP).await.err().unwrap();
    assert_eq!(error.retry(), expected, "{error}");
    assert!(error.to_string().starts_with("failed to change it: "), "{error}");
    assert_eq!(fixture.seen().resource_version(), seen.resource_version(), "the cache shows what was answered");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_and_a_look_at_what_is_left_reach_the_cache() {
    let fixture = fixture().await;
    let seen = fixture.seen();
    let held = fixture.writer.hold(Guard::as_seen(&*seen), &STEP).await.unwrap();
    assert_eq!(held.catch_up().await.unwrap(), Found::Itself);
    assert_eq!(held.delete().await.unwrap(), Deletion::Done);
    assert!(fixture.shown().is_none());
    assert_eq!(held.delete().await.unwrap(), Deletion::AlreadyGone);
    assert_eq!(held.catch_up().await.unwrap(), Found::Nothing);
    drop(held);
    let gone = fixture.writer.patch(Guard::as_seen(&*seen), Part::Object, label("1"), &STEP).await.err().unwrap();
    assert_eq!(gone.retry(), Retry::Gone);
    let body = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine", "metadata": { "name": "m" },
        "spec": { "class": { "kind": "MachineClass", "name": "small" } },
    });
    let made = fixture.writer.create(&body, &STEP).await.unwrap();
    assert_eq!(fixture.seen().uid(), made.uid());
    let again = fixture.writer.create(&body, &STEP).await.err().unwrap();
    assert_eq!(again.api_error().map(|error| error.class), Some(runtime::client::RetryClass::AlreadyExists));
    let held = fixture.writer.hold(Guard::as_seen(&*seen), &STEP).await.unwrap();
    assert_eq!(held.catch_up().await.unwrap(), Found::Another, "the name is another's now");
    assert_eq!(fixture.seen().uid(), made.uid());
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_cache_is_guarded_by_its_uid_and_refused_with_the_same_class() {
    let fixture = fixture().await;
    let uncached = Writer { cache: None, ..fixture.writer.clone() };
    let seen = fixture.seen();
    let another = Guard { uid: "another", ..Guard::any_version(&*seen) };
    let error = uncached.hold(another, &STEP).await.unwrap().delete().await.err().unwrap();
    assert_eq!(error.retry(), Retry::Stale, "{error}");
    let held = uncached.hold(Guard::any_version(&*seen), &STEP).await.unwrap();
    assert_eq!(held.delete().await.unwrap(), Deletion::Done);
    assert_eq!(held.delete().await.unwrap(), Deletion::AlreadyGone);
    assert!(uncached.read("m").await.unwrap().is_none());
}
