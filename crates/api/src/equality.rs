//! When two specs mean the same.
//!
//! A template is compared with the machines made from it, and a difference costs a write or a rollout. `null`, an empty list
//! and an empty map are no difference to a missing key, wherever they stand; Go calls this semantic equality.

use serde::Serialize;
use serde_json::Value;

/// Whether both mean the same: equal up to nulls, empty lists and empty maps.
#[must_use]
pub fn same_meaning<T: Serialize + PartialEq>(a: &T, b: &T) -> bool {
    let meaning = |value: &T| serde_json::to_value(value).map(pruned);
    a == b || matches!((meaning(a), meaning(b)), (Ok(a), Ok(b)) if a == b)
}

/// The value without what means nothing; `None` if nothing is left.
fn pruned(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(fields) => {
            let fields: serde_json::Map<String, Value> =
                fields.into_iter().filter_map(|(key, value)| Some((key, pruned(value)?))).collect();
            (!fields.is_empty()).then(|| fields.into())
        }
        // An element that means nothing still has its place in the list.
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
    fn templates_mean_the_same(#[case] a: Value, #[case] b: Value, #[case] same: bool) {
        let (a, b): (MachineTemplateSpec, MachineTemplateSpec) =
            (serde_json::from_value(a).unwrap(), serde_json::from_value(b).unwrap());
        assert_eq!(same_meaning(&a, &b), same);
    }
}
