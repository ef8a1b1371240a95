//! Why a machine's plan is what it is.
//!
//! The log line, the Event, the status text and `explain` all come from this one value, so they cannot contradict each other.

use std::fmt;

use api::Code;
use api::names::annotations::TRIGGER_DELETION;
use jiff::Timestamp;

use super::vm::Call;

/// The reason of a plan, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Our finalizer comes before anything costs money.
    FinalizerFirst,
    /// The spec cannot be acted on.
    Invalid(String),
    /// The class it names does not exist.
    NoClass(String),
    /// The class it names does not exist, and an earlier process may have created a VM from it.
    NoClassAnyMore(String),
    /// The class it names is not in the cache, which may be late.
    ClassNotSeen(String),
    /// The class it names cannot be read.
    UnreadableClass(String),
    /// The class it names says something that makes no sense.
    InvalidClass(String, String),
    /// The class it names is being deleted and cannot be held any more.
    ClassLeaves(String),
    /// The class it names does not carry our finalizer yet.
    ClassNotHeld(String),
    /// No driver serves the provider of its class.
    NoDriver(String),
    /// The class's secret cannot be used.
    NoSecret(String),
    /// Nothing is known of a VM, and an earlier attempt may have left one.
    AskFirst,
    /// The cloud has no VM for it.
    NoVm,
    /// A driver call is under way.
    CallUnderWay(Call),
    /// A driver call failed.
    CallFailed {
        /// Which one.
        call: Call,
        /// How.
        code: Code,
    },
    /// Another machine of its class was refused for want of room.
    HeldBack {
        /// How.
        code: Code,
    },
    /// The driver answered without naming the VM or its node.
    NamelessVm,
    /// The VM is deleted, and its driver left a note to be kept.
    VmDeleted,
    /// The VM exists and is written down before anything else happens.
    VmFound(String),
    /// Another Machine names the same VM.
    VmShared {
        /// The VM.
        vm: String,
        /// The other Machine.
        with: String,
    },
    /// The VM exists but is not ready to be waited for.
    VmNotInitialized,
    /// The VM was given the name of a node that another VM has left behind.
    StaleNode(String),
    /// A VM that must not stay.
    LeftoverVm,
    /// Its creation has failed for so long that it is marked Failed.
    CreationTimedOut,
    /// The VM runs; now its node has to come.
    VmRuns,
    /// The node has not registered yet.
    NodeNotThere(String),
    /// The node has registered but is not healthy.
    NodeNotHealthy(String),
    /// The node is gone, though nobody deleted it.
    NodeMissing(String),
    /// The Node that the label names cannot be the Machine's.
    NodeForeign {
        /// The Node.
        node: String,
        /// Why it cannot be.
        why: String,
    },
    /// The label names another Node than the Machine's.
    NodeLabelWrong {
        /// The Node that the label names.
        label: String,
        /// The Node of the Machine.
        node: String,
    },
    /// The node is healthy again.
    Rejoined,
    /// It has been unhealthy for too long.
    HealthTimedOut,
    /// It has been unhealthy for too long, and its owner does not mind.
    HealthTimeoutDisabled,
    /// It has been unhealthy for too long, but as many as may be are being replaced already.
    ReplacementsInProgress {
        /// How many are.
        in_progress: usize,
        /// How many may be.
        limit: usize,
    },
    /// Its in-place update failed, and it is kept all the same.
    FailedUpdateKept,
    /// An in-place update is under way.
    Updating,
    /// The in-place update succeeded.
    Updated,
    /// The in-place update failed; the node agent says why.
    UpdateFailed(String),
    /// The in-place update took too long.
    UpdateTimedOut,
    /// We have been disconnected for too long to begin anything.
    Frozen,
    /// It fell ill while we could not see.
    NotVisible,
    /// The node's critical components have not started yet.
    CriticalComponentsNotReady,
    /// The node is healthy.
    Joined,
    /// The node did not come in time.
    JoinTimedOut,
    /// The node lacks what it is to carry: marks, template, virtual capacity.
    KeepNode,
    /// Its node is being deleted.
    NodeDeleted(String),
    /// An annotation of its Node requests its deletion.
    NodeAnnotated(String),
    /// Its node was selected for an update.
    UpdateSelected,
    /// Its node is emptied before its update.
    DrainsForUpdate,
    /// Its node may be updated, and its agent has not said how that went.
    AwaitsUpdate,
    /// It is kept for a while.
    Preserved {
        /// Until when.
        until: Timestamp,
    },
    /// It is no longer kept.
    PreservationEnded(&'static str),
    /// The node's conditions changed.
    ConditionsChanged,
    /// It has failed and waits to be replaced.
    AwaitsReplacement,
    /// Everything is as it should be.
    Converged,
    /// Someone deleted it.
    DeletionAsked,
    /// Its node is being emptied; the text says who is left and why.
    Draining(String),
    /// Its node is about to be emptied.
    KeepPodsAway,
    /// New pods may still come to its node; the API server says why that could not be changed.
    PodsNotKeptAway(String),
    /// Its node is empty.
    NodeEmpty,
    /// Its node could not be emptied even by force.
    DrainGivenUp(String),
    /// Its node was emptied by force, and volumes are still attached to it.
    Detaching {
        /// How many.
        live: usize,
    },
    /// It must go, and nobody has written down which node it became.
    NodeUnknown,
    /// Others name its node too, and nobody can tell whose it is.
    NodeDisputed(String),
    /// The cloud knows which node it became.
    NodeNamed(String),
    /// Nothing is in the way of deleting the VM.
    ReadyToDeleteVm,
    /// Its node is not in the cache, which may be late.
    NodeUnseen(String),
    /// The API server could not say whether its node is there.
    NodeUncertain {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// The VM is deleted, and the deletion of its Node failed for too long.
    NodeNotRemoved {
        /// The Node.
        name: String,
        /// Why.
        why: String,
    },
    /// Its node is there and cannot be read, so it cannot be deleted.
    NodeUnreadable(String),
    /// The VM is gone; its node object goes next.
    NodeLeft(String),
    /// VM and node are gone.
    NothingLeft,
    /// It is being deleted, and someone else's finalizer still holds it.
    NotOurs,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FinalizerFirst => f.write_str("it must not vanish while its VM exists"),
            Self::Invalid(what) => write!(f, "its spec cannot be acted on: {what}"),
            Self::NoClass(name) => write!(f, "MachineClass {name:?} does not exist"),
            Self::NoClassAnyMore(name) => write!(f, "MachineClass {name:?} does not exist; {MAY_HAVE_VM}"),
            Self::ClassNotSeen(name) => {
                write!(f, "MachineClass {name:?} has not been seen yet and is being looked for")
            }
            Self::UnreadableClass(name) => write!(f, "MachineClass {name:?} exists but cannot be read"),
            Self::InvalidClass(name, errors) => write!(f, "its MachineClass {name:?} is invalid: {errors}"),
            Self::ClassLeaves(name) => {
                write!(f, "its MachineClass {name:?} is being deleted; make it anew, or name another one")
            }
            Self::ClassNotHeld(name) => {
                write!(f, "its MachineClass {name:?} is secured first, so that its VM can be deleted one day")
            }
            Self::NoDriver(why) | Self::NoSecret(why) | Self::NodeDisputed(why) => f.write_str(why),
            Self::AskFirst => f.write_str("an earlier attempt may have left a VM, so the cloud is asked first"),
            Self::NoVm => f.write_str("the cloud has no VM for it"),
            Self::CallUnderWay(call) => write!(f, "the call to {} its VM has not been answered yet", call.verb()),
            Self::CallFailed { call, code } => write!(f, "the call to {} its VM failed with {code}", call.verb()),
            Self::HeldBack { code } => {
                write!(f, "another machine of its class was refused with {code}, so it waits for the next try")
            }
            Self::VmDeleted => f.write_str("its VM is deleted"),
            Self::NamelessVm => f.write_str("the driver answered without a usable name of the VM or its node"),
            Self::VmFound(id) => write!(f, "its VM is {id}, which is written down before anything else happens"),
            Self::VmShared { vm, with } => write!(f, "VM {vm} is also the VM of Machine {with:?}"),
            Self::VmNotInitialized => f.write_str("its VM exists but is not initialized"),
            Self::StaleNode(name) => {
                write!(
                    f,
                    "its VM was given the name of node {name:?}, which another VM has left behind; the VM is deleted"
                )
            }
            Self::LeftoverVm => f.write_str("it was marked Failed, and its VM must not stay"),
            Self::CreationTimedOut => f.write_str("its VM could not be made in time"),
            Self::VmRuns => f.write_str("its VM runs; now its node has to come"),
            Self::NodeNotThere(name) => write!(f, "node {name:?} has not registered yet"),
            Self::NodeNotHealthy(why) => write!(f, "its node is not healthy: {why}"),
            Self::NodeMissing(name) => write!(f, "node {name:?} is gone, though nobody deleted it"),
            Self::NodeForeign { node, why } => {
                write!(f, "node {node:?} {why}, so it is not the Node of this Machine and is not touched")
            }
            Self::NodeLabelWrong { label, node } => {
                write!(f, "node {label:?} is not the Node of this Machine; its VM runs as node {node:?}")
            }
            Self::Rejoined => f.write_str("its node is healthy again"),
            Self::HealthTimedOut => f.write_str("its node has been unhealthy for too long"),
            Self::HealthTimeoutDisabled => {
                f.write_str("its node has been unhealthy for too long, but its spec.disableHealthTimeout says to wait")
            }
            Self::ReplacementsInProgress { in_progress, limit } => write!(
                f,
                "its node has been unhealthy for too long, but {in_progress} of its deployment are on their way already and {limit} may be"
            ),
            Self::FailedUpdateKept => {
                f.write_str("its update in place failed, and it is kept until somebody mends or deletes it")
            }
            Self::Updating => f.write_str("it is being updated in place"),
            Self::Updated => f.write_str("it was updated in place"),
            Self::UpdateFailed(why) => write!(f, "it could not be updated in place: {why}"),
            Self::UpdateTimedOut => f.write_str("it was not updated in place in time"),
            Self::NotVisible => f.write_str("it was out of sight for a while, so its patience starts over"),
            Self::Frozen => f.write_str("the API servers were out of sight for too long to begin anything now"),
            Self::CriticalComponentsNotReady => f.write_str("the critical components of its node have not started yet"),
            Self::Joined => f.write_str("its node is healthy"),
            Self::JoinTimedOut => f.write_str("its node did not join in time"),
            Self::KeepNode => f.write_str("its node lacks what it is to carry"),
            Self::NodeDeleted(name) => write!(f, "somebody deletes node {name:?}"),
            Self::NodeAnnotated(name) => write!(f, "node {name:?} has the annotation {TRIGGER_DELETION}"),
            Self::UpdateSelected => f.write_str("its node was selected for an update"),
            Self::DrainsForUpdate => f.write_str("its node is emptied before its update"),
            Self::AwaitsUpdate => f.write_str("its node may be updated, and has not said how that went"),
            Self::Preserved { until } => write!(f, "it is preserved until {until}"),
            Self::PreservationEnded(why) => write!(f, "it is no longer preserved: {why}"),
            Self::ConditionsChanged => f.write_str("the conditions of its node changed"),
            Self::AwaitsReplacement => f.write_str("it has failed and waits to be replaced"),
            Self::Converged => f.write_str("everything is as it should be"),
            Self::DeletionAsked => f.write_str("someone deleted it"),
            Self::Draining(progress) => f.write_str(progress.trim_end_matches('.')),
            Self::KeepPodsAway => f.write_str("no new pods may come to a node that is being emptied"),
            Self::PodsNotKeptAway(why) => write!(f, "its node could not be kept free of new pods: {why}"),
            Self::NodeEmpty => f.write_str("nobody who would be missed is on its node"),
            Self::DrainGivenUp(why) => write!(f, "its node could not be emptied even by force: {why}"),
            Self::Detaching { live } => write!(f, "{live} volumes are still attached to its node"),
            Self::NodeUnknown => f.write_str("nobody has written down which node it became, and that one must go too"),
            Self::NodeNamed(name) => write!(f, "the cloud says that it became node {name:?}"),
            Self::ReadyToDeleteVm => f.write_str("nothing is in the way of deleting its VM"),
            Self::NodeUnseen(name) => write!(f, "node {name:?} has not been seen, and may be there all the same"),
            Self::NodeUncertain { name, why } => {
                write!(f, "whether node {name:?} is registered could not be found out: {why}")
            }
            Self::NodeNotRemoved { name, why } => write!(f, "deletion of node {name:?} failed: {why}"),
            Self::NodeUnreadable(name) => write!(f, "node {name:?} is still registered but cannot be read"),
            Self::NodeLeft(name) => write!(f, "its VM is gone, but node {name:?} is still registered"),
            Self::NothingLeft => f.write_str("its VM and its node are gone"),
            Self::NotOurs => f.write_str("our part of its deletion is done; another finalizer holds it"),
        }
    }
}

/// In `status.lastOperation.description`: the record that a VM may exist although nothing else names it.
pub(crate) const MAY_HAVE_VM: &str = "an earlier process may have created a VM";

/// Seconds between two times as Go prints a duration, for the status texts.
pub(crate) fn elapsed(from: Timestamp, to: Timestamp) -> api::GoDuration {
    api::GoDuration::from_nanos(to.as_second().saturating_sub(from.as_second()).saturating_mul(1_000_000_000))
}
