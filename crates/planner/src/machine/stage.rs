//! The stage of a Machine's lifecycle.
//!
//! Two parts of the lifecycle have stages: the creation, until the Machine is Running, and the deletion, until it is
//! deleted. Decisions do not depend on the stage; traces and `explain` show it. It is derived from the same facts as
//! the plan, so that both agree.

use api::MachinePhase;
use api::deletion::Step as Deletion;

use super::vm::{Call, Initialized, VmState};
use super::{Facts, Observed, create, delete};

/// A stage of a Machine's creation or deletion. The stages of each are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The driver is queried for an existing VM.
    LookUpVm,
    /// A VM is created and recorded.
    Create,
    /// The VM is initialized.
    Initialize,
    /// The Machine waits for its Node.
    Join,
    /// The Machine is Running, unhealthy or updated in place, or it is Failed and waits for its replacement.
    Live,
    /// The Node is drained.
    Drain,
    /// The VM is deleted.
    DeleteVm,
    /// The Node is deleted.
    DeleteNode,
    /// The finalizer is removed.
    RemoveFinalizer,
}

impl Stage {
    /// Returns a short name that does not change.
    pub fn name(self) -> &'static str {
        match self {
            Self::LookUpVm => "ask",
            Self::Create => "create",
            Self::Initialize => "initialize",
            Self::Join => "join",
            Self::Live => "live",
            Self::Drain => "drain",
            Self::DeleteVm => "delete VM",
            Self::DeleteNode => "delete node",
            Self::RemoveFinalizer => "remove finalizer",
        }
    }
}

/// Returns the stage of a Machine.
#[must_use]
pub fn stage(seen: &Observed<'_>) -> Stage {
    let facts = Facts::of(seen.machine);
    if facts.deleting {
        return deletion_stage(seen, &facts);
    }
    if create::is_due(&facts) {
        return seen
            .call_under_way
            .map_or_else(|| creation_stage(seen.vm, &facts), |under_way| of_call(under_way.call));
    }
    match facts.phase {
        MachinePhase::Pending => Stage::Join,
        _ => Stage::Live,
    }
}

fn creation_stage(vm: &VmState, facts: &Facts<'_>) -> Stage {
    match vm {
        VmState::Unknown | VmState::Deleted { .. } => Stage::LookUpVm,
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
        Call::Status => Stage::LookUpVm,
        Call::Create | Call::Delete => Stage::Create,
        Call::Initialize => Stage::Initialize,
    }
}

fn deletion_stage(seen: &Observed<'_>, facts: &Facts<'_>) -> Stage {
    if facts.without_finalizer().is_none() {
        return Stage::RemoveFinalizer;
    }
    match delete::stage(seen) {
        None | Some(Deletion::GetVmStatus | Deletion::Drain | Deletion::DeleteVolumeAttachments) => Stage::Drain,
        Some(Deletion::DeleteVm) => Stage::DeleteVm,
        Some(Deletion::DeleteNode) if !delete::is_node_done(seen, facts) => Stage::DeleteNode,
        Some(Deletion::DeleteNode | Deletion::RemoveFinalizer) => Stage::RemoveFinalizer,
    }
}
