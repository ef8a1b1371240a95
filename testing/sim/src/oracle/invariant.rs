//! What must hold, whatever happens.

use std::fmt;

/// One invariant. `docs/invariants.md` lists them; a test holds the page to this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// A set makes no machine beyond its replicas.
    SetLimit,
    /// A roll-out makes no machine beyond replicas and surge.
    Surge,
    /// Never two VMs for a machine.
    OneVm,
    /// No VM without a machine for longer than promised.
    Unowned,
    /// No machine deleted that nothing asked to go.
    AskedToGo,
    /// No set deleted while it has machines.
    SetInUse,
    /// The last finalizer stays while the VM does.
    Finalizer,
    /// Frozen means no creation.
    Frozen,
    /// No pod with a budget deleted past its budget.
    Budget,
    /// No VM deleted under its pods.
    DrainFirst,
    /// Nothing secret in what others read.
    Secret,
    /// No tight loop.
    Rate,
    /// Everything comes to rest as it was asked for.
    Converges,
    /// Then nothing is asked of the API server.
    Quiet,
    /// No task dies.
    Alive,
    /// No two leaders.
    OneLeader,
    /// No volume detached under a pod.
    Volumes,
    /// Nothing taken from a machine that is well.
    Blind,
    /// Those go first that are to go first.
    Order,
    /// No status says what is not so.
    Claims,
    /// No roll-out stands still.
    Progress,
    /// No more Machines than allowed are replaced at once.
    Replacements,
    /// A pause holds.
    Paused,
    /// Shares add up.
    Shares,
    /// An orphan is deleted after its waiting period.
    OrphanWait,
    /// Pods with volumes leave one after the other.
    Serial,
    /// Some pods stay.
    Excluded,
    /// Nodes are handed back.
    Leftovers,
    /// Tokens are removed.
    Tokens,
    /// Node templates are applied.
    Template,
    /// Recreate waits.
    Recreate,
    /// Preserved Machines go last.
    PreservedLast,
    /// A rollout keeps enough Machines available.
    Available,
    /// In-place updates keep their limit.
    InPlaceLimit,
    /// No busy loop.
    Reconciles,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 35] = [
        Self::SetLimit,
        Self::Surge,
        Self::OneVm,
        Self::Unowned,
        Self::AskedToGo,
        Self::SetInUse,
        Self::Finalizer,
        Self::Frozen,
        Self::Budget,
        Self::DrainFirst,
        Self::Secret,
        Self::Rate,
        Self::Converges,
        Self::Quiet,
        Self::Alive,
        Self::OneLeader,
        Self::Volumes,
        Self::Blind,
        Self::Order,
        Self::Claims,
        Self::Progress,
        Self::Replacements,
        Self::Paused,
        Self::Shares,
        Self::OrphanWait,
        Self::Serial,
        Self::Excluded,
        Self::Leftovers,
        Self::Tokens,
        Self::Template,
        Self::Recreate,
        Self::PreservedLast,
        Self::Available,
        Self::InPlaceLimit,
        Self::Reconciles,
    ];

    /// How it is called in reports.
    pub fn id(self) -> &'static str {
        match self {
            Self::SetLimit => "I1",
            Self::Surge => "I2",
            Self::OneVm => "I3",
            Self::Unowned => "I4",
            Self::AskedToGo => "I5",
            Self::SetInUse => "I6",
            Self::Finalizer => "I7",
            Self::Frozen => "I8",
            Self::Budget => "I9",
            Self::DrainFirst => "I10",
            Self::Secret => "I11",
            Self::Rate => "I12",
            Self::Converges => "I13",
            Self::Quiet => "I14",
            Self::Alive => "I15",
            Self::OneLeader => "I16",
            Self::Volumes => "I17",
            Self::Blind => "I18",
            Self::Order => "I19",
            Self::Claims => "I20",
            Self::Progress => "I21",
            Self::Replacements => "I22",
            Self::Paused => "I23",
            Self::Shares => "I24",
            Self::OrphanWait => "I25",
            Self::Serial => "I26",
            Self::Excluded => "I27",
            Self::Leftovers => "I28",
            Self::Tokens => "I29",
            Self::Template => "I30",
            Self::Recreate => "I31",
            Self::PreservedLast => "I32",
            Self::Available => "I33",
            Self::InPlaceLimit => "I34",
            Self::Reconciles => "I35",
        }
    }

    /// What it says.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::SetLimit => "A MachineSet makes no Machine while as many as its replicas are not being deleted.",
            Self::Surge => {
                "No Machine is made while as many of its MachineDeployment as replicas and maxSurge allow are not being deleted."
            }
            Self::OneVm => "A Machine never has two VMs.",
            Self::Unowned => {
                "No VM is without a Machine for longer than a creation timeout and two orphan periods in which nothing goes wrong."
            }
            Self::AskedToGo => {
                "We delete no Machine but one that has failed, is beyond the replicas of its MachineSet, is marked by the autoscaler, or whose Node or owner is deleted."
            }
            Self::SetInUse => {
                "We delete no MachineSet that has Machines or is to have some, unless its MachineDeployment goes."
            }
            Self::Finalizer => {
                "A Machine is gone only when the deletion of its VM and of its Node has begun, or there are none."
            }
            Self::Frozen => "A frozen MachineSet makes no Machine.",
            Self::Budget => {
                "We delete no pod that has a PodDisruptionBudget, but evict it, unless the drain is forced."
            }
            Self::DrainFirst => {
                "The VM of a Node that was healthy when the deletion of its Machine began is deleted only when its pods have left, unless the drain is forced."
            }
            Self::Secret => "Nothing of a Secret is in an Event, a status or a Node.",
            Self::Rate => {
                "No object is asked for or written, and no driver call made for one, more than sixty times in a minute."
            }
            Self::Converges => {
                "Once nothing goes wrong and nobody asks for more, there are as many running Machines, VMs and Nodes as asked for, of the class asked for, and nothing else."
            }
            Self::Quiet => "Once everything has come to rest, we ask nothing of the API servers.",
            Self::Alive => "No task and no reconcile of ours ends by a panic.",
            Self::OneLeader => "Once another process holds the lease of a component, we write nothing for it.",
            Self::Volumes => {
                "We delete no VolumeAttachment of a healthy Node while a pod runs there that uses the volume, unless the drain is forced."
            }
            Self::Blind => {
                "We mark no Machine that ran as Failed while its Node is healthy, and make its pods, Node and VM go only if it is being deleted, has failed or is to be updated in place."
            }
            Self::Order => {
                "A MachineSet that shrinks deletes no Machine while as many as are too many have a lower priority and are not preserved."
            }
            Self::Claims => {
                "We say of no Machine that it runs whose Node is not healthy, and of no MachineSet and no MachineDeployment that it has more Machines, or more that run, than it had since what was shown."
            }
            Self::Progress => {
                "A MachineDeployment that is not as it was asked for, all of whose Machines run, changes within ten minutes in which nothing keeps us from acting, whatever goes wrong around us."
            }
            Self::Replacements => {
                "We mark no Machine Failed because of its health while as many others of its MachineDeployment as the limit allows are being created, replaced or deleted."
            }
            Self::Paused => {
                "While a MachineDeployment is paused, we create no MachineSet for it and shrink none of several unless it has more Machines than replicas and maxSurge allow."
            }
            Self::Shares => {
                "When a rolling MachineDeployment was scaled and all its MachineSets know the new number, their replicas add up to no more than replicas and maxSurge."
            }
            Self::OrphanWait => {
                "We call no driver to delete the VM of a Machine that has been gone for less than a creation timeout."
            }
            Self::Serial => {
                "We evict no pod with volumes from a healthy Node while another pod that we evicted there is terminating or its volumes are attached, within the detach timeout, unless the drain is forced."
            }
            Self::Excluded => "We evict and delete no pod of a DaemonSet and no mirror pod.",
            Self::Leftovers => {
                "Once everything has come to rest, no Node of a running Machine has a cordon, a taint or an update label that we set."
            }
            Self::Tokens => {
                "No bootstrap token is left ten minutes after its Machine runs or is gone, if nothing has kept us from acting since it was created."
            }
            Self::Template => {
                "Once everything has come to rest, each Node has the labels, annotations and taints of its Machine's node template, and none of an earlier one."
            }
            Self::Recreate => {
                "A MachineDeployment with the strategy Recreate creates no Machine while a Machine of another of its MachineSets exists, unless it was paused."
            }
            Self::PreservedLast => {
                "A MachineSet that shrinks deletes no preserved Machine while as many as are too many are not preserved."
            }
            Self::Available => {
                "A rolling update shrinks no MachineSet so that fewer Machines than replicas minus maxUnavailable are left available."
            }
            Self::InPlaceLimit => {
                "We select no Node for an in-place update while as many others of its MachineDeployment as maxUnavailable are selected."
            }
            Self::Reconciles => "No object is reconciled more than a hundred times in a second.",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id(), self.sentence())
    }
}
