//! What changed in a cache, told to those who queue work.

use std::sync::Arc;

use super::decoded::UndecodableObject;

/// One change of one object, with both sides of it: who only sees the new side cannot tell that a label was *removed*, or
/// which machine a node *used to* belong to.
#[derive(Debug)]
pub enum Delta<K> {
    /// It was not there before.
    Added(Arc<K>),
    /// It was there and is different now.
    Changed {
        /// As it was.
        old: Arc<K>,
        /// As it is.
        new: Arc<K>,
    },
    /// It is gone.
    Removed {
        /// The last state known: the one the API server sent along with the deletion where it did.
        last: Arc<K>,
        /// How we know.
        how: Removal,
    },
    /// It is there, but cannot be read (any more). It counts as present and is not planned on.
    Undecodable {
        /// As it was, if it could be read before.
        old: Option<Arc<K>>,
        /// What is still known.
        object: Arc<UndecodableObject>,
    },
    /// It could not be read and now can. Not `Added`: it has been counted as present all along.
    Mended {
        /// What was known.
        was: Arc<UndecodableObject>,
        /// As it is.
        new: Arc<K>,
    },
    /// It could not be read and is gone.
    RemovedUndecodable {
        /// What was known.
        last: Arc<UndecodableObject>,
        /// How we know.
        how: Removal,
    },
}

/// How we know that an object is gone. *Vanished is not deleted*: nobody told us, we only no longer find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// A watch said so, or the answer to a delete of ours.
    Deleted,
    /// A list did not contain it; we were not watching when it went.
    Vanished,
    /// The API server went back to a time before it (a restored etcd). Whoever it stood for may still be there.
    Forgotten,
}

impl<K> Delta<K> {
    /// The object as it is now, if it is there and can be read.
    pub fn now(&self) -> Option<&Arc<K>> {
        match self {
            Self::Added(new) | Self::Changed { new, .. } | Self::Mended { new, .. } => Some(new),
            Self::Removed { .. } | Self::Undecodable { .. } | Self::RemovedUndecodable { .. } => None,
        }
    }

    /// The object as it was before, if it was there and could be read.
    pub fn before(&self) -> Option<&Arc<K>> {
        match self {
            Self::Changed { old, .. } => Some(old),
            Self::Removed { last, .. } => Some(last),
            Self::Undecodable { old, .. } => old.as_ref(),
            Self::Added(_) | Self::Mended { .. } | Self::RemovedUndecodable { .. } => None,
        }
    }
}

impl<K> Clone for Delta<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(new) => Self::Added(new.clone()),
            Self::Changed { old, new } => Self::Changed { old: old.clone(), new: new.clone() },
            Self::Removed { last, how } => Self::Removed { last: last.clone(), how: *how },
            Self::Undecodable { old, object } => Self::Undecodable { old: old.clone(), object: object.clone() },
            Self::Mended { was, new } => Self::Mended { was: was.clone(), new: new.clone() },
            Self::RemovedUndecodable { last, how } => Self::RemovedUndecodable { last: last.clone(), how: *how },
        }
    }
}
