//! Reading: one object, or a list in pages that all show the same moment.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Answer, Call, Selection};
use crate::failure::Failure;
use crate::query::VersionMatch;
use crate::state::State;
use crate::store::Key;

/// What a reader sees: the present, or for a stale answer an earlier moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadAt {
    /// The last write included.
    Now,
    /// Nothing after this revision.
    AsOf(u64),
}

impl ReadAt {
    fn revision(self, state: &State) -> u64 {
        match self {
            Self::Now => state.store.revision(),
            Self::AsOf(revision) => revision.min(state.store.revision()),
        }
    }
}

/// A page of a list.
#[derive(Clone, Debug)]
pub(crate) struct List {
    /// The objects, in order of namespace and name.
    pub(crate) items: Vec<Arc<Value>>,
    /// The moment that all pages show.
    pub(crate) revision: u64,
    /// How to get the next page, if there is one.
    pub(crate) next: Option<String>,
    /// How many objects follow on later pages, when that is known without looking at them.
    pub(crate) remaining: Option<usize>,
}

/// Reads one object.
pub(crate) fn get(state: &State, call: &Call, seen: ReadAt) -> Result<Answer, Failure> {
    let (wanted, current) = (call.query.version().map_err(Failure::unexpected)?, state.store.revision());
    if wanted > current {
        return Err(Failure::version_too_large(wanted, current));
    }
    let key = call.key();
    let missing = || Failure::not_found(&call.resource, &key.name);
    match seen {
        ReadAt::Now => state.get(&call.resource, &key).cloned().map(Answer::ok).ok_or_else(missing),
        ReadAt::AsOf(revision) => {
            let kind = call.resource.stored_as();
            let view = state.store.view(kind, revision, Some(&key.namespace), None).unwrap_or_default();
            let found = view.into_iter().find(|(k, _)| **k == key);
            found.map(|(_, object)| Answer::ok(object.clone())).ok_or_else(missing)
        }
    }
}

/// Reads a list, or the next page of one.
pub(crate) fn list(state: &State, call: &Call, seen: ReadAt) -> Result<List, Failure> {
    let selection = Selection::of(call)?;
    let limit = call.query.number("limit")?.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    let current = seen.revision(state);
    let Start { revision, after } = start(call, current, limit.is_some())?;
    let kind = call.resource.stored_as();
    let view =
        state.store.view(kind, revision, selection.namespace.as_deref(), after.as_ref()).map_err(|_| match &after {
            Some(after) => Failure::list_expired(Token::at(-1, after).encode()),
            None => Failure::expired("The resourceVersion for the provided list is too old."),
        })?;
    let mut matching = view.into_iter().filter(|(_, object)| selection.matches(object));
    let page: Vec<(&Key, &Arc<Value>)> = matching.by_ref().take(limit.unwrap_or(usize::MAX)).collect();
    let remaining = matching.count();
    let last = page.last().map(|(key, _)| *key).filter(|_| remaining > 0);
    Ok(List {
        next: last.map(|key| Token::at(i64::try_from(revision).unwrap_or(-1), key).encode()),
        remaining: Some(remaining).filter(|n| *n > 0 && selection.is_everything()),
        items: page.into_iter().map(|(_, object)| object.clone()).collect(),
        revision,
    })
}

struct Start {
    revision: u64,
    after: Option<Key>,
}

fn start(call: &Call, current: u64, paged: bool) -> Result<Start, Failure> {
    let invalid = |why| Failure::bad_request(format!("invalid resource version: {why}"));
    let wanted = call.query.version().map_err(invalid)?;
    let how = call.query.version_match(false)?;
    if let Some(token) = call.query.text("continue") {
        if wanted != 0 {
            let text = "specifying resource version is not allowed when using continue";
            return Err(Failure::bad_request(text));
        }
        let token = Token::decode(token)?;
        // A negative version stands for the present: the client accepted an inconsistent list.
        let revision = u64::try_from(token.revision).unwrap_or(current);
        return Ok(Start { revision, after: Some(token.key()) });
    }
    if wanted > current {
        return Err(Failure::version_too_large(wanted, current));
    }
    let exact = match how {
        Some(how) => how == VersionMatch::Exact,
        // Before the parameter existed, a version on a paged list meant exactly that one; it still does.
        None => paged && wanted > 0,
    };
    Ok(Start { revision: if exact { wanted } else { current }, after: None })
}

/// Where a list goes on. The form is the reference's; clients must not look into it, but some people do.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    v: String,
    #[serde(rename = "rv")]
    revision: i64,
    start: String,
}

impl Token {
    fn at(revision: i64, key: &Key) -> Self {
        let start = format!("{}/{}\0", key.namespace, key.name);
        Self { v: "meta.k8s.io/v1".to_owned(), revision, start }
    }

    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn decode(text: &str) -> Result<Self, Failure> {
        let bad =
            |why: String| Failure::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|e| bad(e.to_string()))?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|e| bad(e.to_string()))?;
        if token.v == "meta.k8s.io/v1" {
            Ok(token)
        } else {
            Err(bad(format!("server does not recognize this encoded version {:?}", token.v)))
        }
    }

    fn key(&self) -> Key {
        let start = self.start.trim_end_matches('\0');
        let (namespace, name) = start.split_once('/').unwrap_or(("", start));
        Key::new(namespace, name)
    }
}
