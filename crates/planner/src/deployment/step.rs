//! What can be done about a deployment, as data.

use std::fmt;

use api::names::labels::{CANDIDATE_FOR_UPDATE, SELECTED_FOR_UPDATE};
use api::{MachineDeploymentStatus, MachineSet, Uid};
use serde_json::Value;

use super::reason::Reason;
use crate::Event;
use crate::Wake;
use crate::node::NodeWrite;

/// What to do, in order, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The steps. They stand in an order in which stopping after any of them is safe.
    pub steps: Vec<Step>,
    /// What happens after them.
    pub wake: Wake,
    /// Why.
    pub because: Reason,
    /// The sets whose nodes are kept from the autoscaler. A node that joins one of them is annotated by whoever marks it first.
    pub guarded: Vec<Uid>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Ask the API server itself whether these machines exist: the cache does not know them, and it may be behind.
    AskForMachines(Vec<String>),
    /// Change the deployment's metadata and spec.
    Deployment(DeploymentEdit),
    /// Write the deployment's status.
    Status(StatusEdit),
    /// Make a set.
    CreateSet(Box<NewSet>),
    /// Change a set.
    Set(SetEdit),
    /// Delete this very set, in the very state that was decided on.
    DeleteSet {
        /// Its name.
        name: String,
        /// Its uid.
        uid: Uid,
        /// The version that was empty; `None` if it is to go whatever it holds.
        resource_version: Option<String>,
    },
    /// Change a machine.
    Machine(MachineEdit),
    /// Change a node.
    Node(NodeWrite),
    /// Tell people, as an Event on the deployment.
    Tell(Event),
}

/// A merge patch of a deployment; guarded by the version that was seen, or that the step before it made.
#[derive(Clone, Debug, PartialEq)]
pub struct DeploymentEdit {
    /// What for.
    pub purpose: Purpose,
    /// The patch, without guards.
    pub changes: Value,
}

/// What a deployment is changed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Our finalizer comes before its first set.
    AddFinalizer,
    /// It has no sets left.
    RemoveFinalizer,
    /// The autoscaler's list of machines to delete was repaired or has been carried out in part.
    TidyRequestedDeletions,
    /// It shows the revision of its newest set.
    ShowRevision,
    /// It goes back to an earlier template, or says that it cannot.
    RollBack,
}

/// A new status, and what of it is new.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusEdit {
    /// The status as it will be.
    pub status: Box<MachineDeploymentStatus>,
    /// The merge patch, without guards.
    pub changes: Value,
}

/// A set to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSet {
    /// The set.
    pub set: MachineSet,
}

impl NewSet {
    /// The set as it is sent. Zero machines are said outright: a size that is not there cannot be scaled by others.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut body = serde_json::to_value(&self.set).unwrap_or_default();
        if let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("replicas".to_owned(), self.set.spec.replicas.into());
        }
        body
    }
}

/// A merge patch of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct SetEdit {
    /// Which set.
    pub name: String,
    /// The very one the decision was about.
    pub uid: Uid,
    /// The version the decision was about, where a list is rewritten whole. A size is not guarded by it: the set's own controller
    /// writes its status all the time, nobody but us writes its size, and two of ours would trip over each other.
    pub resource_version: Option<String>,
    /// What for.
    pub change: SetChange,
    /// The patch, without guards.
    pub changes: Value,
}

/// What a set is changed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetChange {
    /// It has no owner and our labels.
    Adopt,
    /// It is ours and has lost our labels.
    Release,
    /// It is to have another number of machines.
    Scale {
        /// So many until now.
        from: i32,
        /// So many from now on.
        to: i32,
    },
    /// Its template, annotations or labels follow the deployment.
    Update,
}

/// A merge patch of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineEdit {
    /// Which machine.
    pub name: String,
    /// The very one the decision was about.
    pub uid: Uid,
    /// The version the decision was about, where a list is rewritten whole.
    pub resource_version: Option<String>,
    /// What for.
    pub change: MachineChange,
    /// The patch, without guards.
    pub changes: Value,
}

/// What a machine is changed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineChange {
    /// The autoscaler wants it gone first.
    MarkForDeletion,
    /// It was updated in place and belongs to this set from now on.
    MoveTo(String),
    /// Its new set counts it now.
    MoveDone,
    /// It gets the hash of its adopted set.
    Label,
}

impl Plan {
    pub(super) fn of(steps: Vec<Step>, wake: Wake, because: Reason) -> Self {
        Self { steps, wake, because, guarded: Vec::new() }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AskForMachines(names) => write!(f, "ask for machines {}", names.join(", ")),
            Self::Deployment(edit) => edit.purpose.fmt(f),
            Self::Status(_) => f.write_str("write its status"),
            Self::CreateSet(new) => {
                let name = &new.set.metadata.name;
                write!(f, "make set {name:?} of {}", new.set.spec.replicas)
            }
            Self::Set(SetEdit { name, change, .. }) => match change {
                SetChange::Adopt => write!(f, "adopt set {name:?}"),
                SetChange::Release => write!(f, "let go of set {name:?}"),
                SetChange::Scale { from, to } => write!(f, "scale set {name:?} from {from} to {to}"),
                SetChange::Update => write!(f, "bring set {name:?} up to date"),
            },
            Self::DeleteSet { name, .. } => write!(f, "delete set {name:?}"),
            Self::Machine(MachineEdit { name, change, .. }) => match change {
                MachineChange::MarkForDeletion => write!(f, "mark machine {name:?} as the first to go"),
                MachineChange::MoveTo(set) => write!(f, "move machine {name:?} to set {set:?}"),
                MachineChange::MoveDone => write!(f, "finish the move of machine {name:?}"),
                MachineChange::Label => write!(f, "label machine {name:?}"),
            },
            Self::Node(write) => mark(write, f),
            Self::Tell(event) => write!(f, "tell: {}", event.reason),
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddFinalizer => "add our finalizer",
            Self::RemoveFinalizer => "remove our finalizer",
            Self::TidyRequestedDeletions => "tidy the list of machines to delete",
            Self::ShowRevision => "show its revision",
            Self::RollBack => "answer the wish to roll back",
        })
    }
}

/// What a write to a node means in a roll-out.
fn mark(NodeWrite { name, labels, .. }: &NodeWrite, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (labels.get(SELECTED_FOR_UPDATE), labels.get(CANDIDATE_FOR_UPDATE)) {
        (Some(Some(_)), _) => write!(f, "choose node {name:?} to be updated"),
        (_, Some(Some(_))) => write!(f, "mark node {name:?} to be updated some time"),
        (_, Some(None)) => write!(f, "give updated node {name:?} back"),
        (_, None) => write!(f, "mark node {name:?} for the roll-out"),
    }
}
