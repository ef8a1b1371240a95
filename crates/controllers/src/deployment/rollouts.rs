//! Whose nodes are kept from the autoscaler because their deployment rolls.
//!
//! The machine controller marks each node that joins. Where it runs in the same process, it learns here what a roll-out writes on
//! such a node, and one write does for both. Where it does not, the deployment controller writes it afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Uid;
use parking_lot::Mutex;

/// The sets of each deployment that rolls. Clones are the same memory.
#[derive(Clone, Default)]
pub struct RollOuts {
    sets: Arc<Mutex<BTreeMap<Uid, BTreeSet<Uid>>>>,
}

impl RollOuts {
    /// These sets of the deployment are guarded from now on, and no others.
    pub(super) fn note(&self, deployment: Uid, guarded: Vec<Uid>) {
        let mut sets = self.sets.lock();
        if guarded.is_empty() {
            sets.remove(&deployment);
        } else {
            sets.insert(deployment, guarded.into_iter().collect());
        }
    }

    /// Whether nodes of this set are kept from the autoscaler.
    pub(crate) fn guard(&self, set: &Uid) -> bool {
        self.sets.lock().values().any(|sets| sets.contains(set))
    }
}
