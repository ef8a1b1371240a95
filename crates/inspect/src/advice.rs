//! Advice for each reason of a planner: whether the state is healthy, what follows, and how to fix it.
//!
//! Each planner has one match without a catch-all, so a new reason must get advice.

use api::{Code, Machine, MachinePhase, Object};
use planner::{deployment, machine, machineset};

use crate::Health::{self, Healthy, InProgress, NeedsAttention};

/// Advice for a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Health of the object.
    pub health: Health,
    /// How to fix it, if a user can.
    pub unblock: Option<String>,
    /// What follows when the deadline has passed.
    pub then: Option<&'static str>,
}

const REPLACED: &str = "the Machine is marked Failed, and its MachineSet replaces it";
const FORCED: &str =
    "the drain is forced after the drain timeout: remaining pods are deleted, PodDisruptionBudgets are ignored";

impl Advice {
    fn plain(health: Health) -> Self {
        Self { health, unblock: None, then: None }
    }

    fn help(unblock: impl Into<String>) -> Self {
        Self { health: NeedsAttention, unblock: Some(unblock.into()), then: None }
    }

    fn then(self, then: &'static str) -> Self {
        Self { then: Some(then), ..self }
    }
}

/// Returns the advice for a Machine.
#[must_use]
#[allow(clippy::too_many_lines, reason = "one row per reason")]
pub fn machine(reason: &machine::Reason, seen: &Machine) -> Advice {
    use machine::Reason as R;
    let name = seen.name();
    match reason {
        R::Converged | R::NodeOutOfDate | R::ConditionsChanged | R::Joined | R::Rejoined | R::Updated => Advice::plain(Healthy),
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
        | R::Deleted => Advice::plain(InProgress),
        R::Invalid(_) => {
            Advice::help(format!("fix the field: `kubectl edit machine {name}`, and the template of its owner"))
        }
        R::ClassMissing(class) | R::ClassMissingVmPossible(class) => {
            Advice::help(format!("create MachineClass {class:?}, or set spec.class.name to another one"))
        }
        R::ClassUndecodable(class) => Advice::help(format!(
            "fix MachineClass {class:?}: a field has a type that the CRD does not allow"
        )),
        R::ClassInvalid(class, _) => {
            Advice::help(format!("fix MachineClass {class:?}: `kubectl edit machineclass {class}`"))
        }
        R::ClassDeleting(class) => Advice::help(format!(
            "create MachineClass {class:?} again after its deletion, or set spec.class.name to another one"
        )),
        R::DriverMissing(_) => Advice::help(
            "run the machine controller with the driver of the MachineClass's provider (--provider or --driver-endpoint)",
        ),
        R::SecretUnusable(_) => Advice::help("create or complete the Secret that the MachineClass names"),
        R::CallFailed { code, .. } | R::CapacityExhausted { code } => by_code(*code).then("the call is retried"),
        R::VmUnnamed => Advice::help("fix the driver: its response contains neither the VM nor the Node name"),
        R::CreationTimedOut | R::JoinTimedOut | R::HealthTimedOut => Advice::plain(InProgress).then(REPLACED),
        R::NodeNotRegistered(node) => Advice {
            health: InProgress,
            unblock: Some(format!(
                "if Node {node:?} does not register: check the console of the VM, its user data and its network. The kubelet must \
                 reach the API server and authenticate"
            )),
            then: Some(REPLACED),
        },
        R::CriticalComponentsNotReady => Advice {
            health: InProgress,
            unblock: Some("check why the pods of critical components do not start on the Node".into()),
            then: Some(REPLACED),
        },
        R::NodeNotHealthy(_) | R::NodeMissing(_) => {
            let health = if *seen.phase() == MachinePhase::Pending { InProgress } else { NeedsAttention };
            // A Running Machine becomes Unknown first; then the health timeout starts.
            let then = (*seen.phase() != MachinePhase::Running).then_some(REPLACED);
            let help = format!(
                "repair the Node (`kubectl describe node`). To replace the Machine now: `kubectl delete machine {name}`"
            );
            Advice { health, unblock: Some(help), then }
        }
        R::HealthTimeoutDisabled => Advice::help(format!(
            "repair the Node, or replace the Machine: `kubectl delete machine {name}`. spec.disableHealthTimeout prevents automatic replacement"
        )),
        R::ReplacementsInProgress { .. } => Advice {
            health: InProgress,
            unblock: Some(format!(
                "the Machine is replaced after another replacement is complete. To replace more at the same time, set annotation {} on \
                 the Machine, or increase --machine-max-replacements",
                api::names::annotations::MAX_REPLACEMENTS
            )),
            then: None,
        },
        R::FailedUpdateKept | R::UpdateFailed(_) | R::UpdateTimedOut => Advice::help(format!(
            "fix the update on the Node (the agent reports the reason in annotation {}), or replace the Machine: `kubectl delete machine {name}`",
            api::names::annotations::UPDATE_FAILED_REASON
        )),
        R::Frozen => Advice::help("check why the API servers are unreachable. The controller resumes when the connection is restored"),
        R::ReadyForUpdate => Advice {
            health: InProgress,
            unblock: Some("if this takes long: check that the update agent runs on the Node".into()),
            then: None,
        },
        R::Preserved { .. } => Advice {
            health: InProgress,
            unblock: Some(format!(
                "to end the preservation now: `kubectl annotate machine {name} {}=false --overwrite`. If the Node has the annotation, change it there too",
                api::names::annotations::PRESERVE
            )),
            then: Some("the preservation ends, and the Machine is replaced if it is Failed"),
        },
        R::AwaitsReplacement => Advice {
            health: InProgress,
            unblock: seen.controller_owner().is_none().then(|| {
                format!("the Machine has no MachineSet and is not replaced: `kubectl delete machine {name}`")
            }),
            then: None,
        },
        R::Draining(_) => Advice::plain(InProgress).then(FORCED),
        R::CordonFailed(_) => {
            Advice::help("allow the machine controller to patch the Node: a webhook or a missing permission prevents it").then(FORCED)
        }
        R::Detaching { .. } => Advice {
            health: InProgress,
            unblock: Some(
                "if they stay attached: check `kubectl get volumeattachments` and the log of the CSI driver. After another drain timeout, the VM is deleted anyway"
                    .into(),
            ),
            then: None,
        },
        R::NodeDisputed(_) => {
            Advice::help("correct the label \"node\" of the Machine that does not run on that Node").then(FORCED)
        }
        R::VmShared { with, .. } => Advice::help(format!(
            "correct spec.providerID, or delete the Machine that was created by mistake. The VM stays with {with:?} or this Machine"
        )),
        R::NodeForeign { .. } => Advice::help("correct the label \"node\" of the Machine"),
        R::NodeLookupFailed { .. } => Advice::help("allow the machine controller to read Nodes of the target cluster")
            .then("the deletion continues without the Node"),
        R::NodeDeletionFailed { name, .. } => Advice::help(format!("delete Node {name:?} if it still exists")),
        R::NodeUndecodable(node) => Advice::help(format!("fix or delete Node {node:?}: it cannot be decoded")),
        R::OtherFinalizer => Advice::help(format!(
            "the owner of the other finalizer must remove it: `kubectl get machine {name} -o jsonpath='{{.metadata.finalizers}}'`"
        )),
    }
}

/// Returns the advice for a failed driver call.
fn by_code(code: Code) -> Advice {
    Advice::help(match code {
        Code::ResourceExhausted => "raise the cloud quota, or use a MachineClass with another instance type or zone",
        Code::PermissionDenied => {
            "grant the missing cloud permission to the credentials in the Secret of the MachineClass"
        }
        Code::Unauthenticated => "renew the credentials in the Secret of the MachineClass",
        Code::InvalidArgument => "fix providerSpec of the MachineClass, or the contents of its Secret",
        Code::NotFound | Code::FailedPrecondition | Code::AlreadyExists | Code::OutOfRange => {
            "check the message of the cloud in the last operation"
        }
        Code::Unimplemented | Code::Internal | Code::DataLoss => "check the log of the driver",
        Code::Ok
        | Code::Canceled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Unavailable
        | Code::Uninitialized
        | Code::Other(_) => "check whether the cloud has an outage. The call is retried automatically",
    })
}

/// Returns the advice for a MachineSet.
#[must_use]
pub fn set(reason: &machineset::Reason, name: &str) -> Advice {
    use machineset::Reason as R;
    match reason {
        R::Converged => Advice::plain(Healthy),
        R::FinalizerMissing
        | R::Ownership { .. }
        | R::TooFew { .. }
        | R::ScaleUpDisabled
        | R::Surplus { .. }
        | R::MachinesOutdated(_)
        | R::ResultsPending(_)
        | R::Deleting { .. }
        | R::Orphaning
        | R::MachinesGone => Advice::plain(InProgress),
        R::Invalid(_) => {
            Advice::help(format!("fix the field: `kubectl edit machineset {name}`, or its MachineDeployment"))
        }
        R::Frozen => Advice::help(format!(
            "check why there are too many Machines (`kubectl describe machineset {name}`), delete the surplus, then unfreeze: \
             `kubectl annotate machinedeployment NAME {}=True`",
            api::names::annotations::UNFREEZE
        )),
        R::ClockSkewed => Advice::help("correct the clock of the host on which the controller runs"),
        R::ReplacementDelayed(_) => Advice::help(format!(
            "check why the Machines fail: `kubectl describe machines`, and the Events of machineset {name}"
        )),
        R::InvalidTemplate(_) => Advice::help("make spec.selector match the labels of the template"),
        R::OtherFinalizer => Advice::help("the owner of the other finalizer must remove it"),
    }
}

/// Returns the advice for a MachineDeployment.
#[must_use]
pub fn deployment(reason: &deployment::Reason, name: &str) -> Advice {
    use deployment::Reason as R;
    match reason {
        R::Converged => Advice::plain(Healthy),
        R::MachinesNotCached
        | R::HashMissing(_)
        | R::RollbackRequested(_)
        | R::Resized { .. }
        | R::Rolling { .. }
        | R::OldMachinesRemain(_)
        | R::Completing { .. }
        | R::Deleting(_)
        | R::Orphaning
        | R::Deleted => Advice::plain(InProgress),
        R::Invalid(_) => Advice::help(format!("fix the field: `kubectl edit machinedeployment {name}`")),
        R::Paused => Advice {
            health: InProgress,
            unblock: Some(format!("to resume: `millwright rollout resume machinedeployment/{name}`")),
            then: None,
        },
        R::SetNotCreated(_) => Advice::help("check why the API server rejects the new MachineSet"),
    }
}
