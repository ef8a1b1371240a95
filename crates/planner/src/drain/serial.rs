//! Pods with volumes, one by one.
//!
//! At any time at most one of them is on its way: from the request until its volumes have left this node and arrived on
//! another, or have taken too long over it. A pod that a budget refuses does not hold up the next; a pod whose volumes do.

use std::collections::{BTreeMap, BTreeSet};

use api::view::PodView;
use api::{Object, Uid, VolumeName};
use jiff::Timestamp;

use super::blocker::Obstacle;
use super::budget::Budgets;
use super::builder::AdvanceBuilder;
use super::memory::{Leftovers, Note, Verb};
use super::pod::{self, Luggage, Need};
use super::selection::{self, PodId};
use super::volumes::{self, Fate, Move, MoveKey, Places, Tracked};
use super::{Step, Watched};
use crate::wake::later;

/// Whether the next pod may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextPod {
    MayGo,
    Waits,
}

pub(super) fn advance(
    builder: &mut AdvanceBuilder<'_, '_>,
    mut leaving: Vec<&PodView>,
    everybody: &[&PodView],
    budgets: &mut Budgets<'_>,
) {
    if leaving.is_empty() && builder.memory.moves.is_empty() {
        return;
    }
    let attachments = wait_for_attachments(builder);
    selection::in_order(&mut leaving);
    let tracked =
        if leaving.is_empty() { Some(BTreeMap::new()) } else { volumes::tracked(builder, &leaving, everybody) };
    if let Some(tracked) = &tracked {
        take_up_who_is_leaving(builder, &leaving, tracked);
        take_up_leftovers(builder, &leaving);
    }
    let mut next = settle(builder, everybody);
    let blind = tracked.is_none() || attachments == Attachments::Awaited;
    if blind || leaving.iter().any(|pod| pod::unanswered(builder, &pod.uid()).is_some()) {
        next = NextPod::Waits;
    }
    for pod in leaving {
        let id = PodId::of(pod);
        if is_moving(builder, &id.uid) {
            continue; // its volumes say what it waits for
        }
        match pod::need(builder, pod, Luggage::Volumes, budgets) {
            Need::Request(verb) if next == NextPod::MayGo => {
                next = NextPod::Waits;
                let volumes = tracked.as_ref().and_then(|t| t.get(&id.uid)).cloned().unwrap_or_default();
                set_off(builder, pod, verb, volumes, budgets);
            }
            Need::Request(_) => {
                let why = if blind { Obstacle::VolumesUnknown } else { Obstacle::Turn };
                builder.block(id.to_string(), why, None);
            }
            // None of its volumes is waited for, and its end has had its time: only its name is left here.
            Need::Wait(Obstacle::Overdue { .. }, _) if tracked.is_some() => {}
            Need::Wait(obstacle, until) => builder.block(id.to_string(), obstacle, until),
        }
    }
}

/// Whether the cluster's attachments are worth waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attachments {
    /// They will be seen soon.
    Awaited,
    /// They are seen, or will not be: who may not look must not keep the node for ever.
    Settled,
}

fn wait_for_attachments(builder: &mut AdvanceBuilder<'_, '_>) -> Attachments {
    if builder.view.attachments != Watched::NotYet {
        return Attachments::Settled;
    }
    builder.step(Step::Watch);
    let since = builder.memory.attachments_missed_since.unwrap_or(builder.now);
    if builder.memory.attachments_missed_since.is_none() {
        builder.note(Note::AttachmentsMissed { since });
    }
    let end = later(since, builder.request.limits.detach_timeout);
    if end <= builder.now {
        return Attachments::Settled;
    }
    builder.wake(end);
    Attachments::Awaited
}

fn set_off(
    builder: &mut AdvanceBuilder<'_, '_>,
    pod: &PodView,
    verb: Verb,
    volumes: Vec<Tracked>,
    budgets: &Budgets<'_>,
) {
    let id = PodId::of(pod);
    if !volumes.is_empty() {
        let detach_by = later(builder.now, pod::grace(pod) + builder.request.limits.detach_timeout);
        note_move(builder, MoveKey::Pod(id.uid.clone()), Some(id.clone()), volumes, detach_by);
    }
    builder.ask(id, verb, budgets.version(pod));
}

fn note_move(
    builder: &mut AdvanceBuilder<'_, '_>,
    key: MoveKey,
    pod: Option<PodId>,
    volumes: Vec<Tracked>,
    detach_by: Timestamp,
) {
    builder.note(Note::Moving { key, what: Move { pod, volumes, detach_by, detached: None } });
}

/// A pod that is on its way out, sent by whomever, holds up the others like one that we sent.
fn take_up_who_is_leaving(
    builder: &mut AdvanceBuilder<'_, '_>,
    leaving: &[&PodView],
    tracked: &BTreeMap<Uid, Vec<Tracked>>,
) {
    for pod in leaving {
        let key = MoveKey::Pod(pod.uid());
        let volumes = tracked.get(&pod.uid()).cloned().unwrap_or_default();
        if volumes.is_empty() || builder.memory.moves.contains_key(&key) {
            continue;
        }
        let end = match (pod.deleted_at(), pod::gone_by(builder, pod)) {
            (Some(end), _) => end,
            (None, Some(_)) => later(builder.now, pod::grace(pod)),
            (None, None) => continue,
        };
        let detach_by = later(end, builder.request.limits.detach_timeout);
        note_move(builder, key, Some(PodId::of(pod)), volumes, detach_by);
    }
}

/// Volumes that are being taken off the node when we first look belong to a pod that a process before us may have sent away.
/// They are waited for like any other, once.
fn take_up_leftovers(builder: &mut AdvanceBuilder<'_, '_>, leaving: &[&PodView]) {
    if builder.memory.leftovers == Leftovers::Seen || builder.view.attachments == Watched::NotYet || leaving.is_empty()
    {
        return;
    }
    let ours: BTreeSet<VolumeName> =
        builder.memory.moves.values().flat_map(|moving| &moving.volumes).map(|volume| volume.name.clone()).collect();
    let detach_by = later(builder.now, builder.request.limits.detach_timeout);
    for name in Places::of(builder).leaving().difference(&ours).cloned() {
        let volumes = vec![Tracked { name: name.clone(), id: None, fate: Fate::Ends }];
        note_move(builder, MoveKey::Volume(name), None, volumes, detach_by);
    }
    builder.note(Note::LeftoversSeen);
}

fn is_moving(builder: &AdvanceBuilder<'_, '_>, pod: &Uid) -> bool {
    builder.memory.moves.contains_key(&MoveKey::Pod(pod.clone()))
}

/// Looks where the moving volumes are.
fn settle(builder: &mut AdvanceBuilder<'_, '_>, everybody: &[&PodView]) -> NextPod {
    let here: BTreeMap<Uid, &PodView> = everybody.iter().map(|pod| (pod.uid(), *pod)).collect();
    let mut next = NextPod::MayGo;
    for (key, moving) in builder.memory.moves.clone() {
        let pod = match &key {
            MoveKey::Pod(uid) => here.get(uid).copied(),
            MoveKey::Volume(_) => None,
        };
        if look_at_move(builder, &key, &moving, pod) == NextPod::Waits {
            next = NextPod::Waits;
        }
    }
    next
}

fn look_at_move(builder: &mut AdvanceBuilder<'_, '_>, key: &MoveKey, moving: &Move, pod: Option<&PodView>) -> NextPod {
    let name = moving.pod.as_ref().map_or_else(|| names(&moving.volumes), ToString::to_string);
    if let Some(pod) = pod
        && pod::gone_by(builder, pod).is_none()
    {
        if let Some((verb, until)) = pod::unanswered(builder, &pod.uid()) {
            builder.block(name, Obstacle::Unanswered(verb), Some(until));
            return NextPod::Waits;
        }
        builder.note(Note::Settled { key: key.clone() }); // it was not allowed to go
        return NextPod::MayGo;
    }
    let places = Places::of(builder);
    let held: Vec<VolumeName> = moving.volumes.iter().filter(|v| places.holds(v)).map(|v| v.name.clone()).collect();
    let node_is_gone = places.node_is_gone();
    let expected: Vec<VolumeName> = moving
        .volumes
        .iter()
        .filter(|volume| volume.fate == Fate::Follows && !places.arrived(volume))
        .map(|volume| volume.name.clone())
        .collect();
    if !held.is_empty() && moving.detached.is_none() {
        return stays(builder, key, moving, pod, name, held);
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
    match pod.and_then(|pod| pod::gone_by(builder, pod)) {
        Some(by) if builder.now < by => builder.block(name, Obstacle::Ending, Some(by)),
        Some(_) => {}
        None => builder.note(Note::Settled { key: key.clone() }),
    }
    NextPod::MayGo
}

/// Volumes that are still here hold up the others for as long as they may take. After that the next goes; the pod, while it is
/// there, fails the drain.
fn stays(
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
        builder.note(Note::Settled { key: key.clone() });
    }
    NextPod::MayGo
}

fn names(volumes: &[Tracked]) -> String {
    volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>().join(", ")
}
