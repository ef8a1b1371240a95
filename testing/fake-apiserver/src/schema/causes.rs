//! Complaints about single fields, as they stand in the `details.causes` of a `Status`.

use serde_json::Value;

use crate::schema::numbers::in_go;

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The path of the field: `spec.replicas`. The API server writes `<nil>` where it cannot name one.
    pub field: String,
    /// The machine-readable kind of complaint: `FieldValueRequired`.
    pub reason: String,
    /// The complaint without the path: `Required value`.
    pub message: String,
}

impl Cause {
    /// The value breaks a rule.
    pub fn invalid(field: impl Into<String>, value: &Value, rule: &str) -> Self {
        Self::new(field, "FieldValueInvalid", format!("Invalid value: {}: {rule}", shown(value)))
    }

    /// The value is of the wrong type; `given` is the name of the type it has.
    pub fn of_wrong_type(field: impl Into<String>, given: &str, rule: &str) -> Self {
        Self::new(field, "FieldValueTypeInvalid", format!("Invalid value: {given:?}: {rule}"))
    }

    /// A value must be there.
    pub fn required(field: impl Into<String>, rule: &str) -> Self {
        let message = if rule.is_empty() { "Required value".to_owned() } else { format!("Required value: {rule}") };
        Self::new(field, "FieldValueRequired", message)
    }

    /// The value is none of those allowed.
    pub fn unsupported(field: impl Into<String>, value: &Value, supported: &[Value]) -> Self {
        let quoted = |value: &Value| match value {
            Value::String(text) => format!("{text:?}"),
            other => format!("{:?}", other.to_string()),
        };
        let supported: Vec<_> = supported.iter().map(quoted).collect();
        let message = format!("Unsupported value: {}: supported values: {}", shown(value), supported.join(", "));
        Self::new(field, "FieldValueNotSupported", message)
    }

    /// The text is longer than allowed.
    pub fn too_long(field: impl Into<String>, most: u64) -> Self {
        let unit = if most == 1 { "byte" } else { "bytes" };
        Self::new(field, "FieldValueTooLong", format!("Too long: may not be more than {most} {unit}"))
    }

    /// There are more entries than allowed.
    pub fn too_many(field: impl Into<String>, actual: usize, most: u64) -> Self {
        let unit = if most == 1 { "item" } else { "items" };
        Self::new(field, "FieldValueTooMany", format!("Too many: {actual}: must have at most {most} {unit}"))
    }

    /// The value must be unique and is not.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(field, "FieldValueDuplicate", format!("Duplicate value: {}", shown(value)))
    }

    /// The field must not be used like this.
    pub fn forbidden(field: impl Into<String>, rule: &str) -> Self {
        Self::new(field, "FieldValueForbidden", format!("Forbidden: {rule}"))
    }

    fn new(field: impl Into<String>, reason: &str, message: String) -> Self {
        Self { field: field.into(), reason: reason.to_owned(), message }
    }
}

/// A value as a complaint shows it: text in quotes, fractions as Go writes them, everything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Number(number) if number.is_f64() => number.as_f64().map_or_else(String::new, in_go),
        other => other.to_string(),
    }
}
