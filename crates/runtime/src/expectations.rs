//! What we have done and the cache has not shown yet.
//!
//! The cache is always late. A controller that has just created ten objects and counts the cache sees none of them, and
//! creates ten more. So before it sends a create or a delete it *expects* the result, and until the cache has shown it the
//! owner makes no further ones.
//!
//! Creates are expected by the name we chose, deletes by uid: a count (as in client-go) can be satisfied by a stranger's
//! event, a name cannot. An expectation that is not met within a few minutes lapses, because an owner that is blocked for
//! ever by one lost event is worse than one that looks again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Clock, Key};

/// How long an expectation holds its owner back when nothing meets it.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// What a controller waits to see, by owner. Cheap to clone; clones share it.
#[derive(Clone, Debug)]
pub struct Expectations {
    clock: Clock,
    patience: Duration,
    open: Arc<Mutex<Open>>,
}

/// Something done that the cache has not shown yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expected {
    /// An object of this name appears.
    Create(Key),
    /// The object with this uid is gone, or on its way.
    Delete {
        /// Tells it from a namesake made later.
        uid: Arc<str>,
    },
}

/// An expectation that is still open, and the last moment it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// What is expected.
    pub what: Expected,
    /// When it lapses.
    pub lapses_in: Duration,
}

#[derive(Debug, Default)]
struct Open {
    /// By what is expected, so that an event needs to know neither the owner nor the reason.
    expected: BTreeMap<Expected, (Key, Instant)>,
    by_owner: BTreeMap<Key, BTreeSet<Expected>>,
    lapsing: BTreeSet<(Instant, Expected)>,
}

impl Expectations {
    /// Nothing expected yet; expectations lapse after [`PATIENCE`].
    pub fn new(clock: Clock) -> Self {
        Self::with_patience(clock, PATIENCE)
    }

    /// Nothing expected yet; expectations lapse after `patience`.
    pub fn with_patience(clock: Clock, patience: Duration) -> Self {
        Self { clock, patience, open: Arc::default() }
    }

    /// `owner` is about to create `object`. To be called before the request is sent: the event may come before the answer.
    pub fn expect_create(&self, owner: &Key, object: Key) {
        self.expect(owner, Expected::Create(object));
    }

    /// `owner` is about to delete the object with this uid. To be called before the request is sent.
    pub fn expect_delete(&self, owner: &Key, uid: impl Into<Arc<str>>) {
        self.expect(owner, Expected::Delete { uid: uid.into() });
    }

    /// `object` is in the cache, or its create was refused and it will never be. Returns the owner if that was the last
    /// thing it waited for.
    pub fn created(&self, object: &Key) -> Option<Key> {
        self.meet(&Expected::Create(object.clone()))
    }

    /// The object with this uid is gone from the cache or carries a deletionTimestamp, or its delete was refused. Returns
    /// the owner if that was the last thing it waited for.
    pub fn deleted(&self, uid: impl Into<Arc<str>>) -> Option<Key> {
        self.meet(&Expected::Delete { uid: uid.into() })
    }

    /// Whether the cache has shown everything `owner` has done (or we no longer wait for it).
    pub fn satisfied(&self, owner: &Key) -> bool {
        let mut open = self.open.lock();
        open.lapse(self.clock.instant());
        !open.by_owner.contains_key(owner)
    }

    /// What `owner` waits for; empty when satisfied.
    pub fn outstanding(&self, owner: &Key) -> Vec<Outstanding> {
        let now = self.clock.instant();
        let mut open = self.open.lock();
        open.lapse(now);
        let Some(expected) = open.by_owner.get(owner) else { return Vec::new() };
        expected
            .iter()
            .filter_map(|what| {
                let (_, lapses) = open.expected.get(what)?;
                Some(Outstanding { what: what.clone(), lapses_in: lapses.saturating_duration_since(now) })
            })
            .collect()
    }

    /// `owner` is gone; nobody waits any more.
    pub fn forget(&self, owner: &Key) {
        let mut open = self.open.lock();
        for what in open.by_owner.remove(owner).unwrap_or_default() {
            open.remove(&what);
        }
    }

    fn expect(&self, owner: &Key, what: Expected) {
        let now = self.clock.instant();
        let mut open = self.open.lock();
        open.lapse(now);
        // Expected once more (a create repeated under its name): the newest request counts.
        open.remove(&what);
        let lapses = now + self.patience;
        open.expected.insert(what.clone(), (owner.clone(), lapses));
        open.lapsing.insert((lapses, what.clone()));
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
        let (owner, lapses) = self.expected.remove(what)?;
        self.lapsing.remove(&(lapses, what.clone()));
        if let Some(others) = self.by_owner.get_mut(&owner) {
            others.remove(what);
            if others.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
        Some(owner)
    }

    /// Swept at every look, so that the memory of what never came goes away too.
    fn lapse(&mut self, now: Instant) {
        while let Some((lapses, what)) = self.lapsing.first().cloned() {
            if lapses > now {
                break;
            }
            let owner = self.remove(&what);
            tracing::warn!(owner = owner.map(tracing::field::display), %what, "never saw the result of our own request; no longer waiting for it");
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
    async fn an_owner_is_held_back_until_the_cache_has_shown_all_it_did() {
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
    async fn events_of_strangers_satisfy_nothing() {
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
    async fn what_never_comes_holds_its_owner_back_for_five_minutes_only() {
        let expectations = Expectations::new(Clock::system());
        expectations.expect_create(&owner(), object("a"));
        tokio::time::advance(Duration::from_mins(2)).await;
        expectations.expect_create(&owner(), object("b"));
        tokio::time::advance(Duration::from_mins(3)).await;
        let left = expectations.outstanding(&owner());
        assert_eq!(left, [Outstanding { what: Expected::Create(object("b")), lapses_in: Duration::from_mins(2) }]);
        tokio::time::advance(Duration::from_mins(2)).await;
        assert!(expectations.satisfied(&owner()));
        let open = expectations.open.lock();
        assert!(open.expected.is_empty() && open.by_owner.is_empty() && open.lapsing.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_create_repeated_under_its_name_is_expected_once_and_anew() {
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
    async fn one_owner_does_not_hold_back_another() {
        let expectations = Expectations::new(Clock::system());
        expectations.expect_create(&owner(), object("a"));
        assert!(expectations.satisfied(&Key::new("ns", "other")));
        expectations.forget(&owner());
        assert!(expectations.satisfied(&owner()));
        assert!(expectations.open.lock().lapsing.is_empty());
    }
}
