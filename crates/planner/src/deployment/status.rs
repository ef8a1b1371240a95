//! The status of a MachineDeployment.
//!
//! All counts are sums over its MachineSets. The progress of a rollout is determined from the counts of two reconciles:
//! more new Machines, fewer old ones, more ready or available ones are progress. Without progress for longer than the
//! deadline, the condition reports it. The rollout continues nevertheless, and the next progress resets the condition.

use api::names::conditions::{deployment as words, millwright, set as set_words};
use api::names::events::mcm;
use api::texts::events as messages;
use api::{
    ConditionStatus, MachineDeployment, MachineDeploymentCondition, MachineDeploymentStatus, MachineSet, Object, Time,
    merge,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::builder::PlanBuilder;
use super::claim::ClaimedSets;
use super::draft::total;
use super::step::{StatusEdit, Step};
use super::{Observed, Plan, Reason};
use crate::reporting::{Unreported, largest_difference};
use crate::{Awaited, Due, Wake};
use crate::{Event, EventType};

/// What a status contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// Counts only.
    Plain,
    /// Counts and the progress of the rollout.
    Rollout,
}

/// Progress that does not show in the counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The new MachineSet was created in this reconcile.
    Created(String),
    /// The new MachineSet existed already.
    Found(String),
}

/// Returns the status after this reconcile.
pub(super) fn next(builder: &PlanBuilder<'_>, report: Report) -> MachineDeploymentStatus {
    let (deployment, now) = (builder.seen.deployment, builder.seen.now);
    let sizes = total(builder.sets.all().map(|set| set.set.spec.replicas.max(0)));
    let sets: Vec<&MachineSet> = builder.sets.all().map(|set| &set.set).collect();
    let updated = builder.sets.new.as_ref().map_or(0, |new| new.set.status.replicas);
    let mut status = numbers(deployment, &sets, updated, sizes);
    status.collision_count = builder.deployment.status.collision_count;
    let mut conditions = Conditions { list: status.conditions.clone(), now: now.into() };
    conditions.remove(millwright::INVALID);
    conditions.set_paused(deployment.spec.paused);
    match &builder.progress {
        Some(Progress::Created(set)) => conditions.put(
            words::PROGRESSING,
            ConditionStatus::True,
            words::NEW_MACHINE_SET_CREATED,
            words::created(set),
        ),
        Some(Progress::Found(set)) if conditions.find(words::PROGRESSING).is_none() => {
            conditions.put(words::PROGRESSING, ConditionStatus::True, words::FOUND_NEW_MACHINE_SET, words::found(set));
        }
        Some(Progress::Found(_)) | None => {}
    }
    let least = builder.limits.least_available().saturating_sub(status.preserved_failed_replicas);
    conditions.set_available(status.available_replicas >= least.max(0));
    if report == Report::Rollout {
        if builder.progress.is_none() {
            let about = builder.sets.new.as_ref().map_or_else(
                || format!("Machine Deployment {:?}", deployment.name()),
                |new| format!("MachineSet {:?}", new.name()),
            );
            conditions.set_progressing(deployment, &status, &about, now);
        }
        conditions.copy_failure(builder.sets.new.iter().chain(&builder.sets.old).map(|set| &set.set));
    }
    status.conditions = conditions.list;
    status
}

/// Returns the status of a MachineDeployment that is being deleted.
pub(super) fn of_deleting(seen: &Observed<'_>, claim: &ClaimedSets<'_>) -> Option<Step> {
    let sets: Vec<&MachineSet> = claim.sets.iter().map(|candidate| candidate.set).collect();
    let template = &seen.deployment.spec.template;
    let new = sets.iter().find(|set| super::same_template(&set.spec.template, template));
    let updated = new.map_or(0, |new| new.status.replicas);
    let sizes = total(sets.iter().map(|set| set.spec.replicas.max(0)));
    let status = numbers(seen.deployment, &sets, updated, sizes);
    step(&seen.deployment.status, status)
}

fn numbers(deployment: &MachineDeployment, sets: &[&MachineSet], updated: i32, sizes: i32) -> MachineDeploymentStatus {
    let sum = |of: fn(&MachineSet) -> i32| total(sets.iter().map(|set| of(set)));
    let available = sum(|set| set.status.available_replicas);
    MachineDeploymentStatus {
        observed_generation: deployment.generation(),
        replicas: sum(|set| set.status.replicas),
        updated_replicas: updated,
        ready_replicas: sum(|set| set.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: sizes.saturating_sub(available).max(0),
        preserved_failed_replicas: sum(|set| set.status.preserved_failed_replicas),
        conditions: deployment.status.conditions.clone(),
        collision_count: deployment.status.collision_count,
        failed_machines: sets.iter().flat_map(|set| set.status.failed_machines.iter().cloned()).collect(),
    }
}

/// Returns the write, or `None` if nothing changed.
pub(super) fn step(before: &MachineDeploymentStatus, status: MachineDeploymentStatus) -> Option<Step> {
    let changes = json!({ "status": merge::changes(before, &status)? });
    Some(Step::Status(StatusEdit { status: Box::new(status), changes }))
}

/// Returns when a status is written. Changes of counts may be delayed while more changes are expected.
pub(super) fn due(seen: &Observed<'_>, status: &MachineDeploymentStatus, settled: bool) -> Due {
    let before = &seen.deployment.status;
    let MachineDeploymentStatus { replicas, updated_replicas, ready_replicas, .. } = *status;
    let counts_only = MachineDeploymentStatus {
        replicas,
        updated_replicas,
        ready_replicas,
        available_replicas: status.available_replicas,
        unavailable_replicas: status.unavailable_replicas,
        conditions: without_update_times(&before.conditions),
        ..before.clone()
    };
    let whole = MachineDeploymentStatus { conditions: without_update_times(&status.conditions), ..status.clone() };
    if settled || counts_only != whole {
        return Due::Now;
    }
    let counts = |status: &MachineDeploymentStatus| {
        [
            status.replicas,
            status.updated_replicas,
            status.ready_replicas,
            status.available_replicas,
            status.unavailable_replicas,
        ]
    };
    let unreported = Unreported {
        change: largest_difference(counts(before), counts(status)),
        replicas: seen.deployment.spec.replicas.max(before.replicas),
        written: seen.reported,
    };
    unreported.due(seen.policy.report_delay, seen.now)
}

/// Returns the conditions without their update times.
fn without_update_times(conditions: &[MachineDeploymentCondition]) -> Vec<MachineDeploymentCondition> {
    let timeless = |condition: &MachineDeploymentCondition| MachineDeploymentCondition {
        last_update_time: None,
        ..condition.clone()
    };
    let mut list: Vec<_> = conditions.iter().map(timeless).collect();
    list.sort_by(|a, b| a.kind.cmp(&b.kind)); // replacing one moves it to the end
    list
}

/// Returns whether all desired Machines exist, are new and are available.
pub(super) fn is_complete(deployment: &MachineDeployment, status: &MachineDeploymentStatus) -> bool {
    let wanted = deployment.spec.replicas;
    status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
        && status.observed_generation >= deployment.generation()
}

/// Returns when a rollout without progress exceeds its deadline; `None` if it is complete or the condition reports it
/// already.
pub(super) fn deadline(deployment: &MachineDeployment, status: &MachineDeploymentStatus) -> Option<Timestamp> {
    let progressing = status.conditions.iter().rfind(|condition| condition.kind == words::PROGRESSING)?;
    let settled = [words::PROGRESS_DEADLINE_EXCEEDED, words::NEW_MACHINE_SET_AVAILABLE, words::DEPLOYMENT_PAUSED];
    if is_complete(deployment, status) || settled.contains(&progressing.reason.as_str()) {
        return None;
    }
    ends(deployment, progressing)
}

fn ends(deployment: &MachineDeployment, progressing: &MachineDeploymentCondition) -> Option<Timestamp> {
    let patience = SignedDuration::from_secs(deployment.spec.progress_deadline_seconds?.into());
    Some(progressing.last_update_time?.plus(patience).timestamp())
}

pub(super) fn creation_failed(seen: &Observed<'_>, set: &str, error: &str) -> Plan {
    let message = messages::set_create_failed(set, error);
    let mut status = seen.deployment.status.clone();
    let mut conditions = Conditions { list: status.conditions, now: seen.now.into() };
    let reason = words::MACHINE_SET_CREATE_ERROR;
    conditions.put(words::PROGRESSING, ConditionStatus::False, reason, message.clone());
    status.conditions = conditions.list;
    let mut steps: Vec<Step> = step(&seen.deployment.status, status).into_iter().collect();
    if !steps.is_empty() {
        let reason = mcm::MACHINE_SET_CREATE_ERROR;
        steps.push(Step::EmitEvent(Event { event_type: EventType::Warning, reason, message }));
    }
    Plan::of(steps, Wake::On(Awaited::Retry), Reason::SetNotCreated(error.to_owned()))
}

/// The conditions of a MachineDeployment while they are updated.
pub(super) struct Conditions {
    pub(super) list: Vec<MachineDeploymentCondition>,
    pub(super) now: Time,
}

impl Conditions {
    pub(super) fn find(&self, kind: &str) -> Option<&MachineDeploymentCondition> {
        self.list.iter().rfind(|condition| condition.kind == kind)
    }

    pub(super) fn remove(&mut self, kind: &str) {
        self.list.retain(|condition| condition.kind != kind);
    }

    /// Adds a condition. An existing one with the same status and reason is kept.
    pub(super) fn put(&mut self, kind: &str, status: ConditionStatus, reason: &str, message: String) {
        let stated = self.find(kind).is_some_and(|old| old.status == status && old.reason == reason);
        if !stated {
            self.replace(kind, status, reason, message);
        }
    }

    /// Adds a condition or replaces an existing one.
    pub(super) fn replace(&mut self, kind: &str, status: ConditionStatus, reason: &str, message: String) {
        let since = self.find(kind).filter(|old| old.status == status).and_then(|old| old.last_transition_time);
        self.remove(kind);
        self.list.push(MachineDeploymentCondition {
            kind: kind.to_owned(),
            status,
            last_update_time: Some(self.now),
            last_transition_time: Some(since.unwrap_or(self.now)),
            reason: reason.to_owned(),
            message: api::texts::bounded(message),
        });
    }

    fn set_paused(&mut self, paused: bool) {
        let reason = self.find(words::PROGRESSING).map_or("", |condition| condition.reason.as_str());
        if reason == words::PROGRESS_DEADLINE_EXCEEDED {
            return;
        }
        let (reason, message) = match (paused, reason == words::DEPLOYMENT_PAUSED) {
            (true, false) => (words::DEPLOYMENT_PAUSED, words::PAUSED_MESSAGE),
            (false, true) => (words::DEPLOYMENT_RESUMED, words::RESUMED_MESSAGE),
            (true, true) | (false, false) => return,
        };
        self.put(words::PROGRESSING, ConditionStatus::Unknown, reason, message.to_owned());
    }

    fn set_available(&mut self, enough: bool) {
        let (status, reason, message) = if enough {
            (ConditionStatus::True, words::MINIMUM_REPLICAS_AVAILABLE, words::AVAILABLE_MESSAGE)
        } else {
            (ConditionStatus::False, words::MINIMUM_REPLICAS_UNAVAILABLE, words::UNAVAILABLE_MESSAGE)
        };
        self.put(words::AVAILABLE, status, reason, message.to_owned());
    }

    fn set_progressing(
        &mut self,
        deployment: &MachineDeployment,
        status: &MachineDeploymentStatus,
        about: &str,
        now: Timestamp,
    ) {
        let progressing = self.find(words::PROGRESSING).cloned();
        let reason = progressing.as_ref().map_or("", |condition| condition.reason.as_str());
        if status.replicas == status.updated_replicas && reason == words::NEW_MACHINE_SET_AVAILABLE {
            return;
        }
        let late = progressing.as_ref().and_then(|condition| ends(deployment, condition)).is_some_and(|end| end <= now);
        if is_complete(deployment, status) {
            let message = words::progressed(about);
            self.put(words::PROGRESSING, ConditionStatus::True, words::NEW_MACHINE_SET_AVAILABLE, message);
        } else if has_progressed(&deployment.status, status) {
            let message = words::progressing(about);
            self.replace(words::PROGRESSING, ConditionStatus::True, words::MACHINE_SET_UPDATED, message);
        } else if late && reason != words::NEW_MACHINE_SET_AVAILABLE {
            let message = words::timed_out(about);
            self.put(words::PROGRESSING, ConditionStatus::False, words::PROGRESS_DEADLINE_EXCEEDED, message);
        }
    }

    /// Copies the failure of a MachineSet to create or delete Machines; that of the new one takes precedence.
    fn copy_failure<'s>(&mut self, sets: impl Iterator<Item = &'s MachineSet>) {
        let failure =
            |set: &'s MachineSet| set.status.conditions.iter().rfind(|c| c.kind == set_words::REPLICA_FAILURE);
        let Some(failure) = sets.into_iter().find_map(failure) else {
            self.remove(words::REPLICA_FAILURE);
            return;
        };
        let copied = MachineDeploymentCondition {
            kind: words::REPLICA_FAILURE.to_owned(),
            status: failure.status.clone(),
            last_update_time: failure.last_transition_time,
            last_transition_time: failure.last_transition_time,
            reason: failure.reason.clone(),
            message: failure.message.clone(),
        };
        if self.find(words::REPLICA_FAILURE) != Some(&copied) {
            self.remove(words::REPLICA_FAILURE);
            self.list.push(copied);
        }
    }
}

fn has_progressed(before: &MachineDeploymentStatus, now: &MachineDeploymentStatus) -> bool {
    let old = |status: &MachineDeploymentStatus| status.replicas.saturating_sub(status.updated_replicas);
    now.updated_replicas > before.updated_replicas
        || old(now) < old(before)
        || now.ready_replicas > before.ready_replicas
        || now.available_replicas > before.available_replicas
}
