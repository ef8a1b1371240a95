//! Time of the last status write of each MachineDeployment. It is kept in memory only: after a restart, the next change is written
//! immediately.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Uid;
use jiff::Timestamp;
use parking_lot::Mutex;

/// Time of the last status write of each MachineDeployment. Clones share the times.
#[derive(Clone, Default)]
pub struct StatusWrites {
    times: Arc<Mutex<BTreeMap<Uid, Timestamp>>>,
}

impl StatusWrites {
    pub(super) fn last(&self, deployment: &Uid) -> Option<Timestamp> {
        self.times.lock().get(deployment).copied()
    }

    pub(super) fn record(&self, deployment: Uid, now: Timestamp) {
        self.times.lock().insert(deployment, now);
    }

    pub(super) fn forget(&self, deployment: &Uid) {
        self.times.lock().remove(deployment);
    }
}
