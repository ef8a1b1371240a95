//! A map for few entries with low memory use.
//!
//! A `BTreeMap` allocates half a kilobyte for its first entry. With ten thousand Machines and Nodes, each with several maps, that is
//! megabytes of unused memory. A sorted list of pairs has no such overhead, and its keys are shared between objects.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::Text;
use crate::wire::{Read, Wire, Write};

/// A sorted map with text keys. A lookup needs logarithmic time, a change linear time.
#[derive(Clone, PartialEq, Eq)]
pub struct SmallMap<V>(Vec<(Text, V)>);

/// A map from texts to texts, for labels and annotations.
pub type TextMap = SmallMap<Text>;

impl<V> SmallMap<V> {
    fn position(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(key))
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&V> {
        self.0.get(self.position(key).ok()?).map(|(_, value)| value)
    }

    /// Returns whether the key exists.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_ok()
    }

    /// Sets the value of a key. Returns the old value, if any.
    pub fn insert(&mut self, key: impl Into<Text>, value: impl Into<V>) -> Option<V> {
        let (key, value) = (key.into(), value.into());
        match self.position(&key) {
            Ok(index) => self.0.get_mut(index).map(|(_, old)| std::mem::replace(old, value)),
            Err(index) => {
                self.0.insert(index, (key, value));
                None
            }
        }
    }

    /// Removes a key. Returns its value, if any.
    pub fn remove(&mut self, key: &str) -> Option<V> {
        self.position(key).ok().map(|index| self.0.remove(index).1)
    }

    /// Keeps the entries whose keys match.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.0.retain(|(key, _)| keep(key));
        self.0.shrink_to_fit();
    }

    /// Returns all entries, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &V)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// Returns all keys, sorted.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|(key, _)| &**key)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TextMap {
    /// Returns the text of a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).map(|text| &**text)
    }

    /// Returns all entries as texts.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, text)| (&**key, &**text))
    }

    /// Converts the map to the type of `k8s-openapi`.
    pub fn to_btree(&self) -> BTreeMap<String, String> {
        self.texts().map(|(key, text)| (key.to_owned(), text.to_owned())).collect()
    }
}

impl<V> Default for SmallMap<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V: fmt::Debug> fmt::Debug for SmallMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Into<Text>, U: Into<V>, V> FromIterator<(K, U)> for SmallMap<V> {
    fn from_iter<I: IntoIterator<Item = (K, U)>>(entries: I) -> Self {
        let mut list: Vec<(Text, V)> = entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        list.sort_by(|(a, _), (b, _)| a.cmp(b)); // stable, so that the last of several equal keys remains the last
        list.reverse();
        list.dedup_by(|(a, _), (b, _)| a == b);
        list.reverse();
        list.shrink_to_fit();
        Self(list)
    }
}

impl<K: Into<Text>, U: Into<V>, V> Extend<(K, U)> for SmallMap<V> {
    fn extend<I: IntoIterator<Item = (K, U)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Into<Text>, U: Into<V>, V, const N: usize> From<[(K, U); N]> for SmallMap<V> {
    fn from(entries: [(K, U); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl From<&BTreeMap<String, String>> for TextMap {
    fn from(map: &BTreeMap<String, String>) -> Self {
        map.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect()
    }
}

impl<V: Wire> Serialize for SmallMap<V> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.len()))?;
        for (key, value) in self.iter() {
            map.serialize_entry(key, &Write(value))?;
        }
        map.end()
    }
}

impl<'de, V: Wire> Deserialize<'de> for SmallMap<V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);
        impl<'de, V: Wire> Visitor<'de> for Entries<V> {
            type Value = SmallMap<V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map or null")
            }
            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(SmallMap::default())
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(SmallMap::default())
            }
            fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
                from.deserialize_map(self)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries: Vec<(Text, V)> = Vec::new();
                while let Some(key) = map.next_key::<Text>()? {
                    entries.push((key, map.next_value_seed(Read::default())?));
                }
                Ok(entries.into_iter().collect())
            }
        }
        from.deserialize_option(Entries(PhantomData))
    }
}

impl<V: Wire> Wire for SmallMap<V> {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.serialize(to)
    }
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": V::schema()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn small_map_behaves_like_a_btree_map(steps in prop::collection::vec((any::<bool>(), "[a-e]", "[0-9]"), 0..40)) {
            let (mut small, mut big) = (TextMap::default(), BTreeMap::new());
            for (insert, key, value) in steps {
                if insert {
                    let old = small.insert(key.as_str(), value.as_str()).map(String::from);
                    prop_assert_eq!(old, big.insert(key, value));
                } else {
                    prop_assert_eq!(small.remove(&key).map(String::from), big.remove(&key));
                }
                prop_assert_eq!(&small.to_btree(), &big);
                prop_assert_eq!(&small, &TextMap::from(&big));
            }
            prop_assert_eq!(json!(small), json!(big));
        }
    }

    #[test]
    fn last_entry_of_a_key_wins() {
        let map = TextMap::from([("b", "1"), ("a", "2"), ("b", "3")]);
        assert_eq!(json!(map), json!({"a": "2", "b": "3"}));
    }
}
