//! The parameters of a request of AWS' query protocols: a tree, written as dotted keys (`Filter.1.Value.2=running`).

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

/// A tree of parameters, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    value: Option<String>,
    children: BTreeMap<String, Parameters>,
}

impl Parameters {
    /// The tree that these keys and values make. Of two values for one key the last one counts.
    pub fn of<K: AsRef<str>, V: AsRef<str>>(pairs: &[(K, V)]) -> Self {
        let mut all = Self::default();
        for (key, value) in pairs {
            let place =
                key.as_ref().split('.').fold(&mut all, |at, part| at.children.entry(part.to_owned()).or_default());
            place.value = Some(value.as_ref().to_owned());
        }
        all
    }

    /// The tree in the body of a request.
    pub fn read(form: &str) -> Self {
        Self::of(&pairs(form))
    }

    /// The value at a dotted path.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.at(path).and_then(|found| found.value.as_deref())
    }

    /// The part below a dotted path.
    pub fn at(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, |at, part| at.children.get(part))
    }

    /// The elements of the list at a dotted path, in the order of their numbers.
    pub fn list(&self, path: &str) -> Vec<&Self> {
        let children = self.at(path).map(|list| &list.children);
        let mut found: Vec<(u32, &Self)> = children
            .into_iter()
            .flatten()
            .filter_map(|(number, element)| Some((number.parse().ok()?, element)))
            .collect();
        found.sort_unstable_by_key(|(number, _)| *number);
        found.into_iter().map(|(_, element)| element).collect()
    }

    /// The values of the list at a dotted path.
    pub fn values(&self, path: &str) -> Vec<&str> {
        self.list(path).into_iter().filter_map(|element| element.value.as_deref()).collect()
    }

    /// The value at this very place.
    pub fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// What is below this place, by name.
    pub fn children(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.children.iter().map(|(name, child)| (name.as_str(), child))
    }
}

/// The keys and values of a form.
pub fn pairs(form: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pair = |text: &str| {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        (decoded(key), decoded(value))
    };
    form.split('&').filter(|text| !text.is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_a_tree_whose_lists_are_in_order_of_their_numbers() {
        let read = Parameters::read("Action=X&Filter.10.Name=z&Filter.2.Name=tag%3AName&Filter.2.Value.1=a+b");
        assert_eq!(read.get("Action"), Some("X"));
        let names: Vec<_> = read.list("Filter").into_iter().map(|filter| filter.get("Name")).collect();
        assert_eq!(names, [Some("tag:Name"), Some("z")]);
        assert_eq!(read.values("Filter.2.Value"), ["a b"]);
        assert_eq!(read.get("Filter"), None);
    }
}
