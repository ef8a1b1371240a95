//! Looking into an object for what its row shows.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::age;

/// What stands where there is nothing.
pub(super) const NONE: &str = "<none>";
/// What stands where nothing was said and something could be.
pub(super) const UNSET: &str = "<unset>";
/// What stands where something must be that nobody knows.
pub(super) const UNKNOWN: &str = "<unknown>";

/// An object, or a part of one, and the time at which it is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    value: &'a Value,
    now: Timestamp,
}

impl<'a> Look<'a> {
    pub(super) fn at(value: &'a Value, now: Timestamp) -> Self {
        Self { value, now }
    }

    /// The value behind a JSON pointer.
    pub(super) fn get(self, path: &str) -> Option<&'a Value> {
        self.value.pointer(path).filter(|value| !value.is_null())
    }

    /// The object itself.
    pub(super) fn value(self) -> &'a Value {
        self.value
    }

    /// A text, empty if it is missing.
    pub(super) fn text(self, path: &str) -> &'a str {
        self.get(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// A text, or what stands in its place.
    pub(super) fn text_or(self, path: &str, otherwise: &'a str) -> &'a str {
        Some(self.text(path)).filter(|text| !text.is_empty()).unwrap_or(otherwise)
    }

    /// A number, 0 if it is missing.
    pub(super) fn number(self, path: &str) -> i64 {
        self.get(path).and_then(Value::as_i64).unwrap_or_default()
    }

    /// A truth value.
    pub(super) fn is(self, path: &str) -> bool {
        self.get(path).and_then(Value::as_bool).unwrap_or_default()
    }

    /// A number or a text, as text.
    pub(super) fn plain(self, path: &str) -> Option<String> {
        self.get(path).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }

    /// The elements of a list.
    pub(super) fn list(self, path: &str) -> impl DoubleEndedIterator<Item = Look<'a>> + ExactSizeIterator {
        let empty: &'a [Value] = &[];
        let list = self.get(path).and_then(Value::as_array).map_or(empty, Vec::as_slice);
        list.iter().map(move |value| Self { value, now: self.now })
    }

    /// The entries of a map.
    pub(super) fn map(self, path: &str) -> Option<&'a Map<String, Value>> {
        self.get(path).and_then(Value::as_object)
    }

    /// A text of each element of a list, with commas between.
    pub(super) fn joined(self, list: &str, path: &str) -> String {
        self.list(list).map(|element| element.text(path)).collect::<Vec<_>>().join(",")
    }

    /// The name.
    pub(super) fn name(self) -> Value {
        Value::from(self.text("/metadata/name"))
    }

    /// Whether its deletion has begun.
    pub(super) fn is_deleting(self) -> bool {
        self.get("/metadata/deletionTimestamp").is_some()
    }

    /// How old it is.
    pub(super) fn age(self) -> Value {
        Value::from(self.since("/metadata/creationTimestamp"))
    }

    /// A point in time.
    pub(super) fn time(self, path: &str) -> Option<Timestamp> {
        self.text(path).parse().ok()
    }

    /// How long ago a point in time was.
    pub(super) fn since(self, path: &str) -> String {
        self.time(path).map_or_else(|| UNKNOWN.to_owned(), |time| age::shown(self.elapsed(time)))
    }

    /// The time that has passed since.
    pub(super) fn elapsed(self, since: Timestamp) -> SignedDuration {
        self.now.duration_since(since)
    }

    /// Labels as people write them.
    pub(super) fn labels(self, path: &str) -> String {
        let pairs: Vec<String> = self
            .map(path)
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
    }

    /// A label selector as people write it.
    pub(super) fn selector(self, path: &str) -> String {
        let labels = self.map(&format!("{path}/matchLabels")).into_iter().flatten();
        let mut parts: Vec<(String, String)> =
            labels.map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default()))).collect();
        for rule in self.list(&format!("{path}/matchExpressions")) {
            let key = rule.text("/key");
            let mut values: Vec<&str> = rule.list("/values").filter_map(|value| value.value.as_str()).collect();
            values.sort_unstable();
            let values = values.join(",");
            let text = match rule.text("/operator") {
                "Exists" => key.to_owned(),
                "DoesNotExist" => format!("!{key}"),
                "NotIn" => format!("{key} notin ({values})"),
                _ => format!("{key} in ({values})"),
            };
            parts.push((key.to_owned(), text));
        }
        parts.sort();
        let parts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
        if parts.is_empty() { NONE.to_owned() } else { parts.join(",") }
    }
}
