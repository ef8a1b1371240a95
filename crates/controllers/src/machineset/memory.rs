//! What a set remembers from reconcile to reconcile.
//!
//! Nothing here has to survive the process: the next one finds out for itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{MachineSet, MachineSetStatus, Object, Uid};
use jiff::Timestamp;
use parking_lot::Mutex;
use planner::machineset::{EarlyFailures, with_counts};
use runtime::{Key, Random};

/// By set. Clones are the same memory.
#[derive(Clone, Default)]
pub struct Memory {
    sets: Arc<Mutex<BTreeMap<Key, Remembered>>>,
}

#[derive(Default)]
struct Remembered {
    /// Claims that did not go through, by machine: the set goes on without these for a while.
    refused: BTreeMap<Uid, Timestamp>,
    /// Replacements in a row that failed early; `None` until this process has replaced one.
    early_failures: Option<EarlyFailures>,
    /// Where the next names come from. Kept until one was given, so that a create that is refused again and again says the same
    /// thing each time, and a name that may have been taken by a lost create is tried again.
    name_seed: Option<u64>,
    /// The version that our last status write made, which is no news to us.
    own_version: Option<String>,
    /// What was counted and is yet to be written, of the set with this uid.
    unwritten: Option<(Uid, MachineSetStatus)>,
}

impl Memory {
    /// The claims of this set that did not go through, and when.
    pub(super) fn refused(&self, set: &Key) -> BTreeMap<Uid, Timestamp> {
        self.sets.lock().get(set).map(|set| set.refused.clone()).unwrap_or_default()
    }

    /// Claims did not go through; those that were not tried again in `patience` are forgotten.
    pub(super) fn refuse(&self, set: &Key, claims: impl IntoIterator<Item = Uid>, now: Timestamp, since: Timestamp) {
        let mut sets = self.sets.lock();
        let remembered = sets.entry(set.clone()).or_default();
        remembered.refused.retain(|_, tried| *tried > since);
        remembered.refused.extend(claims.into_iter().map(|claim| (claim, now)));
    }

    /// Replacements in a row that failed early.
    pub(super) fn early_failures(&self, set: &Key) -> Option<EarlyFailures> {
        self.sets.lock().get(set).and_then(|set| set.early_failures)
    }

    /// Machines that failed early are being replaced.
    pub(super) fn note_early_failures(&self, set: &Key, failures: EarlyFailures) {
        self.sets.lock().entry(set.clone()).or_default().early_failures = Some(failures);
    }

    /// Where the next names come from.
    pub(super) fn name_seed(&self, set: &Key, random: &Random) -> u64 {
        *self.sets.lock().entry(set.clone()).or_default().name_seed.get_or_insert_with(|| random.number())
    }

    /// A name was given: the next ones come from somewhere else.
    pub(super) fn draw_again(&self, set: &Key) {
        if let Some(remembered) = self.sets.lock().get_mut(set) {
            remembered.name_seed = None;
        }
    }

    /// We are about to put this version into the cache ourselves.
    pub(super) fn wrote(&self, set: &Key, version: &str) {
        self.sets.lock().entry(set.clone()).or_default().own_version = Some(version.to_owned());
    }

    /// Whether this version, which the cache tells of, is our own doing. That is told once: an API server that was put back gives the
    /// version out again, to somebody else's change.
    pub(super) fn take_own(&self, set: &Key, version: &str) -> bool {
        let own = self.sets.lock().get_mut(set).and_then(|set| set.own_version.take());
        own.as_deref() == Some(version)
    }

    /// These counts are right, and are written later. Answers whether that is news.
    pub(super) fn counted(&self, key: &Key, set: &MachineSet, status: &MachineSetStatus) -> bool {
        let mut status = status.clone();
        status.last_operation = set.status.last_operation.clone();
        let counted = Some((set.uid(), status));
        let mut sets = self.sets.lock();
        let remembered = sets.entry(key.clone()).or_default();
        let is_news = remembered.unwritten != counted;
        remembered.unwritten = counted;
        is_news
    }

    /// The written counts are right. Answers whether that is news.
    pub(super) fn written(&self, key: &Key) -> bool {
        self.sets.lock().get_mut(key).is_some_and(|set| set.unwritten.take().is_some())
    }

    /// The set with what was last counted, whether or not that is written already.
    pub(crate) fn with_counts(&self, set: Arc<MachineSet>) -> Arc<MachineSet> {
        let key = Key::new(set.namespace(), set.name());
        let sets = self.sets.lock();
        match sets.get(&key).and_then(|remembered| remembered.unwritten.as_ref()) {
            Some((uid, counted)) if *uid == set.uid() => {
                let status = with_counts(&set.status, counted);
                Arc::new(MachineSet { status, ..(*set).clone() })
            }
            _ => set,
        }
    }

    /// The set is gone.
    pub(super) fn forget(&self, set: &Key) {
        self.sets.lock().remove(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows MS-R22.
    #[test]
    fn a_version_is_our_own_doing_once() {
        let (memory, set) = (Memory::default(), Key::new("ns", "set"));
        memory.wrote(&set, "7");
        assert!(memory.take_own(&set, "7"));
        assert!(!memory.take_own(&set, "7"), "an API server that was put back has given it out again");
    }
}
