//! Conditions in the status of an object: one of each type, with the time at which it last turned.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::meta;

/// A condition of this type, if there is one.
pub(crate) fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = status.get("conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
}

/// Whether there is a condition of this type and it is true.
pub(crate) fn holds(status: &Value, kind: &str) -> bool {
    find(status, kind).and_then(|c| c.get("status")).and_then(Value::as_str) == Some("True")
}

/// Adds a condition or replaces the one of its type. The time of the turn changes only when it turns.
pub(crate) fn set(status: &mut Map<String, Value>, condition: &Value, now: Timestamp) {
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    let old = conditions.iter_mut().find(|old| old.get("type") == condition.get("type"));
    let turned = old.as_ref().is_none_or(|old| old.get("status") != condition.get("status"));
    let mut new = condition.clone();
    if let Some(new) = new.as_object_mut() {
        let since = old.as_ref().and_then(|old| old.get("lastTransitionTime")).filter(|_| !turned);
        let since = since.cloned().unwrap_or_else(|| Value::from(meta::time(now)));
        new.insert("lastTransitionTime".to_owned(), since);
    }
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_remembers_when_it_turned() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let mut status = Map::new();
        let ready = |is: &str, why: &str| json!({ "type": "Ready", "status": is, "reason": why });
        set(&mut status, &ready("True", "a"), at("2026-01-01T00:00:00Z"));
        set(&mut status, &ready("True", "b"), at("2026-01-02T00:00:00Z"));
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(status["conditions"][0]["reason"], "b");
        set(&mut status, &ready("False", "c"), at("2026-01-03T00:00:00Z"));
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "2026-01-03T00:00:00Z");
        assert_eq!(status["conditions"].as_array().map(Vec::len), Some(1));
    }
}
