//! Object metadata with low memory use.
//!
//! `managedFields` is often the largest part of an object and is not used, so it is skipped while decoding. Labels and annotations are
//! [`SmallMap`](crate::SmallMap)s of shared texts: a `BTreeMap`, as in `k8s-openapi`, allocates half a kilobyte for its first entry, and
//! each Machine has four of these maps.

use crate::record;
use crate::time::Time;
use crate::{Text, TextMap, Uid};

record! {
    /// An owner reference.
    pub struct OwnerReference, keeps extra {
        /// API group and version of the owner.
        pub api_version: Text = "apiVersion",
        /// Kind of the owner.
        pub kind: Text = "kind",
        /// Name of the owner, in the same namespace.
        pub name: Text = "name",
        /// Uid of the owner.
        pub uid: Uid = "uid",
        /// Whether the owner is the controller of the object. At most one owner is.
        pub controller: Option<bool> = "controller",
        /// Whether the foreground deletion of the owner waits for the object.
        pub block_owner_deletion: Option<bool> = "blockOwnerDeletion",
    }
}

record! {
    /// Metadata of an object, without `managedFields`.
    pub struct ObjectMeta {
        /// Annotations.
        pub annotations: TextMap = "annotations",
        /// Time of creation.
        pub creation_timestamp: Option<Time> = "creationTimestamp",
        /// Grace period of the deletion in seconds.
        pub deletion_grace_period_seconds: Option<i64> = "deletionGracePeriodSeconds",
        /// Time of the deletion request plus the grace period.
        pub deletion_timestamp: Option<Time> = "deletionTimestamp",
        /// Finalizers.
        pub finalizers: Vec<Text> = "finalizers",
        /// Prefix of a name that the API server generates.
        pub generate_name: Text = "generateName",
        /// Generation of the spec; 0 if the kind has none.
        pub generation: i64 = "generation",
        /// Labels.
        pub labels: TextMap = "labels",
        /// Name; empty if the object is not stored.
        pub name: String = "name",
        /// Namespace; empty for cluster-scoped kinds.
        pub namespace: Text = "namespace",
        /// Owners.
        pub owner_references: Vec<OwnerReference> = "ownerReferences",
        /// Resource version; empty if the object is not stored.
        pub resource_version: String = "resourceVersion",
        /// Uid; empty if the object is not stored.
        pub uid: Uid = "uid",
    }
}

/// Annotations that are kept when an object is decoded.
#[derive(Clone, Copy, Debug)]
pub enum Annotations {
    /// All annotations.
    All,
    /// Annotations with these keys.
    Only(&'static [&'static str]),
}

impl ObjectMeta {
    /// Removes the other annotations.
    #[must_use]
    pub fn keep(mut self, which: Annotations) -> Self {
        if let Annotations::Only(keys) = which {
            self.annotations.retain(|key| keys.contains(&key));
        }
        self
    }
}
