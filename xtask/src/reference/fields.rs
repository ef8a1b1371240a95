//! The page of fields, from the CRDs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{cell, generated};

/// The order of the kinds on the page: from what users write to what controllers create.
const KINDS: [&str; 4] = ["machinedeployments", "machinesets", "machines", "machineclasses"];

/// Returns the page of the fields of all kinds.
pub(super) fn page(crds: &Path) -> anyhow::Result<String> {
    let mut text = generated("deploy/crds");
    text.push_str(
        "# Fields\n\nThe fields of the API group `machine.sapcloud.io/v1alpha1`. `kubectl explain` prints the same descriptions. `[]` marks the \
         items of a list, `{}` the values of a map.\n",
    );
    for kind in KINDS {
        let file = crds.join(format!("machine.sapcloud.io_{kind}.yaml"));
        let yaml = fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
        let crd: Value =
            serde_saphyr::from_str(&yaml).with_context(|| format!("failed to parse {}", file.display()))?;
        text.push_str(&section(&crd).with_context(|| format!("{} is not a CRD with a schema", file.display()))?);
    }
    ensure!(text.contains("`spec.replicas`"), "the CRDs have no field spec.replicas");
    Ok(text)
}

fn section(crd: &Value) -> Option<String> {
    let kind = crd.pointer("/spec/names/kind")?.as_str()?;
    let schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema")?;
    let mut rows = Vec::new();
    add_fields("", schema, &mut rows);
    let mut text =
        format!("\n## {kind}\n\n{}\n\n| field | type | description |\n| --- | --- | --- |\n", description(schema));
    for (path, schema) in rows {
        let _ = writeln!(text, "| `{path}` | {} | {} |", type_of(schema), cell(&description(schema)));
    }
    Some(text)
}

/// Adds the fields below a schema, depth first.
fn add_fields<'a>(path: &str, schema: &'a Value, rows: &mut Vec<(String, &'a Value)>) {
    for (name, field) in schema.pointer("/properties").and_then(Value::as_object).into_iter().flatten() {
        if path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        rows.push((path.clone(), field));
        add_fields(&path, field, rows);
        if let Some(items) = field.get("items") {
            add_fields(&format!("{path}[]"), items, rows);
        }
        if let Some(values) = field.get("additionalProperties") {
            add_fields(&format!("{path}{{}}"), values, rows);
        }
    }
}

fn type_of(schema: &Value) -> String {
    let name = |schema: &Value| match schema.get("type").and_then(Value::as_str) {
        Some(name) => name.to_owned(),
        None if schema.get("x-kubernetes-int-or-string").is_some() => "integer or string".to_owned(),
        None => "any".to_owned(),
    };
    match (schema.get("items"), schema.get("additionalProperties"), schema.get("format").and_then(Value::as_str)) {
        (Some(items), ..) => format!("list of {}", name(items)),
        (_, Some(values), _) if values.is_object() => format!("map of {}", name(values)),
        (.., Some(format)) => format!("{} ({format})", name(schema)),
        _ => name(schema),
    }
}

fn description(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn section_lists_nested_fields_with_their_types() {
        let crd = json!({ "spec": { "names": { "kind": "K" }, "versions": [{ "schema": { "openAPIV3Schema": {
            "description": "A K.",
            "properties": {
                "kind": { "type": "string" },
                "spec": { "type": "object", "description": "What is\n wanted.", "properties": {
                    "size": { "x-kubernetes-int-or-string": true },
                    "parts": { "type": "array", "items": { "type": "object", "properties": {
                        "at": { "type": "string", "format": "date-time", "description": "a|b" },
                    } } },
                } },
            },
        } } }] } });
        let text = section(&crd).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(
            rows,
            [
                "| `spec` | object | What is wanted. |",
                "| `spec.parts` | list of object |  |",
                "| `spec.parts[].at` | string (date-time) | a\\|b |",
                "| `spec.size` | integer or string |  |",
            ]
        );
        assert!(text.starts_with("\n## K\n\nA K.\n"));
    }
}
