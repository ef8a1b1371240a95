//! Latencies and timeouts of a scenario.

use std::time::Duration;

use planner::safety::SafetyPolicy;
use planner::{Policy, drain};
use serde_json::{Value, json};

/// Latencies of the cloud, limits of the controller, and timeouts of the test.
#[derive(Clone, Debug)]
pub struct Pace {
    /// The controller's limits and periods.
    pub policy: Policy,
    /// Duration of a create call to the cloud.
    pub create: Duration,
    /// Boot time of a VM.
    pub boot: Duration,
    /// Time between the boot and the registration of the node.
    pub join: Duration,
    /// Time that the deletion of a VM takes.
    pub delete: Duration,
    /// Interval in which a kubelet renews its lease.
    pub lease: Duration,
    /// Time without a lease renewal after which a node is unreachable.
    pub node_grace: Duration,
    /// Polling interval of the scenario.
    pub poll_interval: Duration,
    /// Timeout of a scenario that waits for a state.
    pub timeout: Duration,
    /// What counts as a long time for a drain.
    pub long: Duration,
    /// Number of machines in scenarios with many machines.
    pub scale: usize,
    /// Factor by which everything may be slower than on an idle host, because several programs share its processors.
    pub slowdown: u32,
}

impl Pace {
    /// Values as in production, for a test clock.
    pub fn production() -> Self {
        Self {
            policy: Policy::default(),
            create: Duration::from_secs(2),
            boot: Duration::from_secs(30),
            join: Duration::from_secs(10),
            delete: Duration::from_secs(5),
            lease: Duration::from_secs(10),
            node_grace: Duration::from_secs(40),
            poll_interval: Duration::from_millis(200),
            timeout: Duration::from_hours(1),
            long: Duration::from_mins(2),
            scale: 50,
            slowdown: 1,
        }
    }

    /// Values scaled to seconds, for the system clock.
    pub fn fast() -> Self {
        Self {
            policy: Policy {
                creation_timeout: Duration::from_secs(20),
                driver_call_timeout: Duration::from_secs(20),
                health_timeout: Duration::from_secs(5),
                short_retry: Duration::from_secs(1),
                medium_retry: Duration::from_secs(2),
                long_retry: Duration::from_secs(4),
                exhausted_retry: Duration::from_secs(4),
                drain: drain::Limits {
                    detach_timeout: Duration::from_secs(20),
                    reattach_timeout: Duration::from_secs(20),
                    evict_interval: Duration::from_secs(1),
                    initial_backoff: Duration::from_millis(500),
                    max_backoff: Duration::from_secs(5),
                    termination_allowance: Duration::from_secs(5),
                    forced_timeout: Duration::from_secs(5),
                    unhealthy_timeout: Duration::from_secs(5),
                    progress_interval: Duration::from_secs(2),
                    ..drain::Limits::default()
                },
                safety: SafetyPolicy {
                    orphan_period: Duration::from_secs(5),
                    orphan_interval: Duration::from_secs(1),
                    recheck_after: Duration::from_secs(1),
                    ..SafetyPolicy::default()
                },
                ..Policy::default()
            },
            create: Duration::from_millis(100),
            boot: Duration::from_millis(500),
            join: Duration::from_millis(200),
            delete: Duration::from_millis(200),
            lease: Duration::from_secs(1),
            node_grace: Duration::from_secs(4),
            poll_interval: Duration::from_millis(100),
            timeout: Duration::from_mins(1),
            long: Duration::from_secs(3),
            scale: 50,
            slowdown: 5,
        }
    }

    /// The `providerSpec` of machines with these latencies.
    pub fn provider_spec(&self) -> Value {
        let text = |duration: Duration| format!("{}ms", duration.as_millis());
        json!({
            "createLatency": text(self.create),
            "bootLatency": text(self.boot),
            "deleteLatency": text(self.delete),
            "join": { "after": text(self.join) },
        })
    }
}
