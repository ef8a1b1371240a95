//! A kind, as data.
//!
//! The verbs are written once, for every kind; what makes a Pod different from a Lease stands here as values, and where values
//! do not do, in its [`Rules`]. A new built-in kind is a few lines in [`crate::kinds`]; a custom resource is the same struct,
//! filled in from its definition.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::schema::Cause;
use crate::selector::FieldPaths;
use crate::types::KindType;
use crate::verbs::{Part, scale};

/// Whether objects of a kind live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One name space for the whole cluster.
    Cluster,
    /// Names are unique within a namespace.
    Namespaced,
}

/// Who keeps `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The kind has none.
    Absent,
    /// It starts at 1 and grows when anything but metadata and status changes.
    FollowsSpec,
    /// It is 1 and stays so, whatever changes.
    Constant,
    /// It follows the spec, and it also grows when an annotation changes: a deployment's controller reads orders there.
    FollowsSpecAndAnnotations,
}

/// What becomes of the dependents of a deleted object when the client does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependents {
    /// They are collected some time after it.
    Collected,
    /// They stay and forget their owner, as in the days before there was a collector.
    Orphaned,
    /// The kind has none: whatever the client says about them means nothing.
    Ignored,
}

/// How the top-level fields of a kind are called in another group that serves the same objects: stored name, shown name.
pub(crate) type Dialect = &'static [(&'static str, &'static str)];

/// What a write to the `status` subresource may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusWrites {
    /// The kind has no such subresource: status is a field like any other.
    NoSubresource,
    /// Only `status`, as for custom resources.
    StatusOnly,
    /// `status`, and also labels, annotations and the like, as for most built-in kinds.
    StatusAndMetadata,
}

/// Whether an update may leave out the resourceVersion and so overwrite whatever is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlindUpdate {
    /// It may.
    Allowed,
    /// It is refused.
    Refused,
}

/// What a PUT to a name that does not exist does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutOfMissing {
    /// It is refused with 404.
    Refused,
    /// It creates the object.
    Creates,
}

/// What the answer to a deletion that took effect at once contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteAnswer {
    /// A `Status` that says who is gone.
    Status,
    /// The last state of the object.
    Object,
}

/// What names look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Lower-case words with dashes and dots, up to 253 characters.
    Subdomain,
    /// A single word without dots, up to 63 characters.
    Label,
}

/// What one kind does differently from all others. Every method has the behaviour of the plain case as its default.
pub(crate) trait Rules: Send + Sync + fmt::Debug {
    /// Why a value cannot be read as an object of this kind, where its type alone does not tell.
    fn undecodable(&self, _object: &Value) -> Option<String> {
        None
    }

    /// Removes what the kind does not know and returns the paths of it. Built-in kinds keep everything: their types are not
    /// known here, and nothing of ours sends them fields that do not exist.
    fn prune(&self, _object: &mut Value) -> Vec<String> {
        Vec::new()
    }

    /// Completes a new object: defaults, and fields that users cannot set.
    fn complete_new(&self, _object: &mut Value, _now: Timestamp) {}

    /// Completes a changed object.
    fn complete_changed(&self, _object: &mut Value, _old: &Value, _now: Timestamp) {}

    /// What is wrong with an object; `old` is the stored one if there is one.
    fn validate(&self, _object: &Value, _old: Option<&Value>) -> Vec<Cause> {
        Vec::new()
    }

    /// What is wrong with an object of which only the status was written.
    fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        self.validate(object, old)
    }

    /// For how many seconds a deleted object stays to wind down, for kinds that have such a period.
    fn grace_period(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Marks an object whose deletion has begun.
    fn mark_deleting(&self, _object: &mut Value) {}

    /// Why an object must not be deleted, if it must not.
    fn undeletable(&self, _object: &Value) -> Option<&'static str> {
        None
    }

    /// Whether anything but finalizers in the metadata keeps a deleted object.
    fn is_held(&self, _object: &Value) -> bool {
        false
    }
}

/// The plain case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain;

impl Rules for Plain {}

/// A kind the server knows, in one of its versions.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// Plural and group; see [`Resource::qualified`].
    pub(crate) qualified: String,
    /// The name under which its objects are stored; two groups that serve the same objects share it.
    pub(crate) stored_as: String,
    /// How its fields are called on the wire, where that differs from how they are stored.
    pub(crate) dialect: Dialect,
    /// Empty for the core group.
    pub(crate) group: String,
    /// Like `v1`.
    pub(crate) version: String,
    /// Like `Machine`.
    pub(crate) kind: String,
    /// Like `MachineList`.
    pub(crate) list_kind: String,
    /// Like `machines`.
    pub(crate) plural: String,
    /// Like `machine`.
    pub(crate) singular: String,
    /// What people type, like `mc`.
    pub(crate) short_names: Vec<String>,
    /// Groups that people ask for together, like `all`.
    pub(crate) categories: Vec<String>,
    /// Cluster or namespace.
    pub(crate) scope: Scope,
    /// Who keeps the generation.
    pub(crate) generation: Generation,
    /// What the status subresource may write.
    pub(crate) status: StatusWrites,
    /// Whether the resourceVersion may be left out of an update.
    pub(crate) blind_update: BlindUpdate,
    /// What a PUT to a missing name does.
    pub(crate) put_of_missing: PutOfMissing,
    /// What a deletion answers.
    pub(crate) delete_answer: DeleteAnswer,
    /// What names look like.
    pub(crate) names: NameRule,
    /// Field selectors it understands.
    pub(crate) fields: FieldPaths,
    /// What becomes of its dependents when it is deleted.
    pub(crate) dependents: Dependents,
    /// Its subresources apart from status and scale.
    pub(crate) subresources: Vec<Part>,
    /// Where its `scale` subresource finds the numbers, if it has one.
    pub(crate) scale: Option<scale::Paths>,
    /// Whether a value can be read as an object of this kind, as far as its type is known here; if not, why.
    pub(crate) readable: fn(&Value) -> Result<(), String>,
    /// What it does differently.
    pub(crate) rules: Arc<dyn Rules>,
    /// Whether it came from a definition in the cluster.
    pub(crate) custom: bool,
    /// The type of a built-in kind, which strategic patches and strict clients go by.
    pub(crate) kind_type: Option<KindType>,
    /// The version in the definition of a custom kind: its schema, its columns, as they were written.
    pub(crate) defined_by: Option<Arc<Value>>,
}

impl Resource {
    /// A built-in, namespaced kind with plain behaviour, to be refined by the methods below.
    pub(crate) fn built_in(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self {
            qualified: qualify(plural, group),
            stored_as: qualify(plural, group),
            dialect: &[],
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope: Scope::Namespaced,
            generation: Generation::Absent,
            status: StatusWrites::NoSubresource,
            blind_update: BlindUpdate::Allowed,
            put_of_missing: PutOfMissing::Refused,
            delete_answer: DeleteAnswer::Status,
            names: NameRule::Subdomain,
            fields: FieldPaths::of_built_in(group, plural),
            dependents: Dependents::Collected,
            subresources: Vec::new(),
            scale: None,
            readable: |_| Ok(()),
            rules: Arc::new(Plain),
            custom: false,
            kind_type: None,
            defined_by: None,
        }
    }

    /// The same for the whole cluster.
    #[must_use]
    pub(crate) fn cluster(mut self) -> Self {
        self.scope = Scope::Cluster;
        self
    }

    /// With short names.
    #[must_use]
    pub(crate) fn short(mut self, names: &[&str]) -> Self {
        self.short_names = names.iter().map(|&n| n.to_owned()).collect();
        self
    }

    /// With a status subresource that also takes metadata.
    #[must_use]
    pub(crate) fn with_status(mut self) -> Self {
        self.status = StatusWrites::StatusAndMetadata;
        self
    }

    /// Among those that people ask for with `all`.
    #[must_use]
    pub(crate) fn in_all(mut self) -> Self {
        self.categories = vec!["all".to_owned()];
        self
    }

    /// With replicas that can be scaled.
    #[must_use]
    pub(crate) fn with_scale(mut self) -> Self {
        self.scale = Some(scale::Paths::of_built_in());
        self
    }

    /// Whose deletion answers with the last state of the object.
    #[must_use]
    pub(crate) fn shown_when_deleted(mut self) -> Self {
        self.delete_answer = DeleteAnswer::Object;
        self
    }

    /// Whose updates have to name the version they change.
    #[must_use]
    pub(crate) fn never_blindly(mut self) -> Self {
        self.blind_update = BlindUpdate::Refused;
        self
    }

    /// With a generation.
    #[must_use]
    pub(crate) fn with_generation(mut self) -> Self {
        self.generation = Generation::FollowsSpec;
        self
    }

    /// With a type that its objects have to fit.
    #[must_use]
    pub(crate) fn typed<T: DeserializeOwned>(mut self) -> Self {
        self.readable = |object| T::deserialize(object).map(drop).map_err(|error| format!("json: {error}"));
        self
    }

    /// With rules of its own.
    #[must_use]
    pub(crate) fn ruled_by(mut self, rules: impl Rules + 'static) -> Self {
        self.rules = Arc::new(rules);
        self
    }

    /// The name without the version under which its objects are named in messages: `machines.machine.sapcloud.io`.
    pub(crate) fn qualified(&self) -> &str {
        &self.qualified
    }

    /// The name under which its objects are stored.
    pub(crate) fn stored_as(&self) -> &str {
        &self.stored_as
    }

    /// How a stored field is called on the wire.
    pub(crate) fn shown<'a>(&self, field: &'a str) -> &'a str {
        self.dialect.iter().find(|(stored, _)| *stored == field).map_or(field, |(_, shown)| *shown)
    }

    /// Brings an object from the wire into the form in which it is stored.
    pub(crate) fn to_stored(&self, object: &mut Value) {
        let Some(object) = object.as_object_mut() else { return };
        for (stored, shown) in self.dialect {
            if let Some(value) = object.remove(*shown) {
                object.insert((*stored).to_owned(), value);
            }
        }
    }

    /// Brings a stored object into the form in which it goes over the wire.
    pub(crate) fn to_shown(&self, object: &mut Value) {
        let Some(object) = object.as_object_mut() else { return };
        object.insert("apiVersion".to_owned(), Value::from(self.api_version()));
        for (stored, shown) in self.dialect {
            if let Some(value) = object.remove(*stored) {
                object.insert((*shown).to_owned(), value);
            }
        }
    }

    /// The kind with its group: `Machine.machine.sapcloud.io`.
    pub(crate) fn qualified_kind(&self) -> String {
        qualify(&self.kind, &self.group)
    }

    /// Group and version as they stand in objects: `v1`, `machine.sapcloud.io/v1alpha1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether objects live in namespaces.
    pub(crate) fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }
}

/// A name with its group, as people write it.
pub(crate) fn qualify(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}
