//! The data of the Secrets that classes name.
//!
//! The cache holds only the metadata of Secrets: most of them are none of our business. The data of one that a class names is
//! fetched when a machine needs it, and again only when its resourceVersion has changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{MachineClass, Object, SecretContent, SecretData, SecretRef, SecretView};
use kube::{Api, Client};
use parking_lot::Mutex;
use runtime::Key;
use runtime::cache::{Cache, Lookup};
use runtime::client::Trouble;

/// The data of Secrets, by the version it was read at. Clones are the same.
#[derive(Clone)]
pub struct Credentials {
    client: Client,
    secrets: Cache<SecretView>,
    read: Arc<Mutex<BTreeMap<Key, Read>>>,
}

struct Read {
    version: String,
    data: Arc<SecretData>,
}

/// Data that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to read Secret {secret}: {trouble}")]
pub struct Unreadable {
    secret: Key,
    trouble: Trouble,
}

impl Credentials {
    /// Reads through `client` what `secrets` says exists.
    pub fn new(client: Client, secrets: Cache<SecretView>) -> Self {
        Self { client, secrets, read: Arc::default() }
    }

    /// The merged data of a class: that of `secretRef`, overlaid by that of `credentialsSecretRef`. A Secret that does not exist
    /// counts as empty, as it always has.
    pub async fn of(&self, class: &MachineClass) -> Result<Arc<SecretData>, Unreadable> {
        let base = self.one(class, class.secret_ref.as_ref()).await?;
        let over = self.one(class, class.credentials_secret_ref.as_ref()).await?;
        Ok(match (base, over) {
            (Some(only), None) | (None, Some(only)) => only,
            (base, over) => Arc::new(SecretData::of_class(base.as_deref(), over.as_deref())),
        })
    }

    /// A write of ours made version `to` of version `from`, and left the data alone: it need not be read again.
    pub fn carry_over(&self, secret: &Key, from: &str, to: &str) {
        if let Some(read) = self.read.lock().get_mut(secret).filter(|read| read.version == from) {
            to.clone_into(&mut read.version);
        }
    }

    /// Drops what was read of a Secret that is gone.
    pub fn forget(&self, secret: &Key) {
        self.read.lock().remove(secret);
    }

    async fn one(
        &self,
        class: &MachineClass,
        named: Option<&SecretRef>,
    ) -> Result<Option<Arc<SecretData>>, Unreadable> {
        let Some(named) = named.filter(|named| !named.name.is_empty()) else { return Ok(None) };
        let namespace = if named.namespace.is_empty() { class.namespace() } else { &named.namespace };
        let key = Key::new(namespace, named.name.as_str());
        let version = match self.secrets.look_up(&key) {
            Lookup::Absent => return Ok(None),
            Lookup::Present(secret) => secret.resource_version().to_owned(),
            Lookup::Undecodable(remains) => remains.resource_version.clone(),
        };
        if let Some(read) = self.read.lock().get(&key).filter(|read| read.version == version) {
            return Ok(Some(read.data.clone()));
        }
        let api: Api<SecretContent> = Api::namespaced(self.client.clone(), namespace);
        let found = api
            .get_opt(&named.name)
            .await
            .map_err(|error| Unreadable { secret: key.clone(), trouble: Trouble::of(&error) })?;
        let Some(secret) = found else { return Ok(None) };
        // Kept under the version it was read at, which may be newer than the one that was asked for.
        let version = secret.resource_version().to_owned();
        let data = Arc::new(secret.data);
        self.read.lock().insert(key, Read { version, data: data.clone() });
        Ok(Some(data))
    }
}
