//! The driver calls.

use std::sync::Arc;
use std::time::Duration;

use api::NodeAddress;
use api::view::{PersistentVolumeSpec, SecretData};
use async_trait::async_trait;
use backoff::Exponential;
use driver::{
    Call, Capabilities, ClassRequest, Code, Created, Deleted, Driver, DriverError, Found, MachineRequest, Owners,
    Support,
};
use driver_common::fault::Faults;
use driver_common::poll::{Poll, Waited};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::Value;

use crate::failure::{is_not_found, request as failed, waiting_for};
use crate::spec::{Spec, user_data};
use crate::{names, objects};

/// Field manager of the objects. The name is that of MCM's provider, so that both can take over each other's objects.
const FIELD_MANAGER: &str = "machine-controller-manager-provider-local";
/// Key of the Secret with the kubeconfig for the cluster of the pods.
const KUBECONFIG: &str = "kubeconfig";

const POLL: Poll =
    Poll { pauses: Exponential::new(Duration::from_secs(5), Duration::from_secs(5)), timeout: Duration::from_mins(10) };

/// Clients for the clusters in which pods can be created.
pub trait Clusters: Send + Sync + 'static {
    /// Returns a client for the cluster of this kubeconfig.
    fn described_by(&self, kubeconfig: &[u8]) -> Result<Client, String>;

    /// Returns a client for the cluster of the Machines, if this process has one.
    fn of_machines(&self) -> Option<Client>;
}

/// A driver with pods as machines.
pub struct LocalDriver {
    clusters: Arc<dyn Clusters>,
    /// The last kubeconfig and its client: usually there is one, and its connections are reused.
    last: Mutex<Option<(Vec<u8>, Client)>>,
}

/// The location of a machine's pod.
struct ClassInZone {
    client: Client,
    namespace: String,
}

impl ClassInZone {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates or updates an object with server-side apply.
    async fn apply<K>(&self, name: &str, object: Value) -> Result<K, kube::Error>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
        K::DynamicType: Default,
    {
        let api = self.api::<K>();
        let applied = api.patch(name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&object)).await;
        match applied {
            // An API server without server-side apply, such as the fake one.
            Err(kube::Error::Api(status)) if status.code == 415 => {
                let typed: K = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
                match api.create(&PostParams::default(), &typed).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => {
                        api.patch(name, &PatchParams::default(), &Patch::Merge(&object)).await
                    }
                    made => made,
                }
            }
            other => other,
        }
    }
}

impl LocalDriver {
    /// Creates a driver for these clusters.
    pub fn new(clusters: Arc<dyn Clusters>) -> Self {
        Self { clusters, last: Mutex::default() }
    }

    fn client(&self, secret: &SecretData) -> Result<Client, DriverError> {
        match secret.get(KUBECONFIG).filter(|text| !text.is_empty()) {
            Some(text) => {
                let mut last = self.last.lock();
                if let Some((known, client)) = &*last
                    && known == text
                {
                    return Ok(client.clone());
                }
                let client = self.clusters.described_by(text);
                let client =
                    client.map_err(|why| DriverError::invalid(format!("credentialsSecretRef.{KUBECONFIG}: {why}")))?;
                *last = Some((text.to_vec(), client.clone()));
                Ok(client)
            }
            None => self.clusters.of_machines().ok_or_else(|| {
                let message = format!("credentialsSecretRef.{KUBECONFIG}: Required value: the cluster of machine pods");
                DriverError::invalid(message)
            }),
        }
    }

    fn place(&self, spec: &Spec, request: &MachineRequest) -> Result<ClassInZone, DriverError> {
        let namespace = spec.namespace(Some(&request.machine), &request.class).to_owned();
        Ok(ClassInZone { client: self.client(&request.secret)?, namespace })
    }
}

#[async_trait]
impl Driver for LocalDriver {
    fn capabilities(&self) -> Capabilities {
        Capabilities { initialize: Support::NotOffered, ..Capabilities::ALL }
    }

    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        let mut faults = Faults::default();
        let data = user_data(&request.secret, &mut faults);
        let spec = Spec::decode(&request.class, faults)?;
        let place = self.place(&spec, request)?;
        let (machine, namespace) = (request.machine_name(), place.namespace.as_str());
        let (name, told) = (names::pod(machine), |error| failed(Code::Internal, "apply the machine's objects", error));
        let work = async {
            let pod: Pod = place.apply(&name, objects::pod(machine, namespace, &spec)).await.map_err(told)?;
            let uid = pod.uid().unwrap_or_default();
            let secret = objects::user_data(machine, namespace, data, &uid);
            place.apply::<Secret>(&names::user_data(machine), secret).await.map_err(told)?;
            place.apply::<Service>(&name, objects::service(machine, namespace, &uid)).await.map_err(told)?;
            Ok(())
        };
        Box::pin(call.measure("machine_create", call.bound(work))).await?;
        let pods = place.api::<Pod>();
        let last = Mutex::new(String::new());
        let waited = POLL
            .until(
                call,
                || 0.0,
                || async {
                    let pod = pods
                        .get(&name)
                        .await
                        .map_err(|error| failed(Code::DeadlineExceeded, "get the machine's pod", error))?;
                    let runs = pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
                    if !runs {
                        *last.lock() = waiting_for(&pod);
                    }
                    Ok(runs.then_some(pod))
                },
            )
            .await?;
        match waited {
            Waited::Done(pod) => {
                let Found { provider_id, node_name, addresses } = found(&pod);
                Ok(Created { provider_id, node_name, last_known_state: None, addresses })
            }
            Waited::TimedOut => {
                let (timeout, last) = (POLL.timeout.as_secs(), last.into_inner());
                let message = format!("pod {name:?} does not run after {timeout} s: {last}");
                Err(DriverError::new(Code::DeadlineExceeded, message))
            }
        }
    }

    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        let spec = Spec::decode(&request.class, Faults::default())?;
        let pods = self.place(&spec, request)?.api::<Pod>();
        let name = names::pod(request.machine_name());
        let work = async {
            match pods.delete(&name, &DeleteParams::default()).await {
                Err(error) if !is_not_found(&error) => Err(failed(Code::Unknown, "delete the machine's pod", error)),
                _ => Ok(()),
            }
        };
        call.measure("machine_delete", call.bound(work)).await?;
        // A running kubelet would register its Node again.
        let waited = POLL
            .until(
                call,
                || 0.0,
                || async {
                    let left = pods.get_opt(&name).await;
                    let left = left.map_err(|error| {
                        failed(Code::DeadlineExceeded, "check whether the machine's pod is deleted", error)
                    })?;
                    Ok(left.is_none().then_some(()))
                },
            )
            .await?;
        match waited {
            Waited::Done(()) => Ok(Deleted::default()),
            Waited::TimedOut => {
                let message = format!("pod {name:?} still exists {} s after its deletion", POLL.timeout.as_secs());
                Err(DriverError::new(Code::DeadlineExceeded, message))
            }
        }
    }

    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        let spec = Spec::decode(&request.class, Faults::default())?;
        let pods = self.place(&spec, request)?.api::<Pod>();
        let name = names::pod(request.machine_name());
        let work = async {
            let pod =
                pods.get_opt(&name).await.map_err(|error| failed(Code::Internal, "read the machine's pod", error))?;
            // A pod that has exited still exists, like a VM that is powered off.
            pod.as_ref().map(found).ok_or_else(|| DriverError::not_found(format!("pod {name:?} does not exist")))
        };
        call.measure("machine_get", call.bound(work)).await
    }

    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        let spec = Spec::decode(&request.class, Faults::default())?;
        let place = ClassInZone {
            client: self.client(&request.secret)?,
            namespace: spec.namespace(None, &request.class).to_owned(),
        };
        let work = async {
            let pods = place.api::<Pod>().list(&ListParams::default().labels(names::SELECTOR)).await;
            let pods = pods.map_err(|error| failed(Code::Internal, "list the pods of machines", error))?;
            Ok(pods.iter().map(|pod| (pod.name_any().into(), names::machine_of(pod).into())).collect())
        };
        call.measure("machine_list", call.bound(work)).await
    }

    async fn volume_ids(&self, _call: &Call, _volumes: &[PersistentVolumeSpec]) -> Result<Vec<String>, DriverError> {
        // A machine has no attached volumes.
        Ok(Vec::new())
    }
}

fn found(pod: &Pod) -> Found {
    let name = pod.name_any();
    let addresses = pod.status.as_ref().and_then(|status| status.pod_ips.as_ref()).into_iter().flatten();
    let addresses = addresses.map(|address| NodeAddress { kind: "InternalIP".into(), address: address.ip.clone() });
    Found { provider_id: name.clone().into(), node_name: name.into(), addresses: addresses.collect() }
}
