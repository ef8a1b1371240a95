//! Tests with a collector that accepts, rejects or hangs, and with a test clock.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

use super::super::id::{Sampling, TraceId, TraceKind};
use super::super::span::{Event, Kind, Status, Value};
use super::*;

/// Behaviour of the collector.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Accept,
    Reject,
    Hang,
}

#[derive(Clone)]
struct Fake {
    behaviour: Arc<Mutex<Behaviour>>,
    taken: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    tries: Arc<Mutex<u32>>,
}

impl Transport for Fake {
    async fn send(&self, body: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        *self.tries.lock() += 1;
        let behaviour = *self.behaviour.lock();
        match behaviour {
            Behaviour::Accept => {
                self.taken.lock().push(ExportTraceServiceRequest::decode(body.as_slice()).unwrap());
                Ok(Vec::new())
            }
            Behaviour::Reject => Err(Refusal::Later("unavailable".into())),
            Behaviour::Hang => std::future::pending().await,
        }
    }
}

struct ExporterFixture {
    tracer: Arc<Tracer>,
    fake: Fake,
    metrics: Metrics,
    tasks: runtime::Tasks,
}

impl ExporterFixture {
    fn new(behaviour: Behaviour) -> Self {
        let (clock, metrics) = (Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()), Metrics::new().unwrap());
        let fake = Fake { behaviour: Arc::new(Mutex::new(behaviour)), taken: Arc::default(), tries: Arc::default() };
        let machine_spans = MachineSpans::new(Sampling::new(1.0), clock.now());
        let (tracer, exporter) = pair(machine_spans, fake.clone(), &clock, &Random::seeded(1), &metrics).unwrap();
        let tasks = runtime::Tasks::new();
        tasks.spawn("traces", exporter.run(tasks.stopping()));
        Self { tracer, fake, metrics, tasks }
    }

    fn record(&self, spans: usize) {
        self.tracer.enqueue(|_| (0..spans).map(span).collect());
    }

    fn count(&self, series: &str) -> u64 {
        let text = self.metrics.encode().unwrap();
        text.lines().find_map(|line| line.strip_prefix(series)).map_or(0, |value| value.trim().parse().unwrap())
    }

    fn taken(&self) -> usize {
        let requests = self.fake.taken.lock();
        requests.iter().flat_map(|r| &r.resource_spans).flat_map(|r| &r.scope_spans).map(|s| s.spans.len()).sum()
    }
}

fn span(second: usize) -> Span {
    let trace = TraceId::of("u", TraceKind::Creation);
    let start = jiff::Timestamp::from_second(i64::try_from(second).unwrap()).unwrap();
    Span {
        trace,
        id: trace.span("ask", start),
        parent: Some(trace.root()),
        name: "ask",
        kind: Kind::Client,
        start,
        end: start,
        attributes: vec![("text", Value::from("t")), ("number", Value::Number(7))],
        events: vec![Event { at: start, name: "e".into(), attributes: vec![] }],
        events_left_out: 3,
        status: Status::Error("why".into()),
    }
}

#[tokio::test(start_paused = true)]
async fn spans_are_exported_in_one_otlp_request() {
    let fixture = ExporterFixture::new(Behaviour::Accept);
    fixture.record(3);
    tokio::time::sleep(BATCH_DELAY * 2).await;
    let requests = fixture.fake.taken.lock().clone();
    assert_eq!((requests.len(), fixture.taken()), (1, 3));
    let resource = &requests[0].resource_spans[0];
    let name = &resource.resource.as_ref().unwrap().attributes[0];
    assert_eq!(name.key, "service.name");
    let read = &resource.scope_spans[0].spans[1];
    let sent = span(1);
    assert_eq!((read.trace_id.as_slice(), read.span_id.as_slice()), (&sent.trace.0[..], &sent.id.0[..]));
    assert_eq!(read.parent_span_id, sent.trace.root().0);
    assert_eq!((read.name.as_str(), read.kind, read.flags), ("ask", 3, 1));
    assert_eq!((read.start_time_unix_nano, read.end_time_unix_nano), (1_000_000_000, 1_000_000_000));
    assert_eq!((read.events[0].name.as_str(), read.dropped_events_count), ("e", 3));
    let status = read.status.as_ref().unwrap();
    assert_eq!((status.code, status.message.as_str()), (2, "why"));
    assert_eq!(read.attributes.len(), 2);
    assert_eq!(fixture.count("millwright_traces_exported_total"), 3);
}

/// Shows TRC-3.
#[tokio::test(start_paused = true)]
async fn temporary_collector_outage_loses_no_spans() {
    let fixture = ExporterFixture::new(Behaviour::Reject);
    fixture.record(5);
    tokio::time::sleep(Duration::from_secs(3)).await;
    *fixture.fake.behaviour.lock() = Behaviour::Accept;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((fixture.taken(), fixture.count("millwright_traces_dropped_total{reason=\"refused\"}")), (5, 0));
}

/// Shows TRC-3.
#[tokio::test(start_paused = true)]
async fn hanging_collector_drops_spans_without_blocking() {
    let fixture = ExporterFixture::new(Behaviour::Hang);
    for _ in 0..20 {
        fixture.record(1000); // does not block
    }
    assert!(fixture.count("millwright_traces_dropped_total{reason=\"full\"}") >= 20_000 - 8192 - 512);
    tokio::time::sleep(Duration::from_mins(30)).await;
    let lost = fixture.count("millwright_traces_dropped_total{reason=\"refused\"}");
    let full = fixture.count("millwright_traces_dropped_total{reason=\"full\"}");
    assert_eq!(lost + full, 20_000, "every dropped span is counted");
    assert!(*fixture.fake.tries.lock() <= 20 * MAX_ATTEMPTS, "the retries are delayed");
}

/// Shows TRC-4.
#[tokio::test(start_paused = true)]
async fn remaining_spans_are_sent_at_shutdown() {
    let fixture = ExporterFixture::new(Behaviour::Accept);
    fixture.record(2);
    assert_eq!(fixture.tasks.shut_down(Duration::from_secs(5)).await, runtime::tasks::Ended::Clean);
    assert_eq!(fixture.taken(), 2);
}

/// Shows TRC-4.
#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_a_hanging_collector() {
    let fixture = ExporterFixture::new(Behaviour::Hang);
    fixture.record(2);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(fixture.tasks.shut_down(Duration::from_secs(5)).await, runtime::tasks::Ended::Clean);
    assert_eq!(fixture.count("millwright_traces_dropped_total{reason=\"refused\"}"), 2);
}
