//! What a write is guarded by, and which part of the object it is for.

use api::Object;
use kube::api::Preconditions;
use serde_json::{Value, json};

/// The very object that was decided on and, where a version is given, in the very state that was decided on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    /// `None` where fields are written that are nobody else's: then any version of this object will do.
    pub(crate) version: Option<&'a str>,
}

impl<'a> Guard<'a> {
    /// The object as it was seen.
    pub(crate) fn as_seen(object: &'a impl Object) -> Self {
        Self { version: Some(object.resource_version()), ..Self::any_version(object) }
    }

    /// The object, whatever was written to it meanwhile.
    pub(crate) fn any_version(object: &'a impl Object) -> Self {
        Self { name: object.name(), uid: object.uid_text(), version: None }
    }
}

/// Which part of an object a patch is for, and how the API server merges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Metadata and spec: a merge patch.
    Object,
    /// The status: a merge patch.
    Status,
    /// The status of a built-in kind: a strategic merge patch, in which conditions are merged by type and others' stay out of it.
    StrategicStatus,
}

/// Lets a patch mean this object in this version.
pub(super) fn stamp(body: &mut Value, uid: &str, version: Option<&str>) {
    let metadata = body.as_object_mut().map(|body| body.entry("metadata").or_insert_with(|| json!({})));
    if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
        metadata.insert("uid".to_owned(), json!(uid));
        if let Some(version) = version {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
    }
}

/// The same for a deletion.
pub(super) fn preconditions(uid: &str, version: Option<&str>) -> Preconditions {
    Preconditions { uid: Some(uid.to_owned()), resource_version: version.map(str::to_owned) }
}
