//! Label selectors as parts of objects: what is wrong with them.

use serde_json::Value;

use crate::schema::Cause;

/// The complaints about a selector at this path. One that is not there is for its owner to judge.
pub(super) fn complaints(path: &str, selector: Option<&Value>) -> Vec<Cause> {
    let expressions = selector.and_then(|s| s.get("matchExpressions")).and_then(Value::as_array);
    let mut causes = Vec::new();
    for (index, expression) in expressions.into_iter().flatten().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let operator = expression.get("operator").unwrap_or(&Value::Null);
        let values = expression.get("values").and_then(Value::as_array).map_or(0, Vec::len);
        match operator.as_str().unwrap_or_default() {
            "In" | "NotIn" if values == 0 => {
                let rule = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.push(Cause::required(format!("{path}.values"), rule));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(Cause::forbidden(format!("{path}.values"), rule));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => causes.push(Cause::invalid(format!("{path}.operator"), operator, "not a valid selector operator")),
        }
    }
    causes
}
