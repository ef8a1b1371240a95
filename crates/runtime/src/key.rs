//! The name under which an object is cached, queued and locked.

use std::fmt;
use std::sync::Arc;

/// Namespace and name of an object of a kind that is known from the context. Cluster-scoped objects have an empty namespace.
///
/// The uid is left out on purpose: an object that was deleted and made again under its name must not be worked on by two
/// workers at once. Whoever needs to tell the two apart compares uids, and guards its writes with one.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// The object's name.
    pub name: Arc<str>,
}

impl Key {
    /// The key of a namespaced object.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of a cluster-scoped object.
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
    fn a_key_reads_like_kubectl_writes_it() {
        assert_eq!(Key::new("shoot--a--b", "m-1").to_string(), "shoot--a--b/m-1");
        assert_eq!(Key::cluster("node-1").to_string(), "node-1");
    }
}
