//! The key of an object in caches, queues and locks.

use std::fmt;
use std::sync::Arc;

/// Namespace and name of an object of a kind that is known from the context. Cluster-scoped objects have an empty namespace.
///
/// The key does not contain the uid: an object that was deleted and created again with the same name must not be reconciled by
/// two workers at the same time. Callers that must distinguish them compare uids and use them as preconditions of writes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
}

impl Key {
    /// Returns the key of a namespaced object.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the key of a cluster-scoped object.
    pub fn cluster(name: impl Into<Arc<str>>) -> Self {
        Self::new("", name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_displayed_as_by_kubectl() {
        assert_eq!(Key::new("shoot--a--b", "m-1").to_string(), "shoot--a--b/m-1");
        assert_eq!(Key::cluster("node-1").to_string(), "node-1");
    }
}
