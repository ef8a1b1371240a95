//! How fast a scenario's world turns.

use std::time::Duration;

use planner::safety::SafetyPolicy;
use planner::{Policy, drain};
use serde_json::{Value, json};

/// Latencies of the cloud, limits of the controller, and the patience of the audience.
#[derive(Clone, Debug)]
pub struct Pace {
    /// The controller's limits and periods.
    pub policy: Policy,
    /// How long the cloud takes to answer a create.
    pub create: Duration,
    /// How long a VM takes to boot.
    pub boot: Duration,
    /// How long after that its node joins.
    pub join: Duration,
    /// How long a VM takes to go.
    pub delete: Duration,
    /// How often a kubelet says that it is there.
    pub lease: Duration,
    /// How long it may say nothing until its node is held for lost.
    pub silence: Duration,
    /// How often the audience looks.
    pub glance: Duration,
    /// When the audience stops believing that anything will happen.
    pub patience: Duration,
    /// What counts as a long time for a drain.
    pub long: Duration,
    /// How many machines make a scale.
    pub scale: usize,
    /// How many times slower than by itself everything may be, because programs share processors.
    pub burden: u32,
}

impl Pace {
    /// As in production, for a clock that the test owns.
    pub fn lifelike() -> Self {
        Self {
            policy: Policy::default(),
            create: Duration::from_secs(2),
            boot: Duration::from_secs(30),
            join: Duration::from_secs(10),
            delete: Duration::from_secs(5),
            lease: Duration::from_secs(10),
            silence: Duration::from_secs(40),
            glance: Duration::from_millis(200),
            patience: Duration::from_hours(1),
            long: Duration::from_mins(2),
            scale: 50,
            burden: 1,
        }
    }

    /// Scaled to seconds, for a clock that cannot be hurried.
    pub fn brisk() -> Self {
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
                    first_pause: Duration::from_millis(500),
                    longest_pause: Duration::from_secs(5),
                    ending_allowance: Duration::from_secs(5),
                    forced_timeout: Duration::from_secs(5),
                    illness: Duration::from_secs(5),
                    progress_pause: Duration::from_secs(2),
                    ..drain::Limits::default()
                },
                safety: SafetyPolicy {
                    orphan_period: Duration::from_secs(5),
                    orphan_interval: Duration::from_secs(1),
                    look_again_after: Duration::from_secs(1),
                    ..SafetyPolicy::default()
                },
                ..Policy::default()
            },
            create: Duration::from_millis(100),
            boot: Duration::from_millis(500),
            join: Duration::from_millis(200),
            delete: Duration::from_millis(200),
            lease: Duration::from_secs(1),
            silence: Duration::from_secs(4),
            glance: Duration::from_millis(100),
            patience: Duration::from_mins(1),
            long: Duration::from_secs(3),
            scale: 50,
            burden: 5,
        }
    }

    /// The `providerSpec` of machines that live at this pace.
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
