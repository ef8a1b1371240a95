//! The number of Machines of each MachineSet.
//!
//! [`MachineCounts`] is the only owner of this number. The MachineSet controller updates it; the MachineDeployment controller and the
//! overshoot protection read it. It combines these sources:
//!
//! | source | contents |
//! | --- | --- |
//! | cache of Machines | the Machines that the MachineSet owns, including those that cannot be decoded |
//! | expectations | creates and deletes that were sent and that the cache does not show yet |
//! | counted status | counts of the last reconcile whose write to the status is delayed |
//!
//! # Contract
//!
//! * A Machine may be counted twice, but it is never missed: expectations are read before the cache.
//! * The MachineSet controller expects each create and delete before it sends the request. An expectation ends when the cache shows the
//!   result, when the request is known to have no effect, or after `Policy::expectation_patience`.
//! * The MachineSet controller records counts that it does not write immediately. [`MachineCounts::latest`] returns them until they
//!   are written, so that no reader decides on counts older than those of the MachineSet controller.
//! * Nothing is stored in the cluster. After a restart, the counts come from the cache and from the written status.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::time::later;
use api::{Machine, MachineName, MachineSet, MachineSetStatus, Object, Uid};
use jiff::Timestamp;
use parking_lot::Mutex;
use planner::machineset::interest::is_staying;
use planner::machineset::{Outstanding, with_counts};
use runtime::cache::{Cache, UndecodableObject};
use runtime::expectations::Expected;
use runtime::{Clock, Expectations, Key};

use crate::indexes::MACHINES_BY_OWNER;
use crate::owners::is_managed_by;

/// The number of Machines of each MachineSet. Clones share the counts.
#[derive(Clone)]
pub struct MachineCounts {
    /// Creates and deletes that were sent and that the cache does not show yet.
    pub(super) expectations: Expectations,
    machines: Cache<Machine>,
    clock: Clock,
    /// Counts that are not written yet, with the uid of the MachineSet.
    unwritten: Arc<Mutex<BTreeMap<Key, (Uid, MachineSetStatus)>>>,
}

/// The Machines of one MachineSet.
pub(crate) struct OwnedMachines {
    /// Creates and deletes that the cache does not show yet.
    pub(crate) outstanding: Outstanding,
    /// When the last outstanding create lapses.
    pub(crate) creates_lapse: Option<Timestamp>,
    /// Machines in the cache.
    pub(crate) decoded: Vec<Arc<Machine>>,
    /// Machines in the cache that cannot be decoded.
    pub(crate) undecodable: Vec<Arc<UndecodableObject>>,
}

impl MachineCounts {
    pub(crate) fn new(machines: &Cache<Machine>, expectations: Expectations, clock: &Clock) -> Self {
        Self { expectations, machines: machines.clone(), clock: clock.clone(), unwritten: Arc::default() }
    }

    /// Returns the Machines of a MachineSet, including those that the cache does not show yet.
    pub(crate) fn owned(&self, key: &Key, set: &Uid) -> OwnedMachines {
        let (outstanding, creates_lapse) = self.expected(key);
        let decoded = self.machines.find(&MACHINES_BY_OWNER, set.as_str());
        let mut undecodable = self.machines.undecodable();
        undecodable.retain(|object| is_managed_by(object, set));
        OwnedMachines { outstanding, creates_lapse, decoded, undecodable }
    }

    /// Returns the number of Machines that count as replicas, without those whose delete is outstanding.
    pub(super) fn remaining(&self, key: &Key, set: &MachineSet) -> usize {
        let OwnedMachines { outstanding, decoded, undecodable, .. } = self.owned(key, &set.uid());
        let is_deleted = |machine: &Uid| outstanding.deletes.contains(machine);
        let undecodable = undecodable.iter().filter(|object| object.deletion_timestamp.is_none());
        decoded.iter().filter(|machine| is_staying(set, machine, is_deleted)).count() + undecodable.count()
    }

    /// Returns the MachineSet with the latest counts in its status, written or not.
    pub(crate) fn latest(&self, set: Arc<MachineSet>) -> Arc<MachineSet> {
        let key = Key::new(set.namespace(), set.name());
        match self.unwritten.lock().get(&key) {
            Some((uid, counted)) if *uid == set.uid() => {
                let status = with_counts(&set.status, counted);
                Arc::new(MachineSet { status, ..(*set).clone() })
            }
            _ => set,
        }
    }

    /// Records counts that are written later. Returns whether they differ from the recorded ones.
    pub(super) fn record(&self, key: &Key, set: &MachineSet, status: &MachineSetStatus) -> bool {
        let mut status = status.clone();
        status.last_operation = set.status.last_operation.clone();
        let counted = (set.uid(), status);
        let before = self.unwritten.lock().insert(key.clone(), counted.clone());
        before != Some(counted)
    }

    /// Drops recorded counts, because the written ones are correct. Returns whether there were any.
    pub(super) fn discard(&self, key: &Key) -> bool {
        self.unwritten.lock().remove(key).is_some()
    }

    /// Removes everything about a MachineSet that was deleted.
    pub(super) fn forget(&self, key: &Key) {
        self.expectations.forget(key);
        self.unwritten.lock().remove(key);
    }

    fn expected(&self, key: &Key) -> (Outstanding, Option<Timestamp>) {
        let (mut outstanding, mut creates_lapse) = (Outstanding::default(), None);
        for open in self.expectations.outstanding(key) {
            let lapses = Some(later(self.clock.now(), open.expires_in));
            match open.what {
                Expected::Create(machine) => {
                    outstanding.creates.insert(MachineName::from(&*machine.name));
                    creates_lapse = creates_lapse.max(lapses);
                }
                Expected::Delete { uid } => drop(outstanding.deletes.insert(Uid::from(&*uid))),
            }
            outstanding.until = outstanding.until.max(lapses);
        }
        (outstanding, creates_lapse)
    }
}
