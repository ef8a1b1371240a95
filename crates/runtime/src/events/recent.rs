//! A map of bounded size that forgets what was not used for longest.

use std::collections::BTreeMap;

/// Holds at most a fixed number of entries. Two ordered maps instead of a linked list: simpler, and fast enough for Events.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    most: usize,
    uses: u64,
    entries: BTreeMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
}

impl<K: Ord + Clone, V> Recent<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), uses: 0, entries: BTreeMap::new(), by_use: BTreeMap::new() }
    }

    /// The value of `key`, made by `make` if there is none; it is now the most recently used.
    pub(super) fn use_or_make(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
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
        let entry = self.entries.entry(key).or_insert_with(|| (0, make()));
        entry.0 = self.uses;
        &mut entry.1
    }

    /// The value of `key` if it is remembered. Looking does not count as use.
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
    fn what_was_not_used_for_longest_is_forgotten_first() {
        let mut recent = Recent::new(2);
        *recent.use_or_make("a", || 0) = 1;
        *recent.use_or_make("b", || 0) = 2;
        assert_eq!(*recent.use_or_make("a", || 0), 1);
        recent.use_or_make("c", || 3);
        assert_eq!(*recent.use_or_make("a", || 0), 1);
        assert_eq!(*recent.use_or_make("b", || 0), 0, "b had to go for c");
        assert_eq!(recent.len(), 2);
    }
}
