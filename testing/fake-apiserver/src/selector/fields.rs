//! Field selectors: `spec.nodeName=node-1,status.phase!=Succeeded`.
//!
//! A missing field compares like an empty one, so `spec.nodeName=` finds the pods nobody has placed yet.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::selector::SelectorError;

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// The fields that a kind lets its clients select by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPaths {
    labels: BTreeMap<String, Source>,
    refusal: Refusal,
}

/// Where the value of a selectable field is found in the object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    /// The first of these that holds something.
    pointers: Vec<String>,
    /// What a missing field counts as.
    absent: &'static str,
}

/// Which of the server's two texts an unknown field gets; kinds without rules of their own have the chattier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    OnlyMetadata,
    NotSupported,
}

impl FieldPaths {
    /// Name and namespace only: what every kind offers.
    pub fn metadata() -> Self {
        let paths = Self { labels: BTreeMap::new(), refusal: Refusal::OnlyMetadata };
        paths.and(NAME).and(NAMESPACE)
    }

    /// What the built-in kind with this API group (empty for core) and plural name offers.
    pub fn of_built_in(group: &str, plural: &str) -> Self {
        let own = Self { refusal: Refusal::NotSupported, ..Self::metadata() };
        match (group, plural) {
            ("", "pods") => [
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            ]
            .into_iter()
            .fold(own, Self::and)
            .and_flag("spec.hostNetwork")
            .and_from("spec.host", &["spec.nodeName"])
            // Offered, and always empty.
            .and_from("status.podIPs", &[]),
            ("", "nodes") => own.and_flag("spec.unschedulable"),
            ("", "namespaces") => own.and("status.phase"),
            ("", "secrets") => own.and("type"),
            ("", "events") => [
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "type",
            ]
            .into_iter()
            .fold(own, Self::and)
            .and_from("source", &["source.component", "reportingComponent"]),
            ("events.k8s.io", "events") => {
                ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"]
                    .into_iter()
                    .fold(own, |paths, field| {
                        paths.and_from(&format!("regarding.{field}"), &[&format!("involvedObject.{field}")])
                    })
                    .and("reason")
                    .and("type")
                    .and_from("reportingController", &["reportingComponent"])
            }
            ("", "replicationcontrollers") => own.and_count("status.replicas", "status.replicas"),
            ("batch", "jobs") => own.and_count("status.successful", "status.succeeded"),
            _ => Self::metadata(),
        }
    }

    /// What a custom kind offers: its CRD's `selectableFields`, given as their JSON paths (`.spec.color`).
    pub fn of_custom<'a>(selectable: impl IntoIterator<Item = &'a str>) -> Self {
        let own = Self { refusal: Refusal::NotSupported, ..Self::metadata() };
        selectable.into_iter().map(|path| path.trim_start_matches('.')).fold(own, Self::and)
    }

    fn and(self, path: &str) -> Self {
        self.and_from(path, &[path])
    }

    /// A field that is false when it is missing.
    fn and_flag(mut self, path: &str) -> Self {
        self.labels.insert(path.to_owned(), Source { pointers: vec![pointer(path)], absent: "false" });
        self
    }

    /// A number that is zero when it is missing.
    fn and_count(mut self, label: &str, path: &str) -> Self {
        self.labels.insert(label.to_owned(), Source { pointers: vec![pointer(path)], absent: "0" });
        self
    }

    fn and_from(mut self, label: &str, paths: &[&str]) -> Self {
        let pointers = paths.iter().map(|path| pointer(path)).collect();
        self.labels.insert(label.to_owned(), Source { pointers, absent: "" });
        self
    }

    fn source_of(&self, label: &str) -> Result<Source, SelectorError> {
        self.labels.get(label).cloned().ok_or_else(|| match self.refusal {
            Refusal::NotSupported => SelectorError::new(format!("field label not supported: {label}")),
            Refusal::OnlyMetadata => {
                SelectorError::new(format!("{label:?} is not a known field selector: only \"{NAME}\", \"{NAMESPACE}\""))
            }
        })
    }
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

impl Source {
    fn value_in(&self, object: &Value) -> String {
        let texts = self.pointers.iter().filter_map(|p| object.pointer(p)).filter_map(|value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        });
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_else(|| self.absent.to_owned())
    }
}

/// A parsed field selector. The default one is empty and matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    label: String,
    source: Source,
    operator: Operator,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Is,
    IsNot,
}

impl Fields {
    /// Reads a selector as it stands in a `fieldSelector` query parameter. Empty text matches everything.
    pub fn parse(text: &str, allowed: &FieldPaths) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split_terms(text).into_iter().filter(|part| !part.is_empty()) {
            let (label, operator, escaped) = split_term(part)
                .ok_or_else(|| SelectorError::new(format!("invalid selector: '{text}'; can't understand '{part}'")))?;
            let (value, source) = (unescape(escaped)?, allowed.source_of(label)?);
            terms.push(Term { label: label.to_owned(), source, operator, value });
        }
        Ok(Self { terms })
    }

    /// Whether the object's fields meet every term.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|term| {
            let equal = term.source.value_in(object) == term.value;
            match term.operator {
                Operator::Is => equal,
                Operator::IsNot => !equal,
            }
        })
    }

    /// The one name that can match, if the selector names one: a list by name need not look at all objects.
    pub fn name(&self) -> Option<&str> {
        self.terms.iter().find(|t| t.label == NAME && t.operator == Operator::Is).map(|t| t.value.as_str())
    }

    /// Whether it matches every object there could be.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(text.get(start..).unwrap_or_default());
    terms
}

/// The first operator in the term divides it.
fn split_term(term: &str) -> Option<(&str, Operator, &str)> {
    let at = term.char_indices().map(|(at, _)| at).find(|at| {
        let rest = term.get(*at..).unwrap_or_default();
        rest.starts_with("!=") || rest.starts_with('=')
    })?;
    let (label, rest) = term.split_at_checked(at)?;
    if let Some(value) = rest.strip_prefix("!=") {
        Some((label, Operator::IsNot, value))
    } else {
        let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
        Some((label, Operator::Is, value))
    }
}

/// In a value `\`, `,` and `=` are written with a backslash before them.
fn unescape(text: &str) -> Result<String, SelectorError> {
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => value.push(c),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(SelectorError::new(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            ',' | '=' => {
                return Err(SelectorError::new(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            c => value.push(c),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    fn pod() -> Value {
        json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": "n-1"}, "status": {"phase": "Running"}})
    }

    #[rstest]
    #[case("", true)]
    #[case("metadata.name=p", true)]
    #[case("metadata.name==p,metadata.namespace=ns", true)]
    #[case("metadata.name!=p", false)]
    #[case("spec.nodeName=n-1,status.phase!=Succeeded", true)]
    #[case("spec.nodeName=", false)]
    #[case("spec.host=n-1", true)]
    #[case("status.nominatedNodeName=", true)]
    #[case("status.podIPs=", true)]
    #[case("spec.hostNetwork=false", true)]
    #[case("spec.hostNetwork=true", false)]
    #[case(",metadata.name=p,", true)]
    fn a_pod_is_selected_by_its_fields(#[case] selector: &str, #[case] expected: bool) {
        let fields = Fields::parse(selector, &FieldPaths::of_built_in("", "pods")).unwrap();
        assert_eq!(fields.matches(&pod()), expected, "{selector}");
    }

    #[test]
    fn a_node_is_schedulable_unless_it_says_otherwise() {
        let paths = FieldPaths::of_built_in("", "nodes");
        let schedulable = Fields::parse("spec.unschedulable=false", &paths).unwrap();
        assert!(schedulable.matches(&json!({"metadata": {"name": "n"}, "spec": {}})));
        assert!(!schedulable.matches(&json!({"spec": {"unschedulable": true}})));
    }

    #[test]
    fn an_event_is_selected_by_what_it_is_about() {
        let fields =
            Fields::parse("involvedObject.uid=u,reason=Created,source=mcm", &FieldPaths::of_built_in("", "events"));
        let event =
            json!({"involvedObject": {"uid": "u"}, "reason": "Created", "source": {}, "reportingComponent": "mcm"});
        assert!(fields.unwrap().matches(&event));
    }

    #[test]
    fn a_custom_kind_is_selected_by_the_fields_its_definition_names() {
        let paths = FieldPaths::of_custom([".spec.color", ".spec.size"]);
        let fields = Fields::parse("spec.color=red,spec.size=3", &paths).unwrap();
        assert!(fields.matches(&json!({"spec": {"color": "red", "size": 3}})));
    }

    #[rstest]
    #[case(FieldPaths::of_built_in("", "pods"), "spec.color=red", "field label not supported: spec.color")]
    #[case(FieldPaths::of_built_in("", "namespaces"), "name=a", "field label not supported: name")]
    #[case(FieldPaths::of_custom([]), "spec.color=red", "field label not supported: spec.color")]
    #[case(
        FieldPaths::of_built_in("", "configmaps"),
        "data=x",
        "\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    )]
    #[case(
        FieldPaths::metadata(),
        "metadata.name",
        "invalid selector: 'metadata.name'; can't understand 'metadata.name'"
    )]
    #[case(FieldPaths::metadata(), "metadata.name=a=b", "invalid field selector: unescaped character in value: 61")]
    #[case(FieldPaths::metadata(), r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b")]
    fn a_selector_the_kind_does_not_offer_is_refused(
        #[case] paths: FieldPaths,
        #[case] selector: &str,
        #[case] message: &str,
    ) {
        assert_eq!(Fields::parse(selector, &paths).unwrap_err().to_string(), message);
    }

    #[test]
    fn escaped_characters_are_part_of_the_value() {
        let fields = Fields::parse(r"type=a\,b\=c\\", &FieldPaths::of_built_in("", "secrets")).unwrap();
        assert!(fields.matches(&json!({"type": r"a,b=c\"})));
    }

    #[test]
    fn the_name_a_selector_asks_for_is_known() {
        let parse = |s| Fields::parse(s, &FieldPaths::metadata()).unwrap();
        assert_eq!(parse("metadata.namespace=x,metadata.name=m").name(), Some("m"));
        assert_eq!(parse("metadata.name!=m").name(), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", likely in r"[ab=!,\\é]{0,20}") {
            let _ = Fields::parse(&text, &FieldPaths::metadata());
            let _ = Fields::parse(&likely, &FieldPaths::metadata());
        }
    }
}
