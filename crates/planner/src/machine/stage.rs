//! How far a machine has come in its life, in the words of whoever watches it.
//!
//! Two parts of a machine's life have stages: from its creation until it runs, and from its deletion until it is gone. Between them it lives. No
//! decision rests on this; traces and `explain` do, and it is read from the same facts as the plan, so that they tell the same scenario.

use api::MachinePhase;
use api::deletion::Step as Deletion;

use super::vm::{Call, Initialized, VmState};
use super::{Facts, Observed, create, delete};

/// A stage of a machine's creation or deletion. Those of either are in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The cloud is asked whether it has a VM already.
    Ask,
    /// A VM is made and written down.
    Create,
    /// What comes after making it is done.
    Initialize,
    /// Its Node is awaited.
    Join,
    /// It runs, is ill, is updated in place; or it was marked Failed and waits to be replaced.
    Live,
    /// Nobody whom anybody would miss may stay on its Node.
    Drain,
    /// Its VM goes.
    DeleteVm,
    /// Its Node goes.
    DeleteNode,
    /// The Machine itself may go.
    LetGo,
}

impl Stage {
    /// A short name that does not change.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Create => "create",
            Self::Initialize => "initialize",
            Self::Join => "join",
            Self::Live => "live",
            Self::Drain => "drain",
            Self::DeleteVm => "delete VM",
            Self::DeleteNode => "delete node",
            Self::LetGo => "remove finalizer",
        }
    }
}

/// Where the machine stands.
#[must_use]
pub fn stage(seen: &Observed<'_>) -> Stage {
    let facts = Facts::of(seen.machine);
    if facts.deleting {
        return leaving(seen, &facts);
    }
    if create::is_due(&facts) {
        return seen.call_under_way.map_or_else(|| coming(seen.vm, &facts), |under_way| of_call(under_way.call));
    }
    match facts.phase {
        MachinePhase::Pending => Stage::Join,
        _ => Stage::Live,
    }
}

fn coming(vm: &VmState, facts: &Facts<'_>) -> Stage {
    match vm {
        VmState::Unasked | VmState::Gone { .. } => Stage::Ask,
        VmState::Absent => Stage::Create,
        VmState::Failed(failure) => of_call(failure.call),
        VmState::Known(_) if facts.provider_id.is_none() => Stage::Create,
        VmState::Known(vm) => match vm.initialized {
            Initialized::NotYet => Stage::Initialize,
            Initialized::Yes | Initialized::JustNow => Stage::Join,
        },
    }
}

fn of_call(call: Call) -> Stage {
    match call {
        Call::Status => Stage::Ask,
        Call::Create | Call::Delete => Stage::Create,
        Call::Initialize => Stage::Initialize,
    }
}

fn leaving(seen: &Observed<'_>, facts: &Facts<'_>) -> Stage {
    if facts.without_our_finalizer().is_none() {
        return Stage::LetGo;
    }
    match delete::stage(seen) {
        None | Some(Deletion::GetVmStatus | Deletion::Drain | Deletion::DeleteVolumeAttachments) => Stage::Drain,
        Some(Deletion::DeleteVm) => Stage::DeleteVm,
        Some(Deletion::DeleteNode) if !delete::is_done_with_node(seen, facts) => Stage::DeleteNode,
        Some(Deletion::DeleteNode | Deletion::RemoveFinalizer) => Stage::LetGo,
    }
}
