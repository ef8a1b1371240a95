//! Tests of the event writer with the in-memory API server.

use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::{Options, Server};
use k8s_openapi::api::core::v1::{self, ObjectReference};
use kube::Api;
use kube::api::DeleteParams;
use meta::{Event, EventType};
use runtime::client::{ClientSpec, UserAgent, in_process};
use runtime::events::{EventPolicy, EventSink, EventWriter};
use runtime::{Clock, Metrics, Random, Tasks};

fn fixture(tasks: &Tasks) -> (Server, EventSink, Api<v1::Event>) {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let time = clock.clone();
    let server = Server::new(Options::new(Arc::new(move || time.now()), 1));
    let metrics = Metrics::new().unwrap();
    let spec = ClientSpec::new(UserAgent::new("events", "v1", "test"));
    let client = in_process(server.service(), "default", &spec, &metrics.rest);
    let api = Api::namespaced(client.clone(), "default");
    let (writer, sink) =
        EventWriter::new(client, "test-controller", EventPolicy::default(), &clock, &Random::seeded(1), &metrics);
    let stop = tasks.stopping();
    tasks.spawn("events", async move {
        writer.run(stop).await;
    });
    (server, sink, api)
}

async fn emit(sink: &EventSink, message: &str) {
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("ConfigMap".to_owned()),
        namespace: Some("default".to_owned()),
        name: Some("thing".to_owned()),
        ..ObjectReference::default()
    };
    let event = Event { event_type: EventType::Warning, reason: "FailedCreate", message: message.to_owned() };
    sink.emit(about, event);
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn repetitions_are_counted_also_after_the_event_expired() {
    let tasks = Tasks::new();
    let (server, sink, api) = fixture(&tasks);
    for _ in 0..3 {
        emit(&sink, "quota exceeded").await;
    }
    let events = server.objects("events");
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0]["count"], &events[0]["type"]), (&3.into(), &"Warning".into()));
    assert_eq!(events[0]["firstTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(events[0]["lastTimestamp"], "2026-01-01T00:00:02Z");

    let name = events[0]["metadata"]["name"].as_str().unwrap();
    api.delete(name, &DeleteParams::default()).await.unwrap();
    emit(&sink, "quota exceeded").await;
    let events = server.objects("events");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["count"], 4);
    assert_ne!(events[0]["metadata"]["name"], name);
}

/// Shows EVT-2.
#[tokio::test(start_paused = true)]
async fn similar_messages_end_in_eleven_events() {
    let tasks = Tasks::new();
    let (server, sink, _) = fixture(&tasks);
    for i in 0..20 {
        emit(&sink, &format!("error {i}")).await;
    }
    let events = server.objects("events");
    assert_eq!(events.len(), 11);
    let combined: Vec<_> = events.iter().filter(|event| event["count"] == 10).collect();
    assert_eq!(combined.len(), 1);
    assert_eq!(combined[0]["message"], "(combined from similar events): error 19");
}
