//! Parsing of label selectors in the notation of kubectl: `app=web,tier!=db,zone in (a, b),!canary`.

use std::str::FromStr;

use crate::selector::{LabelSelector, Requirement};

/// The text is not a label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorTextError {
    /// A requirement is malformed.
    #[error("invalid label requirement {0:?}: use a form such as app=web, tier!=db, zone in (a,b), canary or !canary")]
    Malformed(String),
    /// The selector is empty.
    #[error("the selector is empty and would select all objects")]
    Empty,
}

impl FromStr for LabelSelector {
    type Err = SelectorTextError;

    fn from_str(text: &str) -> Result<Self, SelectorTextError> {
        let mut selector = Self::default();
        for part in parts(text) {
            add(&mut selector, part).ok_or_else(|| SelectorTextError::Malformed(part.to_owned()))?;
        }
        if selector.is_empty() { Err(SelectorTextError::Empty) } else { Ok(selector) }
    }
}

/// Splits the text at commas outside parentheses.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    text.split(move |c| {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
}

fn add(selector: &mut LabelSelector, part: &str) -> Option<()> {
    let mut require = |key: &str, operator: &str, values: Vec<String>| {
        let requirement = Requirement { key: name(key)?, operator: operator.to_owned(), values };
        selector.match_expressions.push(requirement);
        Some(())
    };
    if let Some(key) = part.strip_prefix('!') {
        return require(key, "DoesNotExist", Vec::new());
    }
    if let Some(list) = part.strip_suffix(')') {
        let (left, values) = list.split_once('(')?;
        let (key, word) = left.trim_end().rsplit_once(char::is_whitespace)?;
        let values: Option<Vec<String>> = values.split(',').map(value).collect();
        return match word {
            "in" => require(key, "In", values?),
            "notin" => require(key, "NotIn", values?),
            _ => None,
        };
    }
    if let Some((key, text)) = part.split_once("!=") {
        return require(key, "NotIn", vec![value(text)?]);
    }
    let Some((key, text)) = part.split_once('=') else { return require(part, "Exists", Vec::new()) };
    let text = text.strip_prefix('=').unwrap_or(text);
    selector.match_labels.insert(name(key)?, value(text)?);
    Some(())
}

fn name(text: &str) -> Option<String> {
    value(text).filter(|name| !name.is_empty())
}

fn value(text: &str) -> Option<String> {
    let text = text.trim();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    plain.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case("app=web", json!({"matchLabels": {"app": "web"}}))]
    #[case("app==web,x.io/tier=", json!({"matchLabels": {"app": "web", "x.io/tier": ""}}))]
    #[case("tier!=db", json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}]}))]
    #[case("canary, !old", json!({"matchExpressions": [{"key": "canary", "operator": "Exists"}, {"key": "old", "operator": "DoesNotExist"}]}))]
    #[case("zone in (a, b),app=web", json!({
        "matchLabels": {"app": "web"}, "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}))]
    #[case("zone notin (a)", json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}))]
    fn selector_is_parsed_as_by_kubectl(#[case] text: &str, #[case] expected: serde_json::Value) {
        let expected: LabelSelector = serde_json::from_value(expected).unwrap();
        assert_eq!(text.parse(), Ok(expected.clone()));
        assert!(expected.matches(&crate::TextMap::default()).is_ok(), "the selector is valid");
    }

    #[rstest]
    #[case("")]
    #[case(",")]
    #[case("=web")]
    #[case("a b")]
    #[case("a=b c")]
    #[case("zone near (a)")]
    #[case("zone in (a")]
    #[case("!")]
    fn malformed_selector_is_rejected(#[case] text: &str) {
        assert!(text.parse::<LabelSelector>().is_err(), "{text}");
    }
}
