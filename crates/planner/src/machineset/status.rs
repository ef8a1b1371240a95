//! The status of a set, from what is there and from what came of the reconcile.
//!
//! It counts all machines of the set, those being deleted too, because a machine that still has a VM is still there for whoever
//! pays for it. It is written only when it changed, and touches its own fields only: a `Frozen` condition belongs to the
//! overshoot safety and stays as it is.
//!
//! An invalid set gets its condition and nothing else. `observedGeneration` in particular stays behind, because those who judge
//! health by it must not take a spec that nobody acts on for one that is done.

use api::names::annotations::DESIRED_REPLICAS;
use api::names::conditions::ours::{INVALID, INVALID_SPEC, REPLACEMENT_DELAYED};
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
use crate::reporting::{Unreported, furthest};
use crate::{Due, Policy};

/// Why nothing can be created: to the letter, as others may look for it.
pub(super) const NO_LABELS: &str = "unable to create machines, no labels";
/// Why nothing can be created: each machine would be released and made again, without end.
pub(super) const NOT_SELECTED: &str =
    "unable to create machines, spec.selector does not select spec.template.metadata.labels";

/// Something the reconcile could not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it was about.
    pub doing: Doing,
    /// What went wrong.
    pub message: String,
}

/// What a reconcile does to machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    /// Making one.
    Create,
    /// Deleting one.
    Delete,
    /// Replacing one that failed.
    Replace,
}

/// A status to write.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    status: MachineSetStatus,
    due: Due,
}

/// What to write about the set after a reconcile; `None` if nothing changed. `seen` is from after the reconcile.
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
        let told = condition(INVALID, INVALID_SPEC, api::validation::joined(&errors), seen.now);
        MachineSetStatus { conditions: with(&before.conditions, told), ..before.clone() }
    };
    (status != MachineSetStatus { last_operation: status.last_operation.clone(), ..before.clone() }).then(|| {
        let mut status = status;
        let due = due(seen, &status);
        status.last_operation.last_update_time = Some(Time::from(seen.now));
        StatusWrite { status, due }
    })
}

impl StatusWrite {
    /// The body of a merge patch on the status subresource, without its guard.
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

    /// When it is to be written.
    pub fn due(&self) -> Due {
        self.due
    }

    /// The status as it will be.
    pub fn status(&self) -> &MachineSetStatus {
        &self.status
    }
}

/// Whether the set's ReplicaFailure condition has this message.
pub(super) fn is_reported(set: &MachineSet, message: &str) -> bool {
    set.status.conditions.iter().any(|condition| condition.kind == REPLICA_FAILURE && condition.message == message)
}

/// The condition that says what is wrong with the spec.
pub(super) fn invalid(set: &MachineSet) -> Option<&MachineSetCondition> {
    set.status.conditions.iter().find(|condition| condition.kind == INVALID)
}

/// When a machine becomes available; `None` if it is not on its way there. Its phase is enough, unless the set's
/// `minReadySeconds` are to be awaited.
pub(crate) fn available_at(set: &MachineSet, member: &Member<'_>, policy: &Policy) -> Option<Timestamp> {
    let current = &member.machine.status.current_status;
    if member.is_leaving() || !matches!(current.phase, MachinePhase::Running | MachinePhase::Available) {
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

/// When a status that differs from the written one is to be written.
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
        moved: furthest(counts(before), counts(status)),
        of: set.spec.replicas.max(before.replicas).max(desired),
        written: before.last_operation.last_update_time.map(Time::timestamp),
    };
    unreported.due(seen.policy.report_delay, seen.now)
}

/// Whether no machine is known to be coming or going.
fn is_settled(seen: &Observed<'_>) -> bool {
    let mut count = seen.unreadable.len();
    for member in claimed(seen) {
        let comes = matches!(member.machine.phase(), MachinePhase::New | MachinePhase::Pending)
            || available_at(seen.set, member, seen.policy).is_some_and(|at| at > seen.now);
        if comes || member.is_leaving() {
            return false;
        }
        count += 1;
    }
    usize::try_from(seen.set.spec.replicas).is_ok_and(|replicas| replicas == count)
        && seen.outstanding.creates.is_empty()
        && seen.outstanding.deletes.is_empty()
}

/// A written status with counts that are yet to be written, and with the generation that they were counted for.
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
        let is_running = !member.is_leaving() && *machine.phase() == MachinePhase::Running;
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
    for machine in seen.unreadable {
        status.replicas += 1;
        status.fully_labeled_replicas += i32::from(labelled(&machine.labels));
    }
    status
}

fn replica_failure(failure: &Failure, now: Timestamp) -> MachineSetCondition {
    let reason = match failure.doing {
        Doing::Create => FAILED_CREATE,
        Doing::Delete => FAILED_DELETE,
        Doing::Replace => REPLACEMENT_DELAYED,
    };
    condition(REPLICA_FAILURE, reason, failure.message.clone(), now)
}

fn condition(kind: &str, reason: &str, message: String, now: Timestamp) -> MachineSetCondition {
    MachineSetCondition {
        kind: kind.to_owned(),
        status: ConditionStatus::True,
        last_transition_time: Some(Time::from(now)),
        reason: reason.to_owned(),
        message: api::descriptions::bounded(message),
    }
}

/// The conditions with this one among them. While status and reason stay the same it keeps its place and its time, and only the
/// message is the newest.
fn with(conditions: &[MachineSetCondition], ours: MachineSetCondition) -> Vec<MachineSetCondition> {
    let mut list = conditions.to_vec();
    let same = |old: &&mut MachineSetCondition| {
        old.kind == ours.kind && old.status == ours.status && old.reason == ours.reason
    };
    if let Some(old) = list.iter_mut().find(same) {
        old.message = ours.message;
    } else {
        list.retain(|old| old.kind != ours.kind);
        list.push(ours);
    }
    list
}

fn without(conditions: &[MachineSetCondition], kind: &str) -> Vec<MachineSetCondition> {
    conditions.iter().filter(|condition| condition.kind != kind).cloned().collect()
}
