//! Which objects a label selector selects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Labels as metadata holds them.
pub(crate) type Labels = BTreeMap<String, String>;

/// Whether these labels are selected. An operator nobody knows selects nothing: the API server lets none in.
pub(crate) fn selects(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    let value = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    let exact = selector.match_labels.iter().flatten().all(|(key, wanted)| value(key) == Some(wanted.as_str()));
    exact
        && selector.match_expressions.iter().flatten().all(|expression| {
            let values = expression.values.as_deref().unwrap_or_default();
            holds(&expression.operator, values, value(&expression.key))
        })
}

/// Whether a label (or its absence) meets a condition: label selectors know the first four, node selectors all.
pub(crate) fn holds(operator: &str, values: &[String], label: Option<&str>) -> bool {
    let listed = label.is_some_and(|label| values.iter().any(|value| value == label));
    let number = |text: &str| text.parse::<i64>().ok();
    let sides = || Some((number(label?)?, number(values.first()?)?));
    match operator {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" => sides().is_some_and(|(label, bound)| label > bound),
        "Lt" => sides().is_some_and(|(label, bound)| label < bound),
        _ => false,
    }
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

    #[rstest]
    #[case("Gt", "4", true)]
    #[case("Gt", "5", false)]
    #[case("Lt", "6", true)]
    #[case("Lt", "many", false)]
    fn numbers_are_compared_as_numbers(#[case] operator: &str, #[case] bound: &str, #[case] expected: bool) {
        assert_eq!(holds(operator, &[bound.to_owned()], Some("5")), expected);
    }
}
