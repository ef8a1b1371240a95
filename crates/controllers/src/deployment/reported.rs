//! When we last wrote the status of each deployment.
//!
//! Nothing here has to survive the process: what nobody remembers is written with the next change.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Uid;
use jiff::Timestamp;
use parking_lot::Mutex;

/// By deployment. Clones are the same memory.
#[derive(Clone, Default)]
pub struct Reported {
    times: Arc<Mutex<BTreeMap<Uid, Timestamp>>>,
}

impl Reported {
    /// When its status was last written.
    pub(super) fn at(&self, deployment: &Uid) -> Option<Timestamp> {
        self.times.lock().get(deployment).copied()
    }

    /// Its status was written.
    pub(super) fn wrote(&self, deployment: Uid, now: Timestamp) {
        self.times.lock().insert(deployment, now);
    }

    /// The deployment is gone.
    pub(super) fn forget(&self, deployment: &Uid) {
        self.times.lock().remove(deployment);
    }
}
