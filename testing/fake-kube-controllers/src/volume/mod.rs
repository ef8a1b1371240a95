//! Volumes: how claims get them, and how nodes do.

mod attachment;
mod attachments;
mod claims;

pub(crate) use attachments::Attachment;
pub(crate) use claims::Claims;

use k8s_openapi::api::core::v1::PersistentVolume;

/// Driver and handle of a volume that is attached through a CSI driver; no others are attached here.
fn csi(volume: &PersistentVolume) -> Option<(&str, &str)> {
    let csi = volume.spec.as_ref()?.csi.as_ref()?;
    Some((csi.driver.as_str(), csi.volume_handle.as_str()))
}
