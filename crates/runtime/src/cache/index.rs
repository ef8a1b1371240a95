//! Secondary indexes of a cache.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::Key;

/// Finds objects by something other than their name. An index is declared as a constant next to the code that uses it:
///
/// ```text
/// const BY_NODE: Index<Pod> = Index::new("by-node", |pod| pod.node_name.iter().cloned().collect());
/// ```
pub struct Index<K> {
    name: &'static str,
    values: fn(&K) -> Vec<String>,
}

impl<K> Index<K> {
    /// Returns an index with this name. `values` returns the values under which an object is indexed; it must depend
    /// only on the object.
    pub const fn new(name: &'static str, values: fn(&K) -> Vec<String>) -> Self {
        Self { name, values }
    }

    pub(super) fn covers(&self, object: &K, value: &str) -> bool {
        (self.values)(object).iter().any(|v| v == value)
    }
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Index<K> {}

/// The entries of one index, as a flat set of pairs. One tree per value would need more memory than the objects if
/// values are unique.
pub(super) struct Catalogue<K> {
    index: Index<K>,
    places: BTreeSet<(Arc<str>, Key)>,
}

impl<K> Catalogue<K> {
    pub(super) fn new(index: Index<K>) -> Self {
        Self { index, places: BTreeSet::new() }
    }

    pub(super) fn is_for(&self, index: &Index<K>) -> bool {
        self.index.name == index.name
    }

    pub(super) fn enter(&mut self, key: &Key, object: &K) {
        self.places.extend((self.index.values)(object).into_iter().map(|value| (value.into(), key.clone())));
    }

    pub(super) fn withdraw(&mut self, key: &Key, object: &K) {
        for value in (self.index.values)(object) {
            self.places.remove(&(value.into(), key.clone()));
        }
    }

    /// Returns the keys under `value`, sorted.
    pub(super) fn keys<'a>(&'a self, value: &'a str) -> impl Iterator<Item = &'a Key> {
        let first = (Arc::from(value), Key::cluster(""));
        self.places.range(first..).take_while(move |(at, _)| &**at == value).map(|(_, key)| key)
    }
}
