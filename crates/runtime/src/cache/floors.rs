//! What we know because we wrote it, until the watch has caught up.
//!
//! The answer to a write is newer than anything the watch has shown. Between the two, events and lists that are older still
//! arrive, and taking them would undo what we know: a machine just created would be gone again and be created twice. A
//! *floor* remembers the resourceVersion of our answer; what lies below it does not touch the object.

use std::collections::BTreeMap;

use crate::Key;

/// The floors of one kind.
#[derive(Debug, Default)]
pub(super) struct Floors(BTreeMap<Key, Floor>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Floor {
    uid: Box<str>,
    at: u64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// We wrote it; the answer has this version.
    Written,
    /// We deleted it; this is the last version it was known to have. The version of the deletion itself is not told.
    Deleted,
}

/// What a floor says about something the API server showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// It is older than what we know.
    Stale,
    /// Nothing speaks against it.
    Fair,
}

impl Floors {
    pub(super) fn written(&mut self, key: &Key, uid: &str, at: u64) {
        self.0.insert(key.clone(), Floor { uid: uid.into(), at, what: What::Written });
    }

    pub(super) fn deleted(&mut self, key: &Key, uid: &str, at: u64) {
        self.0.insert(key.clone(), Floor { uid: uid.into(), at, what: What::Deleted });
    }

    /// Whether an object in this version may be taken over. `at` is `None` for a version that is no number.
    pub(super) fn judge(&self, key: &Key, uid: &str, at: Option<u64>) -> Ruling {
        let (Some(floor), Some(at)) = (self.0.get(key), at) else { return Ruling::Fair };
        let stale = match floor.what {
            What::Written => at < floor.at,
            // A uid never comes back, so every version of what we deleted is from before.
            What::Deleted => *floor.uid == *uid || at <= floor.at,
        };
        if stale { Ruling::Stale } else { Ruling::Fair }
    }

    /// Whether the end of an object may be taken over. Its own end is final; that of a predecessor of the same name is
    /// old news to whoever knows its successor.
    pub(super) fn judge_end(&self, key: &Key, uid: &str, at: Option<u64>) -> Ruling {
        match self.0.get(key) {
            Some(floor) if *floor.uid != *uid => self.judge(key, uid, at),
            Some(_) | None => Ruling::Fair,
        }
    }

    /// Whether our own write keeps the object as we know it although a list of this version says otherwise.
    pub(super) fn outlast(&self, key: &Key, list: Option<u64>) -> bool {
        let (Some(floor), Some(list)) = (self.0.get(key), list) else { return false };
        floor.what == What::Written && floor.at > list
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The watch has shown this object in a version that is not stale, or its end.
    pub(super) fn reached(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// Everything up to `position` has been shown by the watch.
    pub(super) fn passed(&mut self, position: u64) {
        self.0.retain(|_, floor| floor.what == What::Deleted || floor.at > position);
    }

    /// A list of version `list` has been taken over; `contains` tells whether it has this uid under this key. A deleted
    /// object may be missing from a list because the list is older than its creation; only a later list settles it.
    pub(super) fn listed(&mut self, list: Option<u64>, contains: impl Fn(&Key, &str) -> bool) {
        let Some(list) = list else { return self.0.clear() };
        self.0.retain(|key, floor| match floor.what {
            What::Written => floor.at > list,
            What::Deleted => floor.at >= list || contains(key, &floor.uid),
        });
    }

    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}
