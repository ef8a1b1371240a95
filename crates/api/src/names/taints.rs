//! Taints.

/// On Nodes of outgoing sets, effect PreferNoSchedule, value [`PREFER_NO_SCHEDULE_VALUE`]: pods go elsewhere if they can.
/// The manager writes and removes it.
pub const PREFER_NO_SCHEDULE: &str = "deployment.machine.sapcloud.io/prefer-no-schedule";
/// The value of [`PREFER_NO_SCHEDULE`].
pub const PREFER_NO_SCHEDULE_VALUE: &str = "True";

/// On Nodes whose system pods are not ready, effect NoSchedule. Others write it, and the manager after an in-place update;
/// a Pending machine with it is not yet Running.
pub const CRITICAL_COMPONENTS: &str = "node.gardener.cloud/critical-components-not-ready";

/// On Nodes of preserved machines that failed, effect NoSchedule, no value, with its time. The machine controller writes it
/// instead of a cordon, and removes it on recovery.
pub const PRESERVED: &str = "node.machine.sapcloud.io/preserved";
