//! Dropping the fields that a built-in kind does not have, as decoding into its type does.

use serde_json::Value;

use super::{Shape, Types};

/// Prunes an object of a type and returns the paths of what went.
pub(super) fn prune(types: &Types, name: &str, object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(shape) = types.named(name) {
        walk(types, shape, object, "", &mut unknown);
    }
    unknown
}

fn walk(types: &Types, shape: &Shape, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (types.resolve(shape), value) {
        (Some(Shape::Fields(fields)), Value::Object(found)) => found.retain(|name, value| {
            let field = fields.get(name);
            match field {
                Some(field) => walk(types, &field.shape, value, &below(name), unknown),
                None => unknown.push(below(name)),
            }
            field.is_some()
        }),
        (Some(Shape::Map(of)), Value::Object(found)) => {
            for (name, value) in found {
                walk(types, of, value, &below(name), unknown);
            }
        }
        (Some(Shape::List(of)), Value::Array(found)) => {
            for (index, value) in found.iter_mut().enumerate() {
                walk(types, of, value, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::super::Types;

    #[test]
    fn what_a_kind_does_not_have_goes_and_is_named_by_its_path() {
        let pods = Types::built_in().of_kind("", "v1", "Pod").unwrap();
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a", "labels": { "any": "thing" } },
            "spec": { "containers": [{ "name": "c" }, { "name": "d", "imagee": "x" }], "nodename": "n" },
            "extra": {},
        });
        assert_eq!(pods.prune(&mut pod), ["extra", "spec.containers[1].imagee", "spec.nodename"]);
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a", "labels": { "any": "thing" } },
            "spec": { "containers": [{ "name": "c" }, { "name": "d" }] },
        });
        assert_eq!(pod, expected);
    }

    #[test]
    fn where_anything_may_stand_nothing_is_dropped() {
        let definitions = Types::built_in().of_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
        let schema = json!({ "type": "object", "properties": { "a": { "default": { "b": 1 }, "items": { "c": 2 } } } });
        let mut definition = json!({ "spec": { "versions": [{ "schema": { "openAPIV3Schema": schema } }] } });
        assert_eq!(definitions.prune(&mut definition), Vec::<String>::new());
    }
}
