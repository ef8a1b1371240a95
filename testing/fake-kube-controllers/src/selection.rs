//! Which objects a label selector selects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

/// Labels as metadata holds them.
pub(crate) type Labels = BTreeMap<String, String>;

/// Returns whether the selector matches these labels. An unknown operator matches nothing: the API server rejects it.
pub(crate) fn selects(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    let nothing = Labels::new();
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels.unwrap_or(&nothing)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case(json!({}), true)]
    #[case(json!({ "matchLabels": { "app": "web" } }), true)]
    #[case(json!({ "matchLabels": { "app": "db" } }), false)]
    #[case(json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": ["web"] }] }), false)]
    #[case(json!({ "matchExpressions": [{ "key": "gone", "operator": "NotIn", "values": ["x"] }] }), true)]
    #[case(json!({ "matchExpressions": [{ "key": "app", "operator": "Exists" }] }), true)]
    #[case(json!({ "matchExpressions": [{ "key": "app", "operator": "DoesNotExist" }] }), false)]
    #[case(json!({ "matchExpressions": [{ "key": "app", "operator": "Near" }] }), false)]
    fn labels_are_selected(#[case] selector: Value, #[case] selected: bool) {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        assert_eq!(selects(&selector, Some(&[("app".to_owned(), "web".to_owned())].into())), selected);
    }
}
