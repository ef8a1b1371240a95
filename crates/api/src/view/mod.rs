//! Partial types of Kubernetes kinds.
//!
//! A complete Node or Pod needs tens of kilobytes of memory. Most of it, such as image lists and managed fields, is not used. A view
//! has the group, version and kind of the real type, so it can be listed and watched, and contains only the used fields. Other fields
//! are skipped while decoding.

mod disruption;
mod node;
mod pod;
mod secret;
mod volume;

pub use disruption::{DisruptionSpec, DisruptionStatus, PodDisruptionBudgetView};
pub use node::{AttachedVolume, NodeView, NodeViewSpec, NodeViewStatus};
pub use pod::{ClaimVolume, PodView, PodViewSpec, PodViewStatus, PodVolume, Present};
pub use secret::{SecretContent, SecretData, SecretView};
pub use volume::{
    AttachmentSource, AttachmentSpec, AttachmentStatus, AzureDisk, ClaimSpec, CsiVolume, DiskById, DiskByName,
    FlexVolume, PersistentVolumeClaimView, PersistentVolumeSpec, PersistentVolumeView, VolumeAttachmentView,
};
