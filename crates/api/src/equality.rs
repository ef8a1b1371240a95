//! Semantic equality of specs.
//!
//! A template is compared with the Machines created from it, and a difference causes a write or a rollout. As in the semantic
//! equality of Kubernetes, `null`, an empty list and an empty map equal a missing key.

use serde::Serialize;
use serde_json::Value;

/// Returns whether both are equal, ignoring nulls, empty lists and empty maps.
#[must_use]
pub fn semantically_equal<T: Serialize + PartialEq>(a: &T, b: &T) -> bool {
    let normalized = |value: &T| serde_json::to_value(value).map(pruned);
    a == b || matches!((normalized(a), normalized(b)), (Ok(a), Ok(b)) if a == b)
}

/// Removes nulls, empty lists and empty maps; `None` if nothing remains.
fn pruned(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(fields) => {
            let fields: serde_json::Map<String, Value> =
                fields.into_iter().filter_map(|(key, value)| Some((key, pruned(value)?))).collect();
            (!fields.is_empty()).then(|| fields.into())
        }
        // Elements of lists keep their position.
        Value::Array(list) => {
            (!list.is_empty()).then(|| list.into_iter().map(|v| pruned(v).unwrap_or(Value::Null)).collect())
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MachineTemplateSpec;
    use rstest::rstest;
    use serde_json::json;

    /// Shows MD-D17.
    #[rstest]
    #[case(json!({}), json!({"metadata": {"creationTimestamp": null}, "spec": {}}), true)]
    #[case(json!({"metadata": {"labels": {}}}), json!({"metadata": {}}), true)]
    #[case(json!({"spec": {"nodeTemplate": {"spec": {"taints": []}}}}), json!({"spec": {"nodeTemplate": {}}}), true)]
    #[case(json!({"spec": {"drainTimeout": "90m"}}), json!({"spec": {"drainTimeout": "1h30m"}}), true)]
    #[case(json!({"metadata": {"labels": {"a": ""}}}), json!({"metadata": {}}), false)]
    #[case(json!({"spec": {"disableHealthTimeout": false}}), json!({}), false)]
    #[case(json!({"metadata": {"name": "x"}}), json!({}), false)]
    #[case(json!({"spec": {"class": {"name": "a"}}}), json!({"spec": {"class": {"name": "b"}}}), false)]
    fn empty_values_equal_missing_keys(#[case] a: Value, #[case] b: Value, #[case] same: bool) {
        let (a, b): (MachineTemplateSpec, MachineTemplateSpec) =
            (serde_json::from_value(a).unwrap(), serde_json::from_value(b).unwrap());
        assert_eq!(semantically_equal(&a, &b), same);
    }
}
