//! A map of few entries, held many times.
//!
//! A `BTreeMap` takes half a kilobyte for its first entry. Every Machine carries the labels of its node template, every Node
//! its capacity, and at ten thousand of each that is megabytes of nothing. A sorted list of pairs takes what is in it, and keys
//! that other objects have too are shared with them.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::Text;
use crate::wire::{Read, Wire, Write};

/// A sorted map from texts, small in memory. Looking something up takes the logarithm of its size, changing it takes its size.
#[derive(Clone, PartialEq, Eq)]
pub struct SmallMap<V>(Vec<(Text, V)>);

/// Labels, annotations: texts to texts.
pub type TextMap = SmallMap<Text>;

impl<V> SmallMap<V> {
    fn place(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(key))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&V> {
        self.0.get(self.place(key).ok()?).map(|(_, value)| value)
    }

    /// Whether there is such a key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.place(key).is_ok()
    }

    /// Sets the value of a key; the old one, if there was one.
    pub fn insert(&mut self, key: impl Into<Text>, value: impl Into<V>) -> Option<V> {
        let (key, value) = (key.into(), value.into());
        match self.place(&key) {
            Ok(place) => self.0.get_mut(place).map(|(_, old)| std::mem::replace(old, value)),
            Err(place) => {
                self.0.insert(place, (key, value));
                None
            }
        }
    }

    /// Removes a key; its value, if there was one.
    pub fn remove(&mut self, key: &str) -> Option<V> {
        self.place(key).ok().map(|place| self.0.remove(place).1)
    }

    /// Keeps the entries whose keys satisfy this.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.0.retain(|(key, _)| keep(key));
        self.0.shrink_to_fit();
    }

    /// All entries, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &V)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// All keys, sorted.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|(key, _)| &**key)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TextMap {
    /// The text under a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).map(|text| &**text)
    }

    /// All entries as texts.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, text)| (&**key, &**text))
    }

    /// The form in which object metadata holds them.
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
        list.sort_by(|(a, _), (b, _)| a.cmp(b)); // stable, so that of equal keys the last one given stays last
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
        fn it_behaves_like_the_map_it_stands_for(steps in prop::collection::vec((any::<bool>(), "[a-e]", "[0-9]"), 0..40)) {
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
    fn of_two_entries_with_one_key_the_last_stays() {
        let map = TextMap::from([("b", "1"), ("a", "2"), ("b", "3")]);
        assert_eq!(json!(map), json!({"a": "2", "b": "3"}));
    }
}
