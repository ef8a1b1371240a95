//! MachineSets whose Nodes carry the autoscaler's scale-down annotation during a rollout.
//!
//! The machine controller writes the first labels and annotations of a Node that joins. If it runs in the same process as the manager,
//! it adds the annotation of the rollout in the same write. Otherwise the MachineDeployment controller adds it afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Uid;
use parking_lot::Mutex;

/// The guarded MachineSets of each MachineDeployment. Clones share them.
#[derive(Clone, Default)]
pub struct Rollouts {
    sets: Arc<Mutex<BTreeMap<Uid, BTreeSet<Uid>>>>,
}

impl Rollouts {
    /// Replaces the guarded MachineSets of a MachineDeployment.
    pub(super) fn set_guarded(&self, deployment: Uid, guarded: Vec<Uid>) {
        let mut sets = self.sets.lock();
        if guarded.is_empty() {
            sets.remove(&deployment);
        } else {
            sets.insert(deployment, guarded.into_iter().collect());
        }
    }

    /// Returns whether Nodes of this MachineSet carry the annotation.
    pub(crate) fn is_guarded(&self, set: &Uid) -> bool {
        self.sets.lock().values().any(|sets| sets.contains(set))
    }
}
