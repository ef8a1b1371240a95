//! What the server does. Each verb is a function from the state and a call to an answer; none of them waits.

pub(crate) mod binding;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod eviction;
pub(crate) mod read;
pub(crate) mod scale;
pub(crate) mod update;

use std::sync::Arc;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;

use crate::failure::Failure;
use crate::meta;
use crate::query::Query;
use crate::resource::{Resource, StatusWrites};
use crate::selector::{Fields, Labels};
use crate::state::Effect;
use crate::store::Key;

/// A request that is known to be about objects of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The kind.
    pub(crate) resource: Arc<Resource>,
    /// The namespace, if the path has one.
    pub(crate) namespace: Option<String>,
    /// The object, if the path names one.
    pub(crate) name: Option<String>,
    /// The part of the object.
    pub(crate) part: Part,
    /// The parameters.
    pub(crate) query: Query,
    /// When it arrived.
    pub(crate) now: Timestamp,
}

/// The part of an object that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The object itself.
    Whole,
    /// Its status.
    Status,
    /// The finalizers in a namespace's spec.
    Finalize,
    /// How many replicas it has, in the form that all scalable kinds share.
    Scale,
    /// The node of a pod.
    Binding,
    /// The polite deletion of a pod.
    Eviction,
}

impl Part {
    /// The part behind a subresource in a path, if the kind has it.
    pub(crate) fn of(resource: &Resource, subresource: Option<&str>) -> Option<Self> {
        match subresource {
            None => Some(Self::Whole),
            Some("status") if resource.status != StatusWrites::NoSubresource => Some(Self::Status),
            Some("scale") => resource.scale.as_ref().map(|_| Self::Scale),
            Some(name) => resource.subresources.iter().copied().find(|part| part.path() == name),
        }
    }

    /// The word in a path; empty for the object itself.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Whole => "",
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::Scale => "scale",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
        }
    }
}

/// One object, and with which code it is answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// 200, or 201 for a new object.
    pub(crate) code: StatusCode,
    /// The object, or a `Status`.
    pub(crate) object: Arc<Value>,
    /// What the client should know although it got what it asked for.
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    fn new(code: StatusCode, object: Arc<Value>) -> Self {
        Self { code, object, warnings: Vec::new() }
    }

    fn ok(object: Arc<Value>) -> Self {
        Self::new(StatusCode::OK, object)
    }

    fn warning(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

/// Which objects a list, watch or deletion of a collection is about.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// One namespace, or all.
    pub(crate) namespace: Option<String>,
    /// By labels.
    pub(crate) labels: Labels,
    /// By fields.
    pub(crate) fields: Fields,
}

impl Selection {
    /// The selection of a call.
    pub(crate) fn of(call: &Call) -> Result<Self, Failure> {
        let bad = |error: &dyn std::fmt::Display| Failure::bad_request(error.to_string());
        let labels = Labels::parse(call.query.text("labelSelector").unwrap_or_default()).map_err(|e| bad(&e))?;
        let fields = call.query.text("fieldSelector").unwrap_or_default();
        let fields = Fields::parse(fields, &call.resource.fields).map_err(|e| bad(&e))?;
        Ok(Self { namespace: call.namespace.clone(), labels, fields })
    }

    /// Whether an object of the right namespace belongs to it.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    /// Whether an object of this key could belong to it.
    pub(crate) fn covers(&self, key: &Key) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *key.namespace == **namespace)
    }

    /// Whether it leaves nothing out.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }
}

impl Call {
    /// The key of the object in the path; only for paths that name one.
    pub(crate) fn key(&self) -> Key {
        Key::new(self.namespace.as_deref().unwrap_or_default(), self.name.as_deref().unwrap_or_default())
    }

    /// Drops the fields nobody knows from an object. What is said about them is a warning, or for a strict client the reason
    /// to refuse.
    fn prune(&self, object: &mut Value) -> Result<Vec<String>, String> {
        let mut unknown = meta::drop_unknown(object);
        unknown.extend(match &self.resource.kind_type {
            Some(kind_type) => kind_type.prune(object),
            None => self.resource.rules.prune(object),
        });
        let sentences: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
        match self.query.text("fieldValidation") {
            Some("Strict") if !sentences.is_empty() => Err(format!("strict decoding error: {}", sentences.join(", "))),
            Some("Ignore") => Ok(Vec::new()),
            _ => Ok(sentences),
        }
    }

    /// Whether all values of an object can be read; if not, why.
    fn check_readable(&self, object: &Value) -> Result<(), String> {
        (self.resource.readable)(object)?;
        self.resource.rules.undecodable(object).map_or(Ok(()), Err)
    }

    /// The refusal of a body that cannot be an object of this kind.
    fn not_handled(&self, why: &str) -> Failure {
        let Resource { kind, version, .. } = self.resource.as_ref();
        Failure::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    }

    /// Whether what is asked takes effect.
    pub(crate) fn effect(&self) -> Effect {
        if self.query.is_dry_run() { Effect::DryRun } else { Effect::Real }
    }
}
