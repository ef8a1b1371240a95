//! Taints.

/// On Nodes of old MachineSets, effect PreferNoSchedule, value [`PREFER_NO_SCHEDULE_VALUE`]: pods are scheduled to other Nodes if
/// possible. The manager adds and removes it.
pub const PREFER_NO_SCHEDULE: &str = "deployment.machine.sapcloud.io/prefer-no-schedule";
/// Value of [`PREFER_NO_SCHEDULE`].
pub const PREFER_NO_SCHEDULE_VALUE: &str = "True";

/// On Nodes whose system pods are not ready, effect NoSchedule. Other programs add it, and the manager adds it after an in-place
/// update. A Pending Machine does not become Running while its Node has this taint.
pub const CRITICAL_COMPONENTS: &str = "node.gardener.cloud/critical-components-not-ready";

/// On Nodes of preserved Machines that failed, effect NoSchedule, without a value, with a time. The machine controller adds it
/// instead of a cordon, and removes it when the Machine has recovered.
pub const PRESERVED: &str = "node.machine.sapcloud.io/preserved";
