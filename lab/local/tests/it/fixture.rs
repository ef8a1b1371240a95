//! An API server, a driver for it, and a simulated kubelet for its pods.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::view::SecretData;
use api::{Machine, MachineClass};
use driver::MachineRequest;
use fake_apiserver::{Options, Server};
use http_body_util::{BodyExt as _, Full};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::client::Body;
use lab_local::{Clusters, LocalDriver, PROVIDER};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::{BoxError, Service as _, service_fn};

/// Namespace of Machines and MachineClasses.
pub(crate) const MACHINES: &str = "garden";
/// Namespace of the pods of a class of the second generation.
pub(crate) const PODS: &str = "infra";

pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) client: kube::Client,
    pub(crate) stalled: Arc<AtomicBool>,
    /// The Service that was applied last.
    pub(crate) service_applied: Arc<Mutex<Value>>,
    kubelet: JoinHandle<()>,
}

/// The same cluster for every kubeconfig.
struct One(kube::Client);

impl Clusters for One {
    fn described_by(&self, kubeconfig: &[u8]) -> Result<kube::Client, String> {
        if kubeconfig == b"good" { Ok(self.0.clone()) } else { Err("invalid kubeconfig".to_owned()) }
    }

    fn of_machines(&self) -> Option<kube::Client> {
        Some(self.0.clone())
    }
}

impl Fixture {
    /// Pods run as soon as they are seen, if `runs` is set.
    pub(crate) fn new(runs: bool) -> Self {
        let (start, origin): (Timestamp, _) = ("2026-01-01T00:00:00Z".parse().unwrap(), Instant::now());
        let now = Arc::new(move || start + SignedDuration::try_from(origin.elapsed()).unwrap());
        let server = Server::new(Options::new(now, 1));
        for namespace in [MACHINES, PODS] {
            server
                .insert(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }))
                .unwrap();
        }
        let stalled = Arc::new(AtomicBool::new(false));
        let service_applied = Arc::new(Mutex::new(Value::Null));
        let (service, stop, applied) = (server.service(), stalled.clone(), service_applied.clone());
        let stalling = service_fn(move |request| {
            let (mut service, stop) = (service.clone(), stop.clone());
            let services = applied.clone();
            async move {
                if stop.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                let request: http::Request<Body> = request;
                // The fake API server has no Services, so the applied object is returned.
                if request.uri().path().contains("/services/") {
                    let object = request.into_body().collect().await.unwrap().to_bytes();
                    *services.lock().unwrap() = serde_json::from_slice(&object).unwrap();
                    let body = Full::new(object).map_err(|never| match never {}).boxed_unsync();
                    return Ok(http::Response::new(body));
                }
                let answer = service.call(request).await?;
                Ok::<_, BoxError>(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()))
            }
        });
        #[allow(clippy::disallowed_methods, reason = "the fixture aborts it")]
        let kubelet = tokio::spawn(run_pods(kube::Client::new(server.service(), MACHINES), runs));
        Self { client: kube::Client::new(stalling, MACHINES), server, stalled, service_applied, kubelet }
    }

    pub(crate) fn driver(&self) -> LocalDriver {
        LocalDriver::new(Arc::new(One(self.client.clone())))
    }

    pub(crate) fn object(&self, kind: &str, name: &str) -> Option<Arc<Value>> {
        self.server.object(kind, PODS, name)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.kubelet.abort();
    }
}

/// Sets the status of every pod.
async fn run_pods(client: kube::Client, runs: bool) {
    let waiting = json!({ "name": "node", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
        "state": { "waiting": { "reason": "ErrImagePull", "message": "no such image" } } });
    let status = if runs {
        json!({ "phase": "Running", "podIPs": [{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }] })
    } else {
        json!({ "phase": "Pending", "containerStatuses": [waiting] })
    };
    loop {
        for pod in Api::<Pod>::all(client.clone()).list(&ListParams::default()).await.unwrap() {
            let pods = Api::<Pod>::namespaced(client.clone(), pod.metadata.namespace.as_deref().unwrap());
            let name = pod.metadata.name.as_deref().unwrap();
            // The pod may have been deleted.
            let _ = pods.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({ "status": status }))).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

pub(crate) fn class(spec: Value) -> MachineClass {
    let mut class = MachineClass { provider: PROVIDER.into(), provider_spec: spec, ..MachineClass::default() };
    class.metadata.namespace = MACHINES.into();
    class
}

pub(crate) fn secret() -> SecretData {
    SecretData::from_iter([("userData", "#!/bin/sh"), ("kubeconfig", "good")])
}

/// Returns a request for a machine of this class.
pub(crate) fn request(class: MachineClass, secret: SecretData, machine: &str) -> MachineRequest {
    let mut object = Machine::default();
    object.metadata.name = machine.into();
    object.metadata.namespace = MACHINES.into();
    MachineRequest { machine: Arc::new(object), class: Arc::new(class), secret: Arc::new(secret) }
}
