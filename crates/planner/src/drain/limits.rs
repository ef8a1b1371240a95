//! Timeouts and settings of drains.

use std::time::Duration;

use api::LabelSelector;

use super::concurrency::Caps;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

/// Timeouts and settings of all drains. The defaults are MCM's; features that MCM lacks are off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time after which a drain is forced (`--machine-drain-timeout`, `spec.drainTimeout`).
    pub timeout: Duration,
    /// Number of refused evictions after which a pod is deleted, kept as a duration; see
    /// [`Request::refusal_limit`](super::Request::refusal_limit) (`--machine-max-evict-retries`,
    /// `spec.maxEvictRetries`).
    pub max_evict_retries: i64,
    /// Timeout for the detachment of a volume, after the grace period of its pod (`--machine-pv-detach-timeout`).
    pub detach_timeout: Duration,
    /// Timeout for the attachment to another Node, after which the next pod is evicted
    /// (`--machine-pv-reattach-timeout`).
    pub reattach_timeout: Duration,
    /// Interval of one retry of `max_evict_retries`, and the maximum backoff for an exhausted PodDisruptionBudget.
    pub evict_interval: Duration,
    /// Backoff after the first refused or failed attempt, doubled for each further one.
    pub initial_backoff: Duration,
    /// Maximum backoff for failures that need a change.
    pub max_backoff: Duration,
    /// Time after the grace period of a pod before its termination is reported as overdue.
    pub termination_allowance: Duration,
    /// Time for which a forced drain may fail before a deletion continues without it.
    pub forced_timeout: Duration,
    /// Time after which the drain of an unhealthy Node is forced.
    pub unhealthy_timeout: Duration,
    /// Number of attempts to look up a claim or volume before it is left out.
    pub lookup_tries: u32,
    /// Delay between two such attempts.
    pub lookup_backoff: Duration,
    /// Time after which a request without a response counts as lost.
    pub response_timeout: Duration,
    /// Minimum interval between two changes of the status text.
    pub progress_interval: Duration,
    /// Whether pods are deleted after a timeout (`--drain-never-force`).
    pub force: Force,
    /// Pods that are not drained (`--drain-skip-pods`).
    pub skip: Option<LabelSelector>,
    /// Pods that are evicted after all others (`--drain-last-pods`).
    pub last: Option<LabelSelector>,
    /// Whether the drain waits for volumes that are deleted with their pod (`--drain-await-ephemeral-volumes`).
    pub ephemeral: EphemeralVolumes,
    /// Maximum number of concurrent drains (`--drain-max-concurrent`, `--drain-max-concurrent-per-deployment`).
    pub caps: Caps,
}

/// When a drain is forced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Force {
    /// After the drain timeout, after the maximum number of refusals, or if the Node is unhealthy for too long.
    #[default]
    WhenOverdue,
    /// Only if the label requests it: otherwise the drain waits without a limit.
    OnlyWhenAsked,
}

/// Whether a drain waits for generic ephemeral volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EphemeralVolumes {
    /// Not waited for, as in MCM.
    #[default]
    Ignored,
    /// The drain waits for the detachment. The volume is deleted with its pod, so there is no other attachment.
    Awaited,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_hours(2),
            max_evict_retries: 360,
            detach_timeout: 2 * MINUTE,
            reattach_timeout: 90 * SECOND,
            evict_interval: 20 * SECOND,
            initial_backoff: 5 * SECOND,
            max_backoff: 3 * MINUTE,
            termination_allowance: 30 * SECOND,
            forced_timeout: MINUTE,
            unhealthy_timeout: 5 * MINUTE,
            lookup_tries: 3,
            lookup_backoff: 5 * SECOND,
            response_timeout: MINUTE,
            progress_interval: 30 * SECOND,
            force: Force::default(),
            skip: None,
            last: None,
            ephemeral: EphemeralVolumes::default(),
            caps: Caps::default(),
        }
    }
}
