//! What can be asked of any object, ours and Kubernetes' own.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::ApiResource;

use crate::Uid;

/// Questions everyone asks of an object and its kind, without unwrapping options at each place.
pub trait Object {
    /// The name of its kind: `Machine`.
    fn kind() -> Cow<'static, str>;

    /// Its API group; empty for Kubernetes' oldest one.
    fn group() -> Cow<'static, str>;

    /// The version of its API group.
    fn version() -> Cow<'static, str>;

    /// The name of its kind in addresses: `machines`.
    fn plural() -> Cow<'static, str>;

    /// Its name; empty for an object that was not stored yet.
    fn name(&self) -> &str;

    /// Its namespace; empty for cluster-scoped kinds.
    fn namespace(&self) -> &str;

    /// Its uid as text; empty for an object that was not stored yet.
    fn uid_text(&self) -> &str;

    /// The version of it that we saw; empty for an object that was not stored yet.
    fn resource_version(&self) -> &str;

    /// The version of its spec; 0 where the server keeps none.
    fn generation(&self) -> i64;

    /// A label's value.
    fn label(&self, key: &str) -> Option<&str>;

    /// An annotation's value.
    fn annotation(&self, key: &str) -> Option<&str>;

    /// Whether it carries the finalizer.
    fn has_finalizer(&self, finalizer: &str) -> bool;

    /// Whether it carries any finalizer.
    fn has_finalizers(&self) -> bool;

    /// How long its end may take, in seconds, once its deletion was asked for.
    fn deletion_grace_period_seconds(&self) -> Option<i64>;

    /// When its deletion was asked for, plus its grace period.
    fn deleted_at(&self) -> Option<Timestamp>;

    /// When it was created.
    fn created_at(&self) -> Option<Timestamp>;

    /// The uid of the owner that manages it, if one does.
    fn controller_uid(&self) -> Option<&str>;

    /// Group and version of its API, as objects name them: `v1`, `apps/v1`.
    fn api_version() -> Cow<'static, str> {
        let (group, version) = (Self::group(), Self::version());
        if group.is_empty() { version } else { format!("{group}/{version}").into() }
    }

    /// Its kind as data, for whoever asks for objects without a type.
    fn api_resource() -> ApiResource {
        ApiResource {
            group: Self::group().into_owned(),
            version: Self::version().into_owned(),
            api_version: Self::api_version().into_owned(),
            kind: Self::kind().into_owned(),
            plural: Self::plural().into_owned(),
        }
    }

    /// The address of all objects of its kind, or of those in one namespace.
    fn url_path(namespace: Option<&str>) -> String {
        let root = if Self::group().is_empty() { "api" } else { "apis" };
        let (api_version, plural) = (Self::api_version(), Self::plural());
        match namespace {
            Some(namespace) => format!("/{root}/{api_version}/namespaces/{namespace}/{plural}"),
            None => format!("/{root}/{api_version}/{plural}"),
        }
    }

    /// Its uid; empty for an object that was not stored yet.
    fn uid(&self) -> Uid {
        self.uid_text().into()
    }

    /// Whether its deletion was asked for.
    fn is_deleting(&self) -> bool {
        self.deleted_at().is_some()
    }

    /// How an Event refers to it.
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

/// Kubernetes' own types.
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
