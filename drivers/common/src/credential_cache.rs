//! Caches values that expire: keys of a role, tokens.
//!
//! A value is renewed a margin before it expires, by one call while the others wait. If the renewal fails while the old
//! value is valid, the old value is used.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use driver::{Call, DriverError};
use jiff::Timestamp;
use parking_lot::Mutex;

/// Maximum number of cached values.
const MOST: usize = 1000;

/// A value and its expiration time.
#[derive(Clone, Debug)]
pub struct Temporary<T> {
    /// The value.
    pub value: T,
    /// The expiration time.
    pub expires: Timestamp,
}

type Slot<T> = Arc<tokio::sync::Mutex<Option<Temporary<T>>>>;

/// Cached values by name.
pub struct CredentialCache<T> {
    slots: Mutex<BTreeMap<String, Slot<T>>>,
    margin: Duration,
}

impl<T: Clone> CredentialCache<T> {
    /// Creates an empty cache. A value that expires within `margin` is renewed.
    pub fn new(margin: Duration) -> Self {
        Self { slots: Mutex::default(), margin }
    }

    /// Returns the value with this name, renewed if it is about to expire.
    pub async fn get(
        &self,
        call: &Call,
        now: Timestamp,
        name: &str,
        fetch: impl Future<Output = Result<Temporary<T>, DriverError>>,
    ) -> Result<T, DriverError> {
        self.get_unless(call, now, name, |_| false, fetch).await
    }

    /// Like [`Self::get`], but also renews a value for which `stale` returns true. Of several concurrent calls one
    /// renews it.
    pub async fn get_unless(
        &self,
        call: &Call,
        now: Timestamp,
        name: &str,
        stale: impl Fn(&T) -> bool,
        fetch: impl Future<Output = Result<Temporary<T>, DriverError>>,
    ) -> Result<T, DriverError> {
        let slot = self.slot(name);
        let mut kept = call.bound(async { Ok(slot.lock().await) }).await?;
        if kept.as_ref().is_some_and(|kept| stale(&kept.value)) {
            *kept = None;
        }
        let good_until = now.checked_add(self.margin).unwrap_or(Timestamp::MAX);
        if let Some(temporary) = kept.as_ref().filter(|temporary| temporary.expires > good_until) {
            return Ok(temporary.value.clone());
        }
        match (fetch.await, kept.as_ref()) {
            (Ok(fresh), _) => {
                let value = fresh.value.clone();
                *kept = Some(fresh);
                Ok(value)
            }
            (Err(error), Some(old)) if old.expires > now => {
                tracing::warn!(code = %error.code(), message = error.message(), expires = %old.expires, "failed to renew credentials; using the old ones until they expire");
                Ok(old.value.clone())
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Drops the value with this name. The next call fetches a new one.
    pub fn forget(&self, name: &str) {
        self.slots.lock().remove(name);
    }

    fn slot(&self, name: &str) -> Slot<T> {
        let mut slots = self.slots.lock();
        if slots.len() >= MOST && !slots.contains_key(name) {
            slots.clear();
        }
        slots.entry(name.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driver::Code;

    fn until(value: &'static str, second: i64) -> Temporary<&'static str> {
        Temporary { value, expires: Timestamp::from_second(second).unwrap() }
    }

    /// Shows OST-5.
    #[tokio::test(start_paused = true)]
    async fn value_is_renewed_before_expiry_and_when_stale() {
        let (kept, call, now) =
            (CredentialCache::new(Duration::from_secs(10)), Call::default(), Timestamp::from_second(100).unwrap());
        assert_eq!(kept.get(&call, now, "a", async { Ok(until("one", 200)) }).await.unwrap(), "one");
        assert_eq!(kept.get(&call, now, "a", async { Ok(until("two", 200)) }).await.unwrap(), "one");
        assert_eq!(
            kept.get_unless(&call, now, "a", |old| *old == "one", async { Ok(until("two", 105)) }).await.unwrap(),
            "two"
        );
        assert_eq!(
            kept.get_unless(&call, now, "a", |old| *old == "one", async { Ok(until("three", 200)) }).await.unwrap(),
            "three"
        );
        assert_eq!(kept.get(&call, now, "b", async { Ok(until("other", 200)) }).await.unwrap(), "other");
    }

    /// Shows OST-5.
    #[tokio::test(start_paused = true)]
    async fn failed_renewal_keeps_the_old_value_unless_it_is_stale() {
        let (kept, call, now) =
            (CredentialCache::new(Duration::from_secs(10)), Call::default(), Timestamp::from_second(100).unwrap());
        kept.get(&call, now, "a", async { Ok(until("one", 105)) }).await.unwrap();
        let down = || async { Err(DriverError::new(Code::Unavailable, "down")) };
        assert_eq!(kept.get(&call, now, "a", down()).await.unwrap(), "one");
        assert_eq!(kept.get_unless(&call, now, "a", |_| true, down()).await.unwrap_err().code(), Code::Unavailable);
    }
}
