//! What a set remembers of claims that did not go through.
//!
//! A machine that cannot be adopted or released must not hold up the number of machines, so the set goes on without it for a
//! while. Nothing here has to survive the process: the next one finds out for itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Uid;
use jiff::Timestamp;
use parking_lot::Mutex;
use runtime::Key;

/// By set, then by machine. Clones are the same memory.
#[derive(Clone, Default)]
pub struct Memory {
    refused: Arc<Mutex<BTreeMap<Key, BTreeMap<Uid, Timestamp>>>>,
}

impl Memory {
    /// The claims of this set that did not go through, and when.
    #[allow(dead_code, reason = "the pass that asks moves in next")]
    pub(crate) fn of(&self, set: &Key) -> BTreeMap<Uid, Timestamp> {
        self.refused.lock().get(set).cloned().unwrap_or_default()
    }

    /// Takes what the last pass learned; what it did not name is no longer refused.
    #[allow(dead_code, reason = "the pass that asks moves in next")]
    pub(crate) fn learn(&self, set: &Key, refused: BTreeMap<Uid, Timestamp>) {
        let mut all = self.refused.lock();
        if refused.is_empty() {
            all.remove(set);
        } else {
            all.insert(set.clone(), refused);
        }
    }

    /// The set is gone.
    pub(crate) fn forget(&self, set: &Key) {
        self.refused.lock().remove(set);
    }
}
