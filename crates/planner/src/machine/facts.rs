//! Facts about a Machine that all parts of its plan use.

use std::time::Duration;

use api::names::{annotations, finalizers, labels};
use api::texts;
use api::{GoDuration, Machine, MachinePhase, Object, SpecDuration, Text};
use jiff::Timestamp;

use super::Observed;
use super::reason::MAY_HAVE_VM;
use crate::Policy;
pub(super) use meta::time::later;

/// Facts about a Machine.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The name of the Machine.
    pub name: &'a str,
    /// Whether the Machine is being deleted.
    pub deleting: bool,
    /// The Node that the label names.
    pub node_name: Option<&'a str>,
    /// The recorded VM.
    pub provider_id: Option<&'a str>,
    /// The phase.
    pub phase: &'a MachinePhase,
    /// The creation time.
    pub created: Option<Timestamp>,
    finalizers: &'a [Text],
}

impl<'a> Facts<'a> {
    /// Reads the facts.
    pub fn of(machine: &'a Machine) -> Self {
        Self {
            name: machine.name(),
            deleting: machine.is_deleting(),
            node_name: present(machine.label(labels::NODE)),
            provider_id: present(Some(machine.spec.provider_id.as_str())),
            phase: machine.phase(),
            created: machine.created_at(),
            finalizers: &machine.metadata.finalizers,
        }
    }

    /// Returns the finalizers with the machine controller's added, sorted as MCM writes them, or `None` if it is
    /// present.
    pub fn with_finalizer(&self) -> Option<Vec<Text>> {
        api::lists::finalizers_with(self.finalizers, finalizers::MACHINE)
    }

    /// Returns the finalizers without the machine controller's, or `None` if it is absent.
    pub fn without_finalizer(&self) -> Option<Vec<Text>> {
        api::lists::finalizers_without(self.finalizers, finalizers::MACHINE)
    }
}

/// Returns whether an earlier process may have sent a create call without recording it: the Machine is older than this
/// process, and its status does not show that the creation was rejected.
pub(super) fn may_have_lost_vm(seen: &Observed<'_>) -> bool {
    let said = seen.machine.status.last_operation.description.as_str();
    let older = || match (seen.outages.led_before(), seen.machine.created_at()) {
        // A creationTimestamp has whole seconds.
        (Some(end), Some(created)) => created.as_second() < end.as_second(),
        _ => false,
    };
    said.contains(MAY_HAVE_VM) || ((said.is_empty() || said == texts::DELETING) && older())
}

/// Returns the creation timeout: the annotation has precedence over the spec, the spec over the flag.
pub fn creation_timeout(machine: &Machine, policy: &Policy) -> Duration {
    machine
        .annotation(annotations::EFFECTIVE_CREATION_TIMEOUT)
        .and_then(|text| text.parse().ok())
        .or_else(|| machine.spec.configuration.creation_timeout.as_ref().and_then(SpecDuration::valid))
        .map_or(policy.creation_timeout, GoDuration::to_std)
}

/// Returns the time by which the Machine must have joined. Outages do not count.
pub(super) fn creation_deadline(seen: &Observed<'_>) -> Timestamp {
    let created = seen.machine.created_at().unwrap_or(seen.now);
    seen.outages.deadline(created, creation_timeout(seen.machine, seen.policy), seen.now)
}

/// Returns when to check a deadline: one second later, because timestamps in objects have no fractions and the deadline
/// must have passed.
pub(super) fn past(deadline: Timestamp) -> Timestamp {
    later(deadline, Duration::from_secs(1))
}

/// Returns the health timeout.
pub(super) fn health_timeout(machine: &Machine, policy: &Policy) -> Duration {
    own(machine.spec.configuration.health_timeout.as_ref(), policy.health_timeout)
}

/// Returns the timeout for in-place updates.
pub(super) fn in_place_timeout(machine: &Machine, policy: &Policy) -> Duration {
    own(machine.spec.configuration.in_place_update_timeout.as_ref(), policy.in_place_timeout)
}

/// Returns the timeout for preservation.
pub(super) fn preserve_timeout(machine: &Machine, policy: &Policy) -> Duration {
    own(machine.spec.configuration.machine_preserve_timeout.as_ref(), policy.preserve_timeout)
}

/// Returns the value of the Machine, else that of the flag.
fn own(spec: Option<&SpecDuration>, flag: Duration) -> Duration {
    spec.and_then(SpecDuration::valid).map_or(flag, GoDuration::to_std)
}

/// Returns the condition types that make the Node unhealthy unless they are `False`. An empty list in the spec means
/// none.
pub(super) fn node_conditions<'a>(machine: &'a Machine, policy: &'a Policy) -> Vec<&'a str> {
    match machine.spec.configuration.node_conditions.as_deref() {
        Some(list) => list.split(',').collect(),
        None => policy.node_conditions.iter().map(String::as_str).collect(),
    }
}

/// Returns the string unless it is empty. For labels and provider IDs an empty value means the same as a missing one.
fn present(text: Option<&str>) -> Option<&str> {
    text.filter(|t| !t.is_empty())
}
