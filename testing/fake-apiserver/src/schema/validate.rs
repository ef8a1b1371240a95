//! Validation: what breaks the schema is refused, in the words of the API server.
//!
//! The order of the complaints about one value is fixed (type, choices, text, number, list, enumeration, fields), and fields
//! come in the order of their names, so that the same mistake always reads the same.

use serde_json::{Map, Value};

use crate::schema::causes::Cause;
use crate::schema::lists::identity;
use crate::schema::node::{Additional, List, Node, Null, Resource, Type};
use crate::schema::numbers;

/// Everything wrong with `object`. What is wrong but was already so in `old` is not counted.
pub(super) fn validate(object: &Value, old: Option<&Value>, root: &Node) -> Vec<Cause> {
    check(object, old, root, "")
}

fn check(value: &Value, old: Option<&Value>, node: &Node, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    causes.extend(wrong_type(value, node, path));
    if !value.is_null() {
        choices(value, old, node, path, &mut causes);
    }
    match value {
        Value::String(text) => check_text(text, node, path, &mut causes),
        Value::Number(number) => causes.extend(numbers::complaints(number, node, path)),
        Value::Array(elements) => check_list(elements, old, node, path, &mut causes),
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
    }
    if !node.rules.enumeration.is_empty() && !node.rules.enumeration.iter().any(|e| same(e, value)) {
        causes.push(Cause::unsupported(named(path), value, &node.rules.enumeration));
    }
    if let Value::Object(fields) = value {
        check_fields(fields, old, node, path, &mut causes);
    }
    if !causes.is_empty() && old == Some(value) {
        causes.clear();
    }
    causes
}

/// Whether a value is the one that an enumeration lists. A client may have written 1.0 for 1; the API server also takes 1.5
/// for it, and never a null, even where the definition lists it.
fn same(listed: &Value, value: &Value) -> bool {
    match (listed, value) {
        (Value::Null, Value::Null) => false,
        (Value::Number(listed), Value::Number(value)) if listed.is_i64() && value.is_f64() => {
            listed.as_f64() == value.as_f64().map(f64::trunc)
        }
        (Value::Number(listed), Value::Number(value)) => listed == value || listed.as_f64() == value.as_f64(),
        _ => listed == value,
    }
}

fn named(path: &str) -> &str {
    if path.is_empty() { "<nil>" } else { path }
}

fn child(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

pub(super) fn broken(path: &str, value: &Value, rule: &str) -> Cause {
    Cause::invalid(named(path), value, &format!("{path} in body {rule}"))
}

/// A complaint about the schema as a whole: the API server puts no field to it.
fn unmet(path: &str, rule: &str) -> Cause {
    Cause::invalid("<nil>", &Value::from(""), &format!("{path:?} {rule}"))
}

/// The type of a value, and the format its Go representation would have, which some messages show.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Number(n) if n.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

/// The rules about types and formats as the API server has them, including that a format of text lets a list pass.
fn wrong_type(value: &Value, node: &Node, path: &str) -> Option<Cause> {
    if node.types.is_empty() && node.rules.format.is_none() {
        return None;
    }
    let (given, go_format) = type_of(value);
    let wanted = || node.types.iter().map(|t| t.name()).collect::<Vec<_>>().join(",");
    let complain = |wanted: &str, given: &str| {
        Cause::of_wrong_type(named(path), given, &format!("{path} in body must be of type {wanted}: {given:?}"))
    };
    if value.is_null() {
        let refused = !node.types.is_empty() && node.null == Null::Unset;
        return refused.then(|| complain(&wanted(), "null"));
    }
    let may_be = |t: Type| node.types.contains(&t);
    let whole = value.as_f64().is_some_and(|n| n.fract() == 0.0);
    let fits = node.types.iter().any(|t| t.name() == given)
        || (given == "number" && whole && may_be(Type::Integer))
        || (given == "integer" && may_be(Type::Number));
    let textual = matches!(value, Value::String(_) | Value::Array(_));
    match node.rules.format {
        Some(format) if !textual && !fits && format.name() != go_format => Some(complain(format.name(), go_format)),
        Some(_) if textual && !may_be(Type::Integer) && !may_be(Type::Number) => None,
        _ if fits => None,
        _ => Some(complain(&wanted(), given)),
    }
}

fn choices(value: &Value, old: Option<&Value>, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let rules = &node.rules;
    let tried = |nodes: &[Node]| nodes.iter().map(|n| check(value, old, n, path)).collect::<Vec<_>>();
    // Of several alternatives that all fail, one stands for all.
    let first = |failures: Vec<Vec<Cause>>| failures.into_iter().next().unwrap_or_default();

    let any = tried(&rules.any_of);
    if !any.is_empty() && any.iter().all(|c| !c.is_empty()) {
        causes.push(unmet(path, "must validate at least one schema (anyOf)"));
        causes.extend(first(any));
    }

    let one = tried(&rules.one_of);
    match one.iter().filter(|c| c.is_empty()).count() {
        1 => {}
        _ if one.is_empty() => {}
        0 => {
            causes.push(unmet(path, "must validate one and only one schema (oneOf). Found none valid"));
            causes.extend(first(one));
        }
        several => {
            let rule = format!("must validate one and only one schema (oneOf). Found {several} valid alternatives");
            causes.push(unmet(path, &rule));
        }
    }

    let all = tried(&rules.all_of);
    let met = all.iter().filter(|c| c.is_empty()).count();
    if met < all.len() {
        causes.extend(all.into_iter().flatten());
        let verdict = if met == 0 { ". None validated" } else { "" };
        causes.push(unmet(path, &format!("must validate all the schemas (allOf){verdict}")));
    }

    if rules.not.as_ref().is_some_and(|not| check(value, old, not, path).is_empty()) {
        causes.push(unmet(path, "must not validate the schema (not)"));
    }
}

fn check_text(text: &str, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let rules = &node.rules;
    let length = text.chars().count() as u64;
    let shown = Value::from(text);
    if let Some(most) = rules.length.most.filter(|most| length > *most) {
        causes.push(Cause::too_long(named(path), most));
    } else if let Some(least) = rules.length.least.filter(|least| length < *least) {
        causes.push(broken(path, &shown, &format!("should be at least {least} chars long")));
    } else if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
        causes.push(broken(path, &shown, &format!("should match '{pattern}'")));
    }
    if let Some(format) = rules.format.filter(|format| !format.admits(text)) {
        let rule = format!("{path} in body must be of type {}: {text:?}", format.name());
        causes.push(Cause::of_wrong_type(named(path), text, &rule));
    }
}

fn check_list(elements: &[Value], old: Option<&Value>, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    if let Some(items) = &node.items {
        for (index, element) in elements.iter().enumerate() {
            let old = counterpart(element, old, &node.list);
            causes.extend(check(element, old, items, &format!("{path}[{index}]")));
        }
    }
    let count = elements.len();
    if let Some(least) = node.rules.items.least.filter(|least| (count as u64) < *least) {
        causes.push(broken(path, &Value::from(count), &format!("should have at least {least} items")));
    }
    if let Some(most) = node.rules.items.most.filter(|most| (count as u64) > *most) {
        causes.push(Cause::too_many(named(path), count, most));
    }
}

/// The element of the old list that this one continues; only lists that are maps can tell.
fn counterpart<'a>(element: &Value, old: Option<&'a Value>, list: &List) -> Option<&'a Value> {
    let (List::Map(keys), Some(fields)) = (list, element.as_object()) else { return None };
    let wanted = identity(fields, keys);
    old?.as_array()?.iter().find(|old| old.as_object().is_some_and(|old| identity(old, keys) == wanted))
}

fn check_fields(fields: &Map<String, Value>, old: Option<&Value>, node: &Node, path: &str, causes: &mut Vec<Cause>) {
    let count = fields.len();
    if let Some(least) = node.rules.properties.least.filter(|least| (count as u64) < *least) {
        causes.push(broken(path, &Value::from(count), &format!("should have at least {least} properties")));
    }
    if let Some(most) = node.rules.properties.most.filter(|most| (count as u64) > *most) {
        causes.push(Cause::too_many(named(path), count, most));
    }
    for (name, field) in fields {
        let schema = match (node.properties.get(name), &node.additional) {
            (Some(schema), _) => schema,
            (None, Additional::Schema(schema)) => schema.as_ref(),
            (None, Additional::None | Additional::Anything) => continue,
            (None, Additional::Nothing) => {
                let rule = format!("{path}.{name} in body is a forbidden property");
                causes.push(Cause::invalid(named(path), &Value::from(name.as_str()), &rule));
                continue;
            }
        };
        causes.extend(check(field, old.and_then(|old| old.get(name)), schema, &child(path, name)));
    }
    for name in node.rules.required.iter().filter(|name| !fields.contains_key(*name)) {
        causes.push(Cause::required(child(path, name), ""));
    }
    if node.resource == Resource::Embedded {
        for name in ["apiVersion", "kind"] {
            match fields.get(name) {
                None => causes.push(Cause::required(child(path, name), "")),
                Some(text) if text == "" => causes.push(Cause::invalid(child(path, name), text, "must not be empty")),
                Some(_) => {}
            }
        }
    }
}
