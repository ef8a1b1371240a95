//! Preconditions of a write, and the part of the object that it changes.

use api::Object;
use kube::api::Preconditions;
use planner::GuardedPatch;
use serde_json::{Value, json};

/// Preconditions of a write: the object of the decision and, if a version is given, that version of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    /// `None` if only this controller writes the fields: then any version of the object is accepted.
    pub(crate) version: Option<&'a str>,
}

impl<'a> Guard<'a> {
    /// Returns the preconditions of a Machine's patch.
    pub(crate) fn of_patch(patch: &'a GuardedPatch) -> Self {
        let GuardedPatch { name, uid, resource_version, .. } = patch;
        Self { name: name.as_str(), uid: uid.as_str(), version: resource_version.as_deref() }
    }

    /// Requires the version of `object`.
    pub(crate) fn as_seen(object: &'a impl Object) -> Self {
        Self { version: Some(object.resource_version()), ..Self::any_version(object) }
    }

    /// Accepts any version of `object`.
    pub(crate) fn any_version(object: &'a impl Object) -> Self {
        Self { name: object.name(), uid: object.uid_text(), version: None }
    }
}

/// Part of an object that a patch changes, and how the API server merges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Metadata and spec: a merge patch.
    Object,
    /// The status: a merge patch.
    Status,
    /// The status of a built-in kind: a strategic merge patch. Conditions are merged by type, so those of other writers are not sent.
    StrategicStatus,
}

/// Adds the preconditions to the body of a patch.
pub(super) fn stamp(body: &mut Value, uid: &str, version: Option<&str>) {
    let metadata = body.as_object_mut().map(|body| body.entry("metadata").or_insert_with(|| json!({})));
    if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
        metadata.insert("uid".to_owned(), json!(uid));
        if let Some(version) = version {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
    }
}

/// Returns the preconditions of a deletion.
pub(super) fn preconditions(uid: &str, version: Option<&str>) -> Preconditions {
    Preconditions { uid: Some(uid.to_owned()), resource_version: version.map(str::to_owned) }
}
