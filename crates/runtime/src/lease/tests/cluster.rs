//! Test fixture: one Lease with optimistic locking, a network with faults for each process, and processes that can be
//! paused.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::lease::{ElectionConfig, Elector, Ended, Identity, Leadership, Timing};
use crate::{Clock, Random, Tasks};

/// The API server with one Lease, and all processes.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) tasks: Tasks,
    pub(super) clock: Clock,
    pub(super) random: Random,
    record: Arc<Mutex<Record>>,
    pub(super) processes: Arc<Mutex<Vec<Process>>>,
    /// Processes that acted, in order.
    pub(super) acts: Arc<Mutex<Vec<usize>>>,
    /// Violated expectations.
    pub(super) violations: Arc<Mutex<Vec<String>>>,
}

#[derive(Default)]
struct Record {
    version: u64,
    rejects_annotations: bool,
    lease: Option<Value>,
}

/// Faults of the network between one process and the API server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Network {
    pub(super) cut: Option<Cut>,
    pub(super) there: Duration,
    pub(super) back: Duration,
    /// Number of next requests that are executed without a response.
    pub(super) lost_responses: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    Refused,
    Silent,
}

/// One candidate: an election and a worker that acts while it leads.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) leadership: Leadership,
    pub(super) identity: Identity,
    pub(super) network: Arc<Mutex<Network>>,
    pub(super) pause: Pause,
    pub(super) stop: CancellationToken,
    pub(super) ended: Arc<Mutex<Option<Ended>>>,
}

impl Cluster {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            tasks: Tasks::new(),
            clock: Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()),
            random: Random::seeded(seed),
            record: Arc::default(),
            processes: Arc::default(),
            acts: Arc::default(),
            violations: Arc::default(),
        }
    }

    /// Spec of the Lease.
    pub(super) fn spec(&self) -> Value {
        self.record.lock().lease.as_ref().map_or(Value::Null, |lease| lease["spec"].clone())
    }

    /// Annotations of the Lease.
    pub(super) fn annotations(&self) -> Value {
        self.record.lock().lease.as_ref().map_or(Value::Null, |lease| lease["metadata"]["annotations"].clone())
    }

    /// Rejects updates with annotations, as an admission policy might.
    pub(super) fn reject_annotations(&self) {
        self.record.lock().rejects_annotations = true;
    }

    /// Overwrites the spec of the Lease without a check, or deletes the Lease.
    pub(super) fn tamper(&self, spec: Option<Value>) {
        let mut record = self.record.lock();
        record.version += 1;
        let version = record.version.to_string();
        record.lease = spec.map(
            |spec| json!({"metadata": {"name": "lock", "namespace": "ns", "resourceVersion": version}, "spec": spec}),
        );
    }

    /// Starts a candidate. Its number is its index in `processes`.
    pub(super) fn start(&self) -> Process {
        let network = Arc::new(Mutex::new(Network::default()));
        let identity = Identity::of_host("host", &self.random);
        let (elector, leadership) = Elector::new(ElectionConfig {
            client: self.client(Arc::clone(&network)),
            namespace: "ns".into(),
            name: "lock".into(),
            identity: identity.clone(),
            timing: Timing::default(),
            clock: self.clock.clone(),
            random: self.random.fork(),
            events: None,
        })
        .unwrap();
        let (pause, stop, ended) = (Pause::default(), CancellationToken::new(), Arc::new(Mutex::new(None)));
        let process = Process {
            leadership,
            identity,
            network,
            pause: pause.clone(),
            stop: stop.clone(),
            ended: Arc::clone(&ended),
        };
        let number = self.processes.lock().len();
        self.processes.lock().push(process.clone());

        let election = async move {
            let how = elector.run(stop).await;
            *ended.lock() = Some(how);
        };
        self.tasks.spawn("election", pause.pausable(election));
        let (cluster, leadership) = (self.clone(), process.leadership.clone());
        let work = async move {
            while leadership.wait_until_leading().await.is_ok() {
                let effect = async {
                    cluster.act(number);
                    tokio::time::sleep(Duration::from_millis(cluster.random.below(3000))).await;
                    cluster.act(number);
                };
                let _ = leadership.while_leading(effect).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        self.tasks.spawn("work", process.pause.pausable(work));
        process
    }

    /// Current leaders.
    pub(super) fn leaders(&self) -> Vec<usize> {
        let processes = self.processes.lock();
        processes.iter().enumerate().filter(|(_, p)| p.leadership.check().is_ok()).map(|(n, _)| n).collect()
    }

    fn act(&self, number: usize) {
        let leaders = self.leaders();
        if leaders != [number] {
            self.violations.lock().push(format!("{number} acted while {leaders:?} led"));
        }
        self.acts.lock().push(number);
    }

    fn client(&self, network: Arc<Mutex<Network>>) -> Client {
        let cluster = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (cluster, network) = (cluster.clone(), Arc::clone(&network));
            async move { cluster.transmit(request, network).await }
        });
        Client::new(service, "ns")
    }

    /// Transmits a request and its response. A request that was sent is executed even if the sender is cancelled.
    async fn transmit(
        &self,
        request: Request<Body>,
        network: Arc<Mutex<Network>>,
    ) -> Result<Response<Body>, tower::BoxError> {
        let faults = *network.lock();
        match faults.cut {
            Some(Cut::Refused) => return Err("connection refused".into()),
            Some(Cut::Silent) => return std::future::pending().await,
            None => {}
        }
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let (respond, response) = tokio::sync::oneshot::channel();
        let cluster = self.clone();
        self.tasks.spawn("request", async move {
            tokio::time::sleep(faults.there).await;
            let answer = cluster.serve(&head.method, &body);
            tokio::time::sleep(faults.back).await;
            let mut network = network.lock();
            if network.lost_responses > 0 {
                network.lost_responses -= 1;
            } else if network.cut.is_none() {
                let _ = respond.send(answer);
            }
        });
        match response.await {
            Ok((code, value)) => Ok(Response::builder().status(code).body(serde_json::to_vec(&value)?.into())?),
            Err(_) => std::future::pending().await,
        }
    }

    fn serve(&self, method: &Method, body: &[u8]) -> (StatusCode, Value) {
        let mut record = self.record.lock();
        let status = |code: StatusCode, reason: &str| {
            (
                code,
                json!({"kind": "Status", "status": "Failure", "reason": reason, "message": reason, "code": code.as_u16()}),
            )
        };
        let current = record.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        if method == Method::GET {
            return match &record.lease {
                Some(lease) => (StatusCode::OK, lease.clone()),
                None => status(StatusCode::NOT_FOUND, "NotFound"),
            };
        }
        let mut lease: Value = serde_json::from_slice(body).unwrap();
        match (method == Method::POST, current) {
            (true, Some(_)) => return status(StatusCode::CONFLICT, "AlreadyExists"),
            (false, None) => return status(StatusCode::NOT_FOUND, "NotFound"),
            (false, Some(current)) if lease["metadata"]["resourceVersion"] != current => {
                return status(StatusCode::CONFLICT, "Conflict");
            }
            (true, None) | (false, Some(_)) => {}
        }
        if record.rejects_annotations && lease["metadata"]["annotations"].is_object() {
            return status(StatusCode::UNPROCESSABLE_ENTITY, "Invalid");
        }
        record.version += 1;
        lease["metadata"]["resourceVersion"] = json!(record.version.to_string());
        record.lease = Some(lease.clone());
        (StatusCode::OK, lease)
    }
}

/// Pauses a process, like SIGSTOP. Clones share their state.
#[derive(Clone, Default)]
pub(super) struct Pause {
    state: Arc<Mutex<(bool, Vec<Waker>)>>,
}

impl Pause {
    pub(super) fn set(&self, paused: bool) {
        let mut state = self.state.lock();
        state.0 = paused;
        if !paused {
            state.1.drain(..).for_each(Waker::wake);
        }
    }

    fn pausable(&self, work: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send + 'static {
        Pausable { pause: self.clone(), work: Box::pin(work) }
    }
}

struct Pausable {
    pause: Pause,
    work: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Future for Pausable {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        {
            let mut state = self.pause.state.lock();
            if state.0 {
                state.1.push(context.waker().clone());
                return Poll::Pending;
            }
        }
        self.work.as_mut().poll(context)
    }
}
