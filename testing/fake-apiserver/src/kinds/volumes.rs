//! Volumes and what leads to them: claims, volumes, classes, attachments, and what a node knows of storage drivers.

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use serde_json::{Value, json};

use super::fields::{fill_at, put};
use crate::meta;
use crate::resource::{Resource, Rules, StatusWrites};
use crate::schema::Cause;

/// On every volume; goes when the volume is deleted and not bound.
pub(crate) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// On every claim; goes when the claim is deleted and no pod uses it.
pub(crate) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";

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

/// The fields of a volume's spec that do not say where it is.
const ABOUT_ANY_VOLUME: &[&str] = &[
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// Where a volume is.
fn source(volume: &Value) -> Vec<(&String, &Value)> {
    let spec = volume.get("spec").and_then(Value::as_object).into_iter().flatten();
    spec.filter(|(field, _)| !ABOUT_ANY_VOLUME.contains(&field.as_str())).collect()
}

impl Storage {
    /// What has to be said and is not.
    fn missing(self, object: &Value) -> Vec<Cause> {
        let absent = |pointer: &str| match object.pointer(pointer) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Object(fields)) => fields.is_empty(),
            Some(_) => false,
        };
        let one_source = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        let rules: &[(&str, &str, &str)] = match self {
            Self::Volume => {
                &[("/spec/accessModes", "spec.accessModes", ""), ("/spec/capacity/storage", "spec.capacity", "")]
            }
            Self::Claim => &[
                ("/spec/accessModes", "spec.accessModes", "at least 1 access mode is required"),
                ("/spec/resources/requests/storage", "spec.resources[storage]", ""),
            ],
            Self::Class => &[("/provisioner", "provisioner", "")],
            Self::Attachment => &[
                ("/spec/attacher", "spec.attacher", ""),
                ("/spec/source", "spec.source", one_source),
                ("/spec/nodeName", "spec.nodeName", ""),
            ],
            Self::Driver => &[],
        };
        let missing = rules.iter().filter(|(pointer, ..)| absent(pointer));
        let mut causes: Vec<Cause> = missing.map(|(_, field, rule)| Cause::required(*field, rule)).collect();
        if self == Self::Volume && source(object).is_empty() {
            causes.push(Cause::required("spec", "must specify a volume type"));
        }
        causes
    }

    /// What must not change and does.
    fn frozen(self, object: &Value, old: &Value) -> Vec<Cause> {
        let immutable = |pointer: &str, field: &str| {
            let (new, old) = (object.pointer(pointer), old.pointer(pointer));
            (new != old).then(|| Cause::invalid(field, new.unwrap_or(&Value::Null), "field is immutable"))
        };
        let pointers: &[(&str, &str)] = match self {
            Self::Attachment => &[("/spec", "spec")],
            Self::Class => &[
                ("/parameters", "parameters"),
                ("/provisioner", "provisioner"),
                ("/reclaimPolicy", "reclaimPolicy"),
                ("/volumeBindingMode", "volumeBindingMode"),
            ],
            // The first is the reference's own spelling.
            Self::Driver => &[
                ("/spec/attachRequired", "spec.attachedRequired"),
                ("/spec/volumeLifecycleModes", "spec.volumeLifecycleModes"),
            ],
            Self::Volume | Self::Claim => &[],
        };
        let mut causes: Vec<Cause> = pointers.iter().filter_map(|(pointer, field)| immutable(pointer, field)).collect();
        match self {
            Self::Volume if source(object) != source(old) => {
                let rule = "spec.persistentvolumesource is immutable after creation";
                causes.push(Cause::forbidden("spec.persistentvolumesource", rule));
            }
            Self::Claim if Self::promised(object) != Self::promised(old) => {
                let rule = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                            bound claims";
                causes.push(Cause::forbidden("spec", rule));
            }
            _ => {}
        }
        causes
    }

    /// What of a claim's spec stays as it is. The volume is filled in once, by whoever binds it.
    fn promised(claim: &Value) -> Value {
        let mut spec = claim.get("spec").cloned().unwrap_or_default();
        if let Some(spec) = spec.as_object_mut() {
            for field in ["resources", "volumeAttributesClassName", "volumeName"] {
                spec.remove(field);
            }
        }
        spec
    }
}

/// Keeps a volume that is bound, and a claim that a pod uses, until somebody looks whether that still holds.
fn protect(object: &mut Value, finalizer: &str) {
    let Some(metadata) = meta::edit(object) else { return };
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut().filter(|list| !list.iter().any(|f| f == finalizer)) {
        finalizers.push(json!(finalizer));
    }
}

impl Rules for Storage {
    fn complete_new(&self, object: &mut Value, now: Timestamp) {
        match self {
            Self::Volume => {
                put(object, "status", json!({ "phase": "Pending", "lastPhaseTransitionTime": meta::time(now) }));
                protect(object, VOLUME_PROTECTION);
            }
            Self::Claim => {
                put(object, "status", json!({ "phase": "Pending" }));
                protect(object, CLAIM_PROTECTION);
            }
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
        let mut causes = self.missing(object);
        if let Some(old) = old {
            causes.extend(self.frozen(object, old));
        }
        causes
    }
}
