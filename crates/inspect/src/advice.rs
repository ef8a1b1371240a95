//! What somebody can do about a planner's reason.
//!
//! The reasons are `plan`'s. Here each of them gets what an operator needs beside it: whether it passes by itself, what follows when it does not, and
//! how to help. One match a planner, without a catch-all, so that a new reason cannot be forgotten.

use api::{Code, Machine, MachinePhase, Object};
use planner::{deployment, machine, machineset};

use crate::Standing::{self, Fine, Troubled, Working};

/// What an operator needs beside a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Whether it passes by itself.
    pub standing: Standing,
    /// How to help, if anybody can.
    pub unblock: Option<String>,
    /// What follows when its time has passed.
    pub then: Option<&'static str>,
}

const REPLACED: &str = "it is marked Failed, and its set replaces it";
const FORCED: &str = "its drain goes on with force when its drain timeout has passed";

impl Advice {
    fn plain(standing: Standing) -> Self {
        Self { standing, unblock: None, then: None }
    }

    fn help(unblock: impl Into<String>) -> Self {
        Self { standing: Troubled, unblock: Some(unblock.into()), then: None }
    }

    fn then(self, then: &'static str) -> Self {
        Self { then: Some(then), ..self }
    }
}

/// About a machine.
#[must_use]
#[allow(clippy::too_many_lines, reason = "one row a reason; a table that is split cannot be looked up")]
pub fn machine(reason: &machine::Reason, seen: &Machine) -> Advice {
    use machine::Reason as R;
    let name = seen.name();
    match reason {
        R::Converged | R::NodeOutOfDate | R::ConditionsChanged | R::Joined | R::Rejoined | R::Updated => Advice::plain(Fine),
        R::FinalizerMissing
        | R::ClassNotCached(_)
        | R::ClassFinalizerMissing(_)
        | R::VmUnknown
        | R::VmMissing
        | R::CallInProgress(_)
        | R::VmDeleted
        | R::VmFound(_)
        | R::VmNotInitialized
        | R::StaleNode(_)
        | R::LeftoverVm
        | R::VmRunning
        | R::Updating
        | R::HealthTimeoutReset
        | R::NodeDeleted(_)
        | R::NodeAnnotated(_)
        | R::NodeLabelWrong { .. }
        | R::UpdateSelected
        | R::DrainingForUpdate
        | R::PreservationEnded(_)
        | R::DeletionRequested
        | R::CordonNode
        | R::Drained
        | R::NodeUnknown
        | R::NodeNamed(_)
        | R::ReadyToDeleteVm
        | R::NodeNotCached(_)
        | R::NodeRemaining(_)
        | R::DrainFailed(_)
        | R::Deleted => Advice::plain(Working),
        R::Invalid(_) => {
            Advice::help(format!("mend the field: `kubectl edit machine {name}`, and the template it came from"))
        }
        R::ClassMissing(class) | R::ClassMissingVmPossible(class) => {
            Advice::help(format!("create MachineClass {class:?}, or name another one in spec.class.name"))
        }
        R::ClassUndecodable(class) => Advice::help(format!(
            "mend MachineClass {class:?}: a field of it has a type that its definition does not allow"
        )),
        R::ClassInvalid(class, _) => {
            Advice::help(format!("mend MachineClass {class:?}: `kubectl edit machineclass {class}`"))
        }
        R::ClassDeleting(class) => Advice::help(format!(
            "create MachineClass {class:?} anew once it is gone, or name another one in spec.class.name"
        )),
        R::DriverMissing(_) => Advice::help(
            "run the controllers with the driver of the class's provider (--provider or --driver-endpoint)",
        ),
        R::SecretUnusable(_) => Advice::help("create or complete the Secret that its MachineClass names"),
        R::CallFailed { code, .. } | R::CapacityExhausted { code } => by_code(*code).then("it is tried again"),
        R::VmUnnamed => Advice::help("mend the driver: its answer names neither the VM nor its node"),
        R::CreationTimedOut | R::JoinTimedOut | R::HealthTimedOut => Advice::plain(Working).then(REPLACED),
        R::NodeNotRegistered(node) => Advice {
            standing: Working,
            unblock: Some(format!(
                "if node {node:?} does not come: look at the console of the VM, its user data and its network; a kubelet that \
                 cannot reach the API server or log in never registers"
            )),
            then: Some(REPLACED),
        },
        R::CriticalComponentsNotReady => Advice {
            standing: Working,
            unblock: Some("see why the pods of critical components do not start on its node".into()),
            then: Some(REPLACED),
        },
        R::NodeNotHealthy(_) | R::NodeMissing(_) => {
            let standing = if *seen.phase() == MachinePhase::Pending { Working } else { Troubled };
            // One that runs is called Unknown first, and its health timeout begins then.
            let then = (*seen.phase() != MachinePhase::Running).then_some(REPLACED);
            let help = format!(
                "mend its node (`kubectl describe node`), or delete the machine to have it replaced now: `kubectl delete machine {name}`"
            );
            Advice { standing, unblock: Some(help), then }
        }
        R::HealthTimeoutDisabled => Advice::help(format!(
            "mend its node, or delete it: `kubectl delete machine {name}`; spec.disableHealthTimeout keeps it from being replaced"
        )),
        R::ReplacementsInProgress { .. } => Advice {
            standing: Working,
            unblock: Some(format!(
                "it is replaced when another of its deployment is done; to let more go at once annotate it with {}, or raise \
                 --machine-max-replacements",
                api::names::annotations::MAX_REPLACEMENTS
            )),
            then: None,
        },
        R::FailedUpdateKept | R::UpdateFailed(_) | R::UpdateTimedOut => Advice::help(format!(
            "mend the update on its node (its agent says why in annotation {}), or delete it: `kubectl delete machine {name}`",
            api::names::annotations::UPDATE_FAILED_REASON
        )),
        R::Frozen => Advice::help("see why the API servers could not be reached; it goes on by itself once they can"),
        R::ReadyForUpdate => Advice {
            standing: Working,
            unblock: Some("if it takes long: see whether the agent that updates nodes runs on it".into()),
            then: None,
        },
        R::Preserved { .. } => Advice {
            standing: Working,
            unblock: Some(format!(
                "to let it go before: `kubectl annotate machine {name} {}=false --overwrite`, and the same on its node if that has the annotation",
                api::names::annotations::PRESERVE
            )),
            then: Some("it is no longer preserved, and is replaced if it has failed"),
        },
        R::AwaitsReplacement => Advice {
            standing: Working,
            unblock: seen.controller_owner().is_none().then(|| {
                format!("nobody owns it, so nobody replaces it: delete it with `kubectl delete machine {name}`")
            }),
            then: None,
        },
        R::Draining(_) => Advice::plain(Working).then(FORCED),
        R::CordonFailed(_) => {
            Advice::help("let the controllers write to its node: a webhook or a role is in the way").then(FORCED)
        }
        R::Detaching { .. } => Advice {
            standing: Working,
            unblock: Some(
                "if they stay: see `kubectl get volumeattachments` and the log of the CSI driver that attaches them; its VM is deleted all the same when its drain timeout has passed once more"
                    .into(),
            ),
            then: None,
        },
        R::NodeDisputed(_) => {
            Advice::help("correct the label \"node\" of the machine that does not run on that node").then(FORCED)
        }
        R::VmShared { with, .. } => Advice::help(format!(
            "correct spec.providerID, or delete the machine that was created by mistake; the VM stays with {with:?} or this one"
        )),
        R::NodeForeign { .. } => Advice::help("correct the label \"node\" of the machine"),
        R::NodeLookupFailed { .. } => Advice::help("let the controllers read the target cluster")
            .then("its deletion goes on as if there were no node"),
        R::NodeDeletionFailed { name, .. } => Advice::help(format!("delete Node {name:?} if it still exists")),
        R::NodeUndecodable(node) => Advice::help(format!("mend or delete Node {node:?}: nobody can read it")),
        R::OtherFinalizer => Advice::help(format!(
            "whoever put the other finalizer must remove it: `kubectl get machine {name} -o jsonpath='{{.metadata.finalizers}}'`"
        )),
    }
}

/// About a driver call that failed.
fn by_code(code: Code) -> Advice {
    Advice::help(match code {
        Code::ResourceExhausted => {
            "raise the quota at the cloud, or name a class of another type or zone in the deployment's template"
        }
        Code::PermissionDenied => "give the credentials in the class's Secret the missing right at the cloud",
        Code::Unauthenticated => "renew the credentials in the class's Secret",
        Code::InvalidArgument => "mend providerSpec of its MachineClass or what is in its Secret",
        Code::NotFound | Code::FailedPrecondition | Code::AlreadyExists | Code::OutOfRange => {
            "see what the cloud says of it, in the last operation below"
        }
        Code::Unimplemented | Code::Internal | Code::DataLoss => "see the log of the driver",
        Code::Ok
        | Code::Canceled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Unavailable
        | Code::Uninitialized
        | Code::Other(_) => "see whether the cloud has an outage; it is tried again by itself",
    })
}

/// About a set.
#[must_use]
pub fn set(reason: &machineset::Reason, name: &str) -> Advice {
    use machineset::Reason as R;
    match reason {
        R::Converged => Advice::plain(Fine),
        R::FinalizerMissing
        | R::Ownership { .. }
        | R::TooFew { .. }
        | R::ScaleUpDisabled
        | R::Surplus { .. }
        | R::MachinesOutdated(_)
        | R::ResultsPending(_)
        | R::Deleting { .. }
        | R::Orphaning
        | R::MachinesGone => Advice::plain(Working),
        R::Invalid(_) => {
            Advice::help(format!("mend the field: `kubectl edit machineset {name}`, or its deployment if it has one"))
        }
        R::Frozen => Advice::help(format!(
            "see why it has too many machines (`kubectl describe machineset {name}`), delete those that are too many, then ask for a \
             thaw: `kubectl annotate machinedeployment NAME {}=True`",
            api::names::annotations::UNFREEZE
        )),
        R::ClockSkewed => Advice::help("correct the clock of the controller's host"),
        R::ReplacementDelayed(_) => Advice::help(format!(
            "find out why its Machines fail: `kubectl describe machines`, and the Events of machineset {name}"
        )),
        R::InvalidTemplate(_) => Advice::help("make the labels of its template match its selector"),
        R::OtherFinalizer => Advice::help("whoever put the other finalizer must remove it"),
    }
}

/// About a deployment.
#[must_use]
pub fn deployment(reason: &deployment::Reason, name: &str) -> Advice {
    use deployment::Reason as R;
    match reason {
        R::Converged => Advice::plain(Fine),
        R::MachinesNotCached
        | R::HashMissing(_)
        | R::RollbackRequested(_)
        | R::Resized { .. }
        | R::Rolling { .. }
        | R::OldMachinesRemain(_)
        | R::Completing { .. }
        | R::Deleting(_)
        | R::Orphaning
        | R::Deleted => Advice::plain(Working),
        R::Invalid(_) => Advice::help(format!("mend the field: `kubectl edit machinedeployment {name}`")),
        R::Paused => Advice {
            standing: Working,
            unblock: Some(format!("to go on: `millwright rollout resume machinedeployment/{name}`")),
            then: None,
        },
        R::SetNotCreated(_) => Advice::help("see what the API server says against its new set"),
    }
}
