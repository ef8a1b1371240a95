//! Checks that bootstrap tokens are removed.

use std::collections::BTreeMap;

use api::names::secrets::bootstrap_token as names;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;

use super::machines::Machines;
use super::{Write, is_deleting};

/// Maximum time for which a token may exist after its Machine is Running or gone.
const LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// Existing tokens.
#[derive(Debug, Default)]
pub(super) struct Tokens(BTreeMap<String, Token>);

#[derive(Debug)]
struct Token {
    description: String,
    created: Timestamp,
    /// After this time the cluster removes it.
    expires: Timestamp,
}

impl Tokens {
    /// Whether no token exists.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn note(&mut self, write: &Write<'_>, now: Timestamp) {
        if write.kind != "secrets" || !write.name.starts_with(names::NAME_PREFIX) {
            return;
        }
        let Some(object) = write.after.filter(|secret| !is_deleting(secret)) else {
            self.0.remove(write.name);
            return;
        };
        let secret: Secret = serde_json::from_value(object.clone()).unwrap_or_default();
        let field = |key: &str| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(key));
            bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default()
        };
        let expires = field(names::EXPIRATION).parse().unwrap_or(Timestamp::MAX);
        let token = Token { description: field(names::DESCRIPTION), created: now, expires };
        self.0.insert(write.name.to_owned(), token);
    }

    /// Returns a token that should have been removed. Tokens that were created before the last obstruction are ignored.
    pub(super) fn leftover(&self, machines: &Machines, now: Timestamp, last_obstruction: Timestamp) -> Option<String> {
        let mut lasting = self.0.iter().filter(|(_, token)| last_obstruction < token.created && now < token.expires);
        lasting.find_map(|(name, token)| {
            let (machine, since) =
                machines.settled().find(|(machine, _)| token.description == names::description(machine))?;
            let lasts = now.duration_since(since.max(token.created));
            (lasts > LIMIT)
                .then(|| format!("token {name} of machine {machine} still exists {lasts:#} after its last use"))
        })
    }
}
