//! The columns that a definition asks for.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Column;
use super::age;
use super::look::Look;
use super::path::{Path, told};

/// The columns of a custom kind, apart from its name.
pub(super) struct Columns(Vec<(Column, Option<Path>)>);

impl Columns {
    /// Reads them from a version of a definition. One that asks for none gets the age.
    pub(super) fn of(version: &Value) -> Self {
        let asked = version.get("additionalPrinterColumns").and_then(Value::as_array).filter(|list| !list.is_empty());
        let age = [json!({ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" })];
        Self(asked.map_or(age.as_slice(), Vec::as_slice).iter().map(column).collect())
    }

    /// What stands above them.
    pub(super) fn described(&self) -> Vec<Column> {
        let name = Column {
            name: "Name".to_owned(),
            of: "string".to_owned(),
            format: "name".to_owned(),
            description: "Name of the object.".to_owned(),
            priority: 0,
        };
        std::iter::once(name).chain(self.0.iter().map(|(column, _)| column.clone())).collect()
    }

    /// What stands in them for one object.
    pub(super) fn cells(&self, object: Look<'_>) -> Vec<Value> {
        let cells = self.0.iter().map(|(column, path)| {
            let found = path.as_ref().map(|path| path.find(object.value())).unwrap_or_default();
            cell(&column.of, &found, object)
        });
        std::iter::once(object.name()).chain(cells).collect()
    }
}

fn column(asked: &Value) -> (Column, Option<Path>) {
    let text = |field: &str| asked.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let path = text("jsonPath");
    let said = Some(text("description")).filter(|said| !said.is_empty());
    let description = said.unwrap_or_else(|| format!("Custom resource definition column (in JSONPath format): {path}"));
    let priority = asked.get("priority").and_then(Value::as_i64).unwrap_or_default();
    (Column { name: text("name"), of: text("type"), format: text("format"), description, priority }, Path::parse(&path))
}

/// A value as its column wants it; nothing where it does not fit.
fn cell(of: &str, found: &[&Value], object: Look<'_>) -> Value {
    let Some(first) = found.first().filter(|first| !first.is_null()) else { return Value::Null };
    match of {
        "string" => json!(found.iter().map(|value| told(value)).collect::<Vec<_>>().join(" ")),
        "integer" if first.is_i64() || first.is_u64() => (*first).clone(),
        #[allow(clippy::cast_possible_truncation, reason = "the reference cuts off the fraction too")]
        "integer" => first.as_f64().map_or(Value::Null, |number| json!(number as i64)),
        "number" if first.is_number() => (*first).clone(),
        "boolean" if first.is_boolean() => (*first).clone(),
        "date" => match first.as_str().map(str::parse::<Timestamp>) {
            Some(Ok(time)) => json!(age::shown(object.elapsed(time))),
            Some(Err(_)) => json!("<invalid>"),
            None => Value::Null,
        },
        _ => Value::Null,
    }
}
