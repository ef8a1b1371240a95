//! Reflectors of one process tell each other that an API server answers again.
//!
//! Each waits by itself, up to three quarters of a minute (`backoff`). When the server is back, one kind would be read at once and another
//! half a minute later, and who decides on both in between sees half of what has happened: a MachineSet that is smaller and not that
//! one of its Machines is gone, or pods that have come and not that their Node was opened. So the first that is answered after
//! being cut off wakes the others that are.
//!
//! Which of them share an API server is not known here; a try too many after an outage costs little.

use std::sync::Arc;

use tokio::sync::Notify;

/// Reflectors that were given the same one try again together. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RetrySignal {
    answered: Arc<Notify>,
}

impl RetrySignal {
    /// An API server that had not answered answers. Who waits now is woken, in the order of coming; nobody later.
    pub(super) fn answered(&self) {
        self.answered.notify_waiters();
    }

    /// Returns when somebody else was answered.
    pub(super) async fn others_are_answered(&self) {
        self.answered.notified().await;
    }
}
