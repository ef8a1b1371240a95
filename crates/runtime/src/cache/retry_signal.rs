//! Reflectors of one process signal each other that an API server responds again.
//!
//! Each reflector backs off by itself, up to 45 s (`backoff`). When the server returns, one kind would be listed
//! immediately and another one 30 s later. A decision based on both would see half of the changes: a MachineSet with
//! fewer replicas but not the deletion of its Machine, or new pods but not that their Node was uncordoned. Therefore
//! the first reflector that gets a response after an outage signals the others to retry.
//!
//! The signal does not know which reflectors share an API server; an unnecessary retry after an outage costs little.

use std::sync::Arc;

use tokio::sync::Notify;

/// Reflectors with the same signal retry together. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RetrySignal {
    answered: Arc<Notify>,
}

impl RetrySignal {
    /// An API server responds after an outage. Wakes the tasks that wait now, in the order in which they started to
    /// wait.
    pub(super) fn answered(&self) {
        self.answered.notify_waiters();
    }

    /// Returns when another reflector gets a response after an outage.
    pub(super) async fn others_are_answered(&self) {
        self.answered.notified().await;
    }
}
