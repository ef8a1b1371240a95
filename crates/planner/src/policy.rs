//! Settings of the planners: timeouts, periods and limits.
//!
//! They are set by flags. The spec of a Machine may override some of them, and tests on a real API server scale them
//! down to seconds.

use std::time::Duration;

use crate::deployment::DeploymentPolicy;
use crate::drain;
use crate::machineset::SetPolicy;
use crate::replacement_limit::Limit;
use crate::safety::SafetyPolicy;

const MINUTE: Duration = Duration::from_mins(1);

/// Settings of the controllers. The defaults are those of MCM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Timeout from the creation of a Machine until its Node has joined (`--machine-creation-timeout`).
    pub creation_timeout: Duration,
    /// Timeout of a driver call that does not create a VM (`--driver-call-timeout`).
    pub driver_call_timeout: Duration,
    /// How long a Machine may be unhealthy before it is marked Failed (`--machine-health-timeout`).
    pub health_timeout: Duration,
    /// Timeout of an in-place update (`--machine-inplace-update-timeout`).
    pub in_place_timeout: Duration,
    /// How long a Machine is preserved (`--machine-preserve-timeout`).
    pub preserve_timeout: Duration,
    /// Maximum number of Machines of a MachineDeployment that are replaced at the same time
    /// (`--machine-max-replacements`).
    pub max_replacements: Limit,
    /// How a Node without a Ready condition is treated (`--missing-ready-is-unhealthy`).
    pub missing_ready: MissingReady,
    /// What happens to a Machine whose in-place update failed (`--replace-failed-in-place-updates`).
    pub failed_update: FailedUpdate,
    /// Whether the annotation `trigger-deletion-by-mcm` on a Node deletes its Machine
    /// (`--delete-machines-by-node-annotation`).
    pub node_annotation: NodeAnnotation,
    /// Types of Node conditions that make a Node unhealthy unless they are `False` (`--node-conditions`).
    pub node_conditions: Vec<String>,
    /// Delay before a transient failure is retried.
    pub short_retry: Duration,
    /// Delay before a failure that requires user action is retried.
    pub medium_retry: Duration,
    /// Delay before a failure that is probably permanent is retried.
    pub long_retry: Duration,
    /// Delay before a create that exceeded a quota is retried (`--resource-exhausted-retry`).
    pub exhausted_retry: Duration,
    /// Number of Machines in a row whose calls fail with *Unavailable* before the credential is throttled.
    pub throttle_after: usize,
    /// First pause of a throttled credential. Each further pause is twice as long.
    pub throttle_pause: Duration,
    /// Longest pause of a throttled credential.
    pub throttle_longest_pause: Duration,
    /// A trial call of a throttled credential counts as accepted if it is still running after this time.
    pub throttle_trial: Duration,
    /// Groups of a bootstrap token in addition to the standard one (`--bootstrap-token-auth-extra-groups`).
    pub bootstrap_token_extra_groups: String,
    /// A repeated failure is written again only after this time, because provider texts differ in every request ID.
    pub repeat_after: Duration,
    /// Delay of a reconcile whose wake-up lies in the past.
    pub overdue_delay: Duration,
    /// Minimum interval between two reconciles of a busy MachineSet or MachineDeployment.
    pub coalescing_interval: Duration,
    /// Maximum age of the counts in the status of a MachineSet or MachineDeployment while Machines are created and
    /// deleted.
    pub report_delay: Duration,
    /// How long a MachineSet waits to observe the result of its own creates and deletes.
    pub expectation_patience: Duration,
    /// How long durations are exported for a MachineDeployment that has no Machines left.
    pub measurements_kept: Duration,
    /// Settings of the safety checks.
    pub safety: SafetyPolicy,
    /// Settings of drains.
    pub drain: drain::Limits,
    /// Settings of MachineSets.
    pub set: SetPolicy,
    /// Settings of MachineDeployments.
    pub deployment: DeploymentPolicy,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            creation_timeout: 20 * MINUTE,
            driver_call_timeout: 20 * MINUTE,
            health_timeout: 10 * MINUTE,
            in_place_timeout: 20 * MINUTE,
            preserve_timeout: Duration::from_hours(96),
            max_replacements: Limit::Count(1),
            missing_ready: MissingReady::Healthy,
            node_annotation: NodeAnnotation::DeletesMachine,
            failed_update: FailedUpdate::Kept,
            node_conditions: ["KernelDeadlock", "ReadonlyFilesystem", "DiskPressure", "NetworkUnavailable"]
                .map(str::to_owned)
                .to_vec(),
            short_retry: Duration::from_secs(5),
            medium_retry: 3 * MINUTE,
            long_retry: 10 * MINUTE,
            exhausted_retry: 10 * MINUTE,
            throttle_after: 3,
            throttle_pause: Duration::from_secs(1),
            throttle_longest_pause: Duration::from_secs(30),
            throttle_trial: Duration::from_secs(10),
            bootstrap_token_extra_groups: String::new(),
            repeat_after: 30 * MINUTE,
            overdue_delay: Duration::from_secs(1),
            coalescing_interval: Duration::from_millis(100),
            report_delay: Duration::from_secs(5),
            expectation_patience: 5 * MINUTE,
            measurements_kept: 60 * MINUTE,
            safety: SafetyPolicy::default(),
            drain: drain::Limits::default(),
            set: SetPolicy::default(),
            deployment: DeploymentPolicy::default(),
        }
    }
}

/// How a Node is treated that has conditions, but no Ready condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MissingReady {
    /// As healthy as its other conditions. Nodes with special kubelets may never report Ready, and their Machines work
    /// with MCM.
    #[default]
    Healthy,
    /// Unhealthy.
    Unhealthy,
}

/// Effect of the annotation `node.machine.sapcloud.io/trigger-deletion-by-mcm: "true"` on a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NodeAnnotation {
    /// Deletes the Machine of the Node, as in MCM v0.42 to v0.60.
    #[default]
    DeletesMachine,
    /// None, as in MCM since v0.61.
    Ignored,
}

/// What happens to a Machine of a MachineDeployment whose in-place update failed, after its health timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FailedUpdate {
    /// It stays until a user fixes or deletes it. MCM intends to mark it Failed, but counts the Machine itself among
    /// those in progress and so never does.
    #[default]
    Kept,
    /// It is marked Failed and replaced by its MachineSet.
    Replaced,
}
