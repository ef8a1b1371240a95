//! Which nodes a pod or a volume may be on, by what they say of nodes.

use k8s_openapi::api::core::v1::{Node, NodeSelector, NodeSelectorTerm, PodSpec};

use crate::pod::name_of;

/// Whether a node is what a pod asks for: its `nodeSelector` and its required node affinity.
pub(crate) fn suits(spec: &PodSpec, node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    let label = |key: &String| labels.and_then(|labels| labels.get(key));
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| label(key) == Some(value));
    let required = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    selected && required.is_none_or(|required| matches(required, node))
}

/// Whether one of the terms of a node selector holds for a node.
pub(crate) fn matches(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| holds_for(term, node))
}

fn holds_for(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false; // an empty term selects nothing, unlike an empty label selector
    }
    let label = |key: &str| node.metadata.labels.as_ref()?.get(key).map(String::as_str);
    let field = |key: &str| (key == "metadata.name").then(|| name_of(&node.metadata));
    expressions.iter().all(|e| holds(&e.operator, e.values.as_deref().unwrap_or_default(), label(&e.key)))
        && fields.iter().all(|e| holds(&e.operator, e.values.as_deref().unwrap_or_default(), field(&e.key)))
}

/// Whether a label (or its absence) meets a condition. Node selectors also compare numbers, which `kube::core::Selector` cannot.
fn holds(operator: &str, values: &[String], label: Option<&str>) -> bool {
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

    fn affinity(terms: &Value) -> Value {
        json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } } })
    }

    #[rstest]
    #[case(json!({}), true)]
    #[case(json!({ "nodeSelector": { "zone": "a" } }), true)]
    #[case(json!({ "nodeSelector": { "zone": "b" } }), false)]
    #[case(affinity(&json!([{}])), false)]
    #[case(affinity(&json!([{ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] }])), true)]
    #[case(affinity(&json!([{ "matchExpressions": [{ "key": "zone", "operator": "NotIn", "values": ["a"] }] }])), false)]
    #[case(affinity(&json!([{}, { "matchExpressions": [{ "key": "zone", "operator": "Exists" }] }])), true)]
    #[case(affinity(&json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] }])), true)]
    #[case(affinity(&json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["m"] }] }])), false)]
    fn a_pod_asks_for_nodes(#[case] spec: Value, #[case] expected: bool) {
        let mut spec = spec;
        spec["containers"] = json!([]);
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let node: Node =
            serde_json::from_value(json!({ "metadata": { "name": "n", "labels": { "zone": "a" } } })).unwrap();
        assert_eq!(suits(&spec, &node), expected);
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
