//! How long a drain waits for what, and what it may be told beyond that.

use std::time::Duration;

use api::LabelSelector;

use super::concurrency::Caps;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

/// Limits and settings of every drain. Defaults are the reference's; what the reference does not know is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long after it was asked for a drain becomes forceful (`--machine-drain-timeout`, `spec.drainTimeout`).
    pub timeout: Duration,
    /// How many refused evictions make a deletion; kept as time, see [`Request::refusal_limit`](super::Request::refusal_limit)
    /// (`--machine-max-evict-retries`, `spec.maxEvictRetries`).
    pub max_evict_retries: i64,
    /// How long a volume may take to leave the node, after its pod's grace period (`--machine-pv-detach-timeout`).
    pub detach_timeout: Duration,
    /// How long it may take to arrive elsewhere before the next pod goes all the same (`--machine-pv-reattach-timeout`).
    pub reattach_timeout: Duration,
    /// One retry of `max_evict_retries`, and the longest pause between two attempts on a budget that is merely spent.
    pub evict_interval: Duration,
    /// The first pause after an attempt that was refused or failed; each further one is twice as long.
    pub first_pause: Duration,
    /// The longest pause between attempts that fail for a reason which time alone does not mend.
    pub longest_pause: Duration,
    /// How long past its grace period a pod may take to vanish before that is reported.
    pub ending_allowance: Duration,
    /// How long even a forced drain may fail before a deletion goes on without it.
    pub forced_timeout: Duration,
    /// For longer than this a node must be ill for its drain to be forced.
    pub illness: Duration,
    /// How often a claim or volume that cannot be read is asked for before it is left out.
    pub lookup_tries: u32,
    /// The pause between two such reads.
    pub lookup_pause: Duration,
    /// A request without an answer counts as lost after this long.
    pub answer_patience: Duration,
    /// The text that says what is waited for is rewritten at most this often.
    pub progress_pause: Duration,
    /// Whether pods are ever deleted because waiting took too long (`--drain-never-force`).
    pub force: Force,
    /// Pods that are left where they are (`--drain-skip-pods`).
    pub skip: Option<LabelSelector>,
    /// Pods that go when all others have gone (`--drain-last-pods`).
    pub last: Option<LabelSelector>,
    /// Whether volumes that live as long as their pod are waited for (`--drain-await-ephemeral-volumes`).
    pub ephemeral: EphemeralVolumes,
    /// How many nodes may be drained at once (`--drain-max-concurrent`, `--drain-max-concurrent-per-deployment`).
    pub caps: Caps,
}

/// What happens when waiting has taken too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Force {
    /// Pods are deleted when the timeout has passed, their refusals have reached their limit or the node is long ill.
    #[default]
    WhenOverdue,
    /// Nothing but the label that asks for force makes a drain forceful: it waits without limit.
    OnlyWhenAsked,
}

/// Whether a volume made for one pod alone counts as a volume that is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EphemeralVolumes {
    /// It does not, as in the reference.
    #[default]
    Ignored,
    /// Its detachment is waited for; it dies with its pod, so nothing is attached elsewhere.
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
            first_pause: 5 * SECOND,
            longest_pause: 3 * MINUTE,
            ending_allowance: 30 * SECOND,
            forced_timeout: MINUTE,
            illness: 5 * MINUTE,
            lookup_tries: 3,
            lookup_pause: 5 * SECOND,
            answer_patience: MINUTE,
            progress_pause: 30 * SECOND,
            force: Force::default(),
            skip: None,
            last: None,
            ephemeral: EphemeralVolumes::default(),
            caps: Caps::default(),
        }
    }
}
