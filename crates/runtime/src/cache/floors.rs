//! Results of own writes that the watch has not reported yet.
//!
//! The response to a write is newer than anything the watch has reported. Older events and lists can still arrive after
//! it. Applying them would revert the write: a Machine that was just created would disappear from the cache and be
//! created twice. A *floor* stores the resourceVersion of the response; older versions of the object are ignored.

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
    /// The object was written; the response has this version.
    Written,
    /// The object was deleted; this is its last known version. The response does not contain the version of the
    /// deletion.
    Deleted,
}

/// Result of comparing an object from the API server with its floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// It is older than the floor.
    Stale,
    /// It is not older than the floor.
    Fair,
}

impl Floors {
    pub(super) fn written(&mut self, key: &Key, uid: &str, at: u64) {
        self.0.insert(key.clone(), Floor { uid: uid.into(), at, what: What::Written });
    }

    pub(super) fn deleted(&mut self, key: &Key, uid: &str, at: u64) {
        self.0.insert(key.clone(), Floor { uid: uid.into(), at, what: What::Deleted });
    }

    /// Compares an object of this version with its floor. `at` is `None` if the version is not a number.
    pub(super) fn judge(&self, key: &Key, uid: &str, at: Option<u64>) -> Ruling {
        let (Some(floor), Some(at)) = (self.0.get(key), at) else { return Ruling::Fair };
        let stale = match floor.what {
            What::Written => at < floor.at,
            // A uid is never reused, so every version of the deleted object is older.
            What::Deleted => *floor.uid == *uid || at <= floor.at,
        };
        if stale { Ruling::Stale } else { Ruling::Fair }
    }

    /// Compares the deletion of an object with its floor. The deletion of this object is final. The deletion of a
    /// predecessor with the same name is stale.
    pub(super) fn judge_end(&self, key: &Key, uid: &str, at: Option<u64>) -> Ruling {
        match self.0.get(key) {
            Some(floor) if *floor.uid != *uid => self.judge(key, uid, at),
            Some(_) | None => Ruling::Fair,
        }
    }

    /// Returns whether an own write is newer than a list of this version, so that the list does not change the object.
    pub(super) fn outlast(&self, key: &Key, list: Option<u64>) -> bool {
        let (Some(floor), Some(list)) = (self.0.get(key), list) else { return false };
        floor.what == What::Written && floor.at > list
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The watch reported this object in a version that is not stale, or its deletion.
    pub(super) fn reached(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// The watch has reported everything up to `position`.
    pub(super) fn passed(&mut self, position: u64) {
        self.0.retain(|_, floor| floor.what == What::Deleted || floor.at > position);
    }

    /// A list of version `list` was applied; `contains` returns whether it has this uid under this key. A deleted
    /// object may be missing because the list is older than its creation. Only a later list removes the floor.
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
