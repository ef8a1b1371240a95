//! Checks for unknown fields.
//!
//! The API server drops them silently, so a misspelled timeout has no effect. The schemas of the CRDs define the known
//! fields.

use serde_json::Value;

use super::Findings;

pub(super) fn check(found: &mut Findings<'_>) {
    let definitions = api::crd::definitions();
    for document in found.input.documents {
        let text = |path: &str| document.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let kind = text("/kind");
        if !text("/apiVersion").starts_with(api::names::GROUP) {
            continue;
        }
        let object = format!("{}/{}", kind.to_lowercase(), text("/metadata/name"));
        let definition =
            definitions.iter().find(|one| one.pointer("/spec/names/kind").and_then(Value::as_str) == Some(kind));
        let schema = definition.and_then(|one| one.pointer("/spec/versions/0/schema/openAPIV3Schema"));
        match schema {
            Some(schema) => compare(found, &object, "", document, schema),
            None => found.add(
                &object,
                "kind",
                format!("unknown kind {kind:?} in {}", api::names::GROUP),
                "see `millwright crds`",
            ),
        }
    }
}

fn compare(found: &mut Findings<'_>, object: &str, path: &str, value: &Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            let known = schema.get("properties").and_then(Value::as_object);
            let open = schema.get("x-kubernetes-preserve-unknown-fields").is_some()
                || schema.get("additionalProperties").is_some();
            let Some(known) = known.filter(|_| !open) else { return };
            for (key, below) in fields {
                let field = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                if let Some(schema) = known.get(key) {
                    compare(found, object, &field, below, schema);
                    continue;
                }
                let near = nearest(key, known.keys());
                let fix = near.map_or("remove it".to_owned(), |near| format!("did you mean {near}?"));
                found.add(object, &field, "unknown field; the API server drops it silently", fix);
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter().enumerate() {
                compare(found, object, &format!("{path}[{index}]"), item, schema);
            }
        }
        _ => {}
    }
}

/// Returns the known name with the smallest edit distance, if it is at most 3.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a String>) -> Option<&'a str> {
    let near = known.map(|one| (distance(&word.to_lowercase(), &one.to_lowercase()), one.as_str())).min()?;
    (near.0 <= 3).then_some(near.1)
}

/// Returns the edit distance of two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, letter) in a.chars().enumerate() {
        let mut next = vec![index + 1];
        for (column, other) in b.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX - 1);
            let changed = at(&row, column) + usize::from(letter != *other);
            next.push(changed.min(at(&row, column + 1) + 1).min(at(&next, column) + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
