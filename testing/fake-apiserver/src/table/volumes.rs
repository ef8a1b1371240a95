//! Storage, as it is listed.

use serde_json::{Value, json};

use super::look::{Look, NONE, UNSET};

pub(super) const VOLUMES: &[&str] = &[
    "Name",
    "Capacity",
    "Access Modes",
    "Reclaim Policy",
    "Status",
    "Claim",
    "StorageClass",
    "VolumeAttributesClass",
    "Reason",
    "Age",
    "VolumeMode+",
];
pub(super) const CLAIMS: &[&str] = &[
    "Name",
    "Status",
    "Volume",
    "Capacity",
    "Access Modes",
    "StorageClass",
    "VolumeAttributesClass",
    "Age",
    "VolumeMode+",
];
pub(super) const ATTACHMENTS: &[&str] = &["Name", "Attacher:name", "PV", "Node", "Attached:boolean", "Age"];
pub(super) const CLASSES: &[&str] =
    &["Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"];
pub(super) const CSI_NODES: &[&str] = &["Name", "Drivers:integer", "Age"];
pub(super) const CSI_DRIVERS: &[&str] = &[
    "Name",
    "AttachRequired:boolean",
    "PodInfoOnMount:boolean",
    "StorageCapacity:boolean",
    "TokenRequests",
    "RequiresRepublish:boolean",
    "Modes",
    "Age",
];

pub(super) fn volume(volume: Look<'_>) -> Vec<Value> {
    let claim = volume
        .get("/spec/claimRef")
        .map(|_| format!("{}/{}", volume.text("/spec/claimRef/namespace"), volume.text("/spec/claimRef/name")));
    vec![
        volume.name(),
        json!(volume.text("/spec/capacity/storage")),
        json!(modes(volume, "/spec/accessModes")),
        json!(volume.text("/spec/persistentVolumeReclaimPolicy")),
        json!(phase(volume)),
        json!(claim.unwrap_or_default()),
        json!(class_of(volume)),
        json!(volume.text_or("/spec/volumeAttributesClassName", UNSET)),
        json!(volume.text("/status/reason")),
        volume.age(),
        json!(volume.text_or("/spec/volumeMode", UNSET)),
    ]
}

pub(super) fn claim(claim: Look<'_>) -> Vec<Value> {
    let bound = !claim.text("/spec/volumeName").is_empty();
    let when_bound = |text: String| json!(if bound { text } else { String::new() });
    vec![
        claim.name(),
        json!(phase(claim)),
        json!(claim.text("/spec/volumeName")),
        when_bound(claim.text("/status/capacity/storage").to_owned()),
        when_bound(modes(claim, "/status/accessModes")),
        json!(class_of(claim)),
        json!(claim.text_or("/spec/volumeAttributesClassName", UNSET)),
        claim.age(),
        json!(claim.text_or("/spec/volumeMode", UNSET)),
    ]
}

pub(super) fn attachment(attachment: Look<'_>) -> Vec<Value> {
    vec![
        attachment.name(),
        json!(attachment.text("/spec/attacher")),
        json!(attachment.text("/spec/source/persistentVolumeName")),
        json!(attachment.text("/spec/nodeName")),
        json!(attachment.is("/status/attached")),
        attachment.age(),
    ]
}

pub(super) fn class(class: Look<'_>) -> Vec<Value> {
    let marks = ["storageclass.kubernetes.io~1is-default-class", "storageclass.beta.kubernetes.io~1is-default-class"];
    let default = marks.iter().any(|mark| class.text(&format!("/metadata/annotations/{mark}")) == "true");
    let name = class.text("/metadata/name");
    vec![
        json!(if default { format!("{name} (default)") } else { name.to_owned() }),
        json!(class.text("/provisioner")),
        json!(class.text_or("/reclaimPolicy", "Delete")),
        json!(class.text_or("/volumeBindingMode", "Immediate")),
        json!(class.is("/allowVolumeExpansion")),
        class.age(),
    ]
}

pub(super) fn csi_node(node: Look<'_>) -> Vec<Value> {
    vec![node.name(), json!(node.list("/spec/drivers").len()), node.age()]
}

pub(super) fn csi_driver(driver: Look<'_>) -> Vec<Value> {
    let or = |text: String, otherwise: &str| json!(if text.is_empty() { otherwise.to_owned() } else { text });
    let modes: Vec<&str> = driver.list("/spec/volumeLifecycleModes").filter_map(|mode| mode.value().as_str()).collect();
    vec![
        driver.name(),
        json!(driver.get("/spec/attachRequired").is_none_or(|required| required == true)),
        json!(driver.is("/spec/podInfoOnMount")),
        json!(driver.is("/spec/storageCapacity")),
        or(driver.joined("/spec/tokenRequests", "/audience"), UNSET),
        json!(driver.is("/spec/requiresRepublish")),
        or(modes.join(","), NONE),
        driver.age(),
    ]
}

fn phase(object: Look<'_>) -> &str {
    if object.is_deleting() { "Terminating" } else { object.text("/status/phase") }
}

fn class_of(object: Look<'_>) -> &str {
    object.text_or(
        "/metadata/annotations/volume.beta.kubernetes.io~1storage-class",
        object.text("/spec/storageClassName"),
    )
}

/// Access modes in the letters that people know, in the order of the reference.
fn modes(object: Look<'_>, path: &str) -> String {
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let has = |mode: &str| object.list(path).any(|found| found.value().as_str() == Some(mode));
    let letters: Vec<&str> = known.iter().filter(|(mode, _)| has(mode)).map(|(_, letters)| *letters).collect();
    letters.join(",")
}
