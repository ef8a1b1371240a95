//! Evicts pods with volumes one by one.
//!
//! At any time at most one of them moves: from the request until its volumes are detached from this Node and attached
//! to another, or the timeout for that has passed. A pod that a PodDisruptionBudget keeps does not block the next one;
//! a pod whose volumes are moving does.

use std::collections::{BTreeMap, BTreeSet};

use api::view::PodView;
use api::{Object, Uid, VolumeName};
use jiff::Timestamp;

use super::blocker::Obstacle;
use super::budget::Budgets;
use super::builder::AdvanceBuilder;
use super::memory::{EarlierDetachments, Note, Verb};
use super::pod::{self, Need, PodVolumes};
use super::selection::{self, PodId};
use super::volumes::{self, AfterDetach, Move, MoveKey, TrackedVolume, VolumeLocations};
use super::{Step, Watched};
use meta::time::later;

/// Whether the next pod may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextPod {
    Allowed,
    Waits,
}

pub(super) fn advance(
    builder: &mut AdvanceBuilder<'_, '_>,
    mut leaving: Vec<&PodView>,
    all_pods: &[&PodView],
    budgets: &mut Budgets<'_>,
) {
    if leaving.is_empty() && builder.memory.moves.is_empty() {
        return;
    }
    let attachments = wait_for_attachments(builder);
    selection::sort(&mut leaving);
    let tracked =
        if leaving.is_empty() { Some(BTreeMap::new()) } else { volumes::tracked(builder, &leaving, all_pods) };
    if let Some(tracked) = &tracked {
        record_terminating_pods(builder, &leaving, tracked);
        record_earlier_detachments(builder, &leaving);
    }
    let mut next = check_moves(builder, all_pods);
    let volumes_unknown = tracked.is_none() || attachments == Attachments::Awaited;
    if volumes_unknown || leaving.iter().any(|pod| pod::request_in_progress(builder, &pod.uid()).is_some()) {
        next = NextPod::Waits;
    }
    for pod in leaving {
        let id = PodId::of(pod);
        if is_moving(builder, &id.uid) {
            continue; // reported by its volumes
        }
        match pod::need(builder, pod, PodVolumes::Awaited, budgets) {
            Need::Request(verb) if next == NextPod::Allowed => {
                next = NextPod::Waits;
                let volumes = tracked.as_ref().and_then(|t| t.get(&id.uid)).cloned().unwrap_or_default();
                evict(builder, pod, verb, volumes, budgets);
            }
            Need::Request(_) => {
                let why = if volumes_unknown { Obstacle::VolumesUnknown } else { Obstacle::Queued };
                builder.block(id.to_string(), why, None);
            }
            // The drain waits for none of its volumes, and its termination time has passed: only the object is left.
            Need::Wait(Obstacle::Overdue { .. }, _) if tracked.is_some() => {}
            Need::Wait(obstacle, until) => builder.block(id.to_string(), obstacle, until),
        }
    }
}

/// Whether the drain waits for the list of VolumeAttachments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attachments {
    /// The list is pending.
    Awaited,
    /// The list is available, or the drain continues without it: a missing permission must not block the drain.
    Settled,
}

fn wait_for_attachments(builder: &mut AdvanceBuilder<'_, '_>) -> Attachments {
    if builder.view.attachments != Watched::NotYet {
        return Attachments::Settled;
    }
    builder.step(Step::Watch);
    let since = builder.memory.attachments_missing_since.unwrap_or(builder.now);
    if builder.memory.attachments_missing_since.is_none() {
        builder.note(Note::AttachmentsMissing { since });
    }
    let end = later(since, builder.request.limits.detach_timeout);
    if end <= builder.now {
        return Attachments::Settled;
    }
    builder.wake(end);
    Attachments::Awaited
}

fn evict(
    builder: &mut AdvanceBuilder<'_, '_>,
    pod: &PodView,
    verb: Verb,
    volumes: Vec<TrackedVolume>,
    budgets: &Budgets<'_>,
) {
    let id = PodId::of(pod);
    if !volumes.is_empty() {
        let detach_by = later(builder.now, pod::grace(pod) + builder.request.limits.detach_timeout);
        note_move(builder, MoveKey::Pod(id.uid.clone()), Some(id.clone()), volumes, detach_by);
    }
    builder.request_removal(id, verb, budgets.version(pod));
}

fn note_move(
    builder: &mut AdvanceBuilder<'_, '_>,
    key: MoveKey,
    pod: Option<PodId>,
    volumes: Vec<TrackedVolume>,
    detach_by: Timestamp,
) {
    builder.note(Note::Moving { key, what: Move { pod, volumes, detach_by, detached: None } });
}

/// Records the moves of pods that are terminating, by any client. They delay other pods in the same way as pods that
/// this process evicted.
fn record_terminating_pods(
    builder: &mut AdvanceBuilder<'_, '_>,
    leaving: &[&PodView],
    tracked: &BTreeMap<Uid, Vec<TrackedVolume>>,
) {
    for pod in leaving {
        let key = MoveKey::Pod(pod.uid());
        let volumes = tracked.get(&pod.uid()).cloned().unwrap_or_default();
        if volumes.is_empty() || builder.memory.moves.contains_key(&key) {
            continue;
        }
        let end = match (pod.deleted_at(), pod::deleted_by(builder, pod)) {
            (Some(end), _) => end,
            (None, Some(_)) => later(builder.now, pod::grace(pod)),
            (None, None) => continue,
        };
        let detach_by = later(end, builder.request.limits.detach_timeout);
        note_move(builder, key, Some(PodId::of(pod)), volumes, detach_by);
    }
}

/// Records the volumes that are being detached at the start of the drain. Their pods may have been evicted by an
/// earlier process, so the drain waits for them once.
fn record_earlier_detachments(builder: &mut AdvanceBuilder<'_, '_>, leaving: &[&PodView]) {
    if builder.memory.earlier_detachments == EarlierDetachments::Recorded
        || builder.view.attachments == Watched::NotYet
        || leaving.is_empty()
    {
        return;
    }
    let known: BTreeSet<VolumeName> =
        builder.memory.moves.values().flat_map(|moving| &moving.volumes).map(|volume| volume.name.clone()).collect();
    let detach_by = later(builder.now, builder.request.limits.detach_timeout);
    for name in VolumeLocations::of(builder).detaching().difference(&known).cloned() {
        let volumes = vec![TrackedVolume { name: name.clone(), id: None, after_detach: AfterDetach::Ends }];
        note_move(builder, MoveKey::Volume(name), None, volumes, detach_by);
    }
    builder.note(Note::EarlierDetachmentsRecorded);
}

fn is_moving(builder: &AdvanceBuilder<'_, '_>, pod: &Uid) -> bool {
    builder.memory.moves.contains_key(&MoveKey::Pod(pod.clone()))
}

/// Checks the moving volumes.
fn check_moves(builder: &mut AdvanceBuilder<'_, '_>, all_pods: &[&PodView]) -> NextPod {
    let here: BTreeMap<Uid, &PodView> = all_pods.iter().map(|pod| (pod.uid(), *pod)).collect();
    let mut next = NextPod::Allowed;
    for (key, moving) in builder.memory.moves.clone() {
        let pod = match &key {
            MoveKey::Pod(uid) => here.get(uid).copied(),
            MoveKey::Volume(_) => None,
        };
        if check_move(builder, &key, &moving, pod) == NextPod::Waits {
            next = NextPod::Waits;
        }
    }
    next
}

fn check_move(builder: &mut AdvanceBuilder<'_, '_>, key: &MoveKey, moving: &Move, pod: Option<&PodView>) -> NextPod {
    let name = moving.pod.as_ref().map_or_else(|| names(&moving.volumes), ToString::to_string);
    if let Some(pod) = pod
        && pod::deleted_by(builder, pod).is_none()
    {
        if let Some((verb, until)) = pod::request_in_progress(builder, &pod.uid()) {
            builder.block(name, Obstacle::InProgress(verb), Some(until));
            return NextPod::Waits;
        }
        builder.note(Note::MoveEnded { key: key.clone() }); // the eviction was refused
        return NextPod::Allowed;
    }
    let locations = VolumeLocations::of(builder);
    let held: Vec<VolumeName> =
        moving.volumes.iter().filter(|v| locations.is_attached(v)).map(|v| v.name.clone()).collect();
    let node_is_gone = locations.node_is_gone();
    let expected: Vec<VolumeName> = moving
        .volumes
        .iter()
        .filter(|volume| volume.after_detach == AfterDetach::Reattaches && !locations.is_reattached(volume))
        .map(|volume| volume.name.clone())
        .collect();
    if !held.is_empty() && moving.detached.is_none() {
        return check_attached(builder, key, moving, pod, name, held);
    }
    let since = moving.detached.unwrap_or(builder.now);
    if moving.detached.is_none() {
        builder.note(Note::Detached { key: key.clone(), at: builder.now });
    }
    let until = later(since, builder.request.limits.reattach_timeout);
    if !expected.is_empty() && !node_is_gone && builder.now < until {
        builder.block(name, Obstacle::Reattaching(expected), Some(until));
        return NextPod::Waits;
    }
    match pod.and_then(|pod| pod::deleted_by(builder, pod)) {
        Some(by) if builder.now < by => builder.block(name, Obstacle::Terminating, Some(by)),
        Some(_) => {}
        None => builder.note(Note::MoveEnded { key: key.clone() }),
    }
    NextPod::Allowed
}

/// Handles volumes that are still attached. They delay other pods until their timeout. Then the next pod is evicted,
/// and the pod of the volumes, while it exists, fails the drain.
fn check_attached(
    builder: &mut AdvanceBuilder<'_, '_>,
    key: &MoveKey,
    moving: &Move,
    pod: Option<&PodView>,
    name: String,
    held: Vec<VolumeName>,
) -> NextPod {
    if builder.now < moving.detach_by {
        builder.block(name, Obstacle::Detaching(held), Some(moving.detach_by));
        return NextPod::Waits;
    }
    if pod.is_some() {
        builder.block(name, Obstacle::StuckVolumes(held), None);
    } else {
        builder.note(Note::MoveEnded { key: key.clone() });
    }
    NextPod::Allowed
}

fn names(volumes: &[TrackedVolume]) -> String {
    volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>().join(", ")
}
