//! One create a machine at a time.
//!
//! What keeps two creates of one machine from making two VMs is the cloud's word, where it gives one. A process that never has two of them
//! under way needs it less often.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use driver::{Call, DriverError};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Who is at work, by name.
#[derive(Debug, Default)]
pub struct OneAtATime(Mutex<BTreeMap<String, Weak<tokio::sync::Mutex<()>>>>);

impl OneAtATime {
    /// Waits until nobody else works under this name. The turn ends when what is returned is dropped.
    pub async fn turn(&self, call: &Call, name: &str) -> Result<OwnedMutexGuard<()>, DriverError> {
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
    async fn two_of_one_name_work_one_after_the_other_and_those_of_other_names_at_once() {
        let (turns, call) = (OneAtATime::default(), Call::within(Duration::from_secs(1)));
        let first = turns.turn(&call, "a").await.unwrap();
        let _other = turns.turn(&call, "b").await.unwrap();
        turns.turn(&call, "a").await.unwrap_err();
        drop(first);
        turns.turn(&Call::default(), "a").await.unwrap();
    }
}
