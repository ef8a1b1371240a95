//! Which objects belong to a set, by their labels.
//!
//! `kube::core::Selector` would do, but for two things: it takes `In` with an empty list and `Exists` with values for valid, where the API
//! machinery refuses the selector as a whole, and it is made from a copy of the selector, while ours is asked for every machine.
//! (The API server in memory has its own, because it matches text from queries and answers with the real one's complaints.)

use std::collections::BTreeMap;

use crate::TextMap;
use crate::record;

record! {
    /// Selects objects by their labels: all of `matchLabels` and all of `matchExpressions` must hold. The empty selector
    /// selects everything.
    pub struct LabelSelector, as atomic {
        /// Labels an object must have, with these values.
        pub match_labels: BTreeMap<String, String> = "matchLabels",
        /// Further conditions on labels.
        pub match_expressions: Vec<Requirement> = "matchExpressions" (atomic),
    }
}

record! {
    /// One condition on one label.
    pub struct Requirement {
        /// The label's key.
        pub key: String = "key" (required),
        /// How it is tested: In, NotIn, Exists or DoesNotExist.
        pub operator: String = "operator" (required),
        /// The values for In and NotIn.
        pub values: Vec<String> = "values" (atomic),
    }
}

/// A condition that cannot be evaluated: the selector as a whole is invalid, which is not the same as selecting nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Not one of the four operators.
    #[error("{0:?} is not a valid label selector operator")]
    UnknownOperator(String),
    /// `In` and `NotIn` need values, `Exists` and `DoesNotExist` must have none.
    #[error("wrong number of values for operator {0:?}")]
    Values(String),
}

impl LabelSelector {
    /// Whether nothing is asked for, so that everything matches.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &TextMap) -> Result<bool, SelectorError> {
        let mut all = self.match_labels.iter().all(|(key, value)| labels.text(key) == Some(value));
        // Every expression is evaluated: an invalid one must be found even where another already decided.
        for expression in &self.match_expressions {
            let value = labels.text(&expression.key);
            let listed = value.is_some_and(|value| expression.values.iter().any(|listed| listed == value));
            let (wants_values, holds) = match expression.operator.as_str() {
                "In" => (true, listed),
                "NotIn" => (true, !listed),
                "Exists" => (false, value.is_some()),
                "DoesNotExist" => (false, value.is_none()),
                other => return Err(SelectorError::UnknownOperator(other.to_owned())),
            };
            if wants_values == expression.values.is_empty() {
                return Err(SelectorError::Values(expression.operator.clone()));
            }
            all &= holds;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case(json!({}), Ok(true))]
    #[case(json!({"matchLabels": {"name": "md"}}), Ok(true))]
    #[case(json!({"matchLabels": {"name": "other"}}), Ok(false))]
    #[case(json!({"matchLabels": {"gone": ""}}), Ok(false))]
    #[case(json!({"matchExpressions": [{"key": "name", "operator": "In", "values": ["md", "x"]}]}), Ok(true))]
    #[case(json!({"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["md"]}]}), Ok(false))]
    #[case(json!({"matchExpressions": [{"key": "gone", "operator": "NotIn", "values": ["md"]}]}), Ok(true))]
    #[case(json!({"matchExpressions": [{"key": "name", "operator": "Exists"}]}), Ok(true))]
    #[case(json!({"matchExpressions": [{"key": "name", "operator": "DoesNotExist"}]}), Ok(false))]
    #[case(json!({"matchExpressions": [{"key": "name", "operator": "In"}]}), Err(SelectorError::Values("In".into())))]
    #[case(json!({"matchLabels": {"name": "x"}, "matchExpressions": [{"key": "a", "operator": "Near"}]}),
           Err(SelectorError::UnknownOperator("Near".into())))]
    fn a_selector_selects(#[case] selector: Value, #[case] expected: Result<bool, SelectorError>) {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        let labels = TextMap::from([("name", "md")]);
        assert_eq!(selector.matches(&labels), expected);
    }

    #[test]
    fn an_object_without_labels_matches_the_empty_selector_only() {
        assert_eq!(LabelSelector::default().matches(&TextMap::default()), Ok(true));
        let selector = LabelSelector { match_labels: [("a".into(), "b".into())].into(), ..Default::default() };
        assert_eq!(selector.matches(&TextMap::default()), Ok(false));
    }
}
