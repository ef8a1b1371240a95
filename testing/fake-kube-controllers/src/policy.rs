//! Every period the simulated kube-controllers knows, with the flag or constant of the real programs beside it.

use std::time::Duration;

/// How patient the simulated kube-controllers is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long a node may be silent before it is `Unknown` (`--node-monitor-grace-period`; the real default has been 50 s since
    /// 1.32, Gardener and the virtual cloud's monitor say 40 s).
    pub node_grace: Duration,
    /// How long a node must be gone before its pods are collected (podgc's quarantine).
    pub orphan_quarantine: Duration,
    /// How long an evicted pod counts as disrupted without having been deleted (disruption's `DeletionTimeout`).
    pub disruption_memory: Duration,
    /// How long a node that is not ready may keep a volume that no pod uses any more (attach/detach's
    /// `maxWaitForUnmount`).
    pub unmount_patience: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            node_grace: Duration::from_secs(40),
            orphan_quarantine: Duration::from_secs(40),
            disruption_memory: Duration::from_mins(2),
            unmount_patience: Duration::from_mins(6),
        }
    }
}
