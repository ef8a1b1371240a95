//! The driver calls about Machines that are in progress. This is the only record of them.
//!
//! It has four users: the plan of the Machine, which waits for the end of the call; the scan for orphan VMs, which
//! skips a VM that is about to change; a class, Secret or driver that changes during the call; and `/debug/state`. A
//! record that outlives its call would block its Machine forever, and a record that ends before its call would allow a
//! second VM. So there is one entry for each Machine, owned by the task of the call ([`OpenCall`]): it is removed when
//! the task ends, in whatever way. [`MachineMemory`] holds the results. The result is stored there in the moment in
//! which the entry is removed, under the same lock.
//!
//! An entry that is removed without a result, because its task panicked or was canceled, sets the VM to unknown. The
//! call may have had an effect, so the cloud is queried before anything is created.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::Uid;
use api::time::later;
use jiff::Timestamp;
use parking_lot::Mutex;
use planner::machine::{Call, CallUnderWay, VmState};
use runtime::queue::Queue;
use runtime::{Clock, Key};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::machine_memory::{MachineMemory, MachineRecord};

/// The calls about Machines that have not ended. Clones share all state.
#[derive(Clone)]
pub(crate) struct OpenCalls {
    open: Arc<Mutex<BTreeMap<Key, Entry>>>,
    memory: MachineMemory,
    /// The end of a call wakes its Machine.
    queue: Queue<Key>,
    clock: Clock,
}

struct Entry {
    uid: Uid,
    call: Call,
    /// The time at which the call ends at the latest. This is elapsed time, because wall time may step.
    deadline: Option<Instant>,
    cancellation: Cancellation,
    /// What the call was made with has changed since. If the call fails, the next one is made without backoff.
    outdated: bool,
}

/// Whether a call can be canceled while it is queued.
pub(super) enum Cancellation {
    /// The call was planned for a Machine that was not being deleted.
    BeforeItIsSent(CancellationToken),
    /// The call is part of the deletion of the Machine.
    Never,
}

/// A call that has not ended. Dropping it ends the call without a result.
pub(super) struct OpenCall {
    calls: OpenCalls,
    key: Key,
    uid: Uid,
    end: End,
}

/// The end of a call.
pub(super) enum End {
    /// Nothing was sent, so nothing new is known.
    NothingSent,
    /// The driver answered, or the call is known to have failed.
    Answered {
        /// What is known of the VM now.
        vm: VmState,
        /// The note of the driver for its next call.
        note: Option<String>,
    },
    /// The result of the call is unknown.
    Lost,
}

impl OpenCalls {
    pub(crate) fn new(memory: MachineMemory, queue: Queue<Key>, clock: Clock) -> Self {
        Self { open: Arc::default(), memory, queue, clock }
    }

    /// Adds a call that ends within `at_most`. Returns `None` if a call about this Machine, or about another one of its
    /// name, is in progress.
    pub(super) fn begin(
        &self,
        key: &Key,
        uid: &Uid,
        call: Call,
        at_most: Duration,
        cancellation: Cancellation,
    ) -> Option<OpenCall> {
        let mut open = self.open.lock();
        if open.contains_key(key) {
            return None;
        }
        let deadline = self.clock.instant().checked_add(at_most);
        open.insert(key.clone(), Entry { uid: uid.clone(), call, deadline, cancellation, outdated: false });
        self.memory.begin(key, uid);
        Some(OpenCall { calls: self.clone(), key: key.clone(), uid: uid.clone(), end: End::Lost })
    }

    /// Returns the call in progress about this very Machine, if there is one, and what is known of its VM, read at the
    /// same moment.
    pub(super) fn snapshot(&self, key: &Key, uid: &Uid) -> (Option<CallUnderWay>, MachineRecord) {
        let open = self.open.lock();
        let under_way = open.get(key).filter(|entry| entry.uid == *uid).map(|entry| self.under_way(entry));
        (under_way, self.memory.record(key, uid))
    }

    /// Returns the call with its deadline in the current wall time.
    fn under_way(&self, entry: &Entry) -> CallUnderWay {
        let left = entry.deadline.map(|deadline| deadline.saturating_duration_since(self.clock.instant()));
        let until = left.map_or(Timestamp::MAX, |left| later(self.clock.now(), left));
        CallUnderWay { call: entry.call, until }
    }

    /// Returns all calls in progress.
    pub(super) fn all(&self) -> Vec<(Key, CallUnderWay)> {
        self.open.lock().iter().map(|(key, entry)| (key.clone(), self.under_way(entry))).collect()
    }

    /// Cancels a call that has not been sent.
    pub(super) fn cancel_unsent(&self, key: &Key) {
        if let Some(Entry { cancellation: Cancellation::BeforeItIsSent(cancel), .. }) = self.open.lock().get(key) {
            cancel.cancel();
        }
    }

    /// Removes the backoff of a failed call, because what the call is made with has changed. A call in progress gets no
    /// backoff if it fails. Returns whether a call had failed.
    pub(super) fn reset_backoff(&self, key: &Key) -> bool {
        match self.open.lock().get_mut(key) {
            Some(entry) => {
                entry.outdated = true;
                false
            }
            None => self.memory.forget_failure(key),
        }
    }

    /// Removes the backoff of the calls of all Machines. Returns the Machines whose last call had failed.
    pub(super) fn reset_all_backoffs(&self) -> Vec<Key> {
        let open: Vec<Key> = self.open.lock().keys().cloned().collect();
        let all: BTreeSet<Key> = open.into_iter().chain(self.memory.keys()).collect();
        all.into_iter().filter(|key| self.reset_backoff(key)).collect()
    }

    /// Counts and logs a panic in a call about this Machine.
    pub(super) fn panicked(&self, key: &Key) {
        self.queue.panicked(key, "driver call");
    }

    fn end(&self, key: &Key, uid: &Uid, end: End) {
        {
            let mut open = self.open.lock();
            let outdated = open.remove(key).is_some_and(|entry| entry.outdated);
            match end {
                End::NothingSent => {}
                End::Answered { vm, note } => self.memory.set_vm(key, uid, vm, note),
                End::Lost => self.memory.set_vm(key, uid, VmState::Unknown, None),
            }
            if outdated {
                self.memory.forget_failure(key);
            }
        }
        self.queue.add(key.clone());
    }
}

impl OpenCall {
    /// Sets the time at which the call ends at the latest.
    pub(super) fn ends_by(&self, deadline: Instant) {
        if let Some(entry) = self.calls.open.lock().get_mut(&self.key) {
            entry.deadline = Some(deadline);
        }
    }

    /// Ends the call, and wakes its Machine.
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
