//! Volume IDs.
//!
//! The host has no volumes that are attached from elsewhere. The volumes of the hostpath CSI driver, which the
//! Kubernetes project uses in tests, are directories.

use api::view::PersistentVolumeSpec;

/// The CSI driver whose volume handles are volume IDs.
const CSI_DRIVER: &str = "hostpath.csi.k8s.io";

/// Returns the IDs of the volumes of that driver.
pub(crate) fn ids(volumes: &[PersistentVolumeSpec]) -> Vec<String> {
    let ours = volumes.iter().filter_map(|volume| volume.csi.as_ref()).filter(|csi| &*csi.driver == CSI_DRIVER);
    ours.map(|csi| csi.volume_handle.to_string()).filter(|handle| !handle.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_volumes_of_the_hostpath_driver_have_ids() {
        let volume = |driver: &str, handle: &str| -> PersistentVolumeSpec {
            serde_json::from_value(json!({ "csi": { "driver": driver, "volumeHandle": handle } })).unwrap()
        };
        let volumes = [volume(CSI_DRIVER, "v-1"), volume("ebs.csi.aws.com", "vol-1"), volume(CSI_DRIVER, "")];
        assert_eq!(ids(&volumes), ["v-1"]);
    }
}
