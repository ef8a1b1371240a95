//! Machines that deployments name for deletion and the cache does not show.
//!
//! A few names are looked up one by one. For more than a few, the Machines are listed once: a name that such a list does not show
//! does not exist. So a long list of unknown names costs one request, and no other deployment waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Uid;
use parking_lot::Mutex;
use runtime::cache::RefreshTicket;

/// By deployment. Clones are the same memory.
#[derive(Clone, Default)]
pub struct Lookups {
    requested: Arc<Mutex<BTreeMap<Uid, Lookup>>>,
}

struct Lookup {
    names: BTreeSet<String>,
    ticket: RefreshTicket,
}

impl Lookups {
    /// Requests a list of all Machines, unless one that covers these names is requested already.
    pub(super) fn request(&self, deployment: Uid, names: &[String], list: impl FnOnce() -> RefreshTicket) {
        let mut requested = self.requested.lock();
        let covered = |lookup: &Lookup| names.iter().all(|name| lookup.names.contains(name));
        if !requested.get(&deployment).is_some_and(covered) {
            requested.insert(deployment, Lookup { names: names.iter().cloned().collect(), ticket: list() });
        }
    }

    /// The names whose list has been read: a Machine of such a name that the cache does not show does not exist.
    pub(super) fn listed(&self, deployment: &Uid, is_read: impl Fn(RefreshTicket) -> bool) -> BTreeSet<String> {
        let requested = self.requested.lock();
        let lookup = requested.get(deployment).filter(|lookup| is_read(lookup.ticket));
        lookup.map(|lookup| lookup.names.clone()).unwrap_or_default()
    }

    /// The deployment needs no lookup any more.
    pub(super) fn forget(&self, deployment: &Uid) {
        self.requested.lock().remove(deployment);
    }
}
