//! Bootstrap tokens in the target cluster.
//!
//! A token costs one write: its Secret is created, and read only if the create fails because it exists. Removing a
//! token that this process created costs one delete of that very Secret. Only a token that another process may have
//! created is read first.
//!
//! Gardener's role permits to create, delete, get and list these Secrets, but not to update them. A token that is no
//! longer valid is therefore deleted and created again.

use std::sync::Arc;

use api::names::secrets::bootstrap_token as names;
use api::time::later;
use api::{Machine, Object, SecretContent, SecretData};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::ObjectMeta;
use planner::Policy;
use planner::token::{ATTEMPTS, Finding, Token, TokenId, judge};
use runtime::client::{Api, ApiError, ErrorClass};
use runtime::entropy::NoEntropy;
use runtime::{Clock, Entropy};

use crate::write::{Guard, WriteError, Writer};

/// Creates and removes bootstrap tokens. Clones share all state.
#[derive(Clone)]
pub(crate) struct Tokens {
    secrets: Writer<SecretContent>,
    entropy: Entropy,
    clock: Clock,
}

/// The Secret of a token that was created or found. Its content is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issued {
    name: String,
    uid: String,
}

/// A token that could not be created or removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// A request about its Secret failed.
    #[error(transparent)]
    Secret(#[from] WriteError),
    /// All ids are in use.
    #[error("failed to create bootstrap token: {ATTEMPTS} token ids in a row are already in use")]
    AllIdsInUse,
    /// The operating system returned no randomness.
    #[error("failed to create bootstrap token: {0}")]
    NoEntropy(#[from] NoEntropy),
}

impl TokenError {
    /// Returns whether a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Secret(error) => class(error).is_some_and(ErrorClass::passes),
            Self::AllIdsInUse | Self::NoEntropy(_) => false,
        }
    }
}

impl Tokens {
    /// Manages the tokens of the cluster of `client`.
    pub(crate) fn new(client: Client, entropy: Entropy, clock: Clock) -> Self {
        Self { secrets: Writer::uncached(Api::namespaced(client, names::NAMESPACE)), entropy, clock }
    }

    /// Returns the Machine's token: the existing one while it is valid, otherwise a new one.
    pub(crate) async fn ensure(&self, machine: &Machine, policy: &Policy) -> Result<(Token, Issued), TokenError> {
        for attempt in 0..ATTEMPTS {
            let id = TokenId::of(&machine.uid(), attempt);
            if let Some(token) = self.at(&id, machine, policy).await? {
                return Ok(token);
            }
        }
        Err(TokenError::AllIdsInUse)
    }

    /// Returns the token with this id; `None` if it belongs to another Machine.
    async fn at(
        &self,
        id: &TokenId,
        machine: &Machine,
        policy: &Policy,
    ) -> Result<Option<(Token, Issued)>, TokenError> {
        // The Secret may exist at first, and may be deleted or expire meanwhile.
        for _ in 0..3 {
            if let Some(created) = self.create(id, machine, policy).await? {
                return Ok(Some(created));
            }
            let Some(found) = self.read(&id.secret_name()).await? else { continue };
            let issued = Issued::of(&found);
            match judge(&found.data, id, machine.name(), self.clock.now()) {
                Finding::Usable(token) => return Ok(Some((token, issued))),
                Finding::Foreign => return Ok(None),
                Finding::Spent => self.delete(&issued).await?,
            }
        }
        Ok(None)
    }

    /// Creates a token. Returns `None` if a Secret of its name exists.
    async fn create(
        &self,
        id: &TokenId,
        machine: &Machine,
        policy: &Policy,
    ) -> Result<Option<(Token, Issued)>, TokenError> {
        let mut random = [0; 64]; // four times what is needed, because some bytes are skipped
        self.entropy.fill(&mut random)?;
        let token = Token::new(id.clone(), &random).ok_or(NoEntropy)?;
        let expiration = later(self.clock.now(), planner::machine::creation_timeout(machine, policy));
        let content = token.content(machine.name(), expiration, &policy.bootstrap_token_extra_groups);
        let step = format!("create bootstrap token {}", id.secret_name());
        match self.secrets.create(&secret(id, &content), &step).await {
            Ok(created) => Ok(Some((token, Issued::of(&created)))),
            Err(error) if class(&error) == Some(ErrorClass::AlreadyExists) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a Machine's token. Without `issued`, it is read by the ids that this program and MCM use, and removed
    /// only if it belongs to this Machine.
    pub(crate) async fn remove(&self, machine: &Machine, issued: Option<&Issued>) -> Result<(), TokenError> {
        if let Some(issued) = issued {
            return self.delete(issued).await;
        }
        let uid = machine.uid();
        let ids = [TokenId::of(&uid, 0), TokenId::of(&uid, 1)].into_iter().chain(TokenId::of_reference(machine.name()));
        for id in ids {
            let Some(found) = self.read(&id.secret_name()).await? else { continue };
            if judge(&found.data, &id, machine.name(), self.clock.now()) != Finding::Foreign {
                self.delete(&Issued::of(&found)).await?;
            }
        }
        Ok(())
    }

    async fn read(&self, name: &str) -> Result<Option<Arc<SecretContent>>, TokenError> {
        let failed = |api_error| WriteError::of_read(&format!("read bootstrap token {name}"), api_error).into();
        self.secrets.read(name).await.map_err(failed)
    }

    /// Deletes this very Secret, not a later one of the same name.
    async fn delete(&self, issued: &Issued) -> Result<(), TokenError> {
        let step = format!("delete bootstrap token {}", issued.name);
        let guard = Guard { name: &issued.name, uid: &issued.uid, version: None };
        match self.secrets.hold(guard, &step).await?.delete().await {
            Ok(_) => Ok(()),
            // Another Secret has this name now.
            Err(error) if error.is_stale() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn class(error: &WriteError) -> Option<ErrorClass> {
    error.api_error().map(|ApiError { class, .. }| *class)
}

impl Issued {
    fn of(found: &SecretContent) -> Self {
        Self { name: found.name().to_owned(), uid: String::from(found.uid()) }
    }
}

fn secret(id: &TokenId, content: &SecretData) -> Secret {
    let entry = |key: &str| Some((key.to_owned(), ByteString(content.get(key)?.to_vec())));
    Secret {
        metadata: ObjectMeta {
            name: Some(id.secret_name()),
            namespace: Some(names::NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some(names::TYPE.to_owned()),
        data: Some(content.keys().filter_map(entry).collect()),
        ..Secret::default()
    }
}
