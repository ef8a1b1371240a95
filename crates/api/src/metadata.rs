//! Object metadata, read leanly.
//!
//! `managedFields` is often the largest part of an object and nothing here reads it, so it is skipped while parsing and never
//! held. Owner references are a list that adoption rewrites whole; kube's type for them would drop a key it does not know,
//! so such keys are kept beside the metadata and put back when the list is written.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::record::{Extra, Key, record};
use crate::time::Time;
use crate::wire::{Read, Wire, Write};
use crate::{PreserveValue, Uid};

record! {
    /// Who owns an object.
    pub struct OwnerReference, keeps extra {
        /// API group and version of the owner.
        pub api_version: String = "apiVersion",
        /// Kind of the owner.
        pub kind: String = "kind",
        /// Name of the owner, in the same namespace.
        pub name: String = "name",
        /// Uid of the owner: an owner of the same name and another uid is another owner.
        pub uid: Uid = "uid",
        /// Whether this owner is the one that manages the object. At most one is.
        pub controller: Option<bool> = "controller",
        /// Whether the owner's foreground deletion waits for the object.
        pub block_owner_deletion: Option<bool> = "blockOwnerDeletion",
    }
}

impl From<&meta::OwnerReference> for OwnerReference {
    fn from(owner: &meta::OwnerReference) -> Self {
        Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.as_str().into(),
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
            extra: Extra::default(),
        }
    }
}

/// For an object that is made: what somebody else wrote into an owner reference is on objects that are there.
impl From<OwnerReference> for meta::OwnerReference {
    fn from(owner: OwnerReference) -> Self {
        Self {
            api_version: owner.api_version,
            kind: owner.kind,
            name: owner.name,
            uid: owner.uid.into(),
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        }
    }
}

/// What owner references hold beyond what kube's type does, by the owner's uid. Empty, and then free, for nearly all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::box_collection, reason = "nearly always empty: one pointer instead of three")]
pub struct OwnerExtras(Option<Box<BTreeMap<Uid, Extra>>>);

impl OwnerExtras {
    /// The owner references of `metadata`, complete, for writing the list back.
    pub fn owners(&self, metadata: &ObjectMeta) -> Vec<OwnerReference> {
        let complete = |owner: &meta::OwnerReference| {
            let mut owner = OwnerReference::from(owner);
            if let Some(extra) = self.0.as_ref().and_then(|extras| extras.get(&owner.uid)) {
                owner.extra = extra.clone();
            }
            owner
        };
        metadata.owner_references.iter().flatten().map(complete).collect()
    }
}

/// Which annotations of an object are worth holding.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Annotations {
    All,
    Only(&'static [&'static str]),
}

/// Metadata as one read.
#[derive(Default)]
pub(crate) struct Metadata {
    pub(crate) meta: ObjectMeta,
    pub(crate) owner_extras: OwnerExtras,
}

impl Metadata {
    pub(crate) fn keep(mut self, which: Annotations) -> Self {
        if let (Annotations::Only(keys), Some(annotations)) = (which, &mut self.meta.annotations) {
            annotations.retain(|key, _| keys.contains(&key.as_str()));
            if annotations.is_empty() {
                self.meta.annotations = None;
            }
        }
        self
    }

    fn set_owners(&mut self, owners: Vec<OwnerReference>) {
        let mut list = Vec::with_capacity(owners.len());
        for owner in owners {
            if !owner.extra.is_empty() {
                self.owner_extras.0.get_or_insert_default().insert(owner.uid.clone(), owner.extra);
            }
            list.push(meta::OwnerReference {
                api_version: owner.api_version,
                block_owner_deletion: owner.block_owner_deletion,
                controller: owner.controller,
                kind: owner.kind,
                name: owner.name,
                uid: owner.uid.into(),
            });
        }
        self.meta.owner_references = (!list.is_empty()).then_some(list);
    }
}

impl Wire for Metadata {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Metadata;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("object metadata or null")
            }
            fn visit_none<E>(self) -> Result<Metadata, E> {
                Ok(Metadata::default())
            }
            fn visit_unit<E>(self) -> Result<Metadata, E> {
                Ok(Metadata::default())
            }
            fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Metadata, D::Error> {
                from.deserialize_map(self)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut metadata = Metadata::default();
                while let Some(Key(key)) = map.next_key()? {
                    let meta = &mut metadata.meta;
                    match &*key {
                        "name" => meta.name = read(&mut map)?,
                        "generateName" => meta.generate_name = read(&mut map)?,
                        "namespace" => meta.namespace = read(&mut map)?,
                        "uid" => meta.uid = read(&mut map)?,
                        "resourceVersion" => meta.resource_version = read(&mut map)?,
                        "generation" => meta.generation = read(&mut map)?,
                        "creationTimestamp" => meta.creation_timestamp = read_time(&mut map)?,
                        "deletionTimestamp" => meta.deletion_timestamp = read_time(&mut map)?,
                        "deletionGracePeriodSeconds" => meta.deletion_grace_period_seconds = read(&mut map)?,
                        "labels" => meta.labels = read(&mut map)?,
                        "annotations" => meta.annotations = read(&mut map)?,
                        "finalizers" => meta.finalizers = read(&mut map)?,
                        "ownerReferences" => metadata.set_owners(read(&mut map)?),
                        _ => {
                            map.next_value::<IgnoredAny>()?; // managedFields, above all
                        }
                    }
                }
                Ok(metadata)
            }
        }
        fn read<'de, T: Wire, A: MapAccess<'de>>(map: &mut A) -> Result<T, A::Error> {
            map.next_value_seed(Read::new())
        }
        fn read_time<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<meta::Time>, A::Error> {
            Ok(read::<Option<Time>, A>(map)?.map(Into::into))
        }
        from.deserialize_option(Keys)
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        MetadataRef { meta: &self.meta, owner_extras: &self.owner_extras }.serialize(to)
    }

    fn is_absent(&self) -> bool {
        false
    }

    fn schema() -> serde_json::Value {
        serde_json::json!({"type": "object"})
    }
}

/// Metadata to be written.
pub(crate) struct MetadataRef<'a> {
    pub(crate) meta: &'a ObjectMeta,
    pub(crate) owner_extras: &'a OwnerExtras,
}

impl Serialize for MetadataRef<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fn put<M: SerializeMap, T: Wire>(map: &mut M, key: &'static str, value: &T) -> Result<(), M::Error> {
            if value.is_absent() { Ok(()) } else { map.serialize_entry(key, &Write(value)) }
        }
        let meta = self.meta;
        let mut map = to.serialize_map(None)?;
        put(&mut map, "annotations", &meta.annotations)?;
        put(&mut map, "creationTimestamp", &meta.creation_timestamp.as_ref().map(Time::from))?;
        put(&mut map, "deletionGracePeriodSeconds", &meta.deletion_grace_period_seconds)?;
        put(&mut map, "deletionTimestamp", &meta.deletion_timestamp.as_ref().map(Time::from))?;
        put(&mut map, "finalizers", &meta.finalizers)?;
        put(&mut map, "generateName", &meta.generate_name)?;
        put(&mut map, "generation", &meta.generation)?;
        put(&mut map, "labels", &meta.labels)?;
        put(&mut map, "name", &meta.name)?;
        put(&mut map, "namespace", &meta.namespace)?;
        put(&mut map, "ownerReferences", &self.owner_extras.owners(meta))?;
        put(&mut map, "resourceVersion", &meta.resource_version)?;
        put(&mut map, "uid", &meta.uid)?;
        map.end()
    }
}

/// Questions everyone asks of an object's metadata, without unwrapping options at each place.
pub trait Object: kube::Resource<DynamicType = ()> {
    /// Its name; empty for an object that was not stored yet.
    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    /// Its namespace; empty for cluster-scoped kinds.
    fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    /// Its uid; empty for an object that was not stored yet.
    fn uid(&self) -> Uid {
        self.meta().uid.as_deref().unwrap_or_default().into()
    }

    /// The version of it that we saw; empty for an object that was not stored yet.
    fn resource_version(&self) -> &str {
        self.meta().resource_version.as_deref().unwrap_or_default()
    }

    /// The version of its spec; 0 where the server keeps none.
    fn generation(&self) -> i64 {
        self.meta().generation.unwrap_or_default()
    }

    /// A label's value.
    fn label(&self, key: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(key).map(String::as_str)
    }

    /// An annotation's value.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.meta().annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// The preserve annotation; `Some` also for a value that means nothing.
    fn preserve(&self) -> Option<PreserveValue> {
        self.annotation(crate::names::annotations::PRESERVE).map(Into::into)
    }

    /// Whether it carries the finalizer.
    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.meta().finalizers.iter().flatten().any(|f| f == finalizer)
    }

    /// When its deletion was asked for, plus its grace period.
    fn deleted_at(&self) -> Option<Timestamp> {
        self.meta().deletion_timestamp.as_ref().map(|time| time.0)
    }

    /// Whether its deletion was asked for.
    fn is_deleting(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    /// When it was created.
    fn created_at(&self) -> Option<Timestamp> {
        self.meta().creation_timestamp.as_ref().map(|time| time.0)
    }

    /// The owner that manages it, if one does.
    fn controller_owner(&self) -> Option<&meta::OwnerReference> {
        self.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }
}

impl<K: kube::Resource<DynamicType = ()>> Object for K {}
