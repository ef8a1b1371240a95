//! Lean views of Kubernetes' own kinds.
//!
//! A full Node or Pod costs tens of kilobytes in memory and most of it, image lists and managed fields above all, is never
//! looked at here. A view names the real kind, so it is listed and watched in its place, and holds only what some decision
//! reads; everything else is skipped while parsing.

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
