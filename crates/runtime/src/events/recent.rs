//! A map of bounded size that evicts the least maply used entry.

use std::collections::BTreeMap;

/// Map with a maximum number of entries. Two ordered maps are simpler than a linked list, and fast enough for Events.
#[derive(Debug)]
pub(super) struct LruMap<K, V> {
    most: usize,
    uses: u64,
    entries: BTreeMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
}

impl<K: Ord + Clone, V> LruMap<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), uses: 0, entries: BTreeMap::new(), by_use: BTreeMap::new() }
    }

    /// Returns the value of `key`, or inserts the result of `create`. The entry becomes the most maply used.
    pub(super) fn get_or_insert_with(&mut self, key: K, create: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        match self.entries.get(&key).map(|(last, _)| *last) {
            Some(last) => {
                self.by_use.remove(&last);
            }
            None => {
                if self.entries.len() >= self.most
                    && let Some((_, oldest)) = self.by_use.pop_first()
                {
                    self.entries.remove(&oldest);
                }
            }
        }
        self.by_use.insert(self.uses, key.clone());
        let entry = self.entries.entry(key).or_insert_with(|| (0, create()));
        entry.0 = self.uses;
        &mut entry.1
    }

    /// Returns the value of `key`. Does not count as use.
    pub(super) fn peek_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.entries.len(), self.by_use.len());
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_maply_used_entry_is_evicted_first() {
        let mut map = LruMap::new(2);
        *map.get_or_insert_with("a", || 0) = 1;
        *map.get_or_insert_with("b", || 0) = 2;
        assert_eq!(*map.get_or_insert_with("a", || 0), 1);
        map.get_or_insert_with("c", || 3);
        assert_eq!(*map.get_or_insert_with("a", || 0), 1);
        assert_eq!(*map.get_or_insert_with("b", || 0), 0, "b was evicted for c");
        assert_eq!(map.len(), 2);
    }
}
