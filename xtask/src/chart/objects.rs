//! Objects as a renderer printed them, to be compared with those of another.

use std::collections::BTreeMap;

use anyhow::Context;
use serde_json::Value;

/// Objects by kind, namespace and name.
pub(super) struct Objects(BTreeMap<String, Value>);

impl Objects {
    /// Reads documents of YAML. The namespace itself is left out: helm makes it, or whoever installs the chart.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let documents: Vec<Option<Value>> =
            serde_saphyr::from_multiple(text).context("what was rendered is no YAML")?;
        let mut all = BTreeMap::new();
        for mut object in documents.into_iter().flatten().filter(|object| text_at(object, "/kind") != "Namespace") {
            // kustomize does not know that these have none, and the API server does not mind.
            if text_at(&object, "/kind").starts_with("ValidatingAdmissionPolicy") {
                object.pointer_mut("/metadata").and_then(Value::as_object_mut).and_then(|all| all.remove("namespace"));
            }
            let name = ["/kind", "/metadata/namespace", "/metadata/name"].map(|at| text_at(&object, at)).join(" ");
            all.insert(name, normal(object));
        }
        Ok(Self(all))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What is here and not there, there and not here, or not the same, with the first place where.
    pub(super) fn differences(&self, wanted: &Self) -> Vec<String> {
        let missing =
            wanted.0.keys().filter(|name| !self.0.contains_key(*name)).map(|name| format!("{name} is missing"));
        let different = self.0.iter().filter_map(|(name, found)| {
            let Some(wanted) = wanted.0.get(name) else { return Some(format!("{name} is too much")) };
            first_difference("", found, wanted).map(|place| format!("{name} differs at {place}"))
        });
        missing.chain(different).collect()
    }
}

fn text_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Lists whose order means nothing, in one order.
fn normal(mut object: Value) -> Value {
    let containers = object.pointer_mut("/spec/template/spec/containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        for list in ["env", "volumeMounts"] {
            by_name(container.get_mut(list));
        }
    }
    by_name(object.pointer_mut("/spec/template/spec/volumes"));
    object
}

fn by_name(list: Option<&mut Value>) {
    if let Some(list) = list.and_then(Value::as_array_mut) {
        list.sort_by(|one, other| text_at(one, "/name").cmp(text_at(other, "/name")));
    }
}

fn first_difference(place: &str, found: &Value, wanted: &Value) -> Option<String> {
    match (found, wanted) {
        _ if found == wanted => None,
        (Value::Object(found), Value::Object(wanted)) => {
            let mut keys = found.keys().chain(wanted.keys());
            keys.find_map(|key| {
                let (one, other) = (found.get(key).unwrap_or(&Value::Null), wanted.get(key).unwrap_or(&Value::Null));
                first_difference(&format!("{place}/{key}"), one, other)
            })
        }
        (Value::Array(found), Value::Array(wanted)) if found.len() == wanted.len() => {
            let mut pairs = found.iter().zip(wanted).enumerate();
            pairs.find_map(|(index, (found, wanted))| first_difference(&format!("{place}/{index}"), found, wanted))
        }
        _ => Some(format!("{place}: {found} instead of {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "kind: Namespace\nmetadata: {name: n}\n---\nkind: Role\nmetadata: {name: r, namespace: space}\nrules: [{verbs: [get]}]\n---\n";

    #[test]
    fn the_same_objects_in_another_order_do_not_differ() {
        let other = "kind: Role\nrules:\n- verbs:\n  - get\nmetadata: {namespace: space, name: r}\n";
        let (one, other) = (Objects::parse(ONE).unwrap(), Objects::parse(other).unwrap());
        assert_eq!((one.len(), one.differences(&other)), (1, Vec::new()));
    }

    #[test]
    fn what_is_missing_too_much_or_different_is_named() {
        let other = "kind: Role\nmetadata: {name: r, namespace: space}\nrules: [{verbs: [list]}]\n---\nkind: Role\nmetadata: {name: s}\n";
        let (one, other) = (Objects::parse(ONE).unwrap(), Objects::parse(other).unwrap());
        let place = "Role space r differs at /rules/0/verbs/0: \"get\" instead of \"list\"";
        assert_eq!(one.differences(&other), ["Role  s is missing", place]);
        assert_eq!(other.differences(&one).first().map(String::as_str), Some("Role  s is too much"));
    }
}
