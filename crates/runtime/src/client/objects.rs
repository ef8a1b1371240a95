//! Requests for objects of one kind, like kube's `Api`.
//!
//! kube's `Api` requires the metadata type of Kubernetes, whose label and annotation maps take most of the memory of a
//! Machine. This one requires only an [`Object`]; its parameters and methods are the same.

use std::fmt;
use std::marker::PhantomData;

use either::Either;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Request};
use kube::core::{ObjectList, PartialObjectMeta, Status};
use kube::{Client, Error, Result};
use meta::Object;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::SendCheck;

/// Requests for objects of one kind; see the module.
pub struct Api<K> {
    client: Client,
    request: Request,
    namespace: Option<String>,
    check: Option<SendCheck>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        let namespace = self.namespace.clone();
        Self {
            client: self.client.clone(),
            request: Request::new(&self.request.url_path),
            namespace,
            check: self.check.clone(),
            kind: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Api<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("url_path", &self.request.url_path).finish_non_exhaustive()
    }
}

impl<K: Object + DeserializeOwned> Api<K> {
    /// Returns an `Api` for the objects of one namespace.
    pub fn namespaced(client: Client, namespace: &str) -> Self {
        Self::new(client, Some(namespace.to_owned()))
    }

    /// Returns an `Api` for a cluster-scoped kind, or for the objects of all namespaces.
    pub fn all(client: Client) -> Self {
        Self::new(client, None)
    }

    fn new(client: Client, namespace: Option<String>) -> Self {
        let request = Request::new(K::url_path(namespace.as_deref()));
        Self { client, request, namespace, check: None, kind: PhantomData }
    }

    /// Returns an `Api` for the same objects. Each request is sent only if `check` holds immediately before.
    #[must_use]
    pub fn checked(&self, check: SendCheck) -> Self {
        Self { check: Some(check), ..self.clone() }
    }

    /// Returns the namespace of this `Api`.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Gets one object.
    pub async fn get(&self, name: &str) -> Result<K> {
        self.ask(self.request.get(name, &GetParams::default())).await
    }

    /// Gets one object; `None` if it does not exist.
    pub async fn get_opt(&self, name: &str) -> Result<Option<K>> {
        found(self.get(name).await)
    }

    /// Gets the metadata of one object; `None` if it does not exist.
    pub async fn get_metadata_opt(&self, name: &str) -> Result<Option<PartialObjectMeta<K>>> {
        found(self.ask(self.request.get_metadata(name, &GetParams::default())).await)
    }

    /// Lists the objects that the parameters select.
    pub async fn list(&self, parameters: &ListParams) -> Result<ObjectList<K>>
    where
        K: Clone,
    {
        self.ask(self.request.list(parameters)).await
    }

    /// Creates an object.
    pub async fn create(&self, parameters: &PostParams, object: &K) -> Result<K>
    where
        K: Serialize,
    {
        self.create_from(parameters, object).await
    }

    /// Creates an object from a body of another type: a view may not contain all fields of a new object.
    pub async fn create_from(&self, parameters: &PostParams, body: &(impl Serialize + ?Sized)) -> Result<K> {
        self.ask(self.request.create(parameters, bytes(body)?)).await
    }

    /// Posts to a subresource of an object.
    pub async fn create_subresource<T: DeserializeOwned>(
        &self,
        subresource: &str,
        name: &str,
        parameters: &PostParams,
        body: &(impl Serialize + ?Sized),
    ) -> Result<T> {
        self.ask(self.request.create_subresource(subresource, name, parameters, bytes(body)?)).await
    }

    /// Patches an object.
    pub async fn patch<P: Serialize + fmt::Debug + Sync>(
        &self,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        self.ask(self.request.patch(name, parameters, patch)).await
    }

    /// Patches the status of an object.
    pub async fn patch_status<P: Serialize + fmt::Debug + Sync>(
        &self,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        self.ask(self.request.patch_subresource("status", name, parameters, patch)).await
    }

    /// Deletes an object. Returns the object if only its deletionTimestamp was set, or the status of the deletion.
    pub async fn delete(&self, name: &str, parameters: &DeleteParams) -> Result<Either<K, Status>> {
        let request = self.request.delete(name, parameters).map_err(Error::BuildRequest)?;
        self.client.request_status(self.with_check(request)).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        request: std::result::Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T> {
        self.client.request(self.with_check(request.map_err(Error::BuildRequest)?)).await
    }

    fn with_check(&self, mut request: http::Request<Vec<u8>>) -> http::Request<Vec<u8>> {
        if let Some(check) = &self.check {
            request.extensions_mut().insert(check.clone());
        }
        request
    }
}

fn found<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn bytes(object: &(impl Serialize + ?Sized)) -> Result<Vec<u8>> {
    serde_json::to_vec(object).map_err(Error::SerdeError)
}
