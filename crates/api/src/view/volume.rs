//! PersistentVolumeClaims, PersistentVolumes and VolumeAttachments.

use crate::{NodeName, TextMap};
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// The fields of a PersistentVolumeClaim that a drain uses.
    pub struct PersistentVolumeClaimView: "PersistentVolumeClaim", "persistentvolumeclaims", group "", version "v1",
        annotations (Annotations::Only(&[]))
    {
        /// Desired state.
        pub spec: ClaimSpec = "spec",
    }
}

record! {
    /// Spec of a PersistentVolumeClaim.
    pub struct ClaimSpec {
        /// Name of the PersistentVolume; empty while unbound.
        pub volume_name: Box<str> = "volumeName",
    }
}

kind! {
    /// The fields of a PersistentVolume that drains and drivers use.
    pub struct PersistentVolumeView: "PersistentVolume", "persistentvolumes", group "", version "v1",
        annotations (Annotations::Only(&[]))
    {
        /// Desired state.
        pub spec: PersistentVolumeSpec = "spec",
    }
}

record! {
    /// Spec of a PersistentVolume, with the sources that drivers can convert to volume IDs.
    pub struct PersistentVolumeSpec {
        /// A volume of a CSI driver.
        pub csi: Option<CsiVolume> = "csi",
        /// A volume of the former in-tree plugin for AWS.
        pub aws_elastic_block_store: Option<DiskById> = "awsElasticBlockStore",
        /// A volume of the former in-tree plugin for Azure.
        pub azure_disk: Option<AzureDisk> = "azureDisk",
        /// A volume of the former in-tree plugin for GCE.
        pub gce_persistent_disk: Option<DiskByName> = "gcePersistentDisk",
        /// A volume of the former in-tree plugin for OpenStack.
        pub cinder: Option<DiskById> = "cinder",
        /// A FlexVolume, as formerly used on Alibaba Cloud.
        pub flex_volume: Option<FlexVolume> = "flexVolume",
    }
}

record! {
    /// A volume of a CSI driver.
    pub struct CsiVolume {
        /// Name of the CSI driver.
        pub driver: Box<str> = "driver",
        /// Handle of the volume.
        pub volume_handle: Box<str> = "volumeHandle",
    }
}

record! {
    /// A disk identified by its ID.
    pub struct DiskById {
        /// ID of the disk.
        pub volume_id: Box<str> = "volumeID",
    }
}

record! {
    /// A FlexVolume.
    pub struct FlexVolume {
        /// Name of the plugin.
        pub driver: Box<str> = "driver",
        /// Options of the plugin, including the ID of the disk.
        pub options: TextMap = "options",
    }
}

record! {
    /// A disk identified by its name.
    pub struct DiskByName {
        /// Name of the disk.
        pub pd_name: Box<str> = "pdName",
    }
}

record! {
    /// An Azure disk.
    pub struct AzureDisk {
        /// Name.
        pub disk_name: Box<str> = "diskName",
        /// URI.
        pub disk_uri: Box<str> = "diskURI",
    }
}

kind! {
    /// The fields of a VolumeAttachment that a drain uses.
    pub struct VolumeAttachmentView: "VolumeAttachment", "volumeattachments", group "storage.k8s.io", version "v1",
        annotations (Annotations::Only(&[]))
    {
        /// Desired state.
        pub spec: AttachmentSpec = "spec",
        /// Observed state.
        pub status: AttachmentStatus = "status",
    }
}

record! {
    /// Spec of a VolumeAttachment.
    pub struct AttachmentSpec {
        /// Name of the Node.
        pub node_name: NodeName = "nodeName",
        /// Source.
        pub source: AttachmentSource = "source",
    }
}

record! {
    /// Source of a VolumeAttachment.
    pub struct AttachmentSource {
        /// Name of the PersistentVolume; missing for inline volumes.
        pub persistent_volume_name: Option<Box<str>> = "persistentVolumeName",
    }
}

record! {
    /// Status of a VolumeAttachment.
    pub struct AttachmentStatus {
        /// Whether the volume is attached.
        pub attached: bool = "attached",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Shows DR-Q14, API-12, MC-W56.
    #[test]
    fn volume_views_contain_the_used_fields() {
        let claim: PersistentVolumeClaimView =
            serde_json::from_value(json!({"spec": {"volumeName": "pv-1", "resources": {}}})).unwrap();
        assert_eq!(&*claim.spec.volume_name, "pv-1");
        let volume: PersistentVolumeView = serde_json::from_value(
            json!({"spec": {"csi": {"driver": "d", "volumeHandle": "h", "fsType": "ext4"}, "capacity": {"storage": "1Gi"}}}),
        )
        .unwrap();
        assert_eq!(&*volume.spec.csi.unwrap().volume_handle, "h");
        let attachment: VolumeAttachmentView = serde_json::from_value(
            json!({"spec": {"attacher": "d", "nodeName": "n", "source": {"inlineVolumeSpec": {}}}, "status": {"attached": true}}),
        )
        .unwrap();
        assert_eq!(attachment.spec.source.persistent_volume_name, None, "an inline volume has no name");
        assert!(attachment.status.attached);
    }
}
