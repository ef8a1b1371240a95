//! What a cache is doing, for gates, metrics and people.

use jiff::Timestamp;
use serde::Serialize;

/// Where a cache stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Nobody runs it yet.
    #[default]
    Idle,
    /// It is reading the whole kind.
    Listing,
    /// It hears every change.
    Watching,
    /// The API server could not be asked; it tries again by itself.
    WaitingToRetry {
        /// What went wrong, as a sentence.
        why: String,
        /// When it tries again.
        until: Timestamp,
    },
    /// It was told to stop. What it holds grows old.
    Stopped,
}

/// Whether decisions that cannot be taken back may rest on a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Trust {
    /// Nothing speaks against it.
    #[default]
    Firm,
    /// The API server showed an older state than before (a restored etcd): take no destructive step until the kind has
    /// been read again with quorum.
    Doubtful,
}

/// How often things happened since the start. They only grow, so that they can be exported as counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Lists that were taken over, streamed ones too.
    pub lists: u64,
    /// Watches that were opened.
    pub watches: u64,
    /// Objects shown by watches: added, changed or deleted.
    pub events: u64,
    /// Bookmarks.
    pub bookmarks: u64,
    /// Requests and streams that failed.
    pub failures: u64,
    /// Times the history we wanted to go on from was gone (410).
    pub expirations: u64,
    /// Times the API server showed an older state than before.
    pub regressions: u64,
    /// Watches that were abandoned because the server neither spoke nor ended them in time.
    pub stalls: u64,
    /// Objects that could not be decoded, each time they were shown.
    pub undecodable: u64,
    /// Panics that were caught in handlers of watch events.
    pub handler_panics: u64,
}

/// A cache at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The kind, in the plural, as in `kubectl get`.
    pub kind: String,
    /// What it is doing.
    pub state: State,
    /// Whether it has been read completely at least once.
    pub synced: bool,
    /// Whether destructive decisions may rest on it.
    pub trust: Trust,
    /// When the API server last told us something: an answer, an event or a bookmark.
    pub last_heard: Option<Timestamp>,
    /// How many objects it holds, undecodable ones too.
    pub objects: usize,
    /// How many of them cannot be decoded.
    pub undecodable: usize,
    /// What happened so far.
    pub counters: Counters,
}

impl Status {
    /// What a gate waits for here, as a sentence; `None` if it need not wait.
    pub fn waiting_for(&self) -> Option<String> {
        let kind = &self.kind;
        if self.synced && self.trust == Trust::Firm && self.state != State::Stopped {
            return None;
        }
        Some(match (&self.state, self.trust) {
            (State::Stopped, _) => format!("the cache of {kind} was stopped"),
            (State::WaitingToRetry { why, until }, _) => format!("{kind}: {why}; next try at {until:.0}"),
            (_, Trust::Doubtful) => {
                format!("the API server showed {kind} older than before; they are being read again")
            }
            (State::Idle, _) => format!("the cache of {kind} has not been started"),
            (State::Listing | State::Watching, _) => format!("the first list of {kind} has not arrived completely"),
        })
    }
}
