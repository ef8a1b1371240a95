//! The requests of the kubelets, with a timeout and limited concurrency.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, TryFutureExt};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Resource;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent,
    WatchParams,
};
use kube::core::ApiResource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::NodeLife;
use super::attacher::FINALIZER;
use super::mounts::{Attaching, Mount};
use super::object::{self, LEASE_NAMESPACE, Word};
use super::pods::{KubeletPod, PodKey};
use crate::provider::CSI_DRIVER;
use crate::vm::Vm;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("request to the API server failed")]
    Api(#[from] kube::Error),
    #[error("request to the API server timed out")]
    Late,
    #[error("failed to send the request: the concurrency limit is closed")]
    Closed,
    #[error("failed to resolve the volume of a claim: the claim is not bound")]
    Unbound,
    #[error("failed to write a status: too many conflicts")]
    Crowded,
}

impl WriteError {
    fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Api(kube::Error::Api(status)) => Some(status),
            _ => None,
        }
    }

    fn is_gone(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_not_found)
    }

    fn is_taken(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_already_exists)
    }

    fn is_conflict(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_conflict)
    }
}

/// The API server client of the kubelets.
pub(super) struct Writes {
    nodes: Api<DynamicObject>,
    leases: Api<DynamicObject>,
    client: kube::Client,
    gate: Semaphore,
    timeout: Duration,
}

/// Whether a report found its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is written.
    Written,
    /// There is no such node.
    NoSuchNode,
}

/// A node that has been registered.
pub(super) struct Joined {
    pub(super) uid: String,
    /// The state at registration. A node registers before it is ready.
    pub(super) said: Word,
    /// The volumes in use in its status.
    pub(super) in_use: BTreeSet<String>,
}

impl Writes {
    pub(super) fn new(client: kube::Client, life: &NodeLife) -> Self {
        Self {
            nodes: Api::all_with(client.clone(), &ApiResource::erase::<Node>(&())),
            leases: Api::namespaced_with(client.clone(), LEASE_NAMESPACE, &ApiResource::erase::<Lease>(&())),
            client,
            gate: Semaphore::new(life.writes_at_once.max(1)),
            timeout: life.request_timeout,
        }
    }

    /// Sends one request, with limited concurrency and a timeout.
    async fn send<T>(&self, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, WriteError> {
        let _turn = self.gate.acquire().await.map_err(|_| WriteError::Closed)?;
        tokio::time::timeout(self.timeout, request.map_err(WriteError::Api)).await.map_err(|_| WriteError::Late)?
    }

    /// Registers a node with its status. Returns its uid and volumes in use. An existing node with this name is taken
    /// over, as by a restarted kubelet: its labels are updated, other fields are kept.
    pub(super) async fn register(&self, vm: &Vm, word: Word, at: Timestamp) -> Result<Joined, WriteError> {
        let name = vm.node_name.as_str();
        let wanted = decoded(object::node(vm, word.at_first(), at))?;
        let (node, said) = match self.send(self.nodes.create(&PostParams::default(), &wanted)).await {
            Ok(node) => (node, word.at_first()),
            Err(error) if error.is_taken() => {
                let node = self.send(self.nodes.get(name)).await?;
                let known = node.data.pointer("/spec/providerID").filter(|id| *id != "");
                let provider_id = known.cloned().unwrap_or_else(|| vm.provider_id.as_str().into());
                let patch = json!({
                    "metadata": { "labels": object::labels(vm), "annotations": object::annotations() },
                    "spec": { "providerID": provider_id },
                });
                (self.send(self.nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch))).await?, word)
            }
            Err(error) => return Err(error),
        };
        // Some servers keep the status of a created Node, others need a separate write; and a node that is taken over
        // may be marked Unknown.
        let present = listed(&node.data, "/status/conditions");
        let boot = node.data.pointer("/status/nodeInfo/bootID");
        if boot.is_none_or(|id| *id != object::boot_id(vm)) || !object::is_said(present, said) {
            let status = object::status(vm, present, said, at);
            let patch = json!({ "metadata": { "resourceVersion": node.metadata.resource_version }, "status": status });
            self.send(self.nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))).await?;
        }
        let in_use = listed(&node.data, "/status/volumesInUse");
        let in_use = in_use.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(Joined { uid: node.metadata.uid.unwrap_or_default(), said, in_use })
    }

    /// Writes the state of a node into its conditions, next to foreign ones. The list is replaced, so it is read first
    /// and the write is bound to that version.
    pub(super) async fn say(&self, node: &str, word: Word, at: Timestamp) -> Result<Heard, WriteError> {
        for _ in 0..5 {
            let present = match self.send(self.nodes.get(node)).await {
                Ok(present) => present,
                Err(error) if error.is_gone() => return Ok(Heard::NoSuchNode),
                Err(error) => return Err(error),
            };
            let conditions = object::conditions(listed(&present.data, "/status/conditions"), word, at);
            let patch = json!({
                "metadata": { "uid": present.metadata.uid, "resourceVersion": present.metadata.resource_version },
                "status": { "conditions": conditions },
            });
            match self.send(self.nodes.patch_status(node, &PatchParams::default(), &Patch::Merge(patch))).await {
                Ok(_) => return Ok(Heard::Written),
                Err(error) if error.is_gone() => return Ok(Heard::NoSuchNode),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
        Err(WriteError::Crowded)
    }

    /// Creates the lease of a registered node or continues with the existing one.
    pub(super) async fn take_out(
        &self,
        node: &str,
        uid: &str,
        duration: Duration,
        at: Timestamp,
    ) -> Result<(), WriteError> {
        let lease = decoded(object::lease(node, uid, duration, at))?;
        match self.send(self.leases.create(&PostParams::default(), &lease)).await {
            Ok(_) => Ok(()),
            // The lease of an older node must be taken over, or it is garbage-collected with that node.
            Err(error) if error.is_taken() => self.patch_lease(node, object::takeover(node, uid, at)).await,
            Err(error) => Err(error),
        }
    }

    /// Renews a node's lease; a deleted lease is created again.
    pub(super) async fn renew(
        &self,
        node: &str,
        uid: &str,
        duration: Duration,
        at: Timestamp,
    ) -> Result<(), WriteError> {
        match self.patch_lease(node, object::renewal(node, at)).await {
            Err(error) if error.is_gone() => self.take_out(node, uid, duration, at).await,
            other => other,
        }
    }

    async fn patch_lease(&self, node: &str, patch: Value) -> Result<(), WriteError> {
        self.send(self.leases.patch(node, &PatchParams::default(), &Patch::Merge(patch))).await.map(drop)
    }

    /// Reports a pod as running. A missing or replaced pod is ignored.
    pub(super) async fn start(
        &self,
        (namespace, name): &PodKey,
        pod: &KubeletPod,
        vm: &Vm,
        at: Timestamp,
    ) -> Result<(), WriteError> {
        let status = object::running(pod, &vm.address, at);
        let pods = self.pods(namespace);
        settled(self.send(pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status))).await)
    }

    /// Reports the end of a pod and removes it.
    pub(super) async fn remove(
        &self,
        (namespace, name): &PodKey,
        pod: &KubeletPod,
        at: Timestamp,
    ) -> Result<(), WriteError> {
        if let Some(end) = pod.end() {
            let last = Patch::Merge(object::ended(pod, end, at));
            settled(self.send(self.pods(namespace).patch_status(name, &PatchParams::default(), &last)).await)?;
        }
        let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
        let at_once = DeleteParams::default().grace_period(0).preconditions(preconditions);
        settled(self.send(self.pods(namespace).delete(name, &at_once)).await)
    }

    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Returns the volumes of a pod's claims. A missing claim has none; an unbound claim is an error, to be retried.
    pub(super) async fn mounts(&self, namespace: &str, claims: &[String]) -> Result<Vec<Mount>, WriteError> {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let mut mounts = Vec::new();
        for name in claims {
            let Some(claim) = self.send(api.get_opt(name)).await? else { continue };
            let volume = claim.spec.and_then(|spec| spec.volume_name).ok_or(WriteError::Unbound)?;
            let Some(found) = self.send(volumes.get_opt(&volume)).await? else { continue };
            let Some(csi) = found.spec.and_then(|spec| spec.csi) else { continue };
            let attaching = if csi.driver == CSI_DRIVER { Attaching::Needed } else { Attaching::Foreign };
            let unique = format!("kubernetes.io/csi/{}^{}", csi.driver, csi.volume_handle);
            mounts.push(Mount { volume, unique, attaching });
        }
        Ok(mounts)
    }

    /// Reports the volumes in use of a node. Only the kubelet writes this list.
    pub(super) async fn say_in_use(&self, node: &str, in_use: &BTreeSet<String>) -> Result<(), WriteError> {
        let patch = json!({ "status": { "volumesInUse": Some(in_use).filter(|in_use| !in_use.is_empty()) } });
        settled(self.send(self.nodes.patch_status(node, &PatchParams::default(), &Patch::Merge(patch))).await)
    }

    /// Adds the finalizer to an attachment and reports it as attached.
    pub(super) async fn attach(&self, attachment: &VolumeAttachment) -> Result<(), WriteError> {
        self.mark(attachment, |finalizers| {
            if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
                finalizers.push(FINALIZER.to_owned());
            }
        })
        .await?;
        let status = json!({ "metadata": { "uid": attachment.metadata.uid }, "status": { "attached": true } });
        let name = attachment.metadata.name.as_deref().unwrap_or_default();
        let api: Api<VolumeAttachment> = Api::all(self.client.clone());
        gone_is_fine(self.send(api.patch_status(name, &PatchParams::default(), &Patch::Merge(status))).await)
    }

    /// Removes the finalizer from an attachment.
    pub(super) async fn detach(&self, attachment: &VolumeAttachment) -> Result<(), WriteError> {
        self.mark(attachment, |finalizers| finalizers.retain(|finalizer| finalizer != FINALIZER)).await
    }

    async fn mark(
        &self,
        attachment: &VolumeAttachment,
        change: impl FnOnce(&mut Vec<String>),
    ) -> Result<(), WriteError> {
        let meta = &attachment.metadata;
        let mut finalizers = meta.finalizers.clone().unwrap_or_default();
        change(&mut finalizers);
        if Some(&finalizers) == meta.finalizers.as_ref() {
            return Ok(());
        }
        let patch = json!({ "metadata": {
            "uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers } });
        let api: Api<VolumeAttachment> = Api::all(self.client.clone());
        let name = meta.name.as_deref().unwrap_or_default();
        gone_is_fine(self.send(api.patch(name, &PatchParams::default(), &Patch::Merge(patch))).await)
    }

    /// Lists all objects of a kind, with the version of the list.
    pub(super) async fn list<K: Listed>(&self) -> Result<(Vec<K>, String), WriteError> {
        let all = self.send(Api::<K>::all(self.client.clone()).list(&ListParams::default())).await?;
        Ok((all.items, all.metadata.resource_version.unwrap_or_default()))
    }

    /// Not limited by the concurrency: a watch stays open.
    pub(super) async fn watch<K: Listed>(
        &self,
        version: &str,
    ) -> Result<BoxStream<'static, Result<WatchEvent<K>, kube::Error>>, WriteError> {
        let all = Api::<K>::all(self.client.clone());
        let opened = tokio::time::timeout(self.timeout, all.watch(&WatchParams::default(), version)).await;
        Ok(opened.map_err(|_| WriteError::Late)??.boxed())
    }
}

/// A kind that is listed and watched.
pub(super) trait Listed:
    Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static
{
}

impl<K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static> Listed for K {}

fn gone_is_fine<T>(answer: Result<T, WriteError>) -> Result<(), WriteError> {
    match answer {
        Err(error) if error.is_gone() => Ok(()),
        other => other.map(drop),
    }
}

fn settled<T>(answer: Result<T, WriteError>) -> Result<(), WriteError> {
    match answer {
        Err(error) if error.is_gone() || error.is_conflict() => Ok(()),
        other => other.map(drop),
    }
}

fn listed<'a>(data: &'a Value, path: &str) -> &'a [Value] {
    data.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn decoded<T: DeserializeOwned>(object: Value) -> Result<T, WriteError> {
    serde_json::from_value(object).map_err(|error| WriteError::Api(kube::Error::SerdeError(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("NotFound", 404, true)]
    #[case("Conflict", 409, true)]
    #[case("InternalError", 500, false)]
    #[case("Forbidden", 403, false)]
    fn missing_or_replaced_pod_is_ignored(#[case] reason: &str, #[case] code: u16, #[case] done: bool) {
        let status = kube::core::Status { reason: reason.into(), code, ..kube::core::Status::default() };
        let answer: Result<(), _> = Err(WriteError::Api(kube::Error::Api(Box::new(status))));
        assert_eq!(settled(answer).is_ok(), done);
    }
}
