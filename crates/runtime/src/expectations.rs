//! Creates and deletes that the cache does not show yet.
//!
//! The cache is stale after a write. A controller that has created ten objects does not see them in the cache and would create
//! ten more. Therefore it records an *expectation* before each create or delete, and creates or deletes no further objects of
//! the same owner until the cache shows the result.
//!
//! Creates are expected by name, deletes by uid. In client-go they are counted, so an unrelated event may satisfy an
//! expectation. An expectation expires after a few minutes, so that a lost event does not block its owner forever.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Clock, Key};

/// Default time until an expectation expires.
pub const TIMEOUT: Duration = Duration::from_mins(5);

/// Expectations of a controller, by owner. Cheap to clone; clones share their state.
#[derive(Clone, Debug)]
pub struct Expectations {
    clock: Clock,
    timeout: Duration,
    open: Arc<Mutex<Open>>,
}

/// A create or delete that the cache does not show yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expected {
    /// An object with this key appears.
    Create(Key),
    /// The object with this uid is deleted or has a deletionTimestamp.
    Delete {
        /// Distinguishes it from a later object with the same name.
        uid: Arc<str>,
    },
}

/// An open expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// What is expected.
    pub what: Expected,
    /// Time until it expires.
    pub expires_in: Duration,
}

#[derive(Debug, Default)]
struct Open {
    /// By result, so that events are matched without the owner.
    expected: BTreeMap<Expected, (Key, Instant)>,
    by_owner: BTreeMap<Key, BTreeSet<Expected>>,
    by_expiry: BTreeSet<(Instant, Expected)>,
}

impl Expectations {
    /// Creates an empty set whose expectations expire after [`TIMEOUT`].
    pub fn new(clock: Clock) -> Self {
        Self::with_timeout(clock, TIMEOUT)
    }

    /// Creates an empty set whose expectations expire after `timeout`.
    pub fn with_timeout(clock: Clock, timeout: Duration) -> Self {
        Self { clock, timeout, open: Arc::default() }
    }

    /// Expects that `owner` creates `object`. Must be called before the request: the watch event may precede the response.
    pub fn expect_create(&self, owner: &Key, object: Key) {
        self.expect(owner, Expected::Create(object));
    }

    /// Expects that `owner` deletes the object with this uid. Must be called before the request.
    pub fn expect_delete(&self, owner: &Key, uid: impl Into<Arc<str>>) {
        self.expect(owner, Expected::Delete { uid: uid.into() });
    }

    /// Removes the expectation: `object` is in the cache, or its create failed. Returns the owner if it was its last one.
    pub fn created(&self, object: &Key) -> Option<Key> {
        self.meet(&Expected::Create(object.clone()))
    }

    /// Removes the expectation: the object is not in the cache any more or has a deletionTimestamp, or its delete failed.
    /// Returns the owner if it was its last one.
    pub fn deleted(&self, uid: impl Into<Arc<str>>) -> Option<Key> {
        self.meet(&Expected::Delete { uid: uid.into() })
    }

    /// Returns whether `owner` has no open expectations.
    pub fn satisfied(&self, owner: &Key) -> bool {
        let mut open = self.open.lock();
        open.expire(self.clock.instant());
        !open.by_owner.contains_key(owner)
    }

    /// Returns the open expectations of `owner`.
    pub fn outstanding(&self, owner: &Key) -> Vec<Outstanding> {
        let now = self.clock.instant();
        let mut open = self.open.lock();
        open.expire(now);
        let Some(expected) = open.by_owner.get(owner) else { return Vec::new() };
        expected
            .iter()
            .filter_map(|what| {
                let (_, expires) = open.expected.get(what)?;
                Some(Outstanding { what: what.clone(), expires_in: expires.saturating_duration_since(now) })
            })
            .collect()
    }

    /// Removes all expectations of `owner`, which was deleted.
    pub fn forget(&self, owner: &Key) {
        let mut open = self.open.lock();
        for what in open.by_owner.remove(owner).unwrap_or_default() {
            open.remove(&what);
        }
    }

    fn expect(&self, owner: &Key, what: Expected) {
        let now = self.clock.instant();
        let mut open = self.open.lock();
        open.expire(now);
        // A create that is repeated with the same name restarts the timeout.
        open.remove(&what);
        let expires = now + self.timeout;
        open.expected.insert(what.clone(), (owner.clone(), expires));
        open.by_expiry.insert((expires, what.clone()));
        open.by_owner.entry(owner.clone()).or_default().insert(what);
    }

    fn meet(&self, what: &Expected) -> Option<Key> {
        let mut open = self.open.lock();
        let owner = open.remove(what)?;
        (!open.by_owner.contains_key(&owner)).then_some(owner)
    }
}

impl Open {
    fn remove(&mut self, what: &Expected) -> Option<Key> {
        let (owner, expires) = self.expected.remove(what)?;
        self.by_expiry.remove(&(expires, what.clone()));
        if let Some(others) = self.by_owner.get_mut(&owner) {
            others.remove(what);
            if others.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
        Some(owner)
    }

    /// Removes expired expectations. Called on each access, so that memory is bounded.
    fn expire(&mut self, now: Instant) {
        while let Some((expires, what)) = self.by_expiry.first().cloned() {
            if expires > now {
                break;
            }
            let owner = self.remove(&what);
            tracing::warn!(owner = owner.map(tracing::field::display), %what, "expectation expired: the cache did not show the result of a request");
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(object) => write!(f, "creation of {object}"),
            Self::Delete { uid } => write!(f, "deletion of uid {uid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Key {
        Key::new("ns", "set")
    }

    fn object(name: &str) -> Key {
        Key::new("ns", name)
    }

    /// Shows QUE-7, MS-W1.
    #[tokio::test(start_paused = true)]
    async fn owner_is_satisfied_when_the_cache_shows_all_results() {
        let expectations = Expectations::new(Clock::system());
        assert!(expectations.satisfied(&owner()));
        expectations.expect_create(&owner(), object("a"));
        expectations.expect_delete(&owner(), "uid-b");
        assert_eq!(expectations.created(&object("a")), None);
        assert!(!expectations.satisfied(&owner()));
        assert_eq!(expectations.deleted("uid-b"), Some(owner()));
        assert!(expectations.satisfied(&owner()));
    }

    /// Shows QUE-7.
    #[tokio::test(start_paused = true)]
    async fn unrelated_events_satisfy_no_expectation() {
        let expectations = Expectations::new(Clock::system());
        expectations.expect_create(&owner(), object("a"));
        expectations.expect_delete(&owner(), "uid-b");
        assert_eq!(expectations.created(&object("other")), None);
        assert_eq!(expectations.deleted("uid-of-a-namesake"), None);
        let what: Vec<_> = expectations.outstanding(&owner()).into_iter().map(|o| o.what.to_string()).collect();
        assert_eq!(what, ["creation of ns/a", "deletion of uid uid-b"]);
    }

    /// Shows QUE-7, MS-W1.
    #[tokio::test(start_paused = true)]
    async fn expectation_expires_after_five_minutes() {
        let expectations = Expectations::new(Clock::system());
        expectations.expect_create(&owner(), object("a"));
        tokio::time::advance(Duration::from_mins(2)).await;
        expectations.expect_create(&owner(), object("b"));
        tokio::time::advance(Duration::from_mins(3)).await;
        let left = expectations.outstanding(&owner());
        assert_eq!(left, [Outstanding { what: Expected::Create(object("b")), expires_in: Duration::from_mins(2) }]);
        tokio::time::advance(Duration::from_mins(2)).await;
        assert!(expectations.satisfied(&owner()));
        let open = expectations.open.lock();
        assert!(open.expected.is_empty() && open.by_owner.is_empty() && open.by_expiry.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_create_restarts_the_timeout() {
        let expectations = Expectations::new(Clock::system());
        expectations.expect_create(&owner(), object("a"));
        tokio::time::advance(Duration::from_mins(4)).await;
        expectations.expect_create(&owner(), object("a"));
        tokio::time::advance(Duration::from_mins(4)).await;
        assert!(!expectations.satisfied(&owner()));
        assert_eq!(expectations.created(&object("a")), Some(owner()));
        assert!(expectations.satisfied(&owner()));
    }

    #[tokio::test(start_paused = true)]
    async fn owners_are_independent() {
        let expectations = Expectations::new(Clock::system());
        expectations.expect_create(&owner(), object("a"));
        assert!(expectations.satisfied(&Key::new("ns", "other")));
        expectations.forget(&owner());
        assert!(expectations.satisfied(&owner()));
        assert!(expectations.open.lock().by_expiry.is_empty());
    }
}
