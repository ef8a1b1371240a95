//! Every duration a decision depends on, in one value.
//!
//! Flags set them, a Machine's own spec may override some, and a test that runs on a real API server scales them down to
//! seconds. A constant in the middle of a planner could do none of that.

use std::time::Duration;

use crate::deployment::FleetPolicy;
use crate::drain;
use crate::machineset::SetPolicy;
use crate::replacement_limit::Limit;
use crate::safety::SafetyPolicy;

const MINUTE: Duration = Duration::from_mins(1);

/// The limits and periods of the machine controller. Defaults are the reference's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long a machine may take from its creation to a joined node (`--machine-creation-timeout`).
    pub creation_timeout: Duration,
    /// How long a driver call may take that makes no VM (`--driver-call-timeout`).
    pub driver_call_timeout: Duration,
    /// How long a machine may be unhealthy before it is marked Failed (`--machine-health-timeout`).
    pub health_timeout: Duration,
    /// How long an in-place update may take (`--machine-inplace-update-timeout`).
    pub in_place_timeout: Duration,
    /// How long a machine is preserved (`--machine-preserve-timeout`).
    pub preserve_timeout: Duration,
    /// How many machines of a deployment may be on their way out at once (`--machine-max-replacements`).
    pub max_replacements: Limit,
    /// What a node is that says nothing of Ready (`--missing-ready-is-unhealthy`).
    pub missing_ready: MissingReady,
    /// What becomes of a machine whose in-place update failed (`--replace-failed-in-place-updates`).
    pub failed_update: FailedUpdate,
    /// Whether the annotation `trigger-deletion-by-mcm` on a Node deletes its Machine (`--delete-machines-by-node-annotation`).
    pub node_annotation: NodeAnnotation,
    /// Node condition types that make a node unhealthy unless `False` (`--node-conditions`).
    pub node_conditions: Vec<String>,
    /// Until a transient failure is tried again.
    pub short_retry: Duration,
    /// Until a failure that needs someone's attention is tried again.
    pub medium_retry: Duration,
    /// Until something that is probably broken for good is looked at again.
    pub long_retry: Duration,
    /// Until a create that ran into a quota is tried again (`--resource-exhausted-retry`).
    pub exhausted_retry: Duration,
    /// So many machines in a row hear *unavailable* before their credential is left alone.
    pub throttle_after: usize,
    /// The first pause of a credential that is throttled; each further one is twice as long.
    pub throttle_pause: Duration,
    /// No pause is longer than this.
    pub throttle_longest_pause: Duration,
    /// A call that tries for a throttled credential has been let in if it is still out after this long.
    pub throttle_trial: Duration,
    /// Groups of a bootstrap token beyond the standard one (`--bootstrap-token-auth-extra-groups`).
    pub bootstrap_token_extra_groups: String,
    /// A failure that repeats is written again only after this long: provider texts differ in every request id.
    pub repeat_after: Duration,
    /// Delay of a reconcile whose wake-up lies in the past.
    pub overdue_delay: Duration,
    /// A busy set or deployment is looked at no more often than this.
    pub fleet_interval: Duration,
    /// Counts in the status of a set or deployment are no older than this while machines come and go.
    pub report_delay: Duration,
    /// How long a set waits to see the result of its own creates and deletes.
    pub expectation_patience: Duration,
    /// How long it is shown how long things took in a deployment that has no machine any more.
    pub measurements_kept: Duration,
    /// What keeps mistakes from costing machines.
    pub safety: SafetyPolicy,
    /// How a node is emptied.
    pub drain: drain::Limits,
    /// How sets keep their machines.
    pub set: SetPolicy,
    /// How deployments roll, and how many machines are too many.
    pub fleet: FleetPolicy,
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
            fleet_interval: Duration::from_millis(100),
            report_delay: Duration::from_secs(5),
            expectation_patience: 5 * MINUTE,
            measurements_kept: 60 * MINUTE,
            safety: SafetyPolicy::default(),
            drain: drain::Limits::default(),
            set: SetPolicy::default(),
            fleet: FleetPolicy::default(),
        }
    }
}

/// What a node is that shows conditions, but not the one called Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MissingReady {
    /// As well as its other conditions are. Nodes of special kubelets may never say Ready, and their machines run today.
    #[default]
    Healthy,
    /// Not well yet: whoever can take pods says so.
    Unhealthy,
}

/// What the annotation `node.machine.sapcloud.io/trigger-deletion-by-mcm: "true"` on a Node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NodeAnnotation {
    /// It deletes the Machine of the Node, as in the reference from v0.42 to v0.60.
    #[default]
    DeletesMachine,
    /// It has no effect, as in the reference since v0.61.
    Ignored,
}

/// What becomes of a machine of a deployment whose in-place update failed, once its health timeout has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FailedUpdate {
    /// It stays as it is until somebody mends or deletes it. The reference means to mark it Failed, but counts the machine itself
    /// among those in progress and so never does.
    #[default]
    Kept,
    /// It is marked Failed, and its set replaces it.
    Replaced,
}
