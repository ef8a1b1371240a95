//! Annotations.

/// On a Machine: an integer, the lowest is deleted first. Missing or unreadable counts as [`PRIORITY_DEFAULT`]. The machine
/// controller sets the default once the VM exists, the manager sets [`PRIORITY_DELETE_FIRST`], users set what they like.
pub const PRIORITY: &str = "machinepriority.machine.sapcloud.io";
/// The priority of a machine nobody said anything about.
pub const PRIORITY_DEFAULT: &str = "3";
/// The priority of a machine that is to go first; also needed, to the letter, for deletion by time.
pub const PRIORITY_DELETE_FIRST: &str = "1";

/// On a MachineDeployment: machines to delete, `<machine>~<RFC 3339>` separated by commas. The cluster autoscaler writes it;
/// the manager gives each live one [`PRIORITY_DELETE_FIRST`] and [`MARKED_FOR_DELETION_TIME`], and prunes the list.
/// On a Node: [`TRIGGER_DELETION_VALUE`] deletes its Machine. Users write it.
pub const TRIGGER_DELETION: &str = "node.machine.sapcloud.io/trigger-deletion-by-mcm";
/// The value of [`TRIGGER_DELETION`] on a Node that counts, to the letter.
pub const TRIGGER_DELETION_VALUE: &str = "true";

/// On a Machine, an RFC 3339 time: when its deletion was asked for. Written once by the manager, read by it to break ties.
pub const MARKED_FOR_DELETION_TIME: &str = "machine.sapcloud.io/marked-for-deletion-time";

/// On a MachineDeployment, copied to its MachineSets, an RFC 3339 time: when the autoscaler last changed the replicas. A
/// set deletes each machine of the highest deletion priority that was marked until then, whatever its replicas say.
pub const LAST_REPLICA_CHANGE_BY_SCALER: &str = "machine.sapcloud.io/last-deployment-replica-change-by-scaler-time";

/// On a Machine or Node: see [`PreserveValue`](crate::PreserveValue). Users write it; a set writes and removes
/// `auto-preserved`; the machine controller acts on it and removes it when the preservation has expired.
pub const PRESERVE: &str = "node.machine.sapcloud.io/preserve";

/// On a Machine: the last preserve value seen on its Node, kept by the machine controller so that it notices the removal.
pub const LAST_APPLIED_NODE_PRESERVE: &str = "node.machine.sapcloud.io/last-applied-node-preserve-value";

/// On a Machine: it was preserved, so its set does not ask for that a second time. A set writes it together with `auto-preserved`,
/// the machine controller when the preservation has expired; it removes it when the machine has recovered. Ours.
pub const PRESERVED_BEFORE: &str = "node.machine.sapcloud.io/preserved-before";
/// The value written for [`PRESERVED_BEFORE`]; its presence counts.
pub const PRESERVED_BEFORE_VALUE: &str = "true";

/// On a Node: JSON of the node template that was applied. Written and read by the machine controller, to know what to remove.
pub const LAST_APPLIED_TEMPLATE: &str = "node.machine.sapcloud.io/last-applied-anno-labels-taints";

/// On a Node: JSON map of the virtual capacity that was applied. Written and read by the machine controller.
pub const LAST_APPLIED_VIRTUAL_CAPACITY: &str = "node.machine.sapcloud.io/last-applied-virtual-capacity";

/// On a Node: it belongs to no Machine, and its events are ignored. Written by the orphan scan; its presence counts.
pub const NOT_MANAGED: &str = "node.machine.sapcloud.io/not-managed-by-mcm";
/// The value written for [`NOT_MANAGED`].
pub const NOT_MANAGED_VALUE: &str = "1";

/// On a MachineDeployment, handed down to sets and machines: a Go duration that beats `spec.creationTimeout`. Operators
/// write it; one that cannot be read is as good as none.
pub const EFFECTIVE_CREATION_TIMEOUT: &str = "node.machine.sapcloud.io/effective-creation-timeout";

/// On a Machine: how many of its deployment may be replaced at once for being unhealthy, `2` or `10%`; it beats the flag. The
/// machine controller reads it there, and not on the deployment, because with the least rights it reads no deployments; our
/// manager hands it from a deployment to its sets and their new machines. Operators write it. Ours.
pub const MAX_REPLACEMENTS: &str = "node.machine.sapcloud.io/max-replacements";

/// On the Lease of the machine controller: what its holder knows of VMs without a Machine, for the next holder. Ours.
pub const ORPHAN_VMS: &str = "safety.machine.sapcloud.io/orphan-vms";

/// On a Node: why an in-place update failed. The node agent writes it, the manager removes it after a success.
pub const UPDATE_FAILED_REASON: &str = "node.machine.sapcloud.io/update-failed-reason";

/// On a MachineDeployment or MachineSet: asks to unfreeze it; its presence counts. Users write it, the manager hands it to
/// the sets and drops it once done.
pub const UNFREEZE: &str = "safety.machine.sapcloud.io/unfreeze";
/// The value the manager writes for [`UNFREEZE`].
pub const UNFREEZE_VALUE: &str = "True";

/// On a MachineSet and MachineDeployment: the revision, decimal. Written and read by the manager.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// On a MachineSet: earlier revisions, separated by commas. Written by the manager.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// On a MachineSet: the deployment's replicas when it was last synced. The manager tells a scaling by it.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// On a MachineSet: the deployment's replicas plus surge. The manager scales proportionally by it.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// On a MachineSet: its nodes carry the taint of the same name. Written and read by the manager; its presence counts.
pub const PREFER_NO_SCHEDULE: &str = "deployment.machine.sapcloud.io/prefer-no-schedule";
/// The value written for [`PREFER_NO_SCHEDULE`].
pub const PREFER_NO_SCHEDULE_VALUE: &str = "True";

/// On a Node: asks the cluster autoscaler to leave it alone. Written by the manager during rollouts, by the machine
/// controller for preserved nodes, and by users.
pub const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// On a Node: we, not a user, set [`SCALE_DOWN_DISABLED`], and may remove it.
pub const SCALE_DOWN_DISABLED_BY_US: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled-by-mcm";
/// The value written for both.
pub const SCALE_DOWN_DISABLED_VALUE: &str = "true";

/// On anything: what kubectl last applied. Never copied from a deployment to its sets.
pub const KUBECTL_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// On a Pod: it is the image of a pod that its kubelet reads from a file. The kubelet writes it, drains leave such pods alone.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// Annotations of a MachineDeployment that are not copied to its sets.
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
