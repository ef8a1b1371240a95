//! Volumes and what leads to them: claims, volumes, classes, attachments, and what a node knows of storage drivers.

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use serde_json::{Value, json};

use super::fields::{fill_at, put};
use crate::meta;
use crate::resource::{Resource, Rules, StatusWrites};
use crate::schema::Cause;

/// The kinds.
pub(super) fn resources() -> Vec<Resource> {
    let in_storage = |kind: &str, plural: &str| {
        Resource::built_in("storage.k8s.io", "v1", kind, plural).cluster().shown_when_deleted()
    };
    vec![
        Resource::built_in("", "v1", "PersistentVolume", "persistentvolumes")
            .cluster()
            .short(&["pv"])
            .with_status()
            .shown_when_deleted()
            .typed::<core::PersistentVolume>()
            .ruled_by(Storage::Volume),
        Resource::built_in("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
            .short(&["pvc"])
            .with_status()
            .shown_when_deleted()
            .typed::<core::PersistentVolumeClaim>()
            .ruled_by(Storage::Claim),
        in_storage("StorageClass", "storageclasses")
            .short(&["sc"])
            .typed::<storage::StorageClass>()
            .ruled_by(Storage::Class),
        Resource {
            // Other than most built-in kinds, this one takes nothing but the status there.
            status: StatusWrites::StatusOnly,
            ..in_storage("VolumeAttachment", "volumeattachments")
                .never_blindly()
                .typed::<storage::VolumeAttachment>()
                .ruled_by(Storage::Attachment)
        },
        in_storage("CSINode", "csinodes").never_blindly().typed::<storage::CSINode>(),
        in_storage("CSIDriver", "csidrivers").never_blindly().typed::<storage::CSIDriver>().ruled_by(Storage::Driver),
    ]
}

/// What is special about each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    Volume,
    Claim,
    Class,
    Attachment,
    Driver,
}

impl Storage {
    fn complete(self, object: &mut Value) {
        match self {
            Self::Volume => {
                let defaults = json!({ "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem" });
                fill_at(object, "/spec", defaults);
                if object.pointer("/spec/hostPath").is_some() {
                    fill_at(object, "/spec/hostPath", json!({ "type": "" }));
                }
            }
            Self::Claim => fill_at(object, "/spec", json!({ "volumeMode": "Filesystem" })),
            Self::Class => {
                let defaults = json!({ "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate" });
                super::fields::fill_top(object, defaults);
            }
            Self::Attachment => fill_at(object, "/status", json!({ "attached": false })),
            Self::Driver => fill_at(
                object,
                "/spec",
                json!({
                    "attachRequired": true, "fsGroupPolicy": "ReadWriteOnceWithFSType", "podInfoOnMount": false,
                    "requiresRepublish": false, "seLinuxMount": false, "storageCapacity": false,
                    "volumeLifecycleModes": ["Persistent"],
                }),
            ),
        }
    }
}

impl Rules for Storage {
    fn complete_new(&self, object: &mut Value, now: Timestamp) {
        match self {
            Self::Volume => {
                put(object, "status", json!({ "phase": "Pending", "lastPhaseTransitionTime": meta::time(now) }));
            }
            Self::Claim => put(object, "status", json!({ "phase": "Pending" })),
            Self::Attachment => put(object, "status", json!({})),
            Self::Class | Self::Driver => {}
        }
        self.complete(object);
    }

    fn complete_changed(&self, object: &mut Value, old: &Value, now: Timestamp) {
        self.complete(object);
        let phase = |volume: &Value| volume.pointer("/status/phase").cloned();
        if *self == Self::Volume && phase(object) != phase(old) {
            fill_at(object, "/status", json!({}));
            if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
                status.insert("lastPhaseTransitionTime".to_owned(), json!(meta::time(now)));
            }
        }
    }

    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let frozen: &[&str] = match (self, old) {
            (Self::Attachment, Some(_)) => &["spec"],
            (Self::Class, Some(_)) => &["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"],
            _ => &[],
        };
        let changed = |field: &&&str| old.is_some_and(|old| object.get(**field) != old.get(**field));
        let frozen = frozen.iter().filter(changed);
        frozen
            .map(|field| match self {
                Self::Class if matches!(*field, "parameters" | "provisioner") => {
                    Cause::forbidden(*field, &format!("updates to {field} are forbidden."))
                }
                _ => Cause::invalid(*field, object.get(*field).unwrap_or(&Value::Null), "field is immutable"),
            })
            .collect()
    }
}
