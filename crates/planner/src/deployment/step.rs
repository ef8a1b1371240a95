//! Plans for a MachineDeployment, as data.

use std::fmt;

use api::names::labels::{CANDIDATE_FOR_UPDATE, SELECTED_FOR_UPDATE};
use api::{MachineDeploymentStatus, MachineSet, Uid};
use serde_json::Value;

use super::reason::Reason;
use crate::node::NodeWrite;
use crate::{Event, GuardedPatch, Wake};

/// The steps of a plan, in order, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The steps. They are ordered so that the plan can end safely after any of them.
    pub steps: Vec<Step>,
    /// When the MachineDeployment is planned again.
    pub wake: Wake,
    /// The reason.
    pub because: Reason,
    /// The MachineSets whose Nodes must not be removed by the cluster-autoscaler. The machine controller annotates
    /// Nodes that join them.
    pub guarded: Vec<Uid>,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Looks up Machines on the API server that are not in the cache, which may be behind.
    LookUpMachines(Vec<String>),
    /// Patches metadata and spec of the MachineDeployment.
    Deployment(DeploymentEdit),
    /// Patches the status of the MachineDeployment.
    Status(StatusEdit),
    /// Creates a MachineSet.
    CreateSet(Box<NewSet>),
    /// Patches a MachineSet.
    Set(SetEdit),
    /// Deletes a MachineSet.
    DeleteSet {
        /// Name of the MachineSet.
        name: String,
        /// UID of the MachineSet.
        uid: Uid,
        /// The version in which it was empty or owned; `None` to delete it in any version.
        resource_version: Option<String>,
    },
    /// Patches a Machine.
    Machine(MachineEdit),
    /// Patches a Node.
    Node(NodeWrite),
    /// Emits an Event on the MachineDeployment.
    EmitEvent(Event),
}

/// A merge patch of the MachineDeployment, with the version after the previous step as precondition.
#[derive(Clone, Debug, PartialEq)]
pub struct DeploymentEdit {
    /// What the change is for.
    pub purpose: Purpose,
    /// The patch, without preconditions.
    pub changes: Value,
}

/// The purpose of a change of the MachineDeployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The finalizer is added before the first MachineSet is created.
    AddFinalizer,
    /// No MachineSets are left.
    RemoveFinalizer,
    /// The cluster-autoscaler's list of Machines to delete contained invalid or processed entries.
    UpdateRequestedDeletions,
    /// The revision annotation is set to that of the newest MachineSet.
    SetRevision,
    /// The rollback request is processed and removed.
    RollBack,
}

/// A status patch.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusEdit {
    /// The new status.
    pub status: Box<MachineDeploymentStatus>,
    /// The merge patch, without preconditions.
    pub changes: Value,
}

/// A MachineSet to create.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSet {
    /// The MachineSet.
    pub set: MachineSet,
}

impl NewSet {
    /// Returns the body of the request. Zero replicas are written explicitly, because a missing field cannot be scaled
    /// by others.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut body = serde_json::to_value(&self.set).unwrap_or_default();
        if let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("replicas".to_owned(), self.set.spec.replicas.into());
        }
        body
    }
}

/// A merge patch of a MachineSet.
#[derive(Clone, Debug, PartialEq)]
pub struct SetEdit {
    /// Name of the MachineSet.
    pub name: String,
    /// UID of the MachineSet.
    pub uid: Uid,
    /// The version that the decision was based on, if a list is replaced. A change of the replicas has no version as
    /// precondition: the MachineSet controller updates the status frequently, only this controller writes the replicas,
    /// and they would cause conflicts.
    pub resource_version: Option<String>,
    /// What the change is for.
    pub change: SetChange,
    /// The patch, without preconditions.
    pub changes: Value,
}

/// The purpose of a change of a MachineSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetChange {
    /// The MachineSet is selected and has no controller.
    Adopt,
    /// The MachineSet is owned and no longer selected.
    Release,
    /// The replicas change.
    Scale {
        /// Replicas before.
        from: i32,
        /// Replicas afterwards.
        to: i32,
    },
    /// Template, annotations or labels are updated from the MachineDeployment.
    Update,
}

/// A change of a Machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineEdit {
    /// What the change is for.
    pub change: MachineChange,
    /// The patch.
    pub patch: GuardedPatch,
}

/// The purpose of a change of a Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineChange {
    /// The cluster-autoscaler requested its deletion.
    MarkForDeletion,
    /// It was updated in place and moves to this MachineSet.
    MoveTo(String),
    /// Its new MachineSet counts it now.
    MoveDone,
    /// It gets the template hash of its adopted MachineSet.
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
            Self::LookUpMachines(names) => write!(f, "look up Machines {}", names.join(", ")),
            Self::Deployment(edit) => edit.purpose.fmt(f),
            Self::Status(_) => f.write_str("update the status"),
            Self::CreateSet(new) => {
                let name = &new.set.metadata.name;
                write!(f, "create MachineSet {name:?} with {} replicas", new.set.spec.replicas)
            }
            Self::Set(SetEdit { name, change, .. }) => match change {
                SetChange::Adopt => write!(f, "adopt MachineSet {name:?}"),
                SetChange::Release => write!(f, "release MachineSet {name:?}"),
                SetChange::Scale { from, to } => write!(f, "scale MachineSet {name:?} from {from} to {to}"),
                SetChange::Update => write!(f, "update MachineSet {name:?}"),
            },
            Self::DeleteSet { name, .. } => write!(f, "delete MachineSet {name:?}"),
            Self::Machine(MachineEdit { change, patch: GuardedPatch { name, .. } }) => match change {
                MachineChange::MarkForDeletion => write!(f, "mark Machine {name:?} for deletion"),
                MachineChange::MoveTo(set) => write!(f, "move Machine {name:?} to MachineSet {set:?}"),
                MachineChange::MoveDone => write!(f, "complete the move of Machine {name:?}"),
                MachineChange::Label => write!(f, "label Machine {name:?} with the template hash"),
            },
            Self::Node(write) => mark(write, f),
            Self::EmitEvent(event) => write!(f, "emit Event {}", event.reason),
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddFinalizer => "add the finalizer",
            Self::RemoveFinalizer => "remove the finalizer",
            Self::UpdateRequestedDeletions => "update the list of Machines to delete",
            Self::SetRevision => "set the revision",
            Self::RollBack => "process the rollback request",
        })
    }
}

/// Describes a write to a Node by its effect on the rollout.
fn mark(NodeWrite { name, labels, .. }: &NodeWrite, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (labels.get(SELECTED_FOR_UPDATE), labels.get(CANDIDATE_FOR_UPDATE)) {
        (Some(Some(_)), _) => write!(f, "select node {name:?} for the update"),
        (_, Some(Some(_))) => write!(f, "mark node {name:?} as a candidate for the update"),
        (_, Some(None)) => write!(f, "return updated node {name:?} to service"),
        (_, None) => write!(f, "update the rollout marks of node {name:?}"),
    }
}
