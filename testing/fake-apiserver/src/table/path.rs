//! The paths by which a definition says what its columns show: `.status.conditions[?(@.type=="Ready")].status`.
//!
//! Of the language that Kubernetes calls JSONPath this is what definitions use: fields, elements, all elements, and elements that
//! equal something. A path that uses more finds nothing, and its column stays empty.

use serde_json::Value;

/// A path that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Element(isize),
    All,
    /// The elements in which this path leads to this text.
    Where(Path, String),
}

impl Path {
    /// Reads a path; nothing if it says something that is not understood here.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
        while !rest.is_empty() {
            let step;
            (step, rest) = match rest.strip_prefix('[') {
                Some(inner) => in_brackets(inner)?,
                None => name(rest.strip_prefix('.').unwrap_or(rest))?,
            };
            steps.push(step);
        }
        Some(Self(steps))
    }

    /// What it leads to: nothing, something, or several things.
    pub(super) fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.from(value)).collect();
        }
        found
    }
}

impl Step {
    fn from<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let elements = || value.as_array().into_iter().flatten();
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Element(index) => {
                let length = value.as_array().map(Vec::len).unwrap_or_default();
                let index = if *index < 0 { length.checked_add_signed(*index) } else { usize::try_from(*index).ok() };
                index.and_then(|index| value.get(index)).into_iter().collect()
            }
            Self::All => match value {
                Value::Object(fields) => fields.values().collect(),
                _ => elements().collect(),
            },
            Self::Where(path, text) => {
                elements().filter(|element| path.find(element).iter().any(|found| told(found) == *text)).collect()
            }
        }
    }
}

/// A value as it is compared and shown.
pub(super) fn told(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A field after a dot; a backslash takes the meaning from the next character.
fn name(text: &str) -> Option<(Step, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    let end = loop {
        match characters.next() {
            Some((_, '\\')) => name.extend(characters.next().map(|(_, escaped)| escaped)),
            Some((at, '.' | '[')) => break at,
            Some((_, other)) => name.push(other),
            None => break text.len(),
        }
    };
    let step = match name.as_str() {
        "" => return None,
        "*" => Step::All,
        _ => Step::Field(name),
    };
    Some((step, text.get(end..)?))
}

/// What stands between brackets, of which the first is read already.
fn in_brackets(text: &str) -> Option<(Step, &str)> {
    if let Some(filter) = text.strip_prefix("?(") {
        let (condition, rest) = filter.split_once(")]")?;
        let (path, wanted) = condition.split_once("==")?;
        let path = Path::parse(path.trim().strip_prefix('@')?)?;
        return Some((Step::Where(path, unquoted(wanted.trim()).unwrap_or(wanted.trim()).to_owned()), rest));
    }
    let (inner, rest) = text.split_once(']')?;
    let step = match unquoted(inner) {
        Some(name) => Step::Field(name.to_owned()),
        None if inner == "*" => Step::All,
        None => Step::Element(inner.parse().ok()?),
    };
    Some((step, rest))
}

fn unquoted(text: &str) -> Option<&str> {
    ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case(".spec.replicas", json!([3]))]
    #[case("{.spec.replicas}", json!([3]))]
    #[case(".metadata.labels.a\\.b/c", json!(["x"]))]
    #[case(".metadata.labels['a.b/c']", json!(["x"]))]
    #[case(".status.conditions[?(@.type==\"Ready\")].status", json!(["True"]))]
    #[case(".status.conditions[?(@.type=='Disk')].status", json!(["False"]))]
    #[case(".status.conditions[*].type", json!(["Ready", "Disk"]))]
    #[case(".status.conditions[0].type", json!(["Ready"]))]
    #[case(".status.conditions[-1].type", json!(["Disk"]))]
    #[case(".status.conditions[7].type", json!([]))]
    #[case(".status.missing.deep", json!([]))]
    fn a_path_leads_to_what_it_names(#[case] path: &str, #[case] expected: Value) {
        let object = json!({
            "metadata": { "labels": { "a.b/c": "x" } }, "spec": { "replicas": 3 },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }, { "type": "Disk", "status": "False" }] },
        });
        let found: Vec<Value> = Path::parse(path).unwrap().find(&object).into_iter().cloned().collect();
        assert_eq!(Value::from(found), expected);
    }

    #[rstest]
    #[case("..name")]
    #[case(".a[1:2]")]
    #[case(".a[?(@.b>1)]")]
    #[case(".a[")]
    fn what_is_not_understood_is_no_path(#[case] path: &str) {
        assert_eq!(Path::parse(path), None);
    }

    proptest! {
        #[test]
        fn no_path_makes_it_panic(path in "[.\\[\\]{}?@()='\"*a1\\\\é-]{0,20}") {
            if let Some(path) = Path::parse(&path) {
                path.find(&json!({ "a": [1, { "a": "é" }] }));
            }
        }
    }
}
