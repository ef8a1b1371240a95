//! The volumes of pods that are drained, and where they are attached.
//!
//! A disk can be attached to one Node only. If ten pods with disks are evicted together, the provider has to move ten
//! disks at the same time, and the slowest of them keeps its pod down for minutes. Therefore such pods are evicted one
//! by one, each after the disks of the one before have moved. Only disks that move are waited for: a disk that another
//! pod of this Node also uses stays, and a disk that is unknown to the driver is ignored.

use std::collections::{BTreeMap, BTreeSet};

use api::view::{NodeView, PodView, VolumeAttachmentView};
use api::{Object, Uid, VolumeId, VolumeName};
use jiff::Timestamp;

use super::builder::AdvanceBuilder;
use super::memory::{Lookup, Note};
use super::selection::PodId;
use super::{EphemeralVolumes, Step, Watched};
use crate::Presence;
use meta::time::later;

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeClaimKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The key of a move.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveKey {
    /// The volumes of this pod.
    Pod(Uid),
    /// A volume whose pod is unknown: it was being detached when the drain began.
    Volume(VolumeName),
}

/// Volumes that are moving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The pod, if it is known.
    pub pod: Option<PodId>,
    /// The volumes.
    pub volumes: Vec<TrackedVolume>,
    /// Deadline for the detachment.
    pub detach_by: Timestamp,
    /// When they were observed as detached.
    pub detached: Option<Timestamp>,
}

/// A volume for which the drain waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedVolume {
    /// The PersistentVolume.
    pub name: VolumeName,
    /// The provider's ID, if it is known.
    pub id: Option<VolumeId>,
    /// Whether it is attached to another Node afterwards.
    pub after_detach: AfterDetach,
}

/// What happens to a volume after it is detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterDetach {
    /// It is attached to the next Node of its pod.
    Reattaches,
    /// It is deleted with its pod, or its pod is unknown.
    Ends,
}

/// Returns the claims of a pod for whose volumes the drain waits.
fn claims(pod: &PodView, ephemeral: EphemeralVolumes) -> impl Iterator<Item = (VolumeClaimKey, AfterDetach)> + '_ {
    pod.spec.volumes.iter().filter_map(move |volume| {
        let (name, after_detach) = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => (claim.claim_name.to_string(), AfterDetach::Reattaches),
            (None, Some(_)) if ephemeral == EphemeralVolumes::Awaited => {
                (format!("{}-{}", pod.name(), volume.name), AfterDetach::Ends)
            }
            (None, _) => return None,
        };
        Some((VolumeClaimKey { namespace: pod.namespace().to_owned(), name }, after_detach))
    })
}

/// Returns the volumes for which the drain waits, by pod. `None` while claims must be looked up first: shared volumes
/// are known only when all claims are.
pub(super) fn tracked(
    builder: &mut AdvanceBuilder<'_, '_>,
    leaving: &[&PodView],
    all_pods: &[&PodView],
) -> Option<BTreeMap<Uid, Vec<TrackedVolume>>> {
    let ephemeral = builder.request.limits.ephemeral;
    let wanted: BTreeSet<VolumeClaimKey> =
        all_pods.iter().flat_map(|pod| claims(pod, ephemeral)).map(|(claim, _)| claim).collect();
    let unknown = missing(builder, &wanted, |memory| &memory.claims)?;
    if !unknown.is_empty() {
        builder.note(Note::ClaimsRequested { claims: unknown.clone(), at: builder.now });
        builder.step(Step::FindClaims(unknown));
        return None;
    }
    let bound = |claim: &VolumeClaimKey, builder: &AdvanceBuilder<'_, '_>| match builder.memory.claims.get(claim) {
        Some(Lookup::Known(Some(volume))) if !volume.is_empty() => Some(volume.clone()),
        _ => None,
    };
    let mut uses: BTreeMap<VolumeName, usize> = BTreeMap::new();
    for pod in all_pods {
        for (claim, _) in claims(pod, ephemeral) {
            if let Some(volume) = bound(&claim, builder) {
                *uses.entry(volume).or_default() += 1;
            }
        }
    }
    // Kept even after the other pod is deleted, so that the drain does not start to wait for the volume.
    let shared: BTreeSet<VolumeName> = uses
        .iter()
        .filter(|(volume, count)| **count > 1 && !builder.memory.shared.contains(*volume))
        .map(|(volume, _)| volume.clone())
        .collect();
    if !shared.is_empty() {
        builder.note(Note::Shared { volumes: shared });
    }
    let mut own: BTreeMap<Uid, Vec<(VolumeName, AfterDetach)>> = BTreeMap::new();
    for pod in leaving {
        let volumes = claims(pod, ephemeral)
            .filter_map(|(claim, after_detach)| Some((bound(&claim, builder)?, after_detach)))
            .filter(|(volume, _)| !builder.memory.shared.contains(volume));
        own.insert(pod.uid(), volumes.collect());
    }
    let wanted: BTreeSet<VolumeName> = own.values().flatten().map(|(volume, _)| volume.clone()).collect();
    let unknown = missing(builder, &wanted, |memory| &memory.disks)?;
    if !unknown.is_empty() {
        builder.note(Note::DisksRequested { volumes: unknown.clone(), at: builder.now });
        builder.step(Step::FindDisks(unknown));
        return None;
    }
    let id = |volume: &VolumeName| match builder.memory.disks.get(volume) {
        Some(Lookup::Known(Some(id))) if !id.is_empty() => Some(id.clone()),
        _ => None,
    };
    let known = |volumes: Vec<(VolumeName, AfterDetach)>| {
        let known = volumes
            .into_iter()
            .filter_map(|(name, after_detach)| Some(TrackedVolume { id: Some(id(&name)?), name, after_detach }));
        known.collect()
    };
    Some(own.into_iter().map(|(pod, volumes)| (pod, known(volumes))).collect())
}

/// Returns the keys to look up now, or `None` while a response or the time of the next attempt is pending. Keys that
/// failed several times are left out, so that they do not block the drain.
fn missing<K: Ord + Clone, T>(
    builder: &mut AdvanceBuilder<'_, '_>,
    wanted: &BTreeSet<K>,
    of: impl Fn(&super::Memory) -> &BTreeMap<K, Lookup<T>>,
) -> Option<Vec<K>> {
    let limits = builder.request.limits;
    let (mut unknown, mut wait) = (Vec::new(), None::<Timestamp>);
    for key in wanted {
        let again = match of(&builder.memory).get(key) {
            None => builder.now,
            Some(Lookup::Known(_)) => continue,
            Some(Lookup::Requested { at, .. }) => later(*at, limits.response_timeout),
            Some(Lookup::Failed { attempts, .. }) if *attempts >= limits.lookup_tries => continue,
            Some(Lookup::Failed { at, .. }) => later(*at, limits.lookup_backoff),
        };
        if again <= builder.now {
            unknown.push(key.clone());
        } else {
            wait = Some(wait.map_or(again, |wait| wait.min(again)));
        }
    }
    if let Some(at) = wait {
        builder.wake(at);
        if unknown.is_empty() {
            return None;
        }
    }
    Some(unknown)
}

/// The attachments of volumes, from the caches.
pub(super) struct VolumeLocations<'a> {
    node_name: &'a str,
    node: Presence<&'a NodeView>,
    attachments: &'a Watched<Vec<&'a VolumeAttachmentView>>,
}

impl<'a> VolumeLocations<'a> {
    pub(super) fn of(builder: &AdvanceBuilder<'a, '_>) -> Self {
        Self { node_name: builder.request.node, node: builder.view.node, attachments: &builder.view.attachments }
    }

    /// Returns whether a volume is still attached to the Node. Both lists count: with many volumes the list of the Node
    /// may lack some for a moment. IDs are compared as plain text. A Node that does not exist has no volumes.
    pub(super) fn is_attached(&self, volume: &TrackedVolume) -> bool {
        let listed = match (self.node, &volume.id) {
            (Presence::Absent, _) => return false,
            (Presence::Present(node), Some(id)) => {
                node.status.volumes_attached.iter().any(|attached| attached.name.contains(id.as_str()))
            }
            (Presence::Present(_) | Presence::Undecodable(()), _) => false,
        };
        listed || self.of_volume(&volume.name).any(|a| a.spec.node_name == *self.node_name)
    }

    /// Returns whether the volume is attached to another Node. Unknown without the list of VolumeAttachments.
    pub(super) fn is_reattached(&self, volume: &TrackedVolume) -> bool {
        self.of_volume(&volume.name).any(|a| a.status.attached && a.spec.node_name != *self.node_name)
    }

    /// Returns whether the Node does not exist.
    pub(super) fn node_is_gone(&self) -> bool {
        self.node == Presence::Absent
    }

    /// Returns the volumes that are being detached from the Node.
    pub(super) fn detaching(&self) -> BTreeSet<VolumeName> {
        let leaving = |a: &&&VolumeAttachmentView| a.spec.node_name == *self.node_name && a.is_deleting();
        let name = |a: &&VolumeAttachmentView| a.spec.source.persistent_volume_name.as_deref().map(VolumeName::from);
        self.attachments().filter(leaving).filter_map(name).collect()
    }

    fn of_volume(&self, volume: &VolumeName) -> impl Iterator<Item = &&'a VolumeAttachmentView> {
        self.attachments().filter(move |a| a.spec.source.persistent_volume_name.as_deref() == Some(volume.as_str()))
    }

    fn attachments(&self) -> impl Iterator<Item = &&'a VolumeAttachmentView> {
        match self.attachments {
            Watched::Seen(attachments) => attachments.as_slice(),
            Watched::NotYet | Watched::Never => &[],
        }
        .iter()
    }
}
