//! EC2 volume ids of PersistentVolumes.

use api::view::PersistentVolumeSpec;

/// The CSI driver whose volume handles are EC2 volume ids.
const CSI_DRIVER: &str = "ebs.csi.aws.com";

/// Returns the ids of the EC2 volumes. Other volumes are skipped.
pub(crate) fn ids(volumes: &[PersistentVolumeSpec]) -> Vec<String> {
    volumes.iter().filter_map(id).collect()
}

fn id(volume: &PersistentVolumeSpec) -> Option<String> {
    if let Some(disk) = &volume.aws_elastic_block_store {
        let id = in_tree(&disk.volume_id);
        if id.is_none() {
            tracing::warn!(volume = %disk.volume_id, "ignoring volume with an invalid EC2 volume id; its detachment is not awaited");
        }
        return id;
    }
    let csi = volume.csi.as_ref().filter(|csi| &*csi.driver == CSI_DRIVER && !csi.volume_handle.is_empty())?;
    Some(csi.volume_handle.to_string())
}

/// Returns `vol-1` unchanged and strips the prefix of `aws://<zone>/vol-1` and `aws:///vol-1`.
fn in_tree(name: &str) -> Option<String> {
    let Some(rest) = name.strip_prefix("aws://") else { return Some(name.to_owned()).filter(|name| !name.is_empty()) };
    let path = rest.split_once('/').map_or("", |(_zone, path)| path).trim_matches('/');
    Some(path.to_owned()).filter(|path| path.starts_with("vol-") && !path.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    /// Shows AWS-13, AWS-C10.
    #[rstest]
    #[case::bare(json!({ "awsElasticBlockStore": { "volumeID": "vol-1" } }), Some("vol-1"))]
    #[case::zone(json!({ "awsElasticBlockStore": { "volumeID": "aws://eu-west-1a/vol-1" } }), Some("vol-1"))]
    #[case::no_zone(json!({ "awsElasticBlockStore": { "volumeID": "aws:///vol-1" } }), Some("vol-1"))]
    #[case::malformed(json!({ "awsElasticBlockStore": { "volumeID": "aws://eu-west-1a/disk-1" } }), None)]
    #[case::nested(json!({ "awsElasticBlockStore": { "volumeID": "aws://eu-west-1a/vol-1/x" } }), None)]
    #[case::csi(json!({ "csi": { "driver": "ebs.csi.aws.com", "volumeHandle": "vol-1" } }), Some("vol-1"))]
    #[case::no_handle(json!({ "csi": { "driver": "ebs.csi.aws.com", "volumeHandle": "" } }), None)]
    #[case::foreign_csi(json!({ "csi": { "driver": "efs.csi.aws.com", "volumeHandle": "fs-1" } }), None)]
    #[case::nothing(json!({}), None)]
    fn ec2_volume_has_its_id_and_others_are_skipped(#[case] spec: Value, #[case] id: Option<&str>) {
        let volume: PersistentVolumeSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(ids(&[PersistentVolumeSpec::default(), volume]), id.into_iter().collect::<Vec<_>>());
    }
}
