//! What this process knows of each Machine beyond the objects in the API server.
//!
//! Results of driver calls and other observations are kept here between two reconciles. They are kept by uid, so that a
//! Machine that is created again under the same name inherits nothing. All of it may be lost at any time: the planner
//! then queries again. Which calls are in progress is not kept here but in `driver_calls::open_calls`.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Uid;
use jiff::Timestamp;
use parking_lot::Mutex;
use planner::Event;
use planner::machine::{NodeLookup, Vm, VmState};
use planner::token::TokenRecord;
use runtime::Key;
use runtime::cache::RefreshTicket;

use crate::tokens::Issued;

/// The records of all Machines. Clones share all state.
#[derive(Clone, Debug, Default)]
pub struct MachineMemory {
    /// Boxed because a record is large, and a map allocates space for more entries than it holds.
    records: Arc<Mutex<BTreeMap<Key, Box<MachineRecord>>>>,
}

/// What is known of one Machine.
#[derive(Clone, Debug, Default)]
pub struct MachineRecord {
    uid: Uid,
    /// The VM, as the last driver call reported it.
    pub vm: VmState,
    /// The VM as it was last described, if `vm` does not describe it. Only one of the two is set, to save memory.
    described_before: Option<Box<Vm>>,
    /// The last note of the driver for its next call. It may not be written to the status yet.
    note: Option<String>,
    /// The result of the query for a Node that the cache does not show.
    pub node_lookup: NodeLookup,
    /// The remarks of the last plan, which were sent as Events.
    remarks: Vec<Event>,
    token: TokenState,
    /// Failed attempts to remove the token.
    removal_failures: Option<TokenRecord>,
    /// Objects that the Machine refers to and the cache did not show, with the list that was requested for each.
    requested: BTreeMap<Referenced, RefreshTicket>,
}

/// An object that a Machine refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Referenced {
    /// Its MachineClass.
    Class(Key),
    /// A Secret of its class.
    Secret(Key),
}

/// The Secret of a Machine's bootstrap token. Its content is not kept.
#[derive(Clone, Debug, Default)]
enum TokenState {
    #[default]
    Unknown,
    Issued(Issued),
    Gone,
}

impl MachineRecord {
    /// Returns the VM as it was last described. A call that fails does not change it.
    pub(crate) fn last_described(&self) -> Option<Vm> {
        match &self.vm {
            VmState::Known(vm) => Some(vm.clone()),
            _ => self.described_before.as_deref().cloned(),
        }
    }

    /// Returns the last note of the driver that this process received.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns the state of the bootstrap token for the planner.
    pub fn token(&self) -> TokenRecord {
        match (&self.token, self.removal_failures) {
            (TokenState::Gone, _) => TokenRecord::Gone,
            (_, Some(failures)) => failures,
            (TokenState::Unknown, None) => TokenRecord::Unknown,
            (TokenState::Issued(_), None) => TokenRecord::Made,
        }
    }

    /// Returns the list that was requested because the cache did not show an object.
    pub(crate) fn requested(&self, referenced: &Referenced) -> Option<RefreshTicket> {
        self.requested.get(referenced).copied()
    }

    /// Returns the Secret of the bootstrap token, if this process created or read it.
    pub(crate) fn issued(&self) -> Option<&Issued> {
        match &self.token {
            TokenState::Issued(issued) => Some(issued),
            TokenState::Unknown | TokenState::Gone => None,
        }
    }
}

impl MachineMemory {
    /// Returns the record of this very Machine.
    pub fn record(&self, key: &Key, uid: &Uid) -> MachineRecord {
        let records = self.records.lock();
        match records.get(key) {
            Some(record) if record.uid == *uid => MachineRecord::clone(record),
            _ => MachineRecord { uid: uid.clone(), ..MachineRecord::default() },
        }
    }

    /// Returns the keys of all records.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.records.lock().keys().cloned().collect()
    }

    /// Begins a driver call about this Machine. The record of an earlier Machine of the same name is dropped.
    pub(crate) fn begin(&self, key: &Key, uid: &Uid) {
        self.change(key, uid, |_| {});
    }

    /// Stores the result of a driver call, and the note of the driver for its next call. A late result about an earlier
    /// Machine of the same name is dropped: otherwise the current Machine could query again, and create twice.
    pub(crate) fn set_vm(&self, key: &Key, uid: &Uid, mut vm: VmState, note: Option<String>) {
        if self.records.lock().get(key).is_some_and(|record| record.uid != *uid) {
            return;
        }
        if let VmState::Known(vm) = &mut vm {
            vm.addresses.shrink_to_fit(); // kept for the lifetime of the Machine
        }
        self.change(key, uid, |record| {
            if matches!(vm, VmState::Deleted { .. }) {
                // The Node could register until now.
                record.node_lookup = NodeLookup::NotRequested;
            }
            match (std::mem::replace(&mut record.vm, vm), &record.vm) {
                (_, VmState::Known(_)) => record.described_before = None,
                (VmState::Known(described), _) => record.described_before = Some(Box::new(described)),
                _ => {}
            }
            record.note = note.or_else(|| record.note.take());
        });
    }

    /// Drops the failure of the last call, because what the call was made with has changed. Returns whether the call
    /// had failed.
    pub(crate) fn forget_failure(&self, key: &Key) -> bool {
        let mut records = self.records.lock();
        let Some(record) = records.get_mut(key) else { return false };
        let failed = matches!(record.vm, VmState::Failed(_));
        if failed {
            record.vm = VmState::Unknown;
        }
        failed
    }

    /// Requests a list, once, because of an object that this Machine refers to and the cache does not show.
    pub(crate) fn request_list(
        &self,
        key: &Key,
        uid: &Uid,
        referenced: Referenced,
        request: impl FnOnce() -> RefreshTicket,
    ) {
        self.change(key, uid, |record| {
            record.requested.entry(referenced).or_insert_with(request);
        });
    }

    /// Returns the Machines for which a list was requested.
    pub(crate) fn with_requested_lists(&self) -> Vec<Key> {
        let records = self.records.lock();
        records.iter().filter(|(_, record)| !record.requested.is_empty()).map(|(key, _)| key.clone()).collect()
    }

    /// Stores the result of the query for the Node of a Machine.
    pub fn set_node_lookup(&self, key: &Key, uid: &Uid, result: NodeLookup) {
        self.change(key, uid, |record| record.node_lookup = result);
    }

    /// Returns the remarks that the last plan did not contain. Each remark is sent once, for as long as plans contain
    /// it.
    pub fn new_remarks(&self, key: &Key, uid: &Uid, remarks: &[Event]) -> Vec<Event> {
        let known = self.record(key, uid).remarks;
        if known == remarks {
            return Vec::new();
        }
        self.change(key, uid, |record| record.remarks = remarks.to_vec());
        remarks.iter().filter(|remark| !known.contains(remark)).cloned().collect()
    }

    /// Stores the bootstrap token of the Machine.
    pub(crate) fn set_token(&self, key: &Key, uid: &Uid, issued: Issued) {
        self.change(key, uid, |record| (record.token, record.removal_failures) = (TokenState::Issued(issued), None));
    }

    /// Counts a failed attempt to remove the token, and returns the new state of the token.
    pub(crate) fn token_removal_failed(&self, key: &Key, uid: &Uid, at: Timestamp) -> TokenRecord {
        let failures = self.record(key, uid).token().not_removed(at);
        self.change(key, uid, |record| record.removal_failures = Some(failures));
        failures
    }

    /// Stores that the Machine has no token and needs none.
    pub fn set_no_token(&self, key: &Key, uid: &Uid) {
        self.change(key, uid, |record| record.token = TokenState::Gone);
    }

    /// Drops the record of a Machine that no longer exists.
    pub fn forget(&self, key: &Key) {
        self.records.lock().remove(key);
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.records.lock().len()
    }

    /// Returns whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn change(&self, key: &Key, uid: &Uid, change: impl FnOnce(&mut MachineRecord)) {
        let mut records = self.records.lock();
        let record = records.entry(key.clone()).or_default();
        if record.uid != *uid {
            **record = MachineRecord { uid: uid.clone(), ..MachineRecord::default() };
        }
        change(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows MC-W3.
    #[test]
    fn recreated_machine_does_not_inherit_the_record() {
        let memory = MachineMemory::default();
        let key = Key::new("ns", "m");
        memory.set_vm(&key, &"old".into(), VmState::Absent, None);
        assert_eq!(memory.record(&key, &"old".into()).vm, VmState::Absent);
        assert_eq!(memory.record(&key, &"new".into()).vm, VmState::Unknown);
    }

    #[test]
    fn described_vm_is_kept_until_it_is_described_again() {
        let memory = MachineMemory::default();
        let (key, uid) = (Key::new("ns", "m"), Uid::from("u"));
        let vm = |name: &str| Vm {
            provider_id: "p".into(),
            node_name: name.into(),
            addresses: Vec::new(),
            initialized: planner::machine::Initialized::Yes,
            unusable: None,
            origin: planner::machine::Origin::Found,
            at: Timestamp::UNIX_EPOCH,
        };
        let described = || memory.record(&key, &uid).last_described();
        assert_eq!(described(), None);
        memory.set_vm(&key, &uid, VmState::Known(vm("one")), None);
        assert_eq!(described(), Some(vm("one")));
        for other in [VmState::Absent, VmState::Unknown] {
            memory.set_vm(&key, &uid, other, None);
            assert_eq!(described(), Some(vm("one")), "other results do not change it");
        }
        memory.set_vm(&key, &uid, VmState::Known(vm("two")), None);
        assert_eq!(described(), Some(vm("two")));
    }

    #[test]
    fn absence_of_a_node_is_forgotten_when_its_vm_is_deleted() {
        let memory = MachineMemory::default();
        let (key, uid) = (Key::new("ns", "m"), Uid::from("u"));
        memory.set_node_lookup(&key, &uid, NodeLookup::Absent);
        memory.begin(&key, &uid);
        assert_eq!(memory.record(&key, &uid).node_lookup, NodeLookup::Absent);
        memory.set_vm(&key, &uid, VmState::Deleted { last_known_state: None }, None);
        assert_eq!(
            memory.record(&key, &uid).node_lookup,
            NodeLookup::NotRequested,
            "the Node may have registered since"
        );
    }

    #[test]
    fn remark_is_returned_once_while_plans_contain_it() {
        let memory = MachineMemory::default();
        let (key, uid) = (Key::new("ns", "m"), Uid::from("u"));
        let remark =
            |message: &str| Event { event_type: planner::EventType::Warning, reason: "R", message: message.into() };
        assert_eq!(memory.new_remarks(&key, &uid, &[]), []);
        assert!(memory.is_empty(), "a plan without remarks needs no record");
        assert_eq!(memory.new_remarks(&key, &uid, &[remark("a")]), [remark("a")]);
        assert_eq!(memory.new_remarks(&key, &uid, &[remark("a"), remark("b")]), [remark("b")]);
        assert_eq!(memory.new_remarks(&key, &uid, &[]), []);
        assert_eq!(memory.new_remarks(&key, &uid, &[remark("a")]), [remark("a")], "a later plan contains it again");
    }

    /// Shows MC-W3.
    #[test]
    fn late_result_about_an_earlier_machine_is_dropped() {
        let memory = MachineMemory::default();
        let key = Key::new("ns", "m");
        memory.begin(&key, &"old".into());
        memory.begin(&key, &"new".into());
        memory.set_vm(&key, &"old".into(), VmState::Deleted { last_known_state: None }, Some("note".into()));
        let record = memory.record(&key, &"new".into());
        assert_eq!((record.vm, record.note), (VmState::Unknown, None));
        memory.set_vm(&key, &"new".into(), VmState::Absent, None);
        assert_eq!(memory.record(&key, &"new".into()).vm, VmState::Absent);
    }
}
