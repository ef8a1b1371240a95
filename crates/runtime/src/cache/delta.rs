//! Changes of cached objects, passed to the handlers that enqueue work.

use std::sync::Arc;

use super::decoded::UndecodableObject;

/// One change of one object, with its old and new state. The new state alone does not show that a label was *removed*
/// or which Machine a Node *used to* belong to.
#[derive(Debug)]
pub enum Delta<K> {
    /// The object was not in the cache before.
    Added(Arc<K>),
    /// The object changed.
    Changed {
        /// The previous state.
        old: Arc<K>,
        /// The current state.
        new: Arc<K>,
    },
    /// The object no longer exists.
    Removed {
        /// The last known state: the state from the deletion event, if there was one.
        last: Arc<K>,
        /// How the removal was detected.
        how: Removal,
    },
    /// The object exists, but cannot be decoded (any more). It counts as present, but decisions cannot use it.
    Undecodable {
        /// The previous state, if it could be decoded.
        old: Option<Arc<K>>,
        /// The metadata that could be read.
        object: Arc<UndecodableObject>,
    },
    /// The object could not be decoded before and now it can. Not `Added`, because it already counted as present.
    Fixed {
        /// The metadata that could be read before.
        was: Arc<UndecodableObject>,
        /// The current state.
        new: Arc<K>,
    },
    /// An object that could not be decoded was removed.
    RemovedUndecodable {
        /// The metadata that could be read.
        last: Arc<UndecodableObject>,
        /// How the removal was detected.
        how: Removal,
    },
}

/// How the removal of an object was detected. *Vanished is not deleted*: the deletion was not observed, the object is
/// only missing from a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The watch reported the deletion, or it is the response to a delete request of this process.
    Deleted,
    /// A list did not contain the object; it disappeared while the watch was disconnected.
    Vanished,
    /// The API server returned to a state before the object existed (a restored etcd). What the object represents, such
    /// as a VM, may still exist.
    Forgotten,
}

impl<K> Delta<K> {
    /// Returns the current state of the object, if it exists and can be decoded.
    pub fn now(&self) -> Option<&Arc<K>> {
        match self {
            Self::Added(new) | Self::Changed { new, .. } | Self::Fixed { new, .. } => Some(new),
            Self::Removed { .. } | Self::Undecodable { .. } | Self::RemovedUndecodable { .. } => None,
        }
    }

    /// Returns the previous state of the object, if it existed and could be decoded.
    pub fn before(&self) -> Option<&Arc<K>> {
        match self {
            Self::Changed { old, .. } => Some(old),
            Self::Removed { last, .. } => Some(last),
            Self::Undecodable { old, .. } => old.as_ref(),
            Self::Added(_) | Self::Fixed { .. } | Self::RemovedUndecodable { .. } => None,
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
            Self::Fixed { was, new } => Self::Fixed { was: was.clone(), new: new.clone() },
            Self::RemovedUndecodable { last, how } => Self::RemovedUndecodable { last: last.clone(), how: *how },
        }
    }
}
