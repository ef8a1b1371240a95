//! The types of the built-in kinds: which fields they have, what these hold, and how their lists are merged.
//!
//! Three parts of the server need to know: a strategic merge patch finds the element it means by the list's merge key, a client
//! that is strict about fields wants to hear of those nobody knows, and kubectl reads all of it as OpenAPI. So it is data, in
//! `built_in.txt`, written by `cargo xtask types` from what the real API server says of itself. A custom kind brings a schema of
//! its own instead, see [`crate::schema`].

mod prune;
mod read;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

/// Every type of the built-in kinds.
#[derive(Debug, Default)]
pub(crate) struct Types {
    named: BTreeMap<String, Shape>,
    kinds: BTreeMap<String, String>,
}

/// What stands in one place of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Any JSON.
    Anything,
    /// An object of which nothing is known.
    Object,
    /// A number, or a text that reads like one.
    IntOrString,
    /// Text, a number or a truth value, like `integer` with the format `int32`.
    Scalar { of: String, format: Option<String> },
    /// A list.
    List(Box<Shape>),
    /// Values by names that are up to the user.
    Map(Box<Shape>),
    /// A type that is described elsewhere.
    Named(String),
    /// An object with these fields and no others.
    Fields(BTreeMap<String, Field>),
}

/// A field of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// What it holds.
    pub(crate) shape: Shape,
    /// Whether it may be left out.
    pub(crate) need: Need,
    /// What it may say, if that is a fixed set.
    pub(crate) one_of: Vec<String>,
    /// How appliers see a list: `atomic`, `set` or `map`, the last with the keys that tell its elements apart.
    pub(crate) list: Option<(String, Vec<String>)>,
    /// How appliers see a map, where they must not look into it.
    pub(crate) map: Option<String>,
    /// How a strategic patch of this field is taken.
    pub(crate) strategy: Strategy,
    /// Its number in protobuf, or several where Go puts a struct into another and JSON does not show it.
    pub(crate) wire: Vec<u32>,
    /// The field by which a strategic patch finds an element of this list.
    pub(crate) merge_key: Option<String>,
}

/// Whether a field may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It may.
    Optional,
    /// It may not.
    Required,
}

/// How a strategic patch of a field is taken where the patch itself does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strategy(String);

impl Strategy {
    /// As people write it in struct tags.
    pub(crate) fn text(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|text| !text.is_empty())
    }

    /// Lists are merged element by element instead of replaced.
    pub(crate) fn merges_lists(&self) -> bool {
        self.has("merge")
    }

    /// Maps are replaced instead of merged.
    pub(crate) fn replaces_maps(&self) -> bool {
        self.has("replace")
    }

    fn has(&self, word: &str) -> bool {
        self.0.split(',').any(|known| known == word)
    }
}

impl Types {
    /// The types of the kinds that Kubernetes has built in.
    pub(crate) fn built_in() -> Arc<Self> {
        // Read once: whoever simulates has a server for each run.
        static BUILT_IN: LazyLock<Arc<Types>> = LazyLock::new(|| Arc::new(read::types(include_str!("built_in.txt"))));
        BUILT_IN.clone()
    }

    /// The type of a kind, if it is known.
    pub(crate) fn of_kind(self: &Arc<Self>, group: &str, version: &str, kind: &str) -> Option<KindType> {
        let name = self.kinds.get(&format!("{group}/{version}/{kind}"))?.clone();
        Some(KindType { types: self.clone(), name })
    }

    /// Every type by its name.
    pub(crate) fn named(&self, name: &str) -> Option<&Shape> {
        self.named.get(name)
    }

    fn resolve<'a>(&'a self, shape: &'a Shape) -> Option<&'a Shape> {
        match shape {
            Shape::Named(name) => self.named.get(name),
            other => Some(other),
        }
    }
}

/// The type of one kind, and with it that of all that is inside.
#[derive(Clone, Debug)]
pub(crate) struct KindType {
    types: Arc<Types>,
    name: String,
}

impl KindType {
    /// Its full name, as it stands in OpenAPI.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Removes the fields nobody knows and returns their paths.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.types, &self.name, object)
    }

    /// The place of a whole object.
    pub(crate) fn root(&self) -> Place<'_> {
        Place { types: &self.types, shape: self.types.named.get(&self.name) }
    }
}

/// A place in an object, with what is known of its type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    types: &'a Types,
    shape: Option<&'a Shape>,
}

impl<'a> Place<'a> {
    /// A field of the object here, as far as it is known, and the place it is.
    pub(crate) fn field(self, name: &str) -> (Option<&'a Field>, Self) {
        let at = |shape| Self { types: self.types, shape };
        match self.shape {
            Some(Shape::Fields(fields)) => {
                let field = fields.get(name);
                (field, at(field.and_then(|field| self.types.resolve(&field.shape))))
            }
            Some(Shape::Map(values)) => (None, at(self.types.resolve(values))),
            _ => (None, at(None)),
        }
    }

    /// Whether nothing may stand here under a name, because the type has no such field.
    pub(crate) fn lacks(self, name: &str) -> bool {
        matches!(self.shape, Some(Shape::Fields(fields)) if !fields.contains_key(name))
    }

    /// The elements of the list here.
    pub(crate) fn elements(self) -> Self {
        let shape = match self.shape {
            Some(Shape::List(of)) => self.types.resolve(of),
            _ => None,
        };
        Self { types: self.types, shape }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(shape: &Shape) -> Vec<&str> {
        match shape {
            Shape::Named(name) => vec![name],
            Shape::List(of) | Shape::Map(of) => references(of),
            Shape::Fields(fields) => fields.values().flat_map(|field| references(&field.shape)).collect(),
            Shape::Anything | Shape::Object | Shape::IntOrString | Shape::Scalar { .. } => Vec::new(),
        }
    }

    #[test]
    fn every_type_that_is_mentioned_is_described() {
        let types = Types::built_in();
        assert!(types.named.len() > 200, "{}", types.named.len());
        for (name, shape) in &types.named {
            for mentioned in references(shape) {
                assert!(types.named.contains_key(mentioned), "{name} mentions {mentioned}");
            }
        }
    }

    #[test]
    fn lists_are_merged_by_the_keys_of_the_reference() {
        let types = Types::built_in();
        let key = |group: &str, version: &str, kind: &str, path: &[&str]| {
            let kind = types.of_kind(group, version, kind).unwrap();
            let (mut place, mut found) = (kind.root(), None);
            for name in path {
                (found, place) = if *name == "[]" { (found, place.elements()) } else { place.field(name) };
            }
            let field: &Field = found.unwrap();
            field.strategy.merges_lists().then(|| field.merge_key.clone().unwrap_or_default())
        };
        assert_eq!(key("", "v1", "Node", &["spec", "taints"]), None);
        assert_eq!(key("", "v1", "Node", &["status", "conditions"]).as_deref(), Some("type"));
        assert_eq!(key("", "v1", "Pod", &["spec", "containers"]).as_deref(), Some("name"));
        assert_eq!(key("", "v1", "Pod", &["spec", "containers", "[]", "ports"]).as_deref(), Some("containerPort"));
        assert_eq!(key("", "v1", "Pod", &["spec", "tolerations"]), None);
        assert_eq!(key("", "v1", "Secret", &["metadata", "finalizers"]).as_deref(), Some(""));
        assert_eq!(key("apps", "v1", "Deployment", &["spec", "template", "spec", "volumes"]).as_deref(), Some("name"));
    }
}
