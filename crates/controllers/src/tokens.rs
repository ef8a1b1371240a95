//! Bootstrap tokens in the target cluster.
//!
//! Making one costs a write: it is created on the chance that it is not there, and looked at only if it is. Removing one that this
//! process made costs a delete of that very Secret. Only a token that another process may have made is looked for first.
//!
//! Gardener's role lets us create, delete, get and list these Secrets, and not change them: what is no longer good is made anew.

use std::sync::Arc;

use api::names::secrets::bootstrap_token as names;
use api::{Machine, Object, SecretContent, SecretData};
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::ObjectMeta;
use planner::Policy;
use planner::token::{ATTEMPTS, Finding, Token, TokenId, judge};
use runtime::client::{Api, ApiError, RetryClass};
use runtime::entropy::NoEntropy;
use runtime::{Clock, Entropy};

use crate::write::{Guard, Retry, WriteError, Writer};

/// Makes and removes bootstrap tokens. Clones are the same.
#[derive(Clone)]
pub(crate) struct Tokens {
    secrets: Writer<SecretContent>,
    entropy: Entropy,
    clock: Clock,
}

/// A token that was made or found, as this process remembers it: which Secret, and nothing of what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issued {
    name: String,
    uid: String,
}

/// A token that could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// A request about its Secret did not go through.
    #[error(transparent)]
    Secret(#[from] WriteError),
    /// All ids are taken.
    #[error("failed to find a free id for its bootstrap token: {ATTEMPTS} in a row belong to others")]
    AllTaken,
    /// There was no randomness.
    #[error("failed to make its bootstrap token: {0}")]
    NoEntropy(#[from] NoEntropy),
}

impl TokenError {
    /// Whether it may go away by itself.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::Secret(error) => class(error).is_some_and(RetryClass::passes),
            Self::AllTaken | Self::NoEntropy(_) => false,
        }
    }
}

impl Tokens {
    /// Tokens of the cluster behind `client`.
    pub(crate) fn new(client: Client, entropy: Entropy, clock: Clock) -> Self {
        Self { secrets: Writer::uncached(Api::namespaced(client, names::NAMESPACE)), entropy, clock }
    }

    /// The machine's token: the one it has while that is good, else a new one.
    pub(crate) async fn ensure(&self, machine: &Machine, policy: &Policy) -> Result<(Token, Issued), TokenError> {
        for attempt in 0..ATTEMPTS {
            let id = TokenId::of(&machine.uid(), attempt);
            if let Some(had) = self.at(&id, machine, policy).await? {
                return Ok(had);
            }
        }
        Err(TokenError::AllTaken)
    }

    /// The token under this id; `None` if it is somebody else's.
    async fn at(
        &self,
        id: &TokenId,
        machine: &Machine,
        policy: &Policy,
    ) -> Result<Option<(Token, Issued)>, TokenError> {
        // Once it is there, once it may have gone or expired since.
        for _ in 0..3 {
            if let Some(made) = self.create(id, machine, policy).await? {
                return Ok(Some(made));
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

    /// A new token; `None` if its name is taken.
    async fn create(
        &self,
        id: &TokenId,
        machine: &Machine,
        policy: &Policy,
    ) -> Result<Option<(Token, Issued)>, TokenError> {
        let mut random = [0; 64]; // four times what is needed: a few bytes are passed over
        self.entropy.fill(&mut random)?;
        let token = Token::new(id.clone(), &random).ok_or(NoEntropy)?;
        let patience = SignedDuration::try_from(planner::machine::creation_timeout(machine, policy));
        let now = self.clock.now();
        let expiration = patience.ok().and_then(|d| now.checked_add(d).ok()).unwrap_or(jiff::Timestamp::MAX);
        let content = token.content(machine.name(), expiration, &policy.bootstrap_token_extra_groups);
        let step = format!("create its bootstrap token {}", id.secret_name());
        match self.secrets.create(&secret(id, &content), &step).await {
            Ok(made) => Ok(Some((token, Issued::of(&made)))),
            Err(error) if class(&error) == Some(RetryClass::AlreadyExists) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a machine's token. Without `issued` it is looked for, under our id and the reference's, and removed only if it says
    /// that it is this machine's.
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
        let unread = |api_error| WriteError::answered(&format!("read its bootstrap token {name}"), api_error).into();
        self.secrets.read(name).await.map_err(unread)
    }

    /// Deletes this very Secret, not a later one of the same name.
    async fn delete(&self, issued: &Issued) -> Result<(), TokenError> {
        let step = format!("delete its bootstrap token {}", issued.name);
        let guard = Guard { name: &issued.name, uid: &issued.uid, version: None };
        match self.secrets.hold(guard, &step).await?.delete().await {
            Ok(_) => Ok(()),
            // Its name belongs to another by now.
            Err(error) if error.retry() == Retry::Stale => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn class(error: &WriteError) -> Option<RetryClass> {
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
