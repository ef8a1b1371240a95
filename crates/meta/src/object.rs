//! The interface of all objects.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::ApiResource;

use crate::Uid;

/// Access to the kind and the metadata of an object, without optional fields.
pub trait Object {
    /// Returns the kind, for example `Machine`.
    fn kind() -> Cow<'static, str>;

    /// Returns the API group; empty for the core group.
    fn group() -> Cow<'static, str>;

    /// Returns the API version.
    fn version() -> Cow<'static, str>;

    /// Returns the plural name of the resource, for example `machines`.
    fn plural() -> Cow<'static, str>;

    /// Returns the name; empty if the object is not stored.
    fn name(&self) -> &str;

    /// Returns the namespace; empty for cluster-scoped kinds.
    fn namespace(&self) -> &str;

    /// Returns the uid as text; empty if the object is not stored.
    fn uid_text(&self) -> &str;

    /// Returns the resourceVersion; empty if the object is not stored.
    fn resource_version(&self) -> &str;

    /// Returns the generation; 0 if the kind has none.
    fn generation(&self) -> i64;

    /// Returns the value of a label.
    fn label(&self, key: &str) -> Option<&str>;

    /// Returns the value of an annotation.
    fn annotation(&self, key: &str) -> Option<&str>;

    /// Returns whether the object has the finalizer.
    fn has_finalizer(&self, finalizer: &str) -> bool;

    /// Returns whether the object has any finalizer.
    fn has_finalizers(&self) -> bool;

    /// Returns the deletionGracePeriodSeconds.
    fn deletion_grace_period_seconds(&self) -> Option<i64>;

    /// Returns the deletionTimestamp.
    fn deleted_at(&self) -> Option<Timestamp>;

    /// Returns the creationTimestamp.
    fn created_at(&self) -> Option<Timestamp>;

    /// Returns the uid of the controlling owner, if any.
    fn controller_uid(&self) -> Option<&str>;

    /// Returns the value of `apiVersion`, for example `v1` or `apps/v1`.
    fn api_version() -> Cow<'static, str> {
        let (group, version) = (Self::group(), Self::version());
        if group.is_empty() { version } else { format!("{group}/{version}").into() }
    }

    /// Returns the resource as data, for dynamic clients.
    fn api_resource() -> ApiResource {
        ApiResource {
            group: Self::group().into_owned(),
            version: Self::version().into_owned(),
            api_version: Self::api_version().into_owned(),
            kind: Self::kind().into_owned(),
            plural: Self::plural().into_owned(),
        }
    }

    /// Returns the URL path of all objects of the kind, or of those in a namespace.
    fn url_path(namespace: Option<&str>) -> String {
        let root = if Self::group().is_empty() { "api" } else { "apis" };
        let (api_version, plural) = (Self::api_version(), Self::plural());
        match namespace {
            Some(namespace) => format!("/{root}/{api_version}/namespaces/{namespace}/{plural}"),
            None => format!("/{root}/{api_version}/{plural}"),
        }
    }

    /// Returns the uid; empty if the object is not stored.
    fn uid(&self) -> Uid {
        self.uid_text().into()
    }

    /// Returns whether the object has a deletionTimestamp.
    fn is_deleting(&self) -> bool {
        self.deleted_at().is_some()
    }

    /// Returns a reference for Events.
    fn object_ref(&self) -> ObjectReference {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ObjectReference {
            api_version: Some(Self::api_version().into_owned()),
            kind: Some(Self::kind().into_owned()),
            name: text(self.name()),
            namespace: text(self.namespace()),
            resource_version: text(self.resource_version()),
            uid: text(self.uid_text()),
            ..ObjectReference::default()
        }
    }
}

/// Types of `k8s-openapi`.
impl<K: kube::Resource<DynamicType = ()>> Object for K {
    fn kind() -> Cow<'static, str> {
        <K as kube::Resource>::kind(&())
    }

    fn group() -> Cow<'static, str> {
        <K as kube::Resource>::group(&())
    }

    fn version() -> Cow<'static, str> {
        <K as kube::Resource>::version(&())
    }

    fn plural() -> Cow<'static, str> {
        <K as kube::Resource>::plural(&())
    }

    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    fn uid_text(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    fn resource_version(&self) -> &str {
        self.meta().resource_version.as_deref().unwrap_or_default()
    }

    fn generation(&self) -> i64 {
        self.meta().generation.unwrap_or_default()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(key).map(String::as_str)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.meta().annotations.as_ref()?.get(key).map(String::as_str)
    }

    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.meta().finalizers.iter().flatten().any(|f| f == finalizer)
    }

    fn has_finalizers(&self) -> bool {
        self.meta().finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
    }

    fn deletion_grace_period_seconds(&self) -> Option<i64> {
        self.meta().deletion_grace_period_seconds
    }

    fn deleted_at(&self) -> Option<Timestamp> {
        self.meta().deletion_timestamp.as_ref().map(|time| time.0)
    }

    fn created_at(&self) -> Option<Timestamp> {
        self.meta().creation_timestamp.as_ref().map(|time| time.0)
    }

    fn controller_uid(&self) -> Option<&str> {
        let mut owners = self.meta().owner_references.iter().flatten();
        owners.find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
    }
}
