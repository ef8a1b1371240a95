//! Converts volumes by their source.

use api::TextMap;
use api::view::{AzureDisk, CsiVolume, DiskById, DiskByName, FlexVolume, PersistentVolumeSpec};

use super::Volume;
use super::volume::Source;

/// Encodes a volume. Kubernetes allows exactly one source.
pub(crate) fn volume(spec: &PersistentVolumeSpec) -> Volume {
    let text = |text: &str| text.to_owned();
    let csi = spec
        .csi
        .as_ref()
        .map(|v| Source::Csi(super::CsiVolume { driver: text(&v.driver), volume_handle: text(&v.volume_handle) }));
    let azure = spec
        .azure_disk
        .as_ref()
        .map(|v| Source::AzureDisk(super::AzureDisk { name: text(&v.disk_name), uri: text(&v.disk_uri) }));
    let flex = spec
        .flex_volume
        .as_ref()
        .map(|v| Source::FlexVolume(super::FlexVolume { driver: text(&v.driver), options: v.options.to_btree() }));
    let source = csi
        .or(azure)
        .or(flex)
        .or_else(|| spec.aws_elastic_block_store.as_ref().map(|v| Source::AwsElasticBlockStoreId(text(&v.volume_id))))
        .or_else(|| spec.gce_persistent_disk.as_ref().map(|v| Source::GcePersistentDiskName(text(&v.pd_name))))
        .or_else(|| spec.cinder.as_ref().map(|v| Source::CinderId(text(&v.volume_id))));
    Volume { source }
}

/// Decodes a volume.
pub(crate) fn spec(volume: Volume) -> PersistentVolumeSpec {
    let mut spec = PersistentVolumeSpec::default();
    let by_id = |id: String| Some(DiskById { volume_id: id.into() });
    match volume.source {
        None => {}
        Some(Source::Csi(v)) => {
            spec.csi = Some(CsiVolume { driver: v.driver.into(), volume_handle: v.volume_handle.into() });
        }
        Some(Source::AwsElasticBlockStoreId(id)) => spec.aws_elastic_block_store = by_id(id),
        Some(Source::AzureDisk(v)) => {
            spec.azure_disk = Some(AzureDisk { disk_name: v.name.into(), disk_uri: v.uri.into() });
        }
        Some(Source::GcePersistentDiskName(name)) => {
            spec.gce_persistent_disk = Some(DiskByName { pd_name: name.into() });
        }
        Some(Source::CinderId(id)) => spec.cinder = by_id(id),
        Some(Source::FlexVolume(v)) => {
            spec.flex_volume = Some(FlexVolume { driver: v.driver.into(), options: TextMap::from(&v.options) });
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case(json!({ "csi": { "driver": "d", "volumeHandle": "h" } }))]
    #[case(json!({ "awsElasticBlockStore": { "volumeID": "aws://eu-1a/vol-1" } }))]
    #[case(json!({ "azureDisk": { "diskName": "n", "diskURI": "/u" } }))]
    #[case(json!({ "gcePersistentDisk": { "pdName": "n" } }))]
    #[case(json!({ "cinder": { "volumeID": "i" } }))]
    #[case(json!({ "flexVolume": { "driver": "alicloud/disk", "options": { "volumeId": "d-1" } } }))]
    #[case(json!({}))]
    fn volume_source_round_trips(#[case] source: Value) {
        let sent: PersistentVolumeSpec = serde_json::from_value(source).unwrap();
        assert_eq!(json!(spec(volume(&sent))), json!(sent));
    }
}
