//! The status of a MachineSet, calculated from its Machines and the result of the reconcile.
//!
//! All Machines of the MachineSet are counted, including those that are being deleted, because their VMs still exist.
//! The status is written only if it changed, and contains only fields of this controller: the condition `Frozen` is set
//! by the overshoot protection.
//!
//! For an invalid MachineSet only the condition is written. In particular, `observedGeneration` is not updated, so that
//! health checks do not consider an ignored spec as processed.

use api::names::annotations::DESIRED_REPLICAS;
use api::names::conditions::millwright::{INVALID, INVALID_SPEC, REPLACEMENT_DELAYED};
use api::names::conditions::set::{FAILED_CREATE, FAILED_DELETE, REPLICA_FAILURE};
use api::{
    ConditionStatus, MachinePhase, MachineSet, MachineSetCondition, MachineSetStatus, MachineSummary, Object,
    OperationState, TextMap, Time,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Observed;
use super::member::{Member, claimed};
use super::policy::MinReady;
use super::preservation::is_auto_preserved;
use crate::reporting::{Unreported, largest_difference};
use crate::{Due, Policy};

/// DeletionReason no Machine can be created: MCM's text.
pub(super) const NO_LABELS: &str = "unable to create machines, no labels";
/// DeletionReason no Machine can be created: each Machine would be released and created again.
pub(super) const NOT_SELECTED: &str =
    "unable to create machines, spec.selector does not select spec.template.metadata.labels";

/// An operation that failed in a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The operation.
    pub operation: Operation,
    /// The error.
    pub message: String,
}

/// An operation on Machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Create a Machine.
    Create,
    /// Delete a Machine.
    Delete,
    /// Replace a Failed Machine.
    Replace,
}

/// A status to write.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    status: MachineSetStatus,
    due: Due,
}

/// Returns the status to write after a reconcile, or `None` if nothing changed. `seen` is observed after the reconcile.
#[must_use]
pub fn status(seen: &Observed<'_>, failures: &[Failure]) -> Option<StatusWrite> {
    let before = &seen.set.status;
    let errors = if seen.set.is_deleting() { Vec::new() } else { api::validation::machine_set(seen.set) };
    let status = if errors.is_empty() {
        let mut status = counted(seen);
        status.observed_generation = seen.set.generation();
        status.conditions = without(&before.conditions, INVALID);
        status.conditions = match failures.first() {
            Some(failure) => with(&status.conditions, replica_failure(failure, seen.now)),
            None => without(&status.conditions, REPLICA_FAILURE),
        };
        status
    } else {
        let invalid = condition(INVALID, INVALID_SPEC, api::validation::joined(&errors), seen.now);
        MachineSetStatus { conditions: with(&before.conditions, invalid), ..before.clone() }
    };
    (status != MachineSetStatus { last_operation: status.last_operation.clone(), ..before.clone() }).then(|| {
        let mut status = status;
        let due = due(seen, &status);
        status.last_operation.last_update_time = Some(Time::from(seen.now));
        StatusWrite { status, due }
    })
}

impl StatusWrite {
    /// Returns the body of the merge patch of the status subresource, without preconditions.
    #[must_use]
    pub fn to_patch(&self) -> Value {
        let status = &self.status;
        let failed = if status.failed_machines.is_empty() { Value::Null } else { json!(status.failed_machines) };
        json!({
            "status": {
                "replicas": status.replicas,
                "fullyLabeledReplicas": status.fully_labeled_replicas,
                "readyReplicas": status.ready_replicas,
                "availableReplicas": status.available_replicas,
                "preservedFailedReplicas": status.preserved_failed_replicas,
                "autoPreserveFailedMachineCount": status.auto_preserve_failed_machine_count,
                "observedGeneration": status.observed_generation,
                "machineSetCondition": status.conditions,
                "lastOperation": status.last_operation,
                "failedMachines": failed,
            },
        })
    }

    /// When to write it.
    pub fn due(&self) -> Due {
        self.due
    }

    /// The new status.
    pub fn status(&self) -> &MachineSetStatus {
        &self.status
    }
}

/// Returns whether the condition ReplicaFailure of the MachineSet has this message.
pub(super) fn is_reported(set: &MachineSet, message: &str) -> bool {
    set.status.conditions.iter().any(|condition| condition.kind == REPLICA_FAILURE && condition.message == message)
}

/// Returns the condition that reports an invalid spec.
pub(super) fn invalid(set: &MachineSet) -> Option<&MachineSetCondition> {
    set.status.conditions.iter().find(|condition| condition.kind == INVALID)
}

/// Returns when a Machine becomes available, or `None` if it is not going to. The phase suffices, unless
/// `minReadySeconds` has an effect.
pub(crate) fn available_at(set: &MachineSet, member: &Member<'_>, policy: &Policy) -> Option<Timestamp> {
    let current = &member.machine.status.current_status;
    if member.is_terminating() || !matches!(current.phase, MachinePhase::Running | MachinePhase::Available) {
        return None;
    }
    let since = current.last_update_time.map_or(Timestamp::MIN, Time::timestamp);
    match policy.set.min_ready {
        MinReady::Stored => Some(Timestamp::MIN),
        MinReady::Awaited => {
            let patience = SignedDuration::from_secs(i64::from(set.spec.min_ready_seconds.max(0)));
            Some(since.checked_add(patience).unwrap_or(Timestamp::MAX))
        }
    }
}

/// Returns when a changed status is written.
fn due(seen: &Observed<'_>, status: &MachineSetStatus) -> Due {
    let (set, before) = (seen.set, &seen.set.status);
    if with_counts(before, status) != *status || is_settled(seen) {
        return Due::Now;
    }
    let desired = set.annotation(DESIRED_REPLICAS).and_then(|text| text.parse().ok()).unwrap_or_default();
    let counts = |status: &MachineSetStatus| {
        [status.replicas, status.fully_labeled_replicas, status.ready_replicas, status.available_replicas]
    };
    let unreported = Unreported {
        change: largest_difference(counts(before), counts(status)),
        replicas: set.spec.replicas.max(before.replicas).max(desired),
        written: before.last_operation.last_update_time.map(Time::timestamp),
    };
    unreported.due(seen.policy.report_delay, seen.now)
}

/// Returns whether no Machine is being created or deleted.
fn is_settled(seen: &Observed<'_>) -> bool {
    let mut count = seen.undecodable.len();
    for member in claimed(seen) {
        let is_new = matches!(member.machine.phase(), MachinePhase::New | MachinePhase::Pending)
            || available_at(seen.set, member, seen.policy).is_some_and(|at| at > seen.now);
        if is_new || member.is_terminating() {
            return false;
        }
        count += 1;
    }
    usize::try_from(seen.set.spec.replicas).is_ok_and(|replicas| replicas == count)
        && seen.outstanding.creates.is_empty()
        && seen.outstanding.deletes.is_empty()
}

/// Returns a written status with counts that are not written yet, and with the generation for which they were counted.
#[must_use]
pub fn with_counts(written: &MachineSetStatus, counted: &MachineSetStatus) -> MachineSetStatus {
    MachineSetStatus {
        replicas: counted.replicas,
        fully_labeled_replicas: counted.fully_labeled_replicas,
        ready_replicas: counted.ready_replicas,
        available_replicas: counted.available_replicas,
        observed_generation: counted.observed_generation,
        ..written.clone()
    }
}

fn counted(seen: &Observed<'_>) -> MachineSetStatus {
    let set = seen.set;
    let labels = set.spec.template.metadata.labels.as_ref();
    let labelled = |machine: &TextMap| {
        labels.is_none_or(|labels| labels.texts().all(|(key, text)| machine.text(key) == Some(text)))
    };
    let mut status = MachineSetStatus { last_operation: set.status.last_operation.clone(), ..Default::default() };
    for member in claimed(seen) {
        let machine = member.machine;
        let is_running = !member.is_terminating() && *machine.phase() == MachinePhase::Running;
        let is_available = available_at(set, member, seen.policy).is_some_and(|at| at <= seen.now);
        let expiry = machine.status.current_status.preserve_expiry_time;
        let is_preserved = *machine.phase() == MachinePhase::Failed && expiry.is_some();
        status.replicas += 1;
        status.fully_labeled_replicas += i32::from(labelled(&machine.metadata.labels));
        status.ready_replicas += i32::from(is_running);
        status.available_replicas += i32::from(is_available);
        status.preserved_failed_replicas += i32::from(is_preserved);
        status.auto_preserve_failed_machine_count += i32::from(is_auto_preserved(member));
        if machine.status.last_operation.state == OperationState::Failed && !is_preserved {
            status.failed_machines.push(MachineSummary {
                name: machine.name().to_owned(),
                provider_id: machine.spec.provider_id.clone(),
                last_operation: machine.status.last_operation.clone(),
                owner_ref: machine.controller_owner().map(|owner| owner.name.as_str().to_owned()).unwrap_or_default(),
            });
        }
    }
    for machine in seen.undecodable {
        status.replicas += 1;
        status.fully_labeled_replicas += i32::from(labelled(&machine.labels));
    }
    status
}

fn replica_failure(failure: &Failure, now: Timestamp) -> MachineSetCondition {
    let reason = match failure.operation {
        Operation::Create => FAILED_CREATE,
        Operation::Delete => FAILED_DELETE,
        Operation::Replace => REPLACEMENT_DELAYED,
    };
    condition(REPLICA_FAILURE, reason, failure.message.clone(), now)
}

fn condition(kind: &str, reason: &str, message: String, now: Timestamp) -> MachineSetCondition {
    MachineSetCondition {
        kind: kind.to_owned(),
        status: ConditionStatus::True,
        last_transition_time: Some(Time::from(now)),
        reason: reason.to_owned(),
        message: api::texts::bounded(message),
    }
}

/// Returns the conditions with this one added or updated. While status and reason stay the same, it keeps its position
/// and time, and only the message is updated.
fn with(conditions: &[MachineSetCondition], new: MachineSetCondition) -> Vec<MachineSetCondition> {
    let mut list = conditions.to_vec();
    let same =
        |old: &&mut MachineSetCondition| old.kind == new.kind && old.status == new.status && old.reason == new.reason;
    if let Some(old) = list.iter_mut().find(same) {
        old.message = new.message;
    } else {
        list.retain(|old| old.kind != new.kind);
        list.push(new);
    }
    list
}

fn without(conditions: &[MachineSetCondition], kind: &str) -> Vec<MachineSetCondition> {
    conditions.iter().filter(|condition| condition.kind != kind).cloned().collect()
}
