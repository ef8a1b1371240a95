//! Bootstrap tokens, and how long they stay.

use std::collections::BTreeMap;

use api::names::secrets::bootstrap_token as names;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;

use super::machines::Machines;
use super::{Write, is_deleting};

/// How long a token may stay after its Machine runs or is gone.
const LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// The tokens that exist.
#[derive(Debug, Default)]
pub(super) struct Tokens(BTreeMap<String, Token>);

#[derive(Debug)]
struct Token {
    description: String,
    created: Timestamp,
    /// From then on it is of no use, and the cluster removes it.
    expires: Timestamp,
}

impl Tokens {
    /// Whether there is any.
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

    /// A token that should be gone. Nothing is expected if something has hindered us since it was created.
    pub(super) fn left(&self, machines: &Machines, now: Timestamp, hindered: Timestamp) -> Option<String> {
        let mut lasting = self.0.iter().filter(|(_, token)| hindered < token.created && now < token.expires);
        lasting.find_map(|(name, token)| {
            let (machine, since) =
                machines.settled().find(|(machine, _)| token.description == names::description(machine))?;
            let lasts = now.duration_since(since.max(token.created));
            (lasts > LIMIT).then(|| format!("token {name} of machine {machine} is left {lasts:#} after it was of use"))
        })
    }
}
