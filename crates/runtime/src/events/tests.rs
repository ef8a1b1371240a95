//! Tests of the writer with a scripted API server.

use super::*;
use crate::logs::{self, LogFormat, Verbosity};
use crate::metrics::Metrics;
use crate::{Random, Tasks};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use meta::EventType;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

/// Response to the next request. The last one of a script applies to all further requests.
#[derive(Clone, Copy)]
enum Reaction {
    Accept,
    Reject(u16),
    Hang,
}

#[derive(Clone, Default)]
struct Server {
    script: Arc<Mutex<Vec<Reaction>>>,
    requests: Arc<Mutex<Vec<(Method, String, Value)>>>,
}

impl Server {
    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
                server.requests.lock().push((head.method, head.uri.path().to_owned(), body.clone()));
                let reaction = {
                    let mut script = server.script.lock();
                    if script.len() > 1 { script.remove(0) } else { *script.first().unwrap_or(&Reaction::Accept) }
                };
                let (code, answer) = match reaction {
                    Reaction::Accept => (200, json!({"metadata": {"name": "e"}, "involvedObject": {}})),
                    Reaction::Reject(code) => {
                        let reason = match code {
                            403 => "Forbidden",
                            404 => "NotFound",
                            409 => "AlreadyExists",
                            422 => "Invalid",
                            _ => "InternalError",
                        };
                        (
                            code,
                            json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"}),
                        )
                    }
                    Reaction::Hang => std::future::pending().await,
                };
                Ok::<_, tower::BoxError>(
                    Response::builder().status(code).body(Body::from(serde_json::to_vec(&answer)?))?,
                )
            }
        });
        kube::Client::new(service, "default")
    }
}

struct Fixture {
    server: Server,
    sink: EventSink,
    metrics: Metrics,
    tasks: Tasks,
    unsent: Arc<Mutex<Option<Unsent>>>,
}

fn fixture(script: &[Reaction], policy: EventPolicy) -> Fixture {
    let server = Server::default();
    *server.script.lock() = script.to_vec();
    let metrics = Metrics::new().unwrap();
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let (writer, sink) =
        EventWriter::new(server.client(), "test-controller", policy, &clock, &Random::seeded(1), &metrics);
    let (tasks, unsent) = (Tasks::new(), Arc::new(Mutex::new(None)));
    let (stop, left) = (tasks.stopping(), Arc::clone(&unsent));
    tasks.spawn("events", async move {
        let unsent = writer.run(stop).await;
        *left.lock() = Some(unsent);
    });
    Fixture { server, sink, metrics, tasks, unsent }
}

fn about() -> ObjectReference {
    ObjectReference {
        api_version: Some("machine.sapcloud.io/v1alpha1".into()),
        kind: Some("MachineSet".into()),
        namespace: Some("shoot".into()),
        name: Some("pool-a".into()),
        uid: Some("u-1".into()),
        ..ObjectReference::default()
    }
}

fn event(message: &str) -> Event {
    Event { event_type: EventType::Normal, reason: "SuccessfulCreate", message: message.into() }
}

impl Fixture {
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_mins(1)).await;
    }

    fn requests(&self) -> Vec<(Method, String, Value)> {
        self.server.requests.lock().clone()
    }

    fn count(&self, outcome: EventOutcome) -> u64 {
        self.metrics.events.counted(outcome)
    }
}

#[tokio::test(start_paused = true)]
async fn written_event_has_all_fields() {
    let fixture = fixture(&[], EventPolicy::default());
    fixture.sink.with_component("machineset-controller").emit(about(), event("Created Machine: pool-a-x"));
    fixture.settle().await;
    let (method, path, event) = fixture.requests().remove(0);
    assert_eq!((method, path.as_str()), (Method::POST, "/api/v1/namespaces/shoot/events"));
    assert!(event["metadata"]["name"].as_str().unwrap().starts_with("pool-a."));
    assert_eq!(event["metadata"]["namespace"], "shoot");
    assert_eq!(event["involvedObject"]["uid"], "u-1");
    assert_eq!(event["type"], "Normal");
    assert_eq!(event["reason"], "SuccessfulCreate");
    assert_eq!(event["message"], "Created Machine: pool-a-x");
    assert_eq!(event["count"], 1);
    assert_eq!(event["firstTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(event["source"], json!({"component": "machineset-controller"}));
    assert_eq!(event["reportingComponent"], "machineset-controller");
}

/// Shows EVT-2.
#[tokio::test(start_paused = true)]
async fn repetition_patches_count_time_and_message() {
    let fixture = fixture(&[], EventPolicy::default());
    fixture.sink.emit(about(), event("hello"));
    fixture.settle().await;
    fixture.sink.emit(about(), event("hello"));
    fixture.settle().await;
    let requests = fixture.requests();
    let name = requests[0].2["metadata"]["name"].as_str().unwrap();
    assert_eq!(requests[1].0, Method::PATCH);
    assert_eq!(requests[1].1, format!("/api/v1/namespaces/shoot/events/{name}"));
    assert_eq!(requests[1].2, json!({"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z", "message": "hello"}));
    assert_eq!((fixture.count(EventOutcome::Created), fixture.count(EventOutcome::Repeated)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn expired_event_is_created_again_with_its_count() {
    let fixture = fixture(&[Reaction::Accept, Reaction::Reject(404), Reaction::Accept], EventPolicy::default());
    for _ in 0..3 {
        fixture.sink.emit(about(), event("hello"));
        fixture.settle().await;
    }
    let requests = fixture.requests();
    let methods: Vec<_> = requests.iter().map(|(method, ..)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST", "PATCH"]);
    assert_eq!(requests[2].2["count"], 2);
    let (old, new) = (&requests[0].2["metadata"]["name"], &requests[2].2["metadata"]["name"]);
    assert_ne!(old, new);
    assert!(requests[3].1.ends_with(new.as_str().unwrap()), "the third patches the new Event");
}

#[tokio::test(start_paused = true)]
async fn transient_error_is_retried_a_limited_number_of_times() {
    let fixture = fixture(&[Reaction::Reject(500), Reaction::Hang, Reaction::Accept], EventPolicy::default());
    fixture.sink.emit(about(), event("hello"));
    fixture.settle().await;
    assert_eq!(fixture.count(EventOutcome::Created), 1);
    *fixture.server.script.lock() = vec![Reaction::Reject(500)];
    fixture.sink.emit(about(), event("hello again"));
    fixture.settle().await;
    assert_eq!(fixture.count(EventOutcome::Unreachable), 1);
    assert_eq!(fixture.requests().len(), 3 + 4);
}

/// Shows EVT-3.
#[tokio::test(start_paused = true)]
async fn rejected_event_is_not_retried_and_does_not_block_others() {
    let fixture = fixture(&[Reaction::Reject(422), Reaction::Reject(422), Reaction::Accept], EventPolicy::default());
    for message in ["one", "two", "three"] {
        fixture.sink.emit(about(), event(message));
    }
    fixture.settle().await;
    assert_eq!(fixture.requests().len(), 3);
    assert_eq!((fixture.count(EventOutcome::Refused), fixture.count(EventOutcome::Created)), (2, 1));
}

/// Shows ROL-4, EVT-3.
#[tokio::test(start_paused = true)]
async fn missing_permission_is_logged_once_until_it_was_granted() {
    let page = crate::logs::page::Page::default();
    let subscriber = logs::subscriber(LogFormat::Text, Verbosity(0), Clock::system(), page.clone());
    let _listening = tracing::subscriber::set_default(subscriber);
    let logged = || page.text().matches("no permission to write Events").count();

    let fixture = fixture(&[Reaction::Reject(403)], EventPolicy::default());
    for i in 0..5 {
        fixture.sink.emit(about(), event(&format!("message {i}")));
    }
    fixture.settle().await;
    assert_eq!((fixture.count(EventOutcome::Refused), logged()), (5, 1));
    assert_eq!(fixture.requests().len(), 1, "no requests are sent during the backoff");
    tokio::time::sleep(Duration::from_mins(1)).await;
    fixture.sink.emit(about(), event("still not"));
    fixture.settle().await;
    assert_eq!((fixture.requests().len(), logged()), (2, 1));

    tokio::time::sleep(Duration::from_mins(1)).await;
    *fixture.server.script.lock() = vec![Reaction::Accept, Reaction::Reject(403)];
    fixture.sink.emit(about(), event("granted"));
    fixture.sink.emit(about(), event("and revoked again"));
    fixture.settle().await;
    assert_eq!(logged(), 2);
}

#[tokio::test(start_paused = true)]
async fn new_name_is_used_when_the_name_exists() {
    let fixture = fixture(&[Reaction::Reject(409), Reaction::Accept], EventPolicy::default());
    fixture.sink.emit(about(), event("hello"));
    fixture.settle().await;
    let requests = fixture.requests();
    assert_ne!(requests[0].2["metadata"]["name"], requests[1].2["metadata"]["name"]);
    assert_eq!(fixture.count(EventOutcome::Created), 1);
}

/// Shows EVT-1.
#[tokio::test(start_paused = true)]
async fn events_are_dropped_and_counted_when_the_queue_is_full() {
    let policy = EventPolicy { queue: 10, ..EventPolicy::default() };
    let fixture = fixture(&[Reaction::Hang], policy);
    for i in 0..50 {
        fixture.sink.emit(about(), event(&format!("message {i}")));
    }
    assert_eq!(fixture.count(EventOutcome::QueueFull), 40);
}

/// Shows EVT-1.
#[tokio::test(start_paused = true)]
async fn rate_limit_of_writes_is_not_exceeded() {
    let policy = EventPolicy { qps: 1.0, burst: 3, ..EventPolicy::default() };
    let fixture = fixture(&[], policy);
    for i in 0..8 {
        fixture.sink.emit(about(), event(&format!("message {i}")));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!((fixture.count(EventOutcome::Created), fixture.count(EventOutcome::RateLimited)), (3, 5));
}

/// Shows EVT-4.
#[tokio::test(start_paused = true)]
async fn queue_is_flushed_on_shutdown() {
    let fixture = fixture(&[], EventPolicy::default());
    for i in 0..5 {
        fixture.sink.emit(about(), event(&format!("message {i}")));
    }
    fixture.tasks.shut_down(Duration::from_mins(1)).await;
    assert_eq!(*fixture.unsent.lock(), Some(Unsent(0)));
    assert_eq!(fixture.count(EventOutcome::Created), 5);
    fixture.sink.emit(about(), event("too late"));
    assert_eq!(fixture.count(EventOutcome::Unsent), 1);
}

/// Shows EVT-4.
#[tokio::test(start_paused = true)]
async fn flush_ends_at_its_deadline_and_counts_unsent_events() {
    let fixture = fixture(&[Reaction::Hang], EventPolicy::default());
    for i in 0..5 {
        fixture.sink.emit(about(), event(&format!("message {i}")));
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let start = tokio::time::Instant::now();
    fixture.tasks.shut_down(Duration::from_mins(1)).await;
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(*fixture.unsent.lock(), Some(Unsent(5)));
    assert_eq!(fixture.count(EventOutcome::Unsent), 5);
}

#[tokio::test(start_paused = true)]
async fn long_names_and_messages_are_truncated() {
    let fixture = fixture(&[], EventPolicy::default());
    let about = ObjectReference { name: Some("n".repeat(253)), namespace: None, ..about() };
    fixture.sink.emit(about, event(&"ä".repeat(2000)));
    fixture.settle().await;
    let (_, path, event) = fixture.requests().remove(0);
    assert_eq!(path, "/api/v1/namespaces/default/events");
    assert_eq!(event["metadata"]["name"].as_str().unwrap().len(), 253);
    assert_eq!(event["message"].as_str().unwrap().len(), 1024);
}
