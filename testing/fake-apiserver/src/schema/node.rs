//! A compiled schema: a tree of nodes, each for one place in an object.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::schema::formats::Format;
use crate::schema::pattern::Pattern;

/// What may stand in one place.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// The types allowed; all of them if there are none. Two for int-or-string.
    pub(super) types: Vec<Type>,
    pub(super) null: Null,
    pub(super) unknown: Unknown,
    pub(super) resource: Resource,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Node>>,
    pub(super) list: List,
    pub(super) default: Option<Value>,
    pub(super) rules: Rules,
}

impl Node {
    /// The schema for a field of an object, if the schema speaks of it.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Additional::Schema(schema) => Some(schema),
            Additional::None | Additional::Anything | Additional::Nothing => None,
        })
    }
}

/// The types of JSON, as OpenAPI tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(super) const ALL: [Self; 6] =
        [Self::Object, Self::Array, Self::String, Self::Integer, Self::Number, Self::Boolean];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }
}

/// What a null means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Null {
    /// That the field is not set.
    #[default]
    Unset,
    /// A value of its own.
    Value,
}

/// What becomes of fields the schema does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Unknown {
    #[default]
    Pruned,
    Preserved,
}

/// Whether the value is a Kubernetes object of its own, with type and metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Resource {
    #[default]
    No,
    Embedded,
}

/// The fields beside the named ones.
#[derive(Clone, Debug, Default)]
pub(super) enum Additional {
    /// Not spoken of: they are pruned.
    #[default]
    None,
    Anything,
    /// Refused, not pruned.
    Nothing,
    Schema(Box<Node>),
}

/// What makes two elements of a list the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum List {
    /// Nothing: the list is one value.
    #[default]
    Atomic,
    /// Being equal.
    Set,
    /// Being equal in these fields.
    Map(Vec<String>),
}

/// Rules about a value beyond its shape.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub(super) format: Option<Format>,
    pub(super) enumeration: Vec<Value>,
    pub(super) pattern: Option<Pattern>,
    pub(super) length: Span,
    pub(super) items: Span,
    pub(super) properties: Span,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) required: Vec<String>,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
}

/// How many there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) least: Option<u64>,
    pub(super) most: Option<u64>,
}

/// A limit of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    pub(super) limit: f64,
    pub(super) itself: Itself,
}

/// Whether a limit is still within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Itself {
    Allowed,
    Excluded,
}
