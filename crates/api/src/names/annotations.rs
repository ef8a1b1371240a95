//! Annotations.

/// On a Machine: an integer; Machines with the lowest value are deleted first. A missing or invalid value counts as
/// [`PRIORITY_DEFAULT`]. The machine controller sets the default when the VM exists, the manager sets [`PRIORITY_DELETE_FIRST`], and
/// users may set any value.
pub const PRIORITY: &str = "machinepriority.machine.sapcloud.io";
/// Default priority of a Machine.
pub const PRIORITY_DEFAULT: &str = "3";
/// Highest deletion priority. Deletion by time requires exactly this value.
pub const PRIORITY_DELETE_FIRST: &str = "1";

/// On a MachineDeployment: comma-separated list of Machines to delete, `<machine>~<RFC 3339>`. The cluster autoscaler writes it.
/// The manager sets [`PRIORITY_DELETE_FIRST`] and [`MARKED_FOR_DELETION_TIME`] on these Machines and prunes the list.
/// On a Node: [`TRIGGER_DELETION_VALUE`] deletes its Machine. Users write it.
pub const TRIGGER_DELETION: &str = "node.machine.sapcloud.io/trigger-deletion-by-mcm";
/// Value of [`TRIGGER_DELETION`] on a Node.
pub const TRIGGER_DELETION_VALUE: &str = "true";

/// On a Machine: RFC 3339 time of the deletion request. The manager writes it once, and uses it to order Machines with equal
/// priority.
pub const MARKED_FOR_DELETION_TIME: &str = "machine.sapcloud.io/marked-for-deletion-time";

/// On a MachineDeployment, copied to its MachineSets: RFC 3339 time of the last change of replicas by the cluster autoscaler. A
/// MachineSet deletes all Machines with the highest deletion priority that were marked before, independent of its replicas.
pub const LAST_REPLICA_CHANGE_BY_SCALER: &str = "machine.sapcloud.io/last-deployment-replica-change-by-scaler-time";

/// On a Machine or Node: a [`PreserveValue`](crate::PreserveValue). Users write it. A MachineSet writes and removes
/// `auto-preserved`. The machine controller preserves the Machine, and removes the annotation when the preservation has expired.
pub const PRESERVE: &str = "node.machine.sapcloud.io/preserve";

/// On a Machine: the last observed preserve value of its Node. The machine controller writes it to detect its removal.
pub const LAST_APPLIED_NODE_PRESERVE: &str = "node.machine.sapcloud.io/last-applied-node-preserve-value";

/// On a Machine: it was preserved before, so its MachineSet does not preserve it again. A MachineSet writes it with `auto-preserved`,
/// the machine controller when the preservation has expired. The machine controller removes it when the Machine has recovered.
/// Millwright only.
pub const PRESERVED_BEFORE: &str = "node.machine.sapcloud.io/preserved-before";
/// Value of [`PRESERVED_BEFORE`]. Readers check the key only.
pub const PRESERVED_BEFORE_VALUE: &str = "true";

/// On a Node: JSON of the last applied node template. The machine controller uses it to determine what to remove.
pub const LAST_APPLIED_TEMPLATE: &str = "node.machine.sapcloud.io/last-applied-anno-labels-taints";

/// On a Node: JSON of the last applied virtual capacity. Written and read by the machine controller.
pub const LAST_APPLIED_VIRTUAL_CAPACITY: &str = "node.machine.sapcloud.io/last-applied-virtual-capacity";

/// On a Node: it has no Machine, and its events are ignored. Written by the orphan scan. Readers check the key only.
pub const NOT_MANAGED: &str = "node.machine.sapcloud.io/not-managed-by-mcm";
/// Value of [`NOT_MANAGED`].
pub const NOT_MANAGED_VALUE: &str = "1";

/// On a MachineDeployment, copied to its MachineSets and Machines: a Go duration that overrides `spec.creationTimeout`. Users write
/// it. An invalid value is ignored.
pub const EFFECTIVE_CREATION_TIMEOUT: &str = "node.machine.sapcloud.io/effective-creation-timeout";

/// On a Machine: maximum number or percentage of unhealthy Machines of its MachineDeployment that are replaced at the same time, `2` or
/// `10%`. It overrides the flag. Users write it to a MachineDeployment, and the manager copies it to the MachineSets and to new Machines.
/// The machine controller reads it from Machines, because its minimal role does not include MachineDeployments. Millwright only.
pub const MAX_REPLACEMENTS: &str = "node.machine.sapcloud.io/max-replacements";

/// On the Lease of the machine controller: suspected orphan VMs, for the next leader. Millwright only.
pub const ORPHAN_VMS: &str = "safety.machine.sapcloud.io/orphan-vms";

/// On a Node: cause of a failed in-place update. The node agent writes it, and the manager removes it after a success.
pub const UPDATE_FAILED_REASON: &str = "node.machine.sapcloud.io/update-failed-reason";

/// On a MachineDeployment or MachineSet: requests to unfreeze it. Readers check the key only. Users write it. The manager copies it to
/// the MachineSets and removes it afterwards.
pub const UNFREEZE: &str = "safety.machine.sapcloud.io/unfreeze";
/// Value of [`UNFREEZE`] that the manager writes.
pub const UNFREEZE_VALUE: &str = "True";

/// On a MachineSet and MachineDeployment: the revision as a decimal number. Written and read by the manager.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// On a MachineSet: comma-separated list of earlier revisions. Written by the manager.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// On a MachineSet: replicas of the MachineDeployment at the last sync. The manager uses it to detect scaling.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// On a MachineSet: replicas of the MachineDeployment plus surge. The manager uses it for proportional scaling.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// On a MachineSet: its Nodes have the taint with the same key. Written by the manager, which checks the key only.
pub const PREFER_NO_SCHEDULE: &str = "deployment.machine.sapcloud.io/prefer-no-schedule";
/// Value of [`PREFER_NO_SCHEDULE`].
pub const PREFER_NO_SCHEDULE_VALUE: &str = "True";

/// On a Node: disables scale-down by the cluster autoscaler. Written by the manager during rollouts, by the machine controller
/// for preserved Machines, and by users.
pub const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// On a Node: [`SCALE_DOWN_DISABLED`] was set by the controllers, not by a user, so they may remove it.
pub const SCALE_DOWN_DISABLED_BY_MCM: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled-by-mcm";
/// Value of both.
pub const SCALE_DOWN_DISABLED_VALUE: &str = "true";

/// On any object: the configuration last applied by kubectl. Not copied from a MachineDeployment to its MachineSets.
pub const KUBECTL_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// On a Pod: it is a mirror pod of a static pod. The kubelet writes it; drains skip such pods.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// Annotations of a MachineDeployment that are not copied to its MachineSets.
pub const NOT_COPIED_TO_SETS: [&str; 8] = [
    KUBECTL_LAST_APPLIED,
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    PREFER_NO_SCHEDULE,
    UNFREEZE,
    TRIGGER_DELETION,
];
