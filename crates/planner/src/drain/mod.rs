//! Plans the drain of a Node.
//!
//! Before a VM is deleted, updated or preserved, its pods must move. They are evicted, so that PodDisruptionBudgets and
//! grace periods are respected. Pods with volumes are evicted one by one, each after the volumes of the one before have
//! moved. After a timeout the remaining pods are deleted. Errors in this module lose data or make a service
//! unavailable, so the rules are exact, and all of them are here.
//!
//! A drain can take hours. It is not a task that sleeps but a function that is called again after each change: given
//! the pods on the Node, the PodDisruptionBudgets, the volumes and the requests so far, it returns the next requests
//! and the time of the next call. The end is observed, never assumed: a Node is drained when its pods are no longer
//! visible. A passed deadline does not end the drain but makes it forced.
//!
//! The caller passes what it requests ([`Request`]) and the content of the caches ([`View`]), and keeps a [`Memory`]
//! between two calls of [`advance`]. It executes the [`Step`]s, adds their results to the memory, and writes the
//! [`Outcome`] into its own status text.

mod answer;
pub mod attachments;
mod blocker;
mod budget;
mod builder;
pub mod concurrency;
mod evict;
mod force;
mod limits;
mod memory;
mod mode;
mod pod;
mod report;
mod request;
mod selection;
mod serial;
mod volumes;

use api::VolumeName;
use api::view::{NodeView, PodDisruptionBudgetView, PodView, VolumeAttachmentView};
use jiff::Timestamp;

use crate::{Presence, Wake};
use builder::AdvanceBuilder;

pub use answer::{Answer, Failure, Persistence, Refusal, Reply};
pub use blocker::{Blocker, Obstacle};
pub use limits::{EphemeralVolumes, Force, Limits};
pub use memory::{Found, Memory, Note, Verb};
pub use mode::{Cause, Mode};
pub use report::{WriteProgress, progress, write_progress};
pub use request::{Caller, ForceLabel, Request};
pub use selection::PodId;
pub use volumes::{AfterDetach, Move, MoveKey, TrackedVolume, VolumeClaimKey};

/// The observed state.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The pods on the Node. They must have been listed after new pods were kept away from it, or a pod that was just
    /// being scheduled is missed.
    pub pods: Watched<Pods<'a>>,
    /// The PodDisruptionBudgets of the cluster, or at least of the namespaces of these pods.
    pub budgets: Watched<Vec<&'a PodDisruptionBudgetView>>,
    /// The VolumeAttachments of the cluster.
    pub attachments: Watched<Vec<&'a VolumeAttachmentView>>,
    /// The Node.
    pub node: Presence<&'a NodeView>,
    /// The time of the decision.
    pub now: Timestamp,
}

/// The pods on a Node.
#[derive(Clone, Debug, Default)]
pub struct Pods<'a> {
    /// The pods that can be decoded.
    pub readable: Vec<&'a PodView>,
    /// Pods that cannot be decoded, as `namespace/name`.
    pub unreadable: Vec<String>,
}

/// The state of a watch that is opened only when needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched<T> {
    /// No list is completed yet.
    NotYet,
    /// The server does not offer the resource, or the permission is missing.
    Never,
    /// The objects.
    Seen(T),
}

/// The next requests and the state of the drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    /// The requests. All are sent in parallel.
    pub steps: Vec<Step>,
    /// The notes to apply before the requests are sent.
    pub notes: Vec<Note>,
    /// The state of the drain.
    pub outcome: Outcome,
    /// When to call [`advance`] again, unless a change wakes the drain before.
    pub wake: Wake,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Watch what the view lacks: pods of the Node, PodDisruptionBudgets, VolumeAttachments. Repeated until they are
    /// available.
    Watch,
    /// Evict this pod, guarded by its UID; the result is [`Note::Answered`].
    Evict(PodId),
    /// Delete this pod without a grace period, guarded by its UID; the result is [`Note::Answered`].
    Delete(PodId),
    /// Look up the volumes to which these claims are bound; the result is one [`Note::ClaimFound`] each.
    FindClaims(Vec<VolumeClaimKey>),
    /// Look up these volumes and query the driver for their IDs, each separately; the result is one [`Note::DiskFound`]
    /// each.
    FindDisks(Vec<VolumeName>),
}

/// The state of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The drain is in progress.
    InProgress {
        /// The remaining pods and their obstacles, those that a user must fix first.
        waiting: Vec<Blocker>,
        /// The failure that a user must fix, in MCM's words. Written immediately, with state Failed. Without it the
        /// state is Processing and the text is [`progress`].
        failure: Option<String>,
    },
    /// The Node is drained.
    Drained(Mode),
    /// The forced drain has failed for too long. Only returned to a deletion, which then continues.
    Failed {
        /// The failure, in MCM's words.
        failure: String,
    },
}

/// Plans the next requests of a drain.
#[must_use]
pub fn advance<'a>(request: &Request<'a>, view: &'a View<'a>, memory: &Memory) -> Advance {
    let mut builder = AdvanceBuilder::new(request, view, memory);
    let (mode, change) = Mode::of(request, view.now);
    if let Some(at) = change {
        builder.wake(at);
    }
    force::record_start(&mut builder, mode);
    let Watched::Seen(pods) = &view.pods else { return force::without_pods(builder, mode) };
    pod::forget_deleted(&mut builder, &pods.readable);
    match mode {
        Mode::Evict => evict::advance(builder, pods),
        Mode::Force(_) => force::advance(builder, pods, mode),
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Watch => f.write_str("watch the pods, PodDisruptionBudgets and VolumeAttachments of the Node"),
            Self::Evict(pod) => write!(f, "evict pod {pod}"),
            Self::Delete(pod) => write!(f, "delete pod {pod}"),
            Self::FindClaims(claims) => write!(f, "look up {} PersistentVolumeClaims", claims.len()),
            Self::FindDisks(volumes) => write!(f, "look up {} PersistentVolumes", volumes.len()),
        }
    }
}

#[cfg(test)]
mod tests;
