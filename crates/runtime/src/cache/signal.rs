//! Signals about the state of a cache, not of its objects.
//!
//! A missing heartbeat counts only while the connection to the API server is healthy. Therefore a cache immediately
//! signals that its watch was disconnected, that it recovered, and how many objects a list removed. The last signal is
//! sent before the handlers are called for the single objects, so that the receiver can prepare for them.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

/// A change of the state of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The API server is unreachable or rejects the requests; sent again if the one changes to the other.
    Disconnected,
    /// The API server responds again.
    Recovered,
    /// A whole list was applied.
    Listed(Tally),
}

/// Number of objects that a list removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of objects before the list.
    pub before: usize,
    /// Number of those objects that the list did not contain.
    pub gone: usize,
}

/// Connection state of the watch of a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// Connected, as far as known.
    #[default]
    Connected,
    /// Disconnected; the reflector retries.
    Disconnected {
        /// Start of the disconnection.
        since: Timestamp,
        /// Most recent reason.
        by: DisconnectReason,
        /// Most recent error, as a sentence.
        why: String,
    },
}

/// Why a watch is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// There was no response, or it could not be decoded. This may be temporary.
    Unreachable,
    /// The API server does not serve this kind, or the permission to list or watch it is missing. This persists until
    /// the cluster is changed.
    Refused,
}

/// Called for every signal. A listener only records it: it does not block and does no I/O.
pub type Listener = Box<dyn Fn(&Signal) + Send + Sync>;

/// The listeners of one cache.
#[derive(Default)]
pub(super) struct Listeners {
    all: Mutex<Arc<[Listener]>>,
}

impl Listeners {
    /// Sends signals to these listeners from now on.
    pub(super) fn open(&self, listeners: Vec<Listener>) {
        *self.all.lock() = listeners.into();
    }

    /// Discards signals from now on.
    pub(super) fn close(&self) {
        *self.all.lock() = Arc::default();
    }

    pub(super) fn tell(&self, signal: Signal) {
        let all = self.all.lock().clone();
        all.iter().for_each(|listener| listener(&signal));
    }
}
