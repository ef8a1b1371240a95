//! What this process has learned of each machine, beyond what objects say.
//!
//! Answers of the cloud are kept here between two reconciles, by uid, so that a machine made anew under
//! an old name inherits nothing. All of it may be lost at any time: the planner then asks again. Whether a call is out is no part of it:
//! the limiter knows that (`limiter::open_calls`).

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

/// What is known of each machine. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct VmStateCache {
    /// Boxed, because a map has room for more entries than it holds, and this is a large one.
    known: Arc<Mutex<BTreeMap<Key, Box<Known>>>>,
}

/// What is known of one machine.
#[derive(Clone, Debug, Default)]
pub struct Known {
    uid: Uid,
    /// What the cloud last said.
    pub vm: VmState,
    /// The VM as it was last described, if the cloud has said something else since. One of the two is enough: there are thousands.
    described_before: Option<Box<Vm>>,
    /// What the driver last noted for itself, which may not be written down yet.
    note: Option<String>,
    /// What the API server said when it was asked for a node that the cache does not show.
    pub node_lookup: NodeLookup,
    /// What people were told to be so, and still is.
    remarked: Vec<Event>,
    /// Its bootstrap token.
    token: TokenState,
    /// How often that could not be removed, and when last.
    not_removed: Option<TokenRecord>,
    /// Objects that it names and that the cache did not show, with the list that was asked for because of it.
    requested: BTreeMap<Wanted, RefreshTicket>,
}

/// An object that a machine names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    /// Its MachineClass.
    Class(Key),
    /// A Secret of its class.
    Secret(Key),
}

/// What is known of a machine's bootstrap token: which Secret, and nothing of what is in it.
#[derive(Clone, Debug, Default)]
enum TokenState {
    #[default]
    Unknown,
    Issued(Issued),
    Gone,
}

impl Known {
    /// The VM as it was last described, which outlives a call that fails.
    pub(crate) fn into_described(self) -> Option<Vm> {
        match self.vm {
            VmState::Known(vm) => Some(vm),
            _ => self.described_before.map(|vm| *vm),
        }
    }

    /// What the driver last noted for itself, as far as this process heard it.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Its bootstrap token, as a plan sees it.
    pub fn token(&self) -> TokenRecord {
        match (&self.token, self.not_removed) {
            (TokenState::Gone, _) => TokenRecord::Gone,
            (_, Some(not_removed)) => not_removed,
            (TokenState::Unknown, None) => TokenRecord::Unknown,
            (TokenState::Issued(_), None) => TokenRecord::Made,
        }
    }

    /// The list that was asked for because the cache did not show an object.
    pub(crate) fn requested(&self, wanted: &Wanted) -> Option<RefreshTicket> {
        self.requested.get(wanted).copied()
    }

    /// The Secret of its bootstrap token, if this process had it.
    pub(crate) fn issued(&self) -> Option<&Issued> {
        match &self.token {
            TokenState::Issued(issued) => Some(issued),
            TokenState::Unknown | TokenState::Gone => None,
        }
    }
}

impl VmStateCache {
    /// What is known of this very machine.
    pub fn of(&self, key: &Key, uid: &Uid) -> Known {
        let known = self.known.lock();
        match known.get(key) {
            Some(known) if known.uid == *uid => Known::clone(known),
            _ => Known { uid: uid.clone(), ..Known::default() },
        }
    }

    /// The machines anything is known of.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.known.lock().keys().cloned().collect()
    }

    /// A call begins whose answer will be about this machine: what is known of another of its name is forgotten.
    pub(crate) fn begin(&self, key: &Key, uid: &Uid) {
        self.change(key, uid, |_| {});
    }

    /// Keeps what the cloud answered, and what the driver wants to be shown at its next call. A late answer about a machine that is no
    /// more does not touch what has begun for its successor of the same name: that could make it ask again, and create twice.
    pub(crate) fn learn(&self, key: &Key, uid: &Uid, mut vm: VmState, note: Option<String>) {
        if self.known.lock().get(key).is_some_and(|known| known.uid != *uid) {
            return;
        }
        if let VmState::Known(vm) = &mut vm {
            vm.addresses.shrink_to_fit(); // kept for as long as the machine lives
        }
        self.change(key, uid, |known| {
            if matches!(vm, VmState::Gone { .. }) {
                // Until this moment its node could join.
                known.node_lookup = NodeLookup::Unasked;
            }
            match (std::mem::replace(&mut known.vm, vm), &known.vm) {
                (_, VmState::Known(_)) => known.described_before = None,
                (VmState::Known(described), _) => known.described_before = Some(Box::new(described)),
                _ => {}
            }
            known.note = note.or_else(|| known.note.take());
        });
    }

    /// Forgets that the last call failed, because what it was made with has changed; says whether it had.
    pub(crate) fn try_again(&self, key: &Key) -> bool {
        let mut all = self.known.lock();
        let Some(known) = all.get_mut(key) else { return false };
        let failed = matches!(known.vm, VmState::Failed(_));
        if failed {
            known.vm = VmState::Unasked;
        }
        failed
    }

    /// Asks for a list, once, because of an object that this machine names and the cache does not show.
    pub(crate) fn request(&self, key: &Key, uid: &Uid, wanted: Wanted, ask: impl FnOnce() -> RefreshTicket) {
        self.change(key, uid, |known| {
            known.requested.entry(wanted).or_insert_with(ask);
        });
    }

    /// The machines for which a list was asked.
    pub(crate) fn who_requested(&self) -> Vec<Key> {
        let all = self.known.lock();
        all.iter().filter(|(_, known)| !known.requested.is_empty()).map(|(key, _)| key.clone()).collect()
    }

    /// Notes what the API server said when it was asked for a machine's node.
    pub fn inquired(&self, key: &Key, uid: &Uid, answer: NodeLookup) {
        self.change(key, uid, |known| known.node_lookup = answer);
    }

    /// Those of the remarks that were not made after the last reconcile: what is so is told once, for as long as it is so.
    pub fn news(&self, key: &Key, uid: &Uid, remarks: &[Event]) -> Vec<Event> {
        let known = self.of(key, uid).remarked;
        if known == remarks {
            return Vec::new();
        }
        self.change(key, uid, |known| known.remarked = remarks.to_vec());
        remarks.iter().filter(|remark| !known.contains(remark)).cloned().collect()
    }

    /// Notes that the machine has this token.
    pub(crate) fn has_token(&self, key: &Key, uid: &Uid, issued: Issued) {
        self.change(key, uid, |known| (known.token, known.not_removed) = (TokenState::Issued(issued), None));
    }

    /// Notes that its token could not be removed, and answers with the record of it.
    pub(crate) fn token_not_removed(&self, key: &Key, uid: &Uid, at: Timestamp) -> TokenRecord {
        let record = self.of(key, uid).token().not_removed(at);
        self.change(key, uid, |known| known.not_removed = Some(record));
        record
    }

    /// Notes that the machine has no token, and needs none.
    pub fn needs_no_token(&self, key: &Key, uid: &Uid) {
        self.change(key, uid, |known| known.token = TokenState::Gone);
    }

    /// Forgets a machine that is gone.
    pub fn forget(&self, key: &Key) {
        self.known.lock().remove(key);
    }

    /// How many machines anything is known of.
    pub fn len(&self) -> usize {
        self.known.lock().len()
    }

    /// Whether nothing is known of any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn change(&self, key: &Key, uid: &Uid, change: impl FnOnce(&mut Known)) {
        let mut all = self.known.lock();
        let known = all.entry(key.clone()).or_default();
        if known.uid != *uid {
            **known = Known { uid: uid.clone(), ..Known::default() };
        }
        change(known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows MC-W3.
    #[test]
    fn a_machine_made_anew_under_an_old_name_inherits_nothing() {
        let vm_states = VmStateCache::default();
        let key = Key::new("ns", "m");
        vm_states.learn(&key, &"old".into(), VmState::Absent, None);
        assert_eq!(vm_states.of(&key, &"old".into()).vm, VmState::Absent);
        assert_eq!(vm_states.of(&key, &"new".into()).vm, VmState::Unasked);
    }

    #[test]
    fn a_vm_that_was_described_is_remembered_until_it_is_described_again() {
        let vm_states = VmStateCache::default();
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
        let described = || vm_states.of(&key, &uid).into_described();
        assert_eq!(described(), None);
        vm_states.learn(&key, &uid, VmState::Known(vm("one")), None);
        assert_eq!(described(), Some(vm("one")));
        for other in [VmState::Absent, VmState::Unasked] {
            vm_states.learn(&key, &uid, other, None);
            assert_eq!(described(), Some(vm("one")), "it outlives what is said of something else");
        }
        vm_states.learn(&key, &uid, VmState::Known(vm("two")), None);
        assert_eq!(described(), Some(vm("two")));
    }

    #[test]
    fn that_a_node_is_absent_is_forgotten_when_its_vm_ends() {
        let vm_states = VmStateCache::default();
        let (key, uid) = (Key::new("ns", "m"), Uid::from("u"));
        vm_states.inquired(&key, &uid, NodeLookup::Absent);
        vm_states.begin(&key, &uid);
        assert_eq!(vm_states.of(&key, &uid).node_lookup, NodeLookup::Absent);
        vm_states.learn(&key, &uid, VmState::Gone { last_known_state: None }, None);
        assert_eq!(vm_states.of(&key, &uid).node_lookup, NodeLookup::Unasked, "it may have joined since");
    }

    #[test]
    fn what_is_so_is_told_once_for_as_long_as_it_is_so() {
        let vm_states = VmStateCache::default();
        let (key, uid) = (Key::new("ns", "m"), Uid::from("u"));
        let remark =
            |message: &str| Event { event_type: planner::EventType::Warning, reason: "R", message: message.into() };
        assert_eq!(vm_states.news(&key, &uid, &[]), []);
        assert!(vm_states.is_empty(), "whoever has nothing to say is not remembered");
        assert_eq!(vm_states.news(&key, &uid, &[remark("a")]), [remark("a")]);
        assert_eq!(vm_states.news(&key, &uid, &[remark("a"), remark("b")]), [remark("b")]);
        assert_eq!(vm_states.news(&key, &uid, &[]), []);
        assert_eq!(vm_states.news(&key, &uid, &[remark("a")]), [remark("a")], "it is so again");
    }

    /// Shows MC-W3.
    #[test]
    fn a_late_answer_about_its_predecessor_is_not_kept_for_a_machine() {
        let vm_states = VmStateCache::default();
        let key = Key::new("ns", "m");
        vm_states.begin(&key, &"old".into());
        vm_states.begin(&key, &"new".into());
        vm_states.learn(&key, &"old".into(), VmState::Gone { last_known_state: None }, Some("note".into()));
        let known = vm_states.of(&key, &"new".into());
        assert_eq!((known.vm, known.note), (VmState::Unasked, None));
        vm_states.learn(&key, &"new".into(), VmState::Absent, None);
        assert_eq!(vm_states.of(&key, &"new".into()).vm, VmState::Absent);
    }
}
