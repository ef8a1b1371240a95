//! Object metadata, read leanly.
//!
//! `managedFields` is often the largest part of an object and nothing here reads it, so it is skipped while parsing and never
//! held. Labels and annotations are small maps of shared texts: the maps of Kubernetes' own type take half a kilobyte each for
//! their first entry, and each machine has four of them.

use crate::record;
use crate::time::Time;
use crate::{Text, TextMap, Uid};

record! {
    /// Who owns an object.
    pub struct OwnerReference, keeps extra {
        /// API group and version of the owner.
        pub api_version: Text = "apiVersion",
        /// Kind of the owner.
        pub kind: Text = "kind",
        /// Name of the owner, in the same namespace.
        pub name: Text = "name",
        /// Uid of the owner: an owner of the same name and another uid is another owner.
        pub uid: Uid = "uid",
        /// Whether this owner is the one that manages the object. At most one is.
        pub controller: Option<bool> = "controller",
        /// Whether the owner's foreground deletion waits for the object.
        pub block_owner_deletion: Option<bool> = "blockOwnerDeletion",
    }
}

record! {
    /// Name, labels, owners and so on.
    pub struct ObjectMeta {
        /// Notes that programs leave on the object.
        pub annotations: TextMap = "annotations",
        /// When the object was made.
        pub creation_timestamp: Option<Time> = "creationTimestamp",
        /// How long its end may take, in seconds.
        pub deletion_grace_period_seconds: Option<i64> = "deletionGracePeriodSeconds",
        /// When its deletion was asked for, plus its grace period.
        pub deletion_timestamp: Option<Time> = "deletionTimestamp",
        /// Who has to let go of it before it goes.
        pub finalizers: Vec<Text> = "finalizers",
        /// What the API server makes its name from, if it has none.
        pub generate_name: Text = "generateName",
        /// The version of its spec; 0 where the server keeps none.
        pub generation: i64 = "generation",
        /// What it is selected by.
        pub labels: TextMap = "labels",
        /// Its name; empty for an object that was not stored yet.
        pub name: String = "name",
        /// Its namespace; empty for kinds without one.
        pub namespace: Text = "namespace",
        /// Who owns it.
        pub owner_references: Vec<OwnerReference> = "ownerReferences",
        /// The version of it that we saw; empty for an object that was not stored yet.
        pub resource_version: String = "resourceVersion",
        /// Its uid; empty for an object that was not stored yet.
        pub uid: Uid = "uid",
    }
}

/// Which annotations of an object are worth holding.
#[derive(Clone, Copy, Debug)]
pub enum Annotations {
    /// All of them.
    All,
    /// Those with these keys.
    Only(&'static [&'static str]),
}

impl ObjectMeta {
    /// Drops the annotations that are not held.
    #[must_use]
    pub fn keep(mut self, which: Annotations) -> Self {
        if let Annotations::Only(keys) = which {
            self.annotations.retain(|key| keys.contains(&key));
        }
        self
    }
}
