//! Computation of merge patches.
//!
//! A writer changes a copy of the observed object and sends the difference. Unknown fields, and fields that other writers changed in the
//! meantime, are not in the patch. Maps are compared key by key. Lists are replaced as a whole, so a patch of a list must contain the
//! observed resourceVersion.

use serde::Serialize;
use serde_json::{Map, Value};

/// Returns the merge patch from `before` to `after`; `None` if they are equal.
#[must_use]
pub fn changes<T: Serialize>(before: &T, after: &T) -> Option<Value> {
    match (serde_json::to_value(before), serde_json::to_value(after)) {
        (Ok(before), Ok(mut after)) => {
            keep_maps(&before, &mut after);
            difference(&before, &after)
        }
        // Cannot happen for the types of this crate. No patch is the safe result.
        _ => None,
    }
}

/// Removes the last label by its key instead of removing the whole map, which might contain new labels of other writers.
fn keep_maps(before: &Value, after: &mut Value) {
    let Some(after) = after.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for map in ["labels", "annotations"] {
        if before.pointer(&format!("/metadata/{map}")).is_some_and(Value::is_object) {
            after.entry(map).or_insert_with(|| Map::new().into());
        }
    }
}

fn difference(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else { return Some(after.clone()) };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        let change = match old.get(key) {
            Some(old) => difference(old, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    /// Shows MC-W35, MS-W2.
    #[rstest]
    #[case(json!({"a": 1}), json!({"a": 1}), None)]
    #[case(json!({"a": 1, "b": {"c": 2, "d": 3}}), json!({"a": 1, "b": {"c": 4}}), Some(json!({"b": {"c": 4, "d": null}})))]
    #[case(json!({"l": [1, 2]}), json!({"l": [1]}), Some(json!({"l": [1]})))]
    #[case(json!({}), json!({"m": {"k": "v"}}), Some(json!({"m": {"k": "v"}})))]
    #[case(json!({"m": {"k": "v"}}), json!({}), Some(json!({"m": null})))]
    #[case(json!({"metadata": {"labels": {"k": "v"}}}), json!({"metadata": {}}), Some(json!({"metadata": {"labels": {"k": null}}})))]
    #[case(json!({"metadata": {"annotations": {"k": "v"}}}), json!({"metadata": {}}), Some(json!({"metadata": {"annotations": {"k": null}}})))]
    fn patch_contains_the_differences_only(#[case] before: Value, #[case] after: Value, #[case] patch: Option<Value>) {
        assert_eq!(changes(&before, &after), patch);
    }
}
