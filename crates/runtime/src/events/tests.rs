//! The writer against a scripted server: what is sent, and what becomes of it when the server is in a mood.

use super::*;
use crate::logs::{self, LogFormat, Verbosity};
use crate::metrics::Metrics;
use crate::{Random, Tasks};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

/// What the server does with the next request, and with all after it when the script has ended.
#[derive(Clone, Copy)]
enum Mood {
    Fine,
    Answers(u16),
    Silent,
}

#[derive(Clone, Default)]
struct Server {
    script: Arc<Mutex<Vec<Mood>>>,
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
                let mood = {
                    let mut script = server.script.lock();
                    if script.len() > 1 { script.remove(0) } else { *script.first().unwrap_or(&Mood::Fine) }
                };
                let (code, answer) = match mood {
                    Mood::Fine => (200, json!({"metadata": {"name": "e"}, "involvedObject": {}})),
                    Mood::Answers(code) => {
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
                    Mood::Silent => std::future::pending().await,
                };
                Ok::<_, tower::BoxError>(
                    Response::builder().status(code).body(Body::from(serde_json::to_vec(&answer)?))?,
                )
            }
        });
        kube::Client::new(service, "default")
    }
}

struct Office {
    server: Server,
    sink: EventSink,
    metrics: Metrics,
    tasks: Tasks,
    unsent: Arc<Mutex<Option<Unsent>>>,
}

fn office(script: &[Mood], policy: EventPolicy) -> Office {
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
    Office { server, sink, metrics, tasks, unsent }
}

fn event(message: &str) -> Event {
    Event {
        about: ObjectReference {
            api_version: Some("machine.sapcloud.io/v1alpha1".into()),
            kind: Some("MachineSet".into()),
            namespace: Some("shoot".into()),
            name: Some("pool-a".into()),
            uid: Some("u-1".into()),
            ..ObjectReference::default()
        },
        event_type: EventType::Normal,
        reason: "SuccessfulCreate".into(),
        message: message.into(),
    }
}

impl Office {
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_mins(1)).await;
    }

    fn requests(&self) -> Vec<(Method, String, Value)> {
        self.server.requests.lock().clone()
    }

    fn count(&self, fate: EventFate) -> u64 {
        self.metrics.events.counted(fate)
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_carries_what_people_and_machines_look_for() {
    let office = office(&[], EventPolicy::default());
    office.sink.speaking_as("machineset-controller").emit(event("Created Machine: pool-a-x"));
    office.settle().await;
    let (method, path, event) = office.requests().remove(0);
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
async fn a_repetition_patches_count_time_and_message_of_the_event_that_is_there() {
    let office = office(&[], EventPolicy::default());
    office.sink.emit(event("hello"));
    office.settle().await;
    office.sink.emit(event("hello"));
    office.settle().await;
    let requests = office.requests();
    let name = requests[0].2["metadata"]["name"].as_str().unwrap();
    assert_eq!(requests[1].0, Method::PATCH);
    assert_eq!(requests[1].1, format!("/api/v1/namespaces/shoot/events/{name}"));
    assert_eq!(requests[1].2, json!({"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z", "message": "hello"}));
    assert_eq!((office.count(EventFate::Created), office.count(EventFate::Repeated)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_expired_is_made_anew_with_the_count_it_had_reached() {
    let office = office(&[Mood::Fine, Mood::Answers(404), Mood::Fine], EventPolicy::default());
    for _ in 0..3 {
        office.sink.emit(event("hello"));
        office.settle().await;
    }
    let requests = office.requests();
    let methods: Vec<_> = requests.iter().map(|(method, ..)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST", "PATCH"]);
    assert_eq!(requests[2].2["count"], 2);
    let (old, new) = (&requests[0].2["metadata"]["name"], &requests[2].2["metadata"]["name"]);
    assert_ne!(old, new);
    assert!(requests[3].1.ends_with(new.as_str().unwrap()), "the third goes to the new one");
}

#[tokio::test(start_paused = true)]
async fn a_passing_trouble_is_tried_again_and_a_lasting_one_is_not_for_ever() {
    let office = office(&[Mood::Answers(500), Mood::Silent, Mood::Fine], EventPolicy::default());
    office.sink.emit(event("hello"));
    office.settle().await;
    assert_eq!(office.count(EventFate::Created), 1);
    *office.server.script.lock() = vec![Mood::Answers(500)];
    office.sink.emit(event("hello again"));
    office.settle().await;
    assert_eq!(office.count(EventFate::Unreachable), 1);
    assert_eq!(office.requests().len(), 3 + 4);
}

/// Shows EVT-3.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_tried_again_and_does_not_stop_the_others() {
    let office = office(&[Mood::Answers(422), Mood::Answers(422), Mood::Fine], EventPolicy::default());
    for message in ["one", "two", "three"] {
        office.sink.emit(event(message));
    }
    office.settle().await;
    assert_eq!(office.requests().len(), 3);
    assert_eq!((office.count(EventFate::Refused), office.count(EventFate::Created)), (2, 1));
}

/// Shows ROL-4, EVT-3.
#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_said_once_until_it_has_been_granted_in_between() {
    let page = crate::logs::page::Page::default();
    let subscriber = logs::subscriber(LogFormat::Text, Verbosity(0), Clock::system(), page.clone());
    let _listening = tracing::subscriber::set_default(subscriber);
    let said = || page.text().matches("may not write Events").count();

    let office = office(&[Mood::Answers(403)], EventPolicy::default());
    for i in 0..5 {
        office.sink.emit(event(&format!("message {i}")));
    }
    office.settle().await;
    assert_eq!((office.count(EventFate::Refused), said()), (5, 1));
    assert_eq!(office.requests().len(), 1, "the server is left alone for a while");
    tokio::time::sleep(Duration::from_mins(1)).await;
    office.sink.emit(event("still not"));
    office.settle().await;
    assert_eq!((office.requests().len(), said()), (2, 1));

    tokio::time::sleep(Duration::from_mins(1)).await;
    *office.server.script.lock() = vec![Mood::Fine, Mood::Answers(403)];
    office.sink.emit(event("granted"));
    office.sink.emit(event("and taken away again"));
    office.settle().await;
    assert_eq!(said(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_exchanged_for_another() {
    let office = office(&[Mood::Answers(409), Mood::Fine], EventPolicy::default());
    office.sink.emit(event("hello"));
    office.settle().await;
    let requests = office.requests();
    assert_ne!(requests[0].2["metadata"]["name"], requests[1].2["metadata"]["name"]);
    assert_eq!(office.count(EventFate::Created), 1);
}

/// Shows EVT-1.
#[tokio::test(start_paused = true)]
async fn emitting_never_waits_and_a_full_queue_drops_and_counts() {
    let policy = EventPolicy { queue: 10, ..EventPolicy::default() };
    let office = office(&[Mood::Silent], policy);
    for i in 0..50 {
        office.sink.emit(event(&format!("message {i}")));
    }
    assert_eq!(office.count(EventFate::QueueFull), 40);
}

/// Shows EVT-1.
#[tokio::test(start_paused = true)]
async fn the_budget_for_writes_is_not_overdrawn() {
    let policy = EventPolicy { qps: 1.0, burst: 3, ..EventPolicy::default() };
    let office = office(&[], policy);
    for i in 0..8 {
        office.sink.emit(event(&format!("message {i}")));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!((office.count(EventFate::Created), office.count(EventFate::RateLimited)), (3, 5));
}

/// Shows EVT-4.
#[tokio::test(start_paused = true)]
async fn what_is_left_is_written_when_we_are_asked_to_stop() {
    let office = office(&[], EventPolicy::default());
    for i in 0..5 {
        office.sink.emit(event(&format!("message {i}")));
    }
    office.tasks.shut_down(Duration::from_mins(1)).await;
    assert_eq!(*office.unsent.lock(), Some(Unsent(0)));
    assert_eq!(office.count(EventFate::Created), 5);
    office.sink.emit(event("too late"));
    assert_eq!(office.count(EventFate::Unsent), 1);
}

/// Shows EVT-4.
#[tokio::test(start_paused = true)]
async fn a_flush_ends_at_its_deadline_and_says_what_was_not_sent() {
    let office = office(&[Mood::Silent], EventPolicy::default());
    for i in 0..5 {
        office.sink.emit(event(&format!("message {i}")));
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let start = tokio::time::Instant::now();
    office.tasks.shut_down(Duration::from_mins(1)).await;
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(*office.unsent.lock(), Some(Unsent(5)));
    assert_eq!(office.count(EventFate::Unsent), 5);
}

#[tokio::test(start_paused = true)]
async fn long_names_and_messages_are_cut_to_what_the_api_server_takes() {
    let office = office(&[], EventPolicy::default());
    let mut long = event(&"ä".repeat(2000));
    long.about.name = Some("n".repeat(253));
    long.about.namespace = None;
    office.sink.emit(long);
    office.settle().await;
    let (_, path, event) = office.requests().remove(0);
    assert_eq!(path, "/api/v1/namespaces/default/events");
    assert_eq!(event["metadata"]["name"].as_str().unwrap().len(), 253);
    assert_eq!(event["message"].as_str().unwrap().len(), 1024);
}
