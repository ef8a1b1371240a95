//! What a cache says about itself rather than about its objects.
//!
//! Whoever decides that something is dead because it is silent must know whether we could have heard it. So a cache tells, the
//! moment it happens, that its line to the API server broke, that it is heard again, and what a list made disappear: the last
//! before anybody is told of the single objects, so that there is time to take a deep breath.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

/// Something happened to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The API server can no longer be heard, or refuses to speak; told again when the one becomes the other.
    Disconnected,
    /// It is heard again.
    Recovered,
    /// A whole list was taken over.
    Listed(Tally),
}

/// What a list made disappear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many objects there were before it.
    pub before: usize,
    /// How many of those it lacked.
    pub gone: usize,
}

/// Whether a cache hears its API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// As far as we know.
    #[default]
    Connected,
    /// No, and it is trying.
    Disconnected {
        /// Since when.
        since: Timestamp,
        /// By what, lately.
        by: DisconnectReason,
        /// The latest error, as a sentence.
        why: String,
    },
}

/// Why a watch is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// Nobody speaks, or nothing that can be understood; it may pass by itself.
    Unreachable,
    /// The API server speaks, and says that it does not serve this kind or that no role lets us see it. That lasts until
    /// somebody changes it.
    Refused,
}

/// Told of every signal. It only takes note: no waiting, no I/O.
pub type Listener = Box<dyn Fn(&Signal) + Send + Sync>;

/// Those who listen to one cache.
#[derive(Default)]
pub(super) struct Listeners {
    all: Mutex<Arc<[Listener]>>,
}

impl Listeners {
    /// From now on signals go to these.
    pub(super) fn open(&self, listeners: Vec<Listener>) {
        *self.all.lock() = listeners.into();
    }

    /// From now on they go nowhere.
    pub(super) fn close(&self) {
        *self.all.lock() = Arc::default();
    }

    pub(super) fn tell(&self, signal: Signal) {
        let all = self.all.lock().clone();
        all.iter().for_each(|listener| listener(&signal));
    }
}
