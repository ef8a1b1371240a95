//! Label selectors.
//!
//! `kube::core::Selector` is not used for two reasons. It accepts `In` with an empty list and `Exists` with values, which apimachinery
//! rejects. And it is created from a copy of the selector, which is expensive if it is evaluated for every Machine. (The in-memory API
//! server has its own implementation, which parses queries and returns the errors of the real API server.)

use std::collections::BTreeMap;

use crate::TextMap;
use crate::record;

record! {
    /// Selects objects by their labels. All of `matchLabels` and `matchExpressions` must match. An empty selector selects all
    /// objects.
    pub struct LabelSelector, as atomic {
        /// Labels and their values that an object must have.
        pub match_labels: BTreeMap<String, String> = "matchLabels",
        /// Further requirements for labels.
        pub match_expressions: Vec<Requirement> = "matchExpressions" (atomic),
    }
}

record! {
    /// A requirement for a label.
    pub struct Requirement {
        /// Key of the label.
        pub key: String = "key" (required),
        /// Operator: In, NotIn, Exists or DoesNotExist.
        pub operator: String = "operator" (required),
        /// Values for In and NotIn.
        pub values: Vec<String> = "values" (atomic),
    }
}

/// A requirement is invalid, so the selector cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The operator is unknown.
    #[error("{0:?} is not a valid label selector operator")]
    UnknownOperator(String),
    /// `In` and `NotIn` require values, `Exists` and `DoesNotExist` must have none.
    #[error("wrong number of values for operator {0:?}")]
    Values(String),
}

impl LabelSelector {
    /// Returns whether there are no requirements, so that all objects match.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Returns whether an object with these labels matches.
    pub fn matches(&self, labels: &TextMap) -> Result<bool, SelectorError> {
        let mut all = self.match_labels.iter().all(|(key, value)| labels.text(key) == Some(value));
        // All expressions are evaluated, so that an invalid one is always reported.
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
    fn selector_is_evaluated(#[case] selector: Value, #[case] expected: Result<bool, SelectorError>) {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        let labels = TextMap::from([("name", "md")]);
        assert_eq!(selector.matches(&labels), expected);
    }

    #[test]
    fn empty_labels_match_the_empty_selector_only() {
        assert_eq!(LabelSelector::default().matches(&TextMap::default()), Ok(true));
        let selector = LabelSelector { match_labels: [("a".into(), "b".into())].into(), ..Default::default() };
        assert_eq!(selector.matches(&TextMap::default()), Ok(false));
    }
}
