//! Tests of traces with a collector in the test, the real binary and the protocol types of OpenTelemetry.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driver::Method;
use driver_remote::{About, Endpoint, Listener, serve};
use driver_virtual::{Config, Fault, Script, VirtualCloud};
use fake_apiserver::loopback::Running;
use fake_apiserver::{Options, Server, loopback};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use runtime::client::{ClientSpec, UserAgent, in_process};
use runtime::{Clock, Metrics, Tasks};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::program::{Program, run, text};

mod tls;

const MACHINES: &str = "machines.machine.sapcloud.io";

/// A collector that stores spans.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    strange: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    /// Starts listening, optionally with TLS.
    async fn open(&self, tasks: &Tasks, tls: Option<TlsAcceptor>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, collector, group) = (listener.local_addr().unwrap(), self.clone(), tasks.clone());
        let stopping = tasks.stopping();
        tasks.spawn("collector", async move {
            loop {
                let stream = tokio::select! {
                    () = stopping.cancelled() => return,
                    accepted = listener.accept() => accepted.unwrap().0,
                };
                let (collector, stopping, tls) = (collector.clone(), stopping.clone(), tls.clone());
                group.spawn("caller", async move {
                    let serving = async {
                        match tls {
                            None => collector.serve(stream).await,
                            // A client that does not trust the certificate closes the connection.
                            Some(tls) => {
                                if let Ok(stream) = tls.accept(stream).await {
                                    collector.serve(stream).await;
                                }
                            }
                        }
                    };
                    tokio::select! {
                        () = stopping.cancelled() => {}
                        () = serving => {}
                    }
                });
            }
        });
        address
    }

    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let collector = self.clone();
        let answer = service_fn(move |request| {
            let collector = collector.clone();
            async move { Ok::<_, Infallible>(collector.take(request).await) }
        });
        let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
        let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
    }

    async fn take(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let kind = head.headers.get("content-type").cloned();
        if head.uri.path() != "/v1/traces" || kind.is_none_or(|kind| kind != "application/x-protobuf") {
            self.strange.lock().unwrap().push(format!("{head:?}"));
        }
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        let spans = request.resource_spans.into_iter().flat_map(|r| r.scope_spans).flat_map(|scope| scope.spans);
        self.spans.lock().unwrap().extend(spans);
        Response::new(Full::from(ExportTraceServiceResponse::default().encode_to_vec()))
    }

    fn named(&self, name: &str) -> Vec<Span> {
        self.spans.lock().unwrap().iter().filter(|span| span.name == name).cloned().collect()
    }
}

fn attribute(span: &Span, key: &str) -> String {
    let found = span.attributes.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone()?.value);
    match found {
        Some(Any::StringValue(text)) => text,
        other => panic!("{key} of {} is {other:?}", span.name),
    }
}

/// An API server, a cloud behind a socket, and a collector. The controllers run as processes.
struct TracesFixture {
    server: Server,
    cloud: VirtualCloud,
    collector: Collector,
    endpoint: String,
    tasks: Tasks,
    folder: TempDir,
    _running: Running,
}

impl TracesFixture {
    async fn new() -> Self {
        Self::with(None).await
    }

    async fn with(tls: Option<TlsAcceptor>) -> Self {
        let (clock, folder, tasks) = (Clock::system(), TempDir::new().unwrap(), Tasks::new());
        let now = Arc::new(move || clock.now());
        let server = Server::new(Options::new(now.clone(), 1));
        for definition in api::crd::definitions() {
            server.insert(&definition).unwrap();
        }
        let meta = |name: &str| json!({ "name": name, "namespace": "default" });
        let latencies = json!({ "createLatency": "100ms", "bootLatency": "100ms", "join": { "after": "100ms" } });
        for object in [
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": meta("s"), "stringData": {
                "userData": "canary-in-the-user-data <<BOOTSTRAP_TOKEN>>", "password": "canary-of-the-class" } }),
            json!({ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass", "metadata": meta("c"),
                "provider": "virtual", "providerSpec": latencies, "secretRef": { "name": "s", "namespace": "default" } }),
        ] {
            server.insert(&object).unwrap();
        }
        let cloud = VirtualCloud::new(Config::default(), now, 1);
        let endpoint = Endpoint::Unix(folder.path().join("driver.sock"));
        let listener = Listener::bind(&endpoint, None).await.unwrap();
        let about = About { name: "virtual".into(), version: "0".into() };
        tasks.spawn("callers", serve(Arc::new(cloud.clone()), about, listener, tasks.clone()));
        let spec = ClientSpec::new(UserAgent::new("kubelets", "0", "test"));
        let kubelets = in_process(server.service(), "default", &spec, &Metrics::new().unwrap().rest);
        let (nodes, stop) = (cloud.clone(), tasks.stopping());
        tasks.spawn("kubelets", async move { nodes.run_nodes(kubelets, stop).await });
        let running = loopback::serve(server.clone(), loopback::Options::default()).await.unwrap();
        running.write_kubeconfig(folder.path().join("kubeconfig")).unwrap();
        let collector = Collector::default();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let endpoint = format!("{scheme}://{}", collector.open(&tasks, tls).await);
        Self { server, cloud, collector, endpoint, tasks, folder, _running: running }
    }

    fn controller(&self, more: &[&str]) -> Program {
        let path = |name: &str| self.folder.path().join(name).to_string_lossy().into_owned();
        let (driver, kubeconfig) = (format!("unix:{}", path("driver.sock")), path("kubeconfig"));
        let traces = format!("--tracing-endpoint={}", self.endpoint);
        let mut line =
            vec!["run", "--leader-elect=false", "--driver-endpoint", &driver, "--target-kubeconfig", &kubeconfig];
        line.push(&traces);
        line.extend(more);
        Program::start(&line)
    }

    fn create(&self, name: &str) {
        let (meta, class) =
            (json!({ "name": name, "namespace": "default" }), json!({ "kind": "MachineClass", "name": "c" }));
        let kind = json!({ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine", "metadata": meta, "spec": { "class": class } });
        self.server.insert(&kind).unwrap();
    }

    async fn delete(&self, name: &str) {
        let spec = ClientSpec::new(UserAgent::new("person", "0", "test"));
        let person = in_process(self.server.service(), "default", &spec, &Metrics::new().unwrap().rest);
        let machines: runtime::client::Api<api::Machine> = runtime::client::Api::namespaced(person, "default");
        machines.delete(name, &kube::api::DeleteParams::default()).await.unwrap();
    }

    fn machine(&self, name: &str) -> Option<Value> {
        self.server.object(MACHINES, "default", name).map(|machine| (*machine).clone())
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..2400 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let spans = self.collector.spans.lock().unwrap();
        let seen: Vec<_> = spans.iter().map(|span| span.name.clone()).collect();
        panic!(
            "timed out after two minutes while waiting until {what}: {seen:?}, {:#?}",
            self.server.objects(MACHINES)
        );
    }
}

/// Shows TRC-1, TRC-2.
#[tokio::test(flavor = "multi_thread")]
async fn trace_of_a_machine_continues_after_a_restart() {
    let fixture = TracesFixture::new().await;
    fixture.cloud.inject(Script::next(Method::Create, Fault::Hang));
    let mut first = fixture.controller(&[]);
    first.wait_for_line(&["exporting traces"]);
    fixture.create("m-1");
    fixture.until("its creation has started", |w| !w.collector.named("ask").is_empty()).await;
    assert!(first.terminate_and_read().0.success());
    let interrupted = fixture.collector.named("create");
    assert_eq!(interrupted.len(), 1, "open spans are exported at shutdown");
    assert_eq!(attribute(&interrupted[0], "millwright.outcome"), "interrupted");
    assert!(fixture.collector.named("create machine").is_empty(), "the trace continues");

    let second = fixture.controller(&[]);
    fixture.until("its trace is complete", |w| !w.collector.named("create machine").is_empty()).await;
    fixture.delete("m-1").await;
    fixture.until("its deletion is exported", |w| !w.collector.named("delete machine").is_empty()).await;
    assert!(second.terminate_and_read().0.success());
    assert_eq!(*fixture.collector.strange.lock().unwrap(), Vec::<String>::new());

    let spans = fixture.collector.spans.lock().unwrap().clone();
    let root = fixture.collector.named("create machine").remove(0);
    let life: Vec<&Span> = spans.iter().filter(|span| span.trace_id == root.trace_id).collect();
    assert!(life.iter().any(|span| span.span_id == interrupted[0].span_id), "both processes export the same trace");
    assert_eq!(attribute(&root, "millwright.outcome"), "running");
    assert_eq!(attribute(&root, "millwright.machine"), "m-1");
    assert_eq!(attribute(&root, "k8s.namespace.name"), "default");
    assert_eq!(attribute(&root, "millwright.class"), "c");
    assert!(!attribute(&root, "millwright.provider_id").is_empty());
    assert!(root.parent_span_id.is_empty());
    let stages: Vec<&&Span> = life.iter().filter(|span| span.parent_span_id == root.span_id).collect();
    let names: BTreeSet<&str> = stages.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["ask", "create", "join"]));
    let ids: BTreeSet<&[u8]> = stages.iter().map(|span| span.span_id.as_slice()).collect();
    let calls: Vec<&&Span> = life.iter().filter(|span| ids.contains(span.parent_span_id.as_slice())).collect();
    let made = calls.iter().find(|span| span.name == "CreateMachine" && attribute(span, "millwright.code") == "OK");
    assert!(made.is_some(), "{calls:#?}");
    assert_eq!(
        life.len(),
        1 + stages.len() + calls.len(),
        "every span belongs to a stage, and every stage to the root"
    );
    assert!(life.iter().all(|span| span.start_time_unix_nano <= span.end_time_unix_nano));
    assert!(life.iter().all(|span| span.start_time_unix_nano >= root.start_time_unix_nano));

    let end = fixture.collector.named("delete machine").remove(0);
    assert_ne!(end.trace_id, root.trace_id);
    let stages: BTreeSet<String> =
        spans.iter().filter(|span| span.parent_span_id == end.span_id).map(|span| span.name.clone()).collect();
    assert!(["drain", "delete VM", "delete node"].iter().all(|stage| stages.contains(*stage)), "{stages:?}");
    fixture.tasks.shut_down(Duration::from_secs(5)).await;
}

/// Shows EVT-10.
#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_logs_events_traces_or_pages() {
    let fixture = TracesFixture::new().await;
    fixture.cloud.inject(Script::next(Method::Create, Fault::Fail(api::Code::Internal)).of("m-bad"));
    let mut controller = fixture.controller(&["-v=10", "--log-format=json", "--profiling"]);
    let port: String = {
        let line = controller.wait_for_line(&["FLAG: --port="]);
        let behind = line.split("--port=").nth(1).unwrap();
        behind.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect()
    };
    fixture.create("m-1");
    fixture.create("m-bad");
    let mut tokens = BTreeSet::new();
    let of = |w: &TracesFixture| {
        let secrets = w.server.objects("secrets");
        let data = secrets.iter().filter_map(|s| s["data"]["token-secret"].as_str().map(str::to_owned));
        data.collect::<Vec<String>>()
    };
    for _ in 0..2400 {
        tokens.extend(of(&fixture));
        let runs = fixture.machine("m-1").is_some_and(|m| m["status"]["currentStatus"]["phase"] == "Running");
        if runs
            && !tokens.is_empty()
            && fixture.machine("m-bad").is_some_and(|m| m["status"]["lastOperation"]["errorCode"] == "Internal")
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!tokens.is_empty(), "a token was created and observed");
    let pages = ["/metrics", "/debug/state", "/readyz?verbose"].map(|path| page(&port, path)).join("\n");
    assert!(pages.contains("mcm_workqueue") && pages.contains("default/m-1"), "{pages}");
    fixture.delete("m-1").await;
    fixture.delete("m-bad").await;
    fixture.until("both are gone", |w| w.server.objects(MACHINES).is_empty()).await;
    let (status, printed) = controller.terminate_and_read();
    assert!(status.success());

    let log = printed.join("\n");
    assert!(log.contains("\"TRACE\""), "the log has the highest verbosity");
    let events = format!("{:?}", fixture.server.objects("events"));
    let spans = format!("{:?}", fixture.collector.spans.lock().unwrap());
    assert!(spans.contains("delete machine"));
    let mut needles: Vec<String> = ["canary-in-the-user-data", "canary-of-the-class"].map(str::to_owned).to_vec();
    needles.extend(["Y2FuYXJ5LWluLXRoZS11c2VyLWRhdG", "Y2FuYXJ5LW9mLXRoZS1jbGFzc"].map(str::to_owned));
    needles.extend(tokens.iter().map(|token| String::from_utf8(STANDARD.decode(token).unwrap()).unwrap()));
    needles.extend(tokens);
    for (place, text) in [("log", &log), ("Events", &events), ("traces", &spans), ("pages", &pages)] {
        for needle in &needles {
            let found = text.find(needle.as_str());
            let around = found.and_then(|at| text.get(at.saturating_sub(300)..(at + 100).min(text.len())));
            assert!(found.is_none(), "{needle} is in the {place}: {around:?}");
        }
    }
    fixture.tasks.shut_down(Duration::from_secs(5)).await;
}

/// Returns a page of the HTTP server.
fn page(port: &str, path: &str) -> String {
    let mut connection = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut shown = String::new();
    connection.read_to_string(&mut shown).unwrap();
    shown
}

/// Shows TRC-6.
#[test]
fn invalid_tracing_endpoint_is_rejected_with_a_fix() {
    let flags = ["--provider=virtual", "--target-kubeconfig=/no/such", "--tracing-endpoint=collector:4317"];
    let output = run(&[&["run"], &flags[..]].concat());
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("http://collector.example:4318"), "{}", text(&output.stderr));
    let output = run(&["run", "--tracing-sample-ratio=2"]);
    assert_eq!(output.status.code(), Some(2));
}
