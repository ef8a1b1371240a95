//! Parses a scrape.

use std::collections::{BTreeMap, BTreeSet};

/// Metric families of a scrape, by name.
pub(super) type Scrape = BTreeMap<String, Family>;

/// A metric family.
#[derive(Debug, Default)]
pub(super) struct Family {
    /// `gauge`, `counter` or `histogram`.
    pub(super) shape: String,
    /// Series: labels and value.
    pub(super) lines: Vec<(BTreeMap<String, String>, f64)>,
}

impl Family {
    /// Returns the label names.
    pub(super) fn labels(&self) -> BTreeSet<&str> {
        self.lines.iter().flat_map(|(labels, _)| labels.keys()).map(String::as_str).filter(|key| *key != "le").collect()
    }

    /// Returns the bucket bounds without the last.
    pub(super) fn bounds(&self) -> Vec<f64> {
        let bounds: BTreeSet<&str> =
            self.lines.iter().filter_map(|(labels, _)| Some(labels.get("le")?.as_str())).collect();
        let mut bounds: Vec<f64> =
            bounds.into_iter().filter(|bound| *bound != "+Inf").map(|bound| bound.parse().unwrap()).collect();
        bounds.sort_by(f64::total_cmp);
        bounds
    }

    /// Returns the value of the series with these labels.
    pub(super) fn at(&self, labels: &[(&str, &str)]) -> Option<f64> {
        let is_it = |found: &BTreeMap<String, String>| {
            labels.iter().all(|(key, value)| found.get(*key).map(String::as_str) == Some(*value))
        };
        self.lines.iter().find(|(found, _)| is_it(found)).map(|(_, number)| *number)
    }
}

/// Parses the text format. Panics where Prometheus would fail.
pub(super) fn read(text: &str) -> Scrape {
    let mut families = Scrape::new();
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, shape) = declared.split_once(' ').unwrap();
            name.clone_into(&mut current);
            let before = families.insert(current.clone(), Family { shape: shape.to_owned(), lines: Vec::new() });
            assert!(before.is_none(), "{name} is exported twice");
        } else if !line.starts_with('#') {
            let (series, number) = line.rsplit_once(' ').unwrap();
            assert!(seen.insert(series.to_owned()), "{series} is exported twice");
            assert!(series.starts_with(&current), "{series} does not belong to {current}");
            families.get_mut(&current).unwrap().lines.push((labels(series), number.parse().unwrap()));
        }
    }
    families
}

fn labels(series: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let Some((_, mut rest)) = series.split_once('{') else { return labels };
    while let Some((key, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next().expect("a value ends") {
                (_, '\\') => value.push(characters.next().unwrap().1),
                (end, '"') => break end,
                (_, other) => value.push(other),
            }
        };
        labels.insert(key.trim_start_matches(',').to_owned(), value);
        rest = &after[end + 1..];
    }
    labels
}
