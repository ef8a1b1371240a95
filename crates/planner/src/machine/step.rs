//! What can be done about a machine, as data.

use std::collections::BTreeMap;
use std::fmt;

use api::names::annotations::PRIORITY;
use api::{NodeName, ProviderId, Text, Uid};

use super::barrier::Barrier;
use super::drain_view::Watching;
use super::reason::Reason;
use super::status::StatusWrite;
use super::vm::{Call, CallUnderWay};
use crate::drain::{self, attachments::AttachmentId};
use crate::node::NodeWrite;
use crate::{Awaited, Event, Wake};

/// What to do, in order, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The steps, each guarded by what the decision was based on.
    pub steps: Vec<Step>,
    /// What happens after them.
    pub wake: Wake,
    /// Why.
    pub because: Reason,
    /// Whether what the drain of its node holds is still needed.
    pub drain: DrainNeed,
    /// What people should know for as long as it is so. Told when it is new, not in every reconcile.
    pub remarks: Vec<Event>,
    /// The deployment for which this is the only plan that may be carried out at a time: decide again once nobody else does.
    pub exclusive_in: Option<String>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Write these fields of the Machine's metadata and spec, and no others.
    Patch(MachinePatch),
    /// Write these parts of the Machine's status.
    Status(StatusWrite),
    /// Ask for the deletion of this very Machine.
    DeleteMachine,
    /// Write these parts of the Node, and no others.
    PatchNode(NodeWrite),
    /// Delete this very Node, not a later one of the same name.
    DeleteNode {
        /// Its name.
        name: String,
        /// Its uid.
        uid: Uid,
    },
    /// Ask the API server itself for this node, which the cache does not show, and remember what it says.
    LookForNode {
        /// Its name.
        name: String,
    },
    /// Keep new pods away from the node that is to be emptied. Failing is remembered, and no reason to stop.
    KeepPodsAway {
        /// By which means.
        part: Barrier,
        /// What is written; only fields of our own, so any version of this very node will do.
        write: NodeWrite,
    },
    /// Begin to watch what the drain of this node depends on.
    Watch {
        /// The node.
        node: String,
        /// What.
        what: Watching,
    },
    /// Remember this, then make these requests of the drain, all at once and outside of the reconcile.
    Drain {
        /// What to remember.
        notes: Vec<drain::Note>,
        /// The requests.
        requests: Vec<drain::Step>,
    },
    /// Remember this, then delete these VolumeAttachments, outside of the reconcile.
    Detach {
        /// What to remember.
        notes: Vec<drain::Note>,
        /// These very ones.
        attachments: Vec<AttachmentId>,
    },
    /// The node is empty: measure how long that took.
    Emptied,
    /// Tell people, as an Event on the Node.
    TellNode {
        /// Its name.
        name: String,
        /// Its uid.
        uid: Uid,
        /// What.
        event: Event,
    },
    /// Remove the machine's bootstrap token from the target cluster, if there is one. Failing is no reason to stop: it expires.
    RemoveToken,
    /// Call the driver; always the last step.
    Driver(Call),
    /// Tell people, as an Event on the Machine.
    Tell(Event),
}

/// Fields of a Machine outside its status. `None` leaves a field alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachinePatch {
    /// The whole list of finalizers.
    pub finalizers: Option<Vec<Text>>,
    /// The label that links the Machine to its Node.
    pub node_label: Option<NodeName>,
    /// Annotations to set, or to remove where there is no value.
    pub annotations: BTreeMap<&'static str, Option<String>>,
    /// `spec.providerID`.
    pub provider_id: Option<ProviderId>,
}

/// Whether a machine's node is being emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainNeed {
    /// It is, or may be in a moment.
    Going,
    /// It is not: whatever was held for it can go.
    Over,
}

impl Plan {
    pub(super) fn of(steps: Vec<Step>, wake: Wake, because: Reason) -> Self {
        let drain = match wake {
            // What comes next is decided in a moment.
            Wake::Again => DrainNeed::Going,
            Wake::On(_) | Wake::By { .. } => DrainNeed::Over,
        };
        Self { steps, wake, because, drain, remarks: Vec::new(), exclusive_in: None }
    }

    /// The same while its node is being emptied: what was learned in the drain must outlive the wait.
    pub(super) fn draining(self) -> Self {
        Self { drain: DrainNeed::Going, ..self }
    }

    pub(super) fn wait(wake: Wake, because: Reason) -> Self {
        Self::of(Vec::new(), wake, because)
    }

    /// Nothing, until a driver call has ended.
    pub(super) fn await_answer(CallUnderWay { call, until }: CallUnderWay) -> Self {
        Self::wait(Wake::By { awaited: Awaited::DriverAnswer, at: until }, Reason::CallUnderWay(call))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Patch(patch) => patch.fmt(f),
            Self::Status(write) => write.fmt(f),
            Self::DeleteMachine => f.write_str("ask for its deletion"),
            Self::PatchNode(write) | Self::KeepPodsAway { write, .. } => write.fmt(f),
            Self::DeleteNode { name, .. } => write!(f, "delete node {name:?}"),
            Self::LookForNode { name } => write!(f, "ask for node {name:?}"),
            Self::Watch { node, what: Watching::Pods(_) } => write!(f, "watch the pods of node {node:?}"),
            Self::Watch { what: Watching::Surroundings, .. } => f.write_str("watch budgets and attachments"),
            Self::Drain { requests, .. } => match requests.as_slice() {
                [] => f.write_str("remember how its drain stands"),
                [one] => one.fmt(f),
                [first, rest @ ..] => write!(f, "{first} and {} more", rest.len()),
            },
            Self::Detach { attachments, .. } => write!(f, "delete {} VolumeAttachments", attachments.len()),
            Self::Emptied => f.write_str("note that its node is empty"),
            Self::TellNode { event, .. } => write!(f, "tell on its node: {}", event.reason),
            Self::RemoveToken => f.write_str("remove its bootstrap token"),
            Self::Driver(call) => write!(f, "ask the cloud to {} its VM", call.verb()),
            Self::Tell(event) => write!(f, "tell: {}", event.reason),
        }
    }
}

impl fmt::Display for MachinePatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { finalizers, node_label, annotations, provider_id } = self;
        match (provider_id, node_label, finalizers) {
            (Some(id), _, _) => write!(f, "write down its VM {id}"),
            (None, Some(node), _) => write!(f, "link it to node {node:?}"),
            (None, None, Some(list)) if list.iter().any(|l| l == api::names::finalizers::MACHINE) => {
                f.write_str("add our finalizer")
            }
            (None, None, Some(_)) => f.write_str("remove our finalizer"),
            (None, None, None) if annotations.contains_key(PRIORITY) => f.write_str("set its priority"),
            (None, None, None) => f.write_str("note what was said of its preservation"),
        }
    }
}
