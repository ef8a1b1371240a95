//! Lookups of Machines that MachineDeployments name for deletion and that the cache does not show.
//!
//! The step `Step::LookUpMachines` looks the Machines up, and the next reconcile decides with the result. A few names are read one by
//! one. For more names, the Machines are listed once: a name that the list does not contain does not exist. So a long list of unknown
//! names costs one request and does not delay other MachineDeployments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Uid;
use parking_lot::Mutex;
use runtime::cache::RefreshTicket;

/// Lookups by MachineDeployment. Clones share them.
#[derive(Clone, Default)]
pub struct MachineLookups {
    lookups: Arc<Mutex<BTreeMap<Uid, Lookup>>>,
}

struct Lookup {
    names: BTreeSet<String>,
    /// The list that covers the names; `None` if each of them was read and does not exist.
    list: Option<RefreshTicket>,
}

impl MachineLookups {
    /// Requests a list of all Machines, unless a requested list already covers these names.
    pub(super) fn request_list(&self, deployment: Uid, names: &[String], list: impl FnOnce() -> RefreshTicket) {
        let mut lookups = self.lookups.lock();
        let covers = |lookup: &Lookup| lookup.list.is_some() && names.iter().all(|name| lookup.names.contains(name));
        if !lookups.get(&deployment).is_some_and(covers) {
            lookups.insert(deployment, Lookup { names: names.iter().cloned().collect(), list: Some(list()) });
        }
    }

    /// Records names of Machines that do not exist.
    pub(super) fn record_missing(&self, deployment: Uid, names: BTreeSet<String>) {
        self.lookups.lock().insert(deployment, Lookup { names, list: None });
    }

    /// Returns the names that were looked up. A Machine with such a name that the cache does not show does not exist.
    pub(super) fn completed(&self, deployment: &Uid, is_complete: impl Fn(RefreshTicket) -> bool) -> BTreeSet<String> {
        let lookups = self.lookups.lock();
        let lookup = lookups.get(deployment).filter(|lookup| lookup.list.is_none_or(is_complete));
        lookup.map(|lookup| lookup.names.clone()).unwrap_or_default()
    }

    /// Drops the lookup of a MachineDeployment that does not need it any more.
    pub(super) fn forget(&self, deployment: &Uid) {
        self.lookups.lock().remove(deployment);
    }
}
