//! DrainView a node without breaking what runs on it.
//!
//! Before a VM goes, is updated or is set aside, its pods have to move. They are asked to (evicted), so that disruption budgets
//! and grace periods hold; pods with disks go one by one, each waiting for the disks of the one before; and when waiting has
//! lasted as long as it may, they are made to (deleted). Getting this wrong loses data or takes a service down, so the rules are
//! exact, and all of them are here.
//!
//! A drain can take hours. It is no task that sleeps but a question asked again whenever something happens: given who is on the
//! node now, what the budgets and volumes say, and what we did so far, which requests go out, and until when is there nothing
//! to do? The end is always seen, never assumed: a node is drained when the pods have gone from our connectivity, and a deadline that
//! passes is no success but the beginning of force.
//!
//! The caller says what it wants ([`Request`]), shows what the caches hold ([`View`]) and keeps a [`Memory`] between two calls of
//! [`advance`]. It carries out the [`Step`]s, puts their answers into the memory, and wraps the [`Outcome`] in its own sentence.

mod answer;
pub mod attachments;
mod blocker;
mod budget;
mod builder;
pub mod concurrency;
mod forced;
mod gentle;
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

pub use answer::{Answer, Failure, Outlook, Refusal, Reply};
pub use blocker::{Blocker, Obstacle};
pub use limits::{EphemeralVolumes, Force, Limits};
pub use memory::{Found, Memory, Note, Verb};
pub use mode::{Cause, Mode};
pub use report::{Worth, progress, worth_writing};
pub use request::{Caller, ForceLabel, Request};
pub use selection::PodId;
pub use volumes::{Fate, Move, MoveKey, Tracked, VolumeClaimKey};

/// What is seen right now.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The pods of the node. They must have been listed after new pods were kept away from it, or one that was just being
    /// placed is overlooked.
    pub pods: Watched<Pods<'a>>,
    /// The disruption budgets of the cluster, or at least of these pods' namespaces.
    pub budgets: Watched<Vec<&'a PodDisruptionBudgetView>>,
    /// The VolumeAttachments of the cluster.
    pub attachments: Watched<Vec<&'a VolumeAttachmentView>>,
    /// The node.
    pub node: Presence<&'a NodeView>,
    /// The time of the decision.
    pub now: Timestamp,
}

/// The pods of a node.
#[derive(Clone, Debug, Default)]
pub struct Pods<'a> {
    /// Those that can be read.
    pub readable: Vec<&'a PodView>,
    /// Those that are there but cannot be read, as `namespace/name`.
    pub unreadable: Vec<String>,
}

/// What a watch that is opened only when needed has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched<T> {
    /// Nothing yet.
    NotYet,
    /// It never will: the server does not offer it, or we may not look.
    Never,
    /// This.
    Seen(T),
}

/// What to do now, and how things stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Requests to make. All at once; none waits for another.
    pub steps: Vec<Step>,
    /// What to remember, before the requests go out.
    pub notes: Vec<Note>,
    /// How things stand.
    pub outcome: Outcome,
    /// When to ask again, unless something happens before.
    pub wake: Wake,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Begin to watch what the view lacks: this node's pods, budgets, attachments. Repeated until they are seen.
    Watch,
    /// Evict this pod, by its uid; answered by [`Note::Answered`].
    Evict(PodId),
    /// Delete this pod, by its uid and with no grace; answered by [`Note::Answered`].
    Delete(PodId),
    /// Look up which volumes these claims are bound to; answered by [`Note::ClaimFound`] for each.
    FindClaims(Vec<VolumeClaimKey>),
    /// Look up these volumes and ask the driver for their ids, each by itself; answered by [`Note::DiskFound`] for each.
    FindDisks(Vec<VolumeName>),
}

/// How a drain stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on.
    Working {
        /// Who is still there and why, those who need help first.
        waiting: Vec<Blocker>,
        /// What keeps it from ending unless somebody helps, in the reference's words. Written at once, with state Failed;
        /// without it the state is Processing and the text [`progress`].
        failure: Option<String>,
    },
    /// Nobody who has to leave is left.
    Drained(Mode),
    /// It was forced and failed all the same, for as long as that may take. Only a deletion gets this: it goes on.
    GivenUp {
        /// Why, in the reference's words.
        failure: String,
    },
}

/// Decides what to do next.
#[must_use]
pub fn advance<'a>(request: &Request<'a>, view: &'a View<'a>, memory: &Memory) -> Advance {
    let mut builder = AdvanceBuilder::new(request, view, memory);
    let (mode, change) = Mode::of(request, view.now);
    if let Some(at) = change {
        builder.wake(at);
    }
    forced::keep_time(&mut builder, mode);
    let Watched::Seen(pods) = &view.pods else { return forced::unseen(builder, mode) };
    pod::forget_the_gone(&mut builder, &pods.readable);
    match mode {
        Mode::Gentle => gentle::advance(builder, pods),
        Mode::Forced(_) => forced::advance(builder, pods, mode),
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Watch => f.write_str("watch the pods, budgets and attachments of the node"),
            Self::Evict(pod) => write!(f, "evict pod {pod}"),
            Self::Delete(pod) => write!(f, "delete pod {pod}"),
            Self::FindClaims(claims) => write!(f, "look up {} claims", claims.len()),
            Self::FindDisks(volumes) => write!(f, "look up {} volumes", volumes.len()),
        }
    }
}

#[cfg(test)]
mod tests;
