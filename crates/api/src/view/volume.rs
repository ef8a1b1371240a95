//! Volumes: from a Pod's claim to the disk, and from the disk to the node it hangs on.

use crate::{NodeName, TextMap};
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// A PersistentVolumeClaim as a drain sees it.
    pub struct PersistentVolumeClaimView: "PersistentVolumeClaim", "persistentvolumeclaims", group "", version "v1",
        annotations (Annotations::Only(&[]))
    {
        /// Which volume it is bound to.
        pub spec: ClaimSpec = "spec",
    }
}

record! {
    /// Which volume a claim is bound to.
    pub struct ClaimSpec {
        /// Name of the PersistentVolume; empty while unbound.
        pub volume_name: Box<str> = "volumeName",
    }
}

kind! {
    /// A PersistentVolume as a drain and a driver see it.
    pub struct PersistentVolumeView: "PersistentVolume", "persistentvolumes", group "", version "v1",
        annotations (Annotations::Only(&[]))
    {
        /// Where its disk is.
        pub spec: PersistentVolumeSpec = "spec",
    }
}

record! {
    /// Where the disk of a volume is. Only sources that some driver can turn into a volume id; all missing for any other.
    pub struct PersistentVolumeSpec {
        /// A volume of a CSI driver.
        pub csi: Option<CsiVolume> = "csi",
        /// A volume of the AWS plugin that Kubernetes once had built in.
        pub aws_elastic_block_store: Option<DiskById> = "awsElasticBlockStore",
        /// A volume of the Azure plugin that Kubernetes once had built in.
        pub azure_disk: Option<AzureDisk> = "azureDisk",
        /// A volume of the GCE plugin that Kubernetes once had built in.
        pub gce_persistent_disk: Option<DiskByName> = "gcePersistentDisk",
        /// A volume of the OpenStack plugin that Kubernetes once had built in.
        pub cinder: Option<DiskById> = "cinder",
        /// A volume of a plugin on the node, as Alibaba Cloud once had.
        pub flex_volume: Option<FlexVolume> = "flexVolume",
    }
}

record! {
    /// A volume of a CSI driver.
    pub struct CsiVolume {
        /// The driver's name.
        pub driver: Box<str> = "driver",
        /// The driver's name for the volume.
        pub volume_handle: Box<str> = "volumeHandle",
    }
}

record! {
    /// A disk known by its id.
    pub struct DiskById {
        /// The id.
        pub volume_id: Box<str> = "volumeID",
    }
}

record! {
    /// A volume of a plugin on the node.
    pub struct FlexVolume {
        /// The plugin's name.
        pub driver: Box<str> = "driver",
        /// What the plugin is told; the disk's id is among it.
        pub options: TextMap = "options",
    }
}

record! {
    /// A disk known by its name.
    pub struct DiskByName {
        /// The name.
        pub pd_name: Box<str> = "pdName",
    }
}

record! {
    /// A disk of Azure.
    pub struct AzureDisk {
        /// Its name.
        pub disk_name: Box<str> = "diskName",
        /// Where it is.
        pub disk_uri: Box<str> = "diskURI",
    }
}

kind! {
    /// A VolumeAttachment as a drain sees it.
    pub struct VolumeAttachmentView: "VolumeAttachment", "volumeattachments", group "storage.k8s.io", version "v1",
        annotations (Annotations::Only(&[]))
    {
        /// What is to be attached where.
        pub spec: AttachmentSpec = "spec",
        /// Whether it is.
        pub status: AttachmentStatus = "status",
    }
}

record! {
    /// What is to be attached where.
    pub struct AttachmentSpec {
        /// The node.
        pub node_name: NodeName = "nodeName",
        /// The volume.
        pub source: AttachmentSource = "source",
    }
}

record! {
    /// The volume of an attachment.
    pub struct AttachmentSource {
        /// Name of the PersistentVolume; missing for volumes that a Pod defines itself.
        pub persistent_volume_name: Option<Box<str>> = "persistentVolumeName",
    }
}

record! {
    /// Whether a volume is attached.
    pub struct AttachmentStatus {
        /// Whether it is.
        pub attached: bool = "attached",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Shows DR-Q14, API-12, MC-W56.
    #[test]
    fn a_claim_leads_to_its_disk_and_the_disk_to_its_node() {
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
        assert_eq!(attachment.spec.source.persistent_volume_name, None, "a volume without a name is no crash");
        assert!(attachment.status.attached);
    }
}
