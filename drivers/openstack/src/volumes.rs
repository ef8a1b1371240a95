//! Cinder volume ids of PersistentVolumes.

use api::view::PersistentVolumeSpec;

/// The CSI driver whose volume handles are Cinder volume ids.
const CSI_DRIVER: &str = "cinder.csi.openstack.org";

/// Returns the ids of the Cinder volumes. Other volumes are skipped.
pub(crate) fn ids(volumes: &[PersistentVolumeSpec]) -> Vec<String> {
    volumes.iter().filter_map(id).collect()
}

fn id(volume: &PersistentVolumeSpec) -> Option<String> {
    if let Some(disk) = &volume.cinder {
        return Some(disk.volume_id.to_string()).filter(|id| !id.is_empty());
    }
    let csi = volume.csi.as_ref().filter(|csi| &*csi.driver == CSI_DRIVER && !csi.volume_handle.is_empty())?;
    Some(csi.volume_handle.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    /// Shows OST-C10.
    #[rstest]
    #[case::in_tree(json!({ "cinder": { "volumeID": "v-1" } }), Some("v-1"))]
    #[case::no_id(json!({ "cinder": { "volumeID": "" } }), None)]
    #[case::csi(json!({ "csi": { "driver": "cinder.csi.openstack.org", "volumeHandle": "v-1" } }), Some("v-1"))]
    #[case::no_handle(json!({ "csi": { "driver": "cinder.csi.openstack.org", "volumeHandle": "" } }), None)]
    #[case::foreign_csi(json!({ "csi": { "driver": "manila.csi.openstack.org", "volumeHandle": "s-1" } }), None)]
    #[case::nothing(json!({}), None)]
    fn cinder_volume_has_its_id_and_others_are_skipped(#[case] spec: Value, #[case] id: Option<&str>) {
        let volume: PersistentVolumeSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(ids(&[PersistentVolumeSpec::default(), volume]), id.into_iter().collect::<Vec<_>>());
    }
}
