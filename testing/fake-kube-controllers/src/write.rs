//! Writes whose responses update the caches, so that the next reconcile sees them before the watch does.

use std::fmt::Debug;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use runtime::Key;
use runtime::cache::{Cache, Cached};
use serde::Serialize;
use serde_json::Value;

use crate::pod::{is_leaving, key_of};

/// A write that did not work.
#[derive(Debug, thiserror::Error)]
#[error("failed to {what}")]
pub(crate) struct WriteError {
    what: &'static str,
    #[source]
    source: kube::Error,
}

impl WriteError {
    pub(crate) fn new(what: &'static str, source: kube::Error) -> Self {
        Self { what, source }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status) if status.is_not_found())
    }

    pub(crate) fn is_conflict(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status) if status.is_conflict())
    }

    fn is_already_exists(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status) if status.is_already_exists())
    }
}

/// A kind that is written here.
pub(crate) trait Kind: Cached + kube::Resource<DynamicType = ()> + Clone + Debug + Serialize {
    /// Its objects in a namespace; cluster-scoped kinds have but one.
    fn api(client: &Client, namespace: &str) -> Api<Self>;
}

macro_rules! namespaced {
    ($($kind:ty),*) => { $(impl Kind for $kind {
        fn api(client: &Client, namespace: &str) -> Api<Self> { Api::namespaced(client.clone(), namespace) }
    })* };
}

macro_rules! cluster_scoped {
    ($($kind:ty),*) => { $(impl Kind for $kind {
        fn api(client: &Client, _: &str) -> Api<Self> { Api::all(client.clone()) }
    })* };
}

namespaced!(Pod, ReplicaSet, StatefulSet, Deployment, DaemonSet, PodDisruptionBudget, PersistentVolumeClaim);
cluster_scoped!(Node, PersistentVolume, VolumeAttachment);

/// Which half of an object a patch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectPart {
    /// Metadata and spec.
    Main,
    /// The status subresource.
    Status,
}

/// What to do with one object, for the log and for errors, as in "failed to {what}".
pub(crate) type What = &'static str;

/// Makes an object. One that is there already is as good.
pub(crate) async fn create<K: Kind>(
    client: &Client,
    cache: &Cache<K>,
    object: &K,
    what: What,
) -> Result<(), WriteError> {
    let api = K::api(client, object.meta().namespace.as_deref().unwrap_or_default());
    match api.create(&PostParams::default(), object).await.map_err(|source| WriteError { what, source }) {
        Ok(made) => {
            cache.wrote(made);
            Ok(())
        }
        Err(error) if error.is_already_exists() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Changes an object by a merge patch. One that is gone needs no change.
pub(crate) async fn patch<K: Kind>(
    client: &Client,
    cache: &Cache<K>,
    key: &Key,
    (half, patch): (ObjectPart, &Value),
    what: What,
) -> Result<(), WriteError> {
    let api = K::api(client, &key.namespace);
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let answer = match half {
        ObjectPart::Main => api.patch(&key.name, &params, &patch).await,
        ObjectPart::Status => api.patch_status(&key.name, &params, &patch).await,
    };
    match answer.map_err(|source| WriteError { what, source }) {
        Ok(written) => {
            cache.wrote(written);
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// How an object is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// With the grace it asked for.
    Graceful,
    /// Immediately: no kubelet can grant a grace period.
    Forced,
}

/// Deletes this very object. One that is gone, or has been replaced by another of its name, needs no deletion.
pub(crate) async fn delete<K: Kind>(
    client: &Client,
    cache: &Cache<K>,
    object: &K,
    farewell: Farewell,
    what: What,
) -> Result<(), WriteError> {
    let meta = object.meta();
    let key = key_of(meta);
    let mut params =
        DeleteParams::default().preconditions(Preconditions { uid: meta.uid.clone(), resource_version: None });
    if farewell == Farewell::Forced {
        params = params.grace_period(0);
    }
    match K::api(client, &key.namespace).delete(&key.name, &params).await {
        Ok(answer) => {
            // The answer is the object, marked or as it was last; the cache tells the two apart. Some kinds answer with a mere
            // success once the object is gone.
            answer
                .map_left(|last| {
                    if is_leaving(last.meta()) {
                        cache.wrote(last);
                    }
                })
                .map_right(|_| {
                    cache.deleted(&key, meta.uid.as_deref().unwrap_or_default());
                });
            Ok(())
        }
        Err(source) => {
            let error = WriteError { what, source };
            if error.is_not_found() || error.is_conflict() { Ok(()) } else { Err(error) }
        }
    }
}
