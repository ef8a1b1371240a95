//! Whether a driver call about a machine is out: known here, and nowhere else.
//!
//! Four ask: the machine's plan, which waits for the end; the scan for orphans, which does not judge a VM that is about to change; a
//! class, a Secret or a driver that changes, which a call that is out was not made with; and `/debug/state`. If each of them kept its own
//! record, a record that outlives its call would hold its machine for ever, and one that ends before its call would let a second VM be
//! made. So there is one entry a machine, and the task of the call owns it ([`OpenCall`]): it goes when the task ends, in whatever way. The
//! VM state cache holds only what the cloud has said. The answer is put there in the moment in which the entry goes, so that nobody sees
//! one without the other.
//!
//! An entry that goes without an answer, because its task has panicked or was cancelled, leaves a VM of which nothing is known: the
//! call may have had its effect, so the cloud is asked again before anything is made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::Uid;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use planner::machine::{Call, CallUnderWay, VmState};
use runtime::queue::Queue;
use runtime::{Clock, Key};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::vm_state::{Known, VmStateCache};

/// The calls about Machines that have not ended. Clones are the same.
#[derive(Clone)]
pub(super) struct OpenCalls {
    open: Arc<Mutex<BTreeMap<Key, Entry>>>,
    vm_states: VmStateCache,
    /// The end of a call wakes its machine.
    queue: Queue<Key>,
    clock: Clock,
}

struct Entry {
    uid: Uid,
    call: Call,
    /// When the call has ended at the latest. Elapsed time, as the call's own deadline: wall time may jump.
    deadline: Option<Instant>,
    recall: Recall,
    /// What the call was made with has changed since: should it fail, that says little about the next one.
    overtaken: bool,
}

/// Whether a call may be taken back while it has not left.
pub(super) enum Recall {
    /// It was planned for a machine that was to stay.
    Possible(CancellationToken),
    /// It is part of a deletion, which wants it.
    Never,
}

/// A call that has not ended; dropping it ends it without an answer.
pub(super) struct OpenCall {
    calls: OpenCalls,
    key: Key,
    uid: Uid,
    end: End,
}

/// How a call ended.
pub(super) enum End {
    /// Nothing was sent, so nothing is known that was not known before.
    NothingSent,
    /// The cloud answered, or it is known to have failed.
    Answered {
        /// What is known of the VM now.
        vm: VmState,
        /// What the driver wants to be shown at its next call.
        note: Option<String>,
    },
    /// Nobody knows what came of it.
    Lost,
}

impl OpenCalls {
    pub(super) fn new(vm_states: VmStateCache, queue: Queue<Key>, clock: Clock) -> Self {
        Self { open: Arc::default(), vm_states, queue, clock }
    }

    /// A call begins and ends within `at_most`; `None` if one about this machine, or about another of its name, is out already.
    pub(super) fn begin(
        &self,
        key: &Key,
        uid: &Uid,
        call: Call,
        at_most: Duration,
        recall: Recall,
    ) -> Option<OpenCall> {
        let mut open = self.open.lock();
        if open.contains_key(key) {
            return None;
        }
        let deadline = self.clock.instant().checked_add(at_most);
        open.insert(key.clone(), Entry { uid: uid.clone(), call, deadline, recall, overtaken: false });
        self.vm_states.begin(key, uid);
        Some(OpenCall { calls: self.clone(), key: key.clone(), uid: uid.clone(), end: End::Lost })
    }

    /// The call that is out about this very machine, if there is one, and what is known of its VM: both of one moment.
    pub(super) fn look(&self, key: &Key, uid: &Uid) -> (Option<CallUnderWay>, Known) {
        let open = self.open.lock();
        let under_way = open.get(key).filter(|entry| entry.uid == *uid).map(|entry| self.under_way(entry));
        (under_way, self.vm_states.of(key, uid))
    }

    /// The deadline of a call, in wall time as it is now.
    fn under_way(&self, entry: &Entry) -> CallUnderWay {
        let left = entry.deadline.map(|deadline| deadline.saturating_duration_since(self.clock.instant()));
        let left = left.and_then(|left| SignedDuration::try_from(left).ok());
        let until = left.and_then(|left| self.clock.now().checked_add(left).ok()).unwrap_or(Timestamp::MAX);
        CallUnderWay { call: entry.call, until }
    }

    /// All calls that are out.
    pub(super) fn all(&self) -> Vec<(Key, CallUnderWay)> {
        self.open.lock().iter().map(|(key, entry)| (key.clone(), self.under_way(entry))).collect()
    }

    /// Takes back a call that has not left.
    pub(super) fn recall(&self, key: &Key) {
        if let Some(Entry { recall: Recall::Possible(recall), .. }) = self.open.lock().get(key) {
            recall.cancel();
        }
    }

    /// What a call about this machine is made with has changed. What failed is tried again without waiting for its back-off, also if it
    /// fails only now; says whether something had failed.
    pub(super) fn try_again(&self, key: &Key) -> bool {
        match self.open.lock().get_mut(key) {
            Some(entry) => {
                entry.overtaken = true;
                false
            }
            None => self.vm_states.try_again(key),
        }
    }

    /// The same for all machines; says which had failed.
    pub(super) fn try_all_again(&self) -> Vec<Key> {
        let open: Vec<Key> = self.open.lock().keys().cloned().collect();
        let all: BTreeSet<Key> = open.into_iter().chain(self.vm_states.keys()).collect();
        all.into_iter().filter(|key| self.try_again(key)).collect()
    }

    /// Counts and logs a panic in a call about this machine.
    pub(super) fn panicked(&self, key: &Key) {
        self.queue.panicked(key, "driver call");
    }

    fn end(&self, key: &Key, uid: &Uid, end: End) {
        {
            let mut open = self.open.lock();
            let overtaken = open.remove(key).is_some_and(|entry| entry.overtaken);
            match end {
                End::NothingSent => {}
                End::Answered { vm, note } => self.vm_states.learn(key, uid, vm, note),
                End::Lost => self.vm_states.learn(key, uid, VmState::Unasked, None),
            }
            if overtaken {
                self.vm_states.try_again(key);
            }
        }
        self.queue.add(key.clone());
    }
}

impl OpenCall {
    /// The call has ended at this time at the latest.
    pub(super) fn ends_by(&self, deadline: Instant) {
        if let Some(entry) = self.calls.open.lock().get_mut(&self.key) {
            entry.deadline = Some(deadline);
        }
    }

    /// Ends the call, and wakes its machine.
    pub(super) fn end(mut self, end: End) {
        self.end = end;
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.calls.end(&self.key, &self.uid, std::mem::replace(&mut self.end, End::Lost));
    }
}

#[cfg(test)]
mod tests;
