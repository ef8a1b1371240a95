//! Which volumes have to follow a pod, and where they are.
//!
//! A disk can hang on one node only. If ten pods with disks are evicted together, the cloud is asked to move ten disks at once,
//! and the slowest of them keeps its pod down for minutes; so they go one by one, each waiting for the disks of the one before.
//! Waiting makes sense only for a disk that really moves: one that another pod of this node uses as well stays, and one that the
//! driver does not know is nobody's concern here.

use std::collections::{BTreeMap, BTreeSet};

use api::view::{NodeView, PodView, VolumeAttachmentView};
use api::{Object, Uid, VolumeId, VolumeName};
use jiff::Timestamp;

use super::builder::AdvanceBuilder;
use super::memory::{NodeLookup, Note};
use super::selection::PodId;
use super::{EphemeralVolumes, Step, Watched};
use crate::Presence;
use crate::wake::later;

/// A claim, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeClaimKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Whose volumes are on the move.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveKey {
    /// Those of this pod.
    Pod(Uid),
    /// One whose pod we never knew: it was leaving when the drain began.
    Volume(VolumeName),
}

/// Volumes on the move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Their pod, if it is known.
    pub pod: Option<PodId>,
    /// Which.
    pub volumes: Vec<Tracked>,
    /// Until when they may take to leave the node.
    pub detach_by: Timestamp,
    /// When they were seen to have left it.
    pub detached: Option<Timestamp>,
}

/// A volume that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// Its PersistentVolume.
    pub name: VolumeName,
    /// Its id at the provider, if that is known.
    pub id: Option<VolumeId>,
    /// Whether it is expected on another node.
    pub fate: Fate,
}

/// What becomes of a volume once it has left the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It follows its pod to another node.
    Follows,
    /// It ends with its pod, or nobody knows its pod.
    Ends,
}

/// The claims of a pod whose volumes are waited for, and what becomes of them.
fn claims(pod: &PodView, ephemeral: EphemeralVolumes) -> impl Iterator<Item = (VolumeClaimKey, Fate)> + '_ {
    pod.spec.volumes.iter().filter_map(move |volume| {
        let (name, fate) = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => (claim.claim_name.to_string(), Fate::Follows),
            (None, Some(_)) if ephemeral == EphemeralVolumes::Awaited => {
                (format!("{}-{}", pod.name(), volume.name), Fate::Ends)
            }
            (None, _) => return None,
        };
        Some((VolumeClaimKey { namespace: pod.namespace().to_owned(), name }, fate))
    })
}

/// The volumes that are waited for, by pod. `None` while something about them has to be looked up first: who shares a volume
/// with whom is known only when all claims are.
pub(super) fn tracked(
    builder: &mut AdvanceBuilder<'_, '_>,
    leaving: &[&PodView],
    everybody: &[&PodView],
) -> Option<BTreeMap<Uid, Vec<Tracked>>> {
    let ephemeral = builder.request.limits.ephemeral;
    let wanted: BTreeSet<VolumeClaimKey> =
        everybody.iter().flat_map(|pod| claims(pod, ephemeral)).map(|(claim, _)| claim).collect();
    let unknown = missing(builder, &wanted, |memory| &memory.claims)?;
    if !unknown.is_empty() {
        builder.note(Note::ClaimsAsked { claims: unknown.clone(), at: builder.now });
        builder.step(Step::FindClaims(unknown));
        return None;
    }
    let bound = |claim: &VolumeClaimKey, builder: &AdvanceBuilder<'_, '_>| match builder.memory.claims.get(claim) {
        Some(NodeLookup::Known(Some(volume))) if !volume.is_empty() => Some(volume.clone()),
        _ => None,
    };
    let mut uses: BTreeMap<VolumeName, usize> = BTreeMap::new();
    for pod in everybody {
        for (claim, _) in claims(pod, ephemeral) {
            if let Some(volume) = bound(&claim, builder) {
                *uses.entry(volume).or_default() += 1;
            }
        }
    }
    // Kept even when the other pod has gone: the volume has not become this pod's own for that.
    let shared: BTreeSet<VolumeName> = uses
        .iter()
        .filter(|(volume, count)| **count > 1 && !builder.memory.shared.contains(*volume))
        .map(|(volume, _)| volume.clone())
        .collect();
    if !shared.is_empty() {
        builder.note(Note::Shared { volumes: shared });
    }
    let mut own: BTreeMap<Uid, Vec<(VolumeName, Fate)>> = BTreeMap::new();
    for pod in leaving {
        let volumes = claims(pod, ephemeral)
            .filter_map(|(claim, fate)| Some((bound(&claim, builder)?, fate)))
            .filter(|(volume, _)| !builder.memory.shared.contains(volume));
        own.insert(pod.uid(), volumes.collect());
    }
    let wanted: BTreeSet<VolumeName> = own.values().flatten().map(|(volume, _)| volume.clone()).collect();
    let unknown = missing(builder, &wanted, |memory| &memory.disks)?;
    if !unknown.is_empty() {
        builder.note(Note::DisksAsked { volumes: unknown.clone(), at: builder.now });
        builder.step(Step::FindDisks(unknown));
        return None;
    }
    let id = |volume: &VolumeName| match builder.memory.disks.get(volume) {
        Some(NodeLookup::Known(Some(id))) if !id.is_empty() => Some(id.clone()),
        _ => None,
    };
    let known = |volumes: Vec<(VolumeName, Fate)>| {
        let known = volumes.into_iter().filter_map(|(name, fate)| Some(Tracked { id: Some(id(&name)?), name, fate }));
        known.collect()
    };
    Some(own.into_iter().map(|(pod, volumes)| (pod, known(volumes))).collect())
}

/// Of those wanted, the ones to ask for now; `None` while an answer or the time for another attempt is awaited. What could not
/// be read after a few attempts is left out: it must not hold up the node.
fn missing<K: Ord + Clone, T>(
    builder: &mut AdvanceBuilder<'_, '_>,
    wanted: &BTreeSet<K>,
    of: impl Fn(&super::Memory) -> &BTreeMap<K, NodeLookup<T>>,
) -> Option<Vec<K>> {
    let limits = builder.request.limits;
    let (mut unknown, mut wait) = (Vec::new(), None::<Timestamp>);
    for key in wanted {
        let again = match of(&builder.memory).get(key) {
            None => builder.now,
            Some(NodeLookup::Known(_)) => continue,
            Some(NodeLookup::Asked { at, .. }) => later(*at, limits.answer_patience),
            Some(NodeLookup::Failed { tries, .. }) if *tries >= limits.lookup_tries => continue,
            Some(NodeLookup::Failed { at, .. }) => later(*at, limits.lookup_pause),
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

/// Where volumes are, as the caches show it.
pub(super) struct Places<'a> {
    node_name: &'a str,
    node: Presence<&'a NodeView>,
    attachments: &'a Watched<Vec<&'a VolumeAttachmentView>>,
}

impl<'a> Places<'a> {
    pub(super) fn of(builder: &AdvanceBuilder<'a, '_>) -> Self {
        Self { node_name: builder.request.node, node: builder.view.node, attachments: &builder.view.attachments }
    }

    /// Whether a volume still hangs on the node. Both lists count: with many volumes the node's own is short of some for a
    /// moment. Ids are compared as plain text; a node that is gone holds nothing.
    pub(super) fn holds(&self, volume: &Tracked) -> bool {
        let listed = match (self.node, &volume.id) {
            (Presence::Absent, _) => return false,
            (Presence::Present(node), Some(id)) => {
                node.status.volumes_attached.iter().any(|attached| attached.name.contains(id.as_str()))
            }
            (Presence::Present(_) | Presence::Undecodable, _) => false,
        };
        listed || self.of_volume(&volume.name).any(|a| a.spec.node_name == *self.node_name)
    }

    /// Whether it has arrived on another node. Where attachments cannot be seen, nobody knows.
    pub(super) fn arrived(&self, volume: &Tracked) -> bool {
        self.of_volume(&volume.name).any(|a| a.status.attached && a.spec.node_name != *self.node_name)
    }

    /// Whether there is no node to detach from.
    pub(super) fn node_is_gone(&self) -> bool {
        self.node == Presence::Absent
    }

    /// Volumes that are just being taken off the node.
    pub(super) fn leaving(&self) -> BTreeSet<VolumeName> {
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
