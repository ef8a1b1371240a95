//! The few things about a Machine that every part of its plan asks.

use std::time::Duration;

use api::names::{annotations, descriptions, finalizers, labels};
use api::{GoDuration, Machine, MachinePhase, Object, SpecDuration, Text};
use jiff::Timestamp;

use super::Observed;
use super::reason::MAY_HAVE_VM;
use crate::Policy;
pub(super) use crate::wake::later;

/// A Machine, read once.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Someone asked for its deletion.
    pub deleting: bool,
    /// The node its label names.
    pub node_name: Option<&'a str>,
    /// The VM that was written down for it.
    pub provider_id: Option<&'a str>,
    /// Where it stands.
    pub phase: &'a MachinePhase,
    /// When it was made.
    pub created: Option<Timestamp>,
    finalizers: &'a [Text],
}

impl<'a> Facts<'a> {
    /// Reads a Machine.
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

    /// The finalizer list with ours in it, if it is missing. Sorted, as the reference writes it.
    pub fn with_our_finalizer(&self) -> Option<Vec<Text>> {
        api::lists::finalizers_with(self.finalizers, finalizers::MACHINE)
    }

    /// The finalizer list without ours, if it is there.
    pub fn without_our_finalizer(&self) -> Option<Vec<Text>> {
        api::lists::finalizers_without(self.finalizers, finalizers::MACHINE)
    }
}

/// Returns whether an earlier process may have sent a create call of which nothing was recorded: the Machine is older than this process,
/// and no status tells that its creation was refused.
pub(super) fn may_have_lost_vm(seen: &Observed<'_>) -> bool {
    let said = seen.machine.status.last_operation.description.as_str();
    let older = || match (seen.outages.led_before(), seen.machine.created_at()) {
        // A creationTimestamp has whole seconds.
        (Some(end), Some(created)) => created.as_second() < end.as_second(),
        _ => false,
    };
    said.contains(MAY_HAVE_VM) || ((said.is_empty() || said == descriptions::DELETING) && older())
}

/// How long this machine may take to join: the annotation wins over the spec, the spec over the flag.
pub fn creation_timeout(machine: &Machine, policy: &Policy) -> Duration {
    machine
        .annotation(annotations::EFFECTIVE_CREATION_TIMEOUT)
        .and_then(|text| text.parse().ok())
        .or_else(|| machine.spec.configuration.creation_timeout.as_ref().and_then(SpecDuration::usable))
        .map_or(policy.creation_timeout, GoDuration::to_std)
}

/// Until when this machine has to have joined. Time in which we saw nothing does not count.
pub(super) fn creation_deadline(seen: &Observed<'_>) -> Timestamp {
    let created = seen.machine.created_at().unwrap_or(seen.now);
    seen.outages.deadline(created, creation_timeout(seen.machine, seen.policy), seen.now)
}

/// When to look at a deadline. One second late on purpose: timestamps in objects have no fractions, and "not after" must have
/// become "after".
pub(super) fn past(deadline: Timestamp) -> Timestamp {
    later(deadline, Duration::from_secs(1))
}

/// How long this machine may be unhealthy.
pub(super) fn health_timeout(machine: &Machine, policy: &Policy) -> Duration {
    own(machine.spec.configuration.health_timeout.as_ref(), policy.health_timeout)
}

/// How long an update of this machine in place may take.
pub(super) fn in_place_timeout(machine: &Machine, policy: &Policy) -> Duration {
    own(machine.spec.configuration.in_place_update_timeout.as_ref(), policy.in_place_timeout)
}

/// How long this machine is preserved.
pub(super) fn preserve_timeout(machine: &Machine, policy: &Policy) -> Duration {
    own(machine.spec.configuration.machine_preserve_timeout.as_ref(), policy.preserve_timeout)
}

/// The machine's own value, else the flag's.
fn own(spec: Option<&SpecDuration>, flag: Duration) -> Duration {
    spec.and_then(SpecDuration::usable).map_or(flag, GoDuration::to_std)
}

/// Condition types that make this machine's node unhealthy unless `False`. Here an empty list says something: none do.
pub(super) fn node_conditions<'a>(machine: &'a Machine, policy: &'a Policy) -> Vec<&'a str> {
    match machine.spec.configuration.node_conditions.as_deref() {
        Some(list) => list.split(',').collect(),
        None => policy.node_conditions.iter().map(String::as_str).collect(),
    }
}

/// A string that counts only if it says something: in a label and a provider id an empty one and a missing one mean the same.
fn present(text: Option<&str>) -> Option<&str> {
    text.filter(|t| !t.is_empty())
}
