//! Status of a cache, for readiness gates, metrics and users.

use jiff::Timestamp;
use serde::Serialize;

/// State of a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// The reflector was not started.
    #[default]
    Idle,
    /// The whole kind is being listed.
    Listing,
    /// The watch is open.
    Watching,
    /// A request to the API server failed; it is retried.
    WaitingToRetry {
        /// The cause, as a sentence.
        why: String,
        /// Time of the next try.
        until: Timestamp,
    },
    /// The reflector was stopped. The cache is no longer updated.
    Stopped,
}

/// Whether irreversible decisions may be based on a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Trust {
    /// No contradiction is known.
    #[default]
    Firm,
    /// The API server returned an older state than before (a restored etcd). No destructive action is allowed until the
    /// kind was relisted with quorum.
    Doubtful,
}

/// Counters since the start. They only grow, so that they can be exported as metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Lists that were applied, including streamed lists.
    pub lists: u64,
    /// Watches that were opened.
    pub watches: u64,
    /// Objects reported by watches: added, changed or deleted.
    pub events: u64,
    /// Bookmarks.
    pub bookmarks: u64,
    /// Requests and streams that failed.
    pub failures: u64,
    /// Times the requested history was gone (410).
    pub expirations: u64,
    /// Times the API server returned an older state than before.
    pub regressions: u64,
    /// Watches that were aborted because the server neither sent an event nor ended them in time.
    pub stalls: u64,
    /// Objects that could not be decoded, each time they were reported.
    pub undecodable: u64,
    /// Panics that were caught in handlers of watch events.
    pub handler_panics: u64,
}

/// Snapshot of the status of a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The kind, in the plural, as in `kubectl get`.
    pub kind: String,
    /// Current state.
    pub state: State,
    /// Whether the kind was listed completely at least once.
    pub synced: bool,
    /// Whether destructive decisions may be based on the cache.
    pub trust: Trust,
    /// Time of the last response, event or bookmark of the API server.
    pub last_heard: Option<Timestamp>,
    /// Number of objects, including undecodable ones.
    pub objects: usize,
    /// Number of objects that cannot be decoded.
    pub undecodable: usize,
    /// Counters since the start.
    pub counters: Counters,
}

impl Status {
    /// Returns what a readiness gate waits for, as a sentence; `None` if the cache is ready.
    pub fn waiting_for(&self) -> Option<String> {
        let kind = &self.kind;
        if self.synced && self.trust == Trust::Firm && self.state != State::Stopped {
            return None;
        }
        Some(match (&self.state, self.trust) {
            (State::Stopped, _) => format!("the cache of {kind} was stopped"),
            (State::WaitingToRetry { why, until }, _) => format!("{kind}: {why}; next try at {until:.0}"),
            (_, Trust::Doubtful) => {
                format!("the API server returned older {kind} than before; relisting")
            }
            (State::Idle, _) => format!("the cache of {kind} has not been started"),
            (State::Listing | State::Watching, _) => format!("the first list of {kind} is not complete"),
        })
    }
}
