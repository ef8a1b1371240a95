//! Steps of a Machine's plan, as data.

use std::fmt;

use api::Uid;
use api::names::annotations::PRIORITY;

use super::barrier::Barrier;
use super::drain_view::Watching;
use super::reason::Reason;
use super::status::StatusWrite;
use super::vm::{Call, CallUnderWay};
use crate::drain::{self, attachments::AttachmentId};
use crate::machine_patch::MachinePatch;
use crate::node::NodeWrite;
use crate::{Awaited, Event, Wake};

/// The steps of a plan, in order, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The steps. Each write is guarded by the version that the decision was based on.
    pub steps: Vec<Step>,
    /// When the Machine is planned again.
    pub wake: Wake,
    /// The reason.
    pub because: Reason,
    /// Whether the state kept for the drain of the Node is still needed.
    pub drain: DrainNeed,
    /// Events about a lasting condition. Each is emitted when it is new, not in every reconcile.
    pub remarks: Vec<Event>,
    /// The MachineDeployment in which only one such plan may be executed at a time. If another one is being executed,
    /// the Machine is planned again afterwards.
    pub exclusive_in: Option<String>,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Patches fields of the Machine outside its status.
    Patch(MachinePatch),
    /// Patches the Machine's status.
    Status(StatusWrite),
    /// Deletes the Machine, guarded by its UID.
    DeleteMachine,
    /// Patches the Node.
    PatchNode(NodeWrite),
    /// Deletes the Node, guarded by its UID.
    DeleteNode {
        /// The name of the Node.
        name: String,
        /// The UID of the Node.
        uid: Uid,
    },
    /// Gets a Node that is not in the cache from the API server and records the result.
    LookUpNode {
        /// The name of the Node.
        name: String,
    },
    /// Keeps new pods away from a Node before its drain. A failure is recorded and does not end the plan.
    Cordon {
        /// The barrier.
        barrier: Barrier,
        /// The write. It changes only fields of the machine controller, so any version of the Node is valid.
        write: NodeWrite,
    },
    /// Starts watches that the drain of the Node needs.
    Watch {
        /// The Node.
        node: String,
        /// What to watch.
        what: Watching,
    },
    /// Applies the notes, then starts the requests of the drain in parallel, outside of the reconcile.
    Drain {
        /// The notes.
        notes: Vec<drain::Note>,
        /// The requests.
        requests: Vec<drain::Step>,
    },
    /// Applies the notes, then deletes the VolumeAttachments, outside of the reconcile.
    Detach {
        /// The notes.
        notes: Vec<drain::Note>,
        /// The VolumeAttachments, each with its UID.
        attachments: Vec<AttachmentId>,
    },
    /// Records that the Node is drained, for the metric of the duration.
    RecordDrained,
    /// Emits an Event on the Node.
    EmitNodeEvent {
        /// The name of the Node.
        name: String,
        /// The UID of the Node.
        uid: Uid,
        /// The Event.
        event: Event,
    },
    /// Deletes the Machine's bootstrap token from the target cluster, if it exists. A failure does not end the plan:
    /// the token expires.
    RemoveToken,
    /// Calls the driver. Always the last step.
    Driver(Call),
    /// Emits an Event on the Machine.
    EmitEvent(Event),
}

/// Whether the Node of a Machine is being drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainNeed {
    /// The Node is being drained, or may be after the next reconcile.
    InProgress,
    /// The Node is not being drained, so its drain state is dropped.
    NotNeeded,
}

impl Plan {
    pub(super) fn of(steps: Vec<Step>, wake: Wake, because: Reason) -> Self {
        let drain = match wake {
            // The next reconcile decides.
            Wake::Again => DrainNeed::InProgress,
            Wake::On(_) | Wake::By { .. } => DrainNeed::NotNeeded,
        };
        Self { steps, wake, because, drain, remarks: Vec::new(), exclusive_in: None }
    }

    /// Keeps the drain state while the Node is being drained.
    pub(super) fn draining(self) -> Self {
        Self { drain: DrainNeed::InProgress, ..self }
    }

    pub(super) fn wait(wake: Wake, because: Reason) -> Self {
        Self::of(Vec::new(), wake, because)
    }

    /// Waits until the driver call ends.
    pub(super) fn await_answer(CallUnderWay { call, until }: CallUnderWay) -> Self {
        Self::wait(Wake::By { awaited: Awaited::DriverAnswer, at: until }, Reason::CallInProgress(call))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Patch(patch) => patch.fmt(f),
            Self::Status(write) => write.fmt(f),
            Self::DeleteMachine => f.write_str("delete the Machine"),
            Self::PatchNode(write) | Self::Cordon { write, .. } => write.fmt(f),
            Self::DeleteNode { name, .. } => write!(f, "delete node {name:?}"),
            Self::LookUpNode { name } => write!(f, "look up node {name:?}"),
            Self::Watch { node, what: Watching::Pods(_) } => write!(f, "watch the pods of node {node:?}"),
            Self::Watch { what: Watching::BudgetsAndAttachments, .. } => {
                f.write_str("watch PodDisruptionBudgets and VolumeAttachments")
            }
            Self::Drain { requests, .. } => match requests.as_slice() {
                [] => f.write_str("record the drain state"),
                [one] => one.fmt(f),
                [first, rest @ ..] => write!(f, "{first} and {} more", rest.len()),
            },
            Self::Detach { attachments, .. } => write!(f, "delete {} VolumeAttachments", attachments.len()),
            Self::RecordDrained => f.write_str("record that the Node is drained"),
            Self::EmitNodeEvent { event, .. } => write!(f, "emit Event {} on the Node", event.reason),
            Self::RemoveToken => f.write_str("delete the bootstrap token"),
            Self::Driver(call) => write!(f, "call the driver to {} the VM", call.verb()),
            Self::EmitEvent(event) => write!(f, "emit Event {}", event.reason),
        }
    }
}

impl fmt::Display for MachinePatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { finalizers, annotations, .. } = self;
        match (self.provider_id(), self.node(), finalizers) {
            (Some(id), _, _) => write!(f, "record VM {id}"),
            (None, Some(node), _) => write!(f, "record node {node:?}"),
            (None, None, Some(list)) if list.iter().any(|l| l == api::names::finalizers::MACHINE) => {
                f.write_str("add the finalizer")
            }
            (None, None, Some(_)) => f.write_str("remove the finalizer"),
            (None, None, None) if annotations.contains_key(PRIORITY) => f.write_str("set the default priority"),
            (None, None, None) => f.write_str("update the preservation annotations"),
        }
    }
}
