//! Ids of volumes.
//!
//! The host has no disks that are attached from elsewhere. What comes closest is the CSI driver that the Kubernetes project tests
//! with, whose volumes are directories.

use api::view::PersistentVolumeSpec;

/// The CSI driver whose handles are ids here.
const CSI_DRIVER: &str = "hostpath.csi.k8s.io";

/// The ids of those volumes that are the host's.
pub(crate) fn ids(volumes: &[PersistentVolumeSpec]) -> Vec<String> {
    let ours = volumes.iter().filter_map(|volume| volume.csi.as_ref()).filter(|csi| &*csi.driver == CSI_DRIVER);
    ours.map(|csi| csi.volume_handle.to_string()).filter(|handle| !handle.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn volumes_of_the_hostpath_driver_have_ids_and_others_are_left_out() {
        let volume = |driver: &str, handle: &str| -> PersistentVolumeSpec {
            serde_json::from_value(json!({ "csi": { "driver": driver, "volumeHandle": handle } })).unwrap()
        };
        let volumes = [volume(CSI_DRIVER, "v-1"), volume("ebs.csi.aws.com", "vol-1"), volume(CSI_DRIVER, "")];
        assert_eq!(ids(&volumes), ["v-1"]);
    }
}
