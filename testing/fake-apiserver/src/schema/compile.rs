//! Compiling: a definition's schema is read once and refused as a whole if anything in it is wrong.
//!
//! The schema must be *structural*: what an object looks like is said in one place (types, fields, items), and the logical
//! junctors (`allOf`, `anyOf`, `oneOf`, `not`) only add rules about values. Otherwise nobody could say what to prune.

use serde_json::{Map, Value, json};

use crate::schema::causes::Cause;
use crate::schema::complete;
use crate::schema::formats::{Format, Known};
use crate::schema::node::{Additional, Bound, Itself, List, Node, Null, Resource, Rules, Span, Type, Unknown};
use crate::schema::pattern::Pattern;
use crate::schema::prune;
use crate::schema::validate::validate;

/// The compiled schema, or everything that is wrong with the definition. `path` is where it stands.
pub(super) fn compile(definition: &Value, path: &str) -> Result<Node, Vec<Cause>> {
    let mut compiler = Compiler { causes: Vec::new() };
    let root = compiler.node(definition, path, Place::Root);
    compiler.causes.extend(complete::gaps(&root, path));
    if compiler.causes.is_empty() {
        Ok(root)
    } else {
        compiler.causes.sort_by(|a, b| (&a.field, &a.message).cmp(&(&b.field, &b.message)));
        Err(compiler.causes)
    }
}

/// Where in a schema a node stands; what it may and must say depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Field,
    Item,
    /// Below a junctor.
    Nested,
    /// Below the one junctor that may name types: the integer or string of int-or-string.
    Choice,
}

impl Place {
    fn is_nested(self) -> bool {
        matches!(self, Self::Nested | Self::Choice)
    }
}

/// What OpenAPI offers and the API server does not take, with its words.
const REFUSED: [(&str, &str); 6] = [
    ("$ref", "$ref is not supported"),
    ("id", "id is not supported"),
    ("definitions", "definitions is not supported"),
    ("dependencies", "dependencies is not supported"),
    ("patternProperties", "patternProperties is not supported"),
    ("additionalItems", "additionalItems is not supported"),
];

/// What describes the shape of an object and so must not stand below a junctor.
const STRUCTURAL: [(&str, &str); 9] = [
    ("default", "must be undefined to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
];

struct Compiler {
    causes: Vec<Cause>,
}

impl Compiler {
    fn node(&mut self, definition: &Value, path: &str, place: Place) -> Node {
        let Some(keywords) = definition.as_object() else {
            self.causes.push(Cause::invalid(path, definition, "must be a schema object"));
            return Node::default();
        };
        let words = Keywords { keywords, path };
        self.refuse_unsupported(&words, place);
        let int_or_string = words.flag("x-kubernetes-int-or-string");
        let mut node = Node {
            null: if words.flag("nullable") { Null::Value } else { Null::Unset },
            unknown: if words.flag("x-kubernetes-preserve-unknown-fields") {
                Unknown::Preserved
            } else {
                Unknown::Pruned
            },
            resource: if words.flag("x-kubernetes-embedded-resource") { Resource::Embedded } else { Resource::No },
            default: words.get("default").filter(|v| !v.is_null()).cloned(),
            ..Node::default()
        };
        node.types = self.types(&words, place, int_or_string, node.unknown);
        self.fields(&words, place, &mut node);
        self.items(&words, place, &mut node);
        node.list = self.list(&words, &node);
        node.rules = self.rules(&words, &node.types);
        self.check_resource(&words, place, &node);
        if !place.is_nested() {
            self.check_default(path, &node);
        }
        node
    }

    fn refuse_unsupported(&mut self, words: &Keywords<'_>, place: Place) {
        for (keyword, why) in REFUSED {
            if words.get(keyword).is_some() {
                self.causes.push(Cause::forbidden(words.at(keyword), why));
            }
        }
        if words.flag("uniqueItems") {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.causes.push(Cause::forbidden(words.at("uniqueItems"), why));
        }
        let said =
            |v: &Value| !matches!(v, Value::Null | Value::Bool(false)) && v.as_array().is_none_or(|a| !a.is_empty());
        if words.get("x-kubernetes-validations").is_some_and(said) {
            let why = "validation rules in CEL are not supported by this server";
            self.causes.push(Cause::forbidden(words.at("x-kubernetes-validations"), why));
        }
        if place.is_nested() {
            for (keyword, why) in STRUCTURAL {
                if words.get(keyword).is_some_and(said) {
                    self.causes.push(Cause::forbidden(words.at(keyword), why));
                }
            }
            if words.get("properties").and_then(|p| p.get("metadata")).is_some() {
                let why = "must not be specified in a nested context";
                self.causes.push(Cause::forbidden(words.at("properties[metadata]"), why));
            }
        }
    }

    fn types(&mut self, words: &Keywords<'_>, place: Place, int_or_string: bool, unknown: Unknown) -> Vec<Type> {
        let at = words.at("type");
        match words.get("type") {
            Some(name) => {
                let Some(kind) = name.as_str().and_then(Type::named) else {
                    let mut supported = Type::ALL.map(Type::name);
                    supported.sort_unstable();
                    self.causes.push(Cause::unsupported(at.as_str(), name, &supported.map(Value::from)));
                    if name == "null" {
                        let why = "type cannot be set to null, use nullable as an alternative";
                        self.causes.push(Cause::forbidden(at, why));
                    }
                    return Vec::new();
                };
                if place == Place::Nested {
                    self.causes.push(Cause::forbidden(at, "must be empty to be structural"));
                } else if place == Place::Root && kind != Type::Object {
                    self.causes.push(Cause::invalid(at, name, "must be object at the root"));
                }
                if int_or_string { vec![Type::Integer, Type::String] } else { vec![kind] }
            }
            None if int_or_string => vec![Type::Integer, Type::String],
            None if unknown == Unknown::Preserved => Vec::new(),
            None => {
                let why = match place {
                    Place::Root => "must not be empty at the root",
                    Place::Field => "must not be empty for specified object fields",
                    Place::Item => "must not be empty for specified array items",
                    Place::Nested | Place::Choice => return Vec::new(),
                };
                self.causes.push(Cause::required(at, why));
                Vec::new()
            }
        }
    }

    fn fields(&mut self, words: &Keywords<'_>, place: Place, node: &mut Node) {
        let inner = if place.is_nested() { Place::Nested } else { Place::Field };
        match words.get("properties") {
            None => {}
            Some(Value::Object(properties)) => {
                for (name, schema) in properties {
                    let compiled = self.node(schema, &words.at(&format!("properties[{name}]")), inner);
                    node.properties.insert(name.clone(), compiled);
                }
            }
            Some(other) => self.causes.push(Cause::invalid(words.at("properties"), other, "must be an object")),
        }
        let at = words.at("additionalProperties");
        node.additional = match words.get("additionalProperties") {
            None => Additional::None,
            Some(Value::Bool(true)) => Additional::Anything,
            Some(Value::Bool(false)) => Additional::Nothing,
            Some(schema) => Additional::Schema(Box::new(self.node(schema, &at, inner))),
        };
        if matches!(node.additional, Additional::None) {
            return;
        }
        if place == Place::Root {
            self.causes.push(Cause::forbidden(at.as_str(), "must not be used at the root"));
        }
        if !node.properties.is_empty() && !matches!(node.additional, Additional::Anything) {
            self.causes.push(Cause::forbidden(at, "additionalProperties and properties are mutual exclusive"));
        }
    }

    fn items(&mut self, words: &Keywords<'_>, place: Place, node: &mut Node) {
        let inner = if place.is_nested() { Place::Nested } else { Place::Item };
        let at = words.at("items");
        match words.get("items") {
            None if node.types == [Type::Array] => self.causes.push(Cause::required(at, "must be specified")),
            None => {}
            Some(Value::Array(_)) => {
                self.causes.push(Cause::forbidden(at, "items must be a schema object and not an array"));
            }
            Some(schema) => node.items = Some(Box::new(self.node(schema, &at, inner))),
        }
    }

    fn list(&mut self, words: &Keywords<'_>, node: &Node) -> List {
        let keys = words.texts("x-kubernetes-list-map-keys");
        let at = words.at("x-kubernetes-list-type");
        let list = match words.get("x-kubernetes-list-type").map(|v| (v, v.as_str())) {
            None | Some((_, Some("atomic"))) => List::Atomic,
            Some((_, Some("set"))) => List::Set,
            Some((_, Some("map"))) => {
                if keys.is_empty() {
                    let why = "must not be empty if x-kubernetes-list-type is map";
                    self.causes.push(Cause::required(words.at("x-kubernetes-list-map-keys"), why));
                }
                List::Map(keys.clone())
            }
            Some((other, _)) => {
                let supported = ["atomic", "set", "map"].map(Value::from);
                self.causes.push(Cause::unsupported(at.as_str(), other, &supported));
                List::Atomic
            }
        };
        if words.get("x-kubernetes-list-type").is_some() && node.types != [Type::Array] {
            let why = "must be array if x-kubernetes-list-type is specified";
            self.causes.push(match node.types.first() {
                Some(given) => Cause::invalid(words.at("type"), &Value::from(given.name()), why),
                None => Cause::required(words.at("type"), why),
            });
        }
        if !keys.is_empty() && !matches!(list, List::Map(_)) {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            self.causes.push(Cause::invalid(at, words.get("x-kubernetes-list-type").unwrap_or(&Value::Null), why));
        }
        self.check_elements(words, node, &list);
        if let Some(map) =
            words.get("x-kubernetes-map-type").filter(|v| !matches!(v.as_str(), Some("atomic" | "granular")))
        {
            let supported = ["atomic", "granular"].map(Value::from);
            self.causes.push(Cause::unsupported(words.at("x-kubernetes-map-type"), map, &supported));
        }
        list
    }

    /// What tells elements apart must be comparable, and be there.
    fn check_elements(&mut self, words: &Keywords<'_>, node: &Node, list: &List) {
        let Some(items) = &node.items else { return };
        match list {
            List::Atomic => {}
            List::Set => {
                let marker = match items.types.as_slice() {
                    [Type::Object] => "x-kubernetes-map-type",
                    [Type::Array] => "x-kubernetes-list-type",
                    _ => return,
                };
                let given = words.get("items").and_then(|items| items.get(marker)).unwrap_or(&Value::Null);
                if given != "atomic" {
                    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
                    self.causes.push(Cause::invalid(words.at(&format!("items.{marker}")), given, why));
                }
            }
            List::Map(keys) => {
                for (key, schema) in keys.iter().filter_map(|key| Some((key, items.properties.get(key)?))) {
                    let at = |keyword: &str| words.at(&format!("items.properties[{key}].{keyword}"));
                    if let Some(compound) = schema.types.iter().find(|t| matches!(t, Type::Object | Type::Array)) {
                        let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                        self.causes.push(Cause::invalid(at("type"), &Value::from(compound.name()), why));
                    }
                    if schema.default.is_none() && !items.rules.required.contains(key) {
                        let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                                   required property";
                        self.causes.push(Cause::required(at("default"), why));
                    }
                }
            }
        }
    }

    fn rules(&mut self, words: &Keywords<'_>, types: &[Type]) -> Rules {
        let mut span =
            |least: &str, most: &str| Span { least: self.count(words, least), most: self.count(words, most) };
        let (length, items) = (span("minLength", "maxLength"), span("minItems", "maxItems"));
        let properties = span("minProperties", "maxProperties");
        let int_or_string = is_int_or_string(words.get("anyOf"));
        Rules {
            format: self.format(words, types),
            enumeration: words.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            pattern: self.pattern(words),
            length,
            items,
            properties,
            minimum: self.bound(words, "minimum", "exclusiveMinimum"),
            maximum: self.bound(words, "maximum", "exclusiveMaximum"),
            multiple_of: self.number(words, "multipleOf"),
            required: words.texts("required"),
            all_of: self.junctor(words, "allOf", Place::Nested),
            any_of: self.junctor(words, "anyOf", if int_or_string { Place::Choice } else { Place::Nested }),
            one_of: self.junctor(words, "oneOf", Place::Nested),
            not: words.get("not").map(|not| Box::new(self.node(not, &words.at("not"), Place::Nested))),
        }
    }

    fn junctor(&mut self, words: &Keywords<'_>, keyword: &str, place: Place) -> Vec<Node> {
        match words.get(keyword) {
            None => Vec::new(),
            Some(Value::Array(schemas)) => {
                let at = |index| words.at(&format!("{keyword}[{index}]"));
                schemas.iter().enumerate().map(|(index, schema)| self.node(schema, &at(index), place)).collect()
            }
            Some(other) => {
                self.causes.push(Cause::invalid(words.at(keyword), other, "must be an array"));
                Vec::new()
            }
        }
    }

    fn format(&mut self, words: &Keywords<'_>, types: &[Type]) -> Option<Format> {
        let name = words.get("format")?;
        let known = match (name.as_str(), types) {
            (Some(text), [] | [Type::String]) => Format::of_text(text),
            (Some(text), [Type::Integer]) => Format::of_integer(text),
            (Some(text), [Type::Number]) => Format::of_number(text),
            _ => Known::Ignored,
        };
        match known {
            Known::Checked(format) => Some(format),
            Known::Ignored => None,
            Known::Unsupported => {
                let why = "this format is not supported by this server";
                self.causes.push(Cause::invalid(words.at("format"), name, why));
                None
            }
        }
    }

    fn pattern(&mut self, words: &Keywords<'_>) -> Option<Pattern> {
        let given = words.get("pattern")?;
        match Pattern::compile(given.as_str().unwrap_or_default()) {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                let why = format!("must be a valid regular expression, but isn't: {error}");
                self.causes.push(Cause::invalid(words.at("pattern"), given, &why));
                None
            }
        }
    }

    fn bound(&mut self, words: &Keywords<'_>, keyword: &str, exclusive: &str) -> Option<Bound> {
        let itself = if words.flag(exclusive) { Itself::Excluded } else { Itself::Allowed };
        self.number(words, keyword).map(|limit| Bound { limit, itself })
    }

    fn number(&mut self, words: &Keywords<'_>, keyword: &str) -> Option<f64> {
        let given = words.get(keyword)?;
        let number = given.as_f64();
        if number.is_none() {
            self.causes.push(Cause::invalid(words.at(keyword), given, "must be a number"));
        }
        number
    }

    fn count(&mut self, words: &Keywords<'_>, keyword: &str) -> Option<u64> {
        let given = words.get(keyword)?;
        let count = given.as_u64();
        if count.is_none() {
            self.causes.push(Cause::invalid(words.at(keyword), given, "must be a non-negative integer"));
        }
        count
    }

    /// Objects within objects, the root among them, and what int-or-string excludes.
    fn check_resource(&mut self, words: &Keywords<'_>, place: Place, node: &Node) {
        if words.flag("x-kubernetes-int-or-string") {
            for keyword in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
                if words.flag(keyword) {
                    let why = "must be false if x-kubernetes-int-or-string is true";
                    self.causes.push(Cause::invalid(words.at(keyword), &Value::Bool(true), why));
                }
            }
        }
        let embedded = node.resource == Resource::Embedded;
        if embedded && node.types != [Type::Object] {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            self.causes.push(Cause::required(words.at("type"), why));
        }
        if embedded && node.unknown == Unknown::Pruned && node.properties.is_empty() {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                       x-kubernetes-preserve-unknown-fields";
            self.causes.push(Cause::required(words.at("properties"), why));
        }
        if place != Place::Root && !embedded {
            return;
        }
        for (name, wanted) in [("kind", Type::String), ("apiVersion", Type::String), ("metadata", Type::Object)] {
            if node.properties.get(name).is_some_and(|p| p.types != [wanted]) {
                let given = words.get("properties").and_then(|p| p.get(name)).and_then(|p| p.get("type"));
                let why = format!("must be {}", wanted.name());
                let at = words.at(&format!("properties[{name}].type"));
                self.causes.push(Cause::invalid(at, given.unwrap_or(&Value::from("")), &why));
            }
        }
        let named = |name: &String| matches!(name.as_str(), "name" | "generateName");
        if place == Place::Root && node.properties.get("metadata").is_some_and(|m| !m.properties.keys().all(named)) {
            let why =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.causes.push(Cause::forbidden(words.at("properties[metadata]"), why));
        }
    }

    /// A default that breaks its own schema would make every object that relies on it invalid.
    fn check_default(&mut self, path: &str, node: &Node) {
        let Some(default) = &node.default else { return };
        let within =
            |field: &str| if field == "<nil>" { format!("{path}.default") } else { format!("{path}.default.{field}") };
        let mut pruned = default.clone();
        if !prune::prune_part(&mut pruned, node).is_empty() {
            self.causes.push(Cause::invalid(within("<nil>"), default, "must not have unknown fields"));
        }
        let causes = validate(default, None, node);
        self.causes.extend(causes.into_iter().map(|c| Cause { field: within(&c.field), ..c }));
    }
}

/// The keywords of one schema object and where it stands.
struct Keywords<'a> {
    keywords: &'a Map<String, Value>,
    path: &'a str,
}

impl<'a> Keywords<'a> {
    fn get(&self, keyword: &str) -> Option<&'a Value> {
        self.keywords.get(keyword)
    }

    fn flag(&self, keyword: &str) -> bool {
        self.get(keyword) == Some(&Value::Bool(true))
    }

    fn texts(&self, keyword: &str) -> Vec<String> {
        let values = self.get(keyword).and_then(Value::as_array);
        values.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn at(&self, keyword: &str) -> String {
        format!("{}.{keyword}", self.path)
    }
}

fn is_int_or_string(any_of: Option<&Value>) -> bool {
    any_of == Some(&json!([{ "type": "integer" }, { "type": "string" }]))
}
