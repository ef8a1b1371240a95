//! State of a MachineSet that is kept between reconciles.
//!
//! It is kept in memory only. After a restart it is empty, and the first reconcile restores what it needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Uid;
use jiff::Timestamp;
use parking_lot::Mutex;
use planner::machineset::EarlyFailures;
use runtime::{Key, Random};

/// State of all MachineSets. Clones share it.
#[derive(Clone, Default)]
pub struct SetMemory {
    sets: Arc<Mutex<BTreeMap<Key, SetState>>>,
}

#[derive(Default)]
struct SetState {
    /// Machines whose claim failed, and when. The MachineSet reconciles without them for a while.
    failed_claims: BTreeMap<Uid, Timestamp>,
    /// Consecutive early failures of replacements; `None` until this process has replaced a Machine.
    early_failures: Option<EarlyFailures>,
    /// Seed of the names of the next Machines. It changes only when a name was used. So a create that fails repeatedly has the same
    /// name each time, and a create whose response was lost is repeated under its name.
    name_seed: Option<u64>,
    /// Version of the last status write of this process. Its event does not trigger a reconcile.
    own_version: Option<String>,
}

impl SetMemory {
    /// Returns the Machines whose claim failed, and when.
    pub(super) fn failed_claims(&self, set: &Key) -> BTreeMap<Uid, Timestamp> {
        self.sets.lock().get(set).map(|set| set.failed_claims.clone()).unwrap_or_default()
    }

    /// Records claims that failed at `now`, and drops those that failed before `since`.
    pub(super) fn record_failed_claims(
        &self,
        set: &Key,
        claims: impl IntoIterator<Item = Uid>,
        now: Timestamp,
        since: Timestamp,
    ) {
        let mut sets = self.sets.lock();
        let state = sets.entry(set.clone()).or_default();
        state.failed_claims.retain(|_, failed| *failed > since);
        state.failed_claims.extend(claims.into_iter().map(|claim| (claim, now)));
    }

    /// Returns the consecutive early failures of replacements.
    pub(super) fn early_failures(&self, set: &Key) -> Option<EarlyFailures> {
        self.sets.lock().get(set).and_then(|set| set.early_failures)
    }

    pub(super) fn record_early_failures(&self, set: &Key, failures: EarlyFailures) {
        self.sets.lock().entry(set.clone()).or_default().early_failures = Some(failures);
    }

    /// Returns the seed of the names of the next Machines.
    pub(super) fn name_seed(&self, set: &Key, random: &Random) -> u64 {
        *self.sets.lock().entry(set.clone()).or_default().name_seed.get_or_insert_with(|| random.number())
    }

    /// Drops the seed, because a name was used.
    pub(super) fn renew_name_seed(&self, set: &Key) {
        if let Some(state) = self.sets.lock().get_mut(set) {
            state.name_seed = None;
        }
    }

    /// Records a version that this process is about to put into the cache.
    pub(super) fn record_own_version(&self, set: &Key, version: &str) {
        self.sets.lock().entry(set.clone()).or_default().own_version = Some(version.to_owned());
    }

    /// Returns whether this process has written the version. The record is removed: an API server that was restored from a backup
    /// assigns the version again, to another change.
    pub(super) fn take_own_version(&self, set: &Key, version: &str) -> bool {
        let own = self.sets.lock().get_mut(set).and_then(|set| set.own_version.take());
        own.as_deref() == Some(version)
    }

    /// Removes the state of a MachineSet that was deleted.
    pub(super) fn forget(&self, set: &Key) {
        self.sets.lock().remove(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows MS-R22.
    #[test]
    fn own_version_is_recognized_once() {
        let (memory, set) = (SetMemory::default(), Key::new("ns", "set"));
        memory.record_own_version(&set, "7");
        assert!(memory.take_own_version(&set, "7"));
        assert!(!memory.take_own_version(&set, "7"), "a restored API server has assigned the version again");
    }
}
