//! The calls.

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

/// Whose fields of the objects are ours. The reference's name: it takes over what this driver made, and this driver what that one made.
const FIELD_MANAGER: &str = "machine-controller-manager-provider-local";
/// The key of the Secret under which the cluster of the pods is described.
const KUBECONFIG: &str = "kubeconfig";

const POLL: Poll = Poll {
    pauses: Exponential::new(Duration::from_secs(5), Duration::from_secs(5)),
    patience: Duration::from_mins(10),
};

/// The clusters that pods can be made in.
pub trait Clusters: Send + Sync + 'static {
    /// The one that this kubeconfig describes.
    fn described_by(&self, kubeconfig: &[u8]) -> Result<Client, String>;

    /// The one that Machines are in, if this process has a client for it.
    fn of_machines(&self) -> Option<Client>;
}

/// Pods as machines.
pub struct LocalDriver {
    clusters: Arc<dyn Clusters>,
    /// The kubeconfig that was used last, and its client: as a rule there is one, and its connections are kept.
    last: Mutex<Option<(Vec<u8>, Client)>>,
}

/// A machine's pod, where it is or would be.
struct Place {
    client: Client,
    namespace: String,
}

impl Place {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Makes an object as it is to be, or changes it to that.
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
            // An API server without server-side apply, as the one in memory.
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
    /// A driver that makes pods in these.
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

    fn place(&self, spec: &Spec, request: &MachineRequest) -> Result<Place, DriverError> {
        let namespace = spec.namespace(Some(&request.machine), &request.class).to_owned();
        Ok(Place { client: self.client(&request.secret)?, namespace })
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
                        .map_err(|error| failed(Code::DeadlineExceeded, "see the machine's pod", error))?;
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
            Waited::InVain => {
                let (patience, last) = (POLL.patience.as_secs(), last.into_inner());
                let message = format!("pod {name:?} does not run after {patience} s: {last}");
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
        // A kubelet that still runs would register its Node again.
        let waited = POLL
            .until(
                call,
                || 0.0,
                || async {
                    let left = pods.get_opt(&name).await;
                    let left = left
                        .map_err(|error| failed(Code::DeadlineExceeded, "see that the machine's pod is gone", error))?;
                    Ok(left.is_none().then_some(()))
                },
            )
            .await?;
        match waited {
            Waited::Done(()) => Ok(Deleted::default()),
            Waited::InVain => {
                let message =
                    format!("pod {name:?} was deleted and is still there after {} s", POLL.patience.as_secs());
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
            // A pod that ended still counts as there, as a VM that was switched off does.
            pod.as_ref().map(found).ok_or_else(|| DriverError::not_found(format!("there is no pod {name:?}")))
        };
        call.measure("machine_get", call.bound(work)).await
    }

    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        let spec = Spec::decode(&request.class, Faults::default())?;
        let place =
            Place { client: self.client(&request.secret)?, namespace: spec.namespace(None, &request.class).to_owned() };
        let work = async {
            let pods = place.api::<Pod>().list(&ListParams::default().labels(names::SELECTOR)).await;
            let pods = pods.map_err(|error| failed(Code::Internal, "list the pods of machines", error))?;
            Ok(pods.iter().map(|pod| (pod.name_any().into(), names::machine_of(pod).into())).collect())
        };
        call.measure("machine_list", call.bound(work)).await
    }

    async fn volume_ids(&self, _call: &Call, _volumes: &[PersistentVolumeSpec]) -> Result<Vec<String>, DriverError> {
        // A machine has no disks but its own.
        Ok(Vec::new())
    }
}

fn found(pod: &Pod) -> Found {
    let name = pod.name_any();
    let addresses = pod.status.as_ref().and_then(|status| status.pod_ips.as_ref()).into_iter().flatten();
    let addresses = addresses.map(|address| NodeAddress { kind: "InternalIP".into(), address: address.ip.clone() });
    Found { provider_id: name.clone().into(), node_name: name.into(), addresses: addresses.collect() }
}
