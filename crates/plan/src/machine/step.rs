//! What can be done about a machine, as data.

use std::fmt;

use api::{NodeName, ProviderId, Uid};

use super::reason::Reason;
use super::status::StatusWrite;
use super::vm::Call;
use crate::Wake;

/// What to do, in order, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The steps, each guarded by what the decision was based on.
    pub steps: Vec<Step>,
    /// What happens after them.
    pub wake: Wake,
    /// Why.
    pub because: Reason,
    /// The deployment for which this is the only plan that may be carried out at a time: decide again once nobody else does.
    pub alone_in: Option<String>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Write these fields of the Machine's metadata and spec, and no others.
    Patch(MachinePatch),
    /// Write these parts of the Machine's status.
    Status(StatusWrite),
    /// Write these fields of the Node's metadata, and no others.
    PatchNode(NodePatch),
    /// Delete this very Node, not a later one of the same name.
    DeleteNode {
        /// Its name.
        name: String,
        /// Its uid.
        uid: Uid,
    },
    /// Look which pods are on this node.
    LookAtPods {
        /// Its name.
        node: String,
    },
    /// Remove the machine's bootstrap token from the target cluster, if there is one. Failing is no reason to stop: it expires.
    RemoveToken,
    /// Call the driver; always the last step.
    Driver(Call),
    /// Tell people, as an Event on the Machine.
    Tell(Notice),
}

/// Fields of a Machine outside its status. `None` leaves a field alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachinePatch {
    /// The whole list of finalizers.
    pub finalizers: Option<Vec<String>>,
    /// The label that links the Machine to its Node.
    pub node_label: Option<NodeName>,
    /// The annotation that decides who goes first when a set shrinks.
    pub priority: Option<String>,
    /// `spec.providerID`.
    pub provider_id: Option<ProviderId>,
}

/// Fields of a Node. `None` leaves a field alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePatch {
    /// Which node.
    pub name: String,
    /// The very one the decision was about.
    pub uid: Uid,
    /// The version the decision was about: finalizers are rewritten whole.
    pub resource_version: String,
    /// The label that names its machine.
    pub machine_label: Option<String>,
    /// The whole list of finalizers.
    pub finalizers: Option<Vec<String>>,
}

/// An Event on the Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Good or bad news.
    pub tone: Tone,
    /// One word for programs.
    pub reason: &'static str,
    /// One sentence for people.
    pub message: String,
}

/// Whether an Event is worth worrying about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Things go as they should.
    Normal,
    /// Someone should look.
    Warning,
}

impl Plan {
    pub(super) fn of(steps: Vec<Step>, wake: Wake, because: Reason) -> Self {
        Self { steps, wake, because, alone_in: None }
    }

    pub(super) fn wait(wake: Wake, because: Reason) -> Self {
        Self::of(Vec::new(), wake, because)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Patch(patch) => patch.fmt(f),
            Self::Status(write) => write.fmt(f),
            Self::PatchNode(NodePatch { name, machine_label: Some(_), .. }) => {
                write!(f, "mark node {name:?} as its own")
            }
            Self::PatchNode(NodePatch { name, .. }) => write!(f, "let go of node {name:?}"),
            Self::DeleteNode { name, .. } => write!(f, "delete node {name:?}"),
            Self::LookAtPods { node } => write!(f, "look which pods are on node {node:?}"),
            Self::RemoveToken => f.write_str("remove its bootstrap token"),
            Self::Driver(call) => write!(f, "ask the cloud to {} its VM", call.verb()),
            Self::Tell(notice) => write!(f, "tell: {}", notice.reason),
        }
    }
}

impl fmt::Display for MachinePatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { finalizers, node_label, priority, provider_id } = self;
        match (provider_id, node_label, finalizers, priority) {
            (Some(id), _, _, _) => write!(f, "write down its VM {id}"),
            (None, Some(node), _, _) => write!(f, "link it to node {node:?}"),
            (None, None, Some(list), _) if list.iter().any(|l| l == api::names::finalizers::MACHINE) => {
                f.write_str("add our finalizer")
            }
            (None, None, Some(_), _) => f.write_str("remove our finalizer"),
            (None, None, None, _) => f.write_str("set its priority"),
        }
    }
}
