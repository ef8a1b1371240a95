//! Serializes the creates of one machine.
//!
//! The cloud's idempotency token prevents two VMs for one machine, if the cloud has one. Serialized creates in this
//! process make that necessary less often.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use driver::{Call, DriverError};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// A mutex per name.
#[derive(Debug, Default)]
pub struct KeyedMutex(Mutex<BTreeMap<String, Weak<tokio::sync::Mutex<()>>>>);

impl KeyedMutex {
    /// Waits for the lock of this name. Dropping the returned guard releases it.
    pub async fn lock(&self, call: &Call, name: &str) -> Result<OwnedMutexGuard<()>, DriverError> {
        let turn = self.shared(name);
        call.bound(async { Ok(turn.lock_owned().await) }).await
    }

    fn shared(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut working = self.0.lock();
        working.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = working.get(name).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(tokio::sync::Mutex::new(()));
        working.insert(name.to_owned(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn same_name_is_serialized_and_other_names_are_concurrent() {
        let (mutex, call) = (KeyedMutex::default(), Call::within(Duration::from_secs(1)));
        let first = mutex.lock(&call, "a").await.unwrap();
        let _other = mutex.lock(&call, "b").await.unwrap();
        mutex.lock(&call, "a").await.unwrap_err();
        drop(first);
        mutex.lock(&Call::default(), "a").await.unwrap();
    }
}
