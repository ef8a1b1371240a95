//! Label selectors as objects (`matchLabels`, `matchExpressions`), written out in the little language of queries.

use serde_json::Value;

/// The selector as text; nothing if it is malformed. An empty selector is empty text and matches everything.
///
/// A plain map of labels, as the oldest kinds have it, is a selector too.
pub fn written_out(selector: &Value) -> Option<String> {
    let fields = selector.as_object()?;
    let mut terms: Vec<(String, String)> = Vec::new();
    let is_map = fields.values().all(Value::is_string) && !fields.is_empty();
    let labels = if is_map { Some(fields) } else { selector.get("matchLabels").and_then(Value::as_object) };
    for (key, value) in labels.into_iter().flatten() {
        terms.push((key.clone(), format!("{key}={}", value.as_str()?)));
    }
    for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = expression.get("key").and_then(Value::as_str)?;
        let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
        let mut values: Vec<&str> = values.filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match expression.get("operator").and_then(Value::as_str)? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        };
        terms.push((key.to_owned(), term));
    }
    // By key alone, and otherwise as they came: this is the order that the reference shows.
    terms.sort_by(|(a, _), (b, _)| a.cmp(b));
    Some(terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case(json!({}), Some(""))]
    #[case(json!({"matchLabels": {"b": "c", "a": "b"}}), Some("a=b,b=c"))]
    #[case(json!({"a": "b"}), Some("a=b"))]
    #[case(
        json!({"matchLabels": {"z": ""}, "matchExpressions": [
            {"key": "k", "operator": "In", "values": ["y", "x"]}, {"key": "j", "operator": "DoesNotExist"}]}),
        Some("!j,k in (x,y),z=")
    )]
    #[case(json!({"matchExpressions": [{"key": "k", "operator": "Near"}]}), None)]
    #[case(json!(null), None)]
    fn a_selector_is_written_out_in_order(#[case] selector: Value, #[case] text: Option<&str>) {
        assert_eq!(written_out(&selector).as_deref(), text);
    }
}
