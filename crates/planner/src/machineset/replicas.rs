//! Keeps the desired number of Machines.
//!
//! A reconcile either creates or deletes Machines. Missing Machines are created first. It creates or deletes at most a
//! hundred, and creates them in batches that double, so that an exceeded quota costs one failed request and not fifty.

use std::collections::BTreeSet;

use api::names::{annotations, labels};
use api::{Object, Uid};

use super::create::{InvalidTemplate, creates};
use super::deletion_order::{DeletionReason, is_marked, sort};
use super::early_failures::failed_early;
use super::member::{Member, claimed};
use super::policy::Replacement;
use super::preservation::Mark;
use super::status::{Failure, Operation};
use super::step::{Attempt, MachineDelete, Plan, Step};
use super::{ClockTrust, Observed, Reason, preservation, status, template};
use crate::{Awaited, Event, EventType, GuardedPatch, MachinePatch, Wake};
use meta::time::later;

pub(super) fn plan(seen: &Observed<'_>) -> Plan {
    let machines: Vec<&Member<'_>> = claimed(seen).collect();
    let marks = preservation::marks(&machines, seen.set.spec.auto_preserve_failed_machine_max);
    let mark = |member: &Member<'_>| marks.get(member.machine.name()).copied();
    let patches = patches(seen, &machines, &mark);

    let count = Count::of(seen, &machines);
    let replicas = usize::try_from(seen.set.spec.replicas).unwrap_or_default();
    let mut plan = if count.present < replicas {
        scale_up(seen, &count, replicas)
    } else {
        scale_down(seen, &machines, &count, replicas, &mark)
    };
    if !patches.is_empty() {
        if plan.steps.is_empty() {
            plan.because = Reason::MachinesOutdated(patches.len());
        }
        if patches.len() >= seen.policy.set.batch {
            plan.wake = Wake::Again;
        }
        plan.steps.insert(0, Step::Patch(patches));
    }
    plan
}

/// The number of Machines.
struct Count {
    /// Machines that are not terminating, including those with a pending delete.
    present: usize,
    /// Creates and deletes whose result is unknown.
    pending: usize,
}

impl Count {
    fn of(seen: &Observed<'_>, machines: &[&Member<'_>]) -> Self {
        let undecodable = seen.undecodable.iter().filter(|machine| counts(seen, machine.is_deleting)).count();
        let decoded = machines.iter().filter(|member| counts(seen, member.is_terminating())).count();
        let pending = seen.outstanding.creates.len() + seen.outstanding.deletes.len();
        Self { present: decoded + undecodable, pending }
    }
}

/// Returns whether a Machine counts as a replica. A terminating Machine counts only with [`Replacement::OnceGone`].
fn counts(seen: &Observed<'_>, terminating: bool) -> bool {
    !terminating || seen.policy.set.replacement == Replacement::OnceGone
}

fn scale_up(seen: &Observed<'_>, count: &Count, replicas: usize) -> Plan {
    let waiting = |because| Plan::of(Vec::new(), idle_wake(seen), because);
    if seen.set.label(labels::FREEZE) == Some(labels::FREEZE_VALUE) {
        return waiting(Reason::Frozen);
    }
    if seen.set.label(labels::SCALE_UP_DISABLED).is_some() {
        return waiting(Reason::ScaleUpDisabled);
    }
    if seen.clock == ClockTrust::Skewed {
        let until = later(seen.now, seen.policy.short_retry);
        return Plan { wake: idle_wake(seen).no_later_than(Some(until)), ..waiting(Reason::ClockSkewed) };
    }
    if let Some(invalid_template) = InvalidTemplate::of(seen.set) {
        let why = match invalid_template {
            InvalidTemplate::NoLabels => status::NO_LABELS,
            InvalidTemplate::NotSelected => status::NOT_SELECTED,
        };
        let failure = Failure { operation: Operation::Create, message: why.to_owned() };
        return Plan { failure: Some(failure), ..waiting(Reason::InvalidTemplate(why)) };
    }
    let missing = replicas - count.present;
    let wanted = missing.min(seen.policy.set.batch);
    let step = Step::Create(batches(creates(seen, wanted)));
    let wake = if wanted < missing { Wake::Again } else { idle_wake(seen) };
    Plan::of(vec![step], wake, Reason::TooFew { present: count.present, wanted: replicas })
}

/// Splits into batches of one, two, four and so on.
fn batches<T>(items: Vec<T>) -> Vec<Vec<T>> {
    let (mut batches, mut size, mut items) = (Vec::new(), 1, items.into_iter().peekable());
    while items.peek().is_some() {
        batches.push(items.by_ref().take(size).collect());
        size *= 2;
    }
    batches
}

fn scale_down(
    seen: &Observed<'_>,
    machines: &[&Member<'_>],
    count: &Count,
    replicas: usize,
    mark: &impl Fn(&Member<'_>) -> Option<Mark>,
) -> Plan {
    let staying = machines.iter().copied().filter(|member| !member.is_terminating());
    let mut candidates: Vec<&Member<'_>> = staying.filter(|member| !member.was_updated_in_place()).collect();
    let undecodable = seen.undecodable.iter().filter(|machine| !machine.is_deleting).count();
    let surplus = Surplus::of(seen, &mut candidates, undecodable, replicas);
    let changed = seen.set.annotation(annotations::LAST_REPLICA_CHANGE_BY_SCALER).and_then(|text| text.parse().ok());
    let policy = &seen.policy.set;
    let failures = seen.early_failures.current(machines, policy, seen.now);
    let delay = failures.delay(policy, seen.now);
    let is_trusted = seen.clock == ClockTrust::Trusted;
    let is_replaced = |member: &Member<'_>| {
        is_trusted && member.has_failed() && !preservation::is_kept(member, mark(member), seen.now)
    };
    let is_delayed = |member: &Member<'_>| delay.is_some() && failed_early(member, policy);
    let why = |member: &Member<'_>| {
        if surplus.has(member) {
            Some(DeletionReason::Surplus)
        } else if is_marked(member.machine, changed) {
            Some(DeletionReason::Marked)
        } else {
            (is_replaced(member) && !is_delayed(member)).then_some(DeletionReason::Failed)
        }
    };
    let waiting = candidates.iter().any(|member| why(member).is_none() && is_replaced(member));
    let delay = delay.filter(|_| waiting).map(|delay| (delay.until, delay.message(policy)));
    let replaced =
        candidates.iter().any(|member| why(member) == Some(DeletionReason::Failed) && failed_early(member, policy));
    let mut deletes: Vec<MachineDelete> =
        candidates.iter().copied().filter_map(|member| Some(delete(seen, member, why(member)?))).collect();
    deletes.sort_by_key(|delete| delete.why); // surplus, marked, Failed: the order matters only for the batch limit
    if deletes.is_empty() {
        let because = if count.pending > 0 { Reason::ResultsPending(count.pending) } else { Reason::Converged };
        let skewed = !is_trusted && machines.iter().any(|member| member.has_failed());
        let (because, again) = if skewed {
            (Reason::ClockSkewed, Some(later(seen.now, seen.policy.short_retry)))
        } else {
            (because, None)
        };
        let plan = Plan::of(Vec::new(), wake(seen, machines).no_later_than(again), because);
        return match delay {
            Some((until, why)) => delayed(seen, Plan { wake: plan.wake.no_later_than(Some(until)), ..plan }, why),
            None => plan,
        };
    }
    let because = Reason::Surplus { leaving: deletes.len(), present: count.present, wanted: replicas };
    let deletes = deletes.into_iter().take(seen.policy.set.batch).collect();
    // A deleted Machine is replaced in the next reconcile.
    let plan = Plan::of(vec![Step::Delete(deletes)], Wake::Again, because);
    let failure = delay.map(|(_, message)| Failure { operation: Operation::Replace, message });
    Plan { failure, early_failures: replaced.then(|| failures.replaced(seen.now)), ..plan }
}

/// Returns a plan that does not replace Failed Machines yet. [`status`](super::status()) sets the condition. The Event
/// is emitted once per message.
fn delayed(seen: &Observed<'_>, mut plan: Plan, why: String) -> Plan {
    if !status::is_reported(seen.set, &why) {
        let reason = api::names::events::millwright::REPLACEMENT_DELAYED;
        plan.steps.push(Step::EmitEvent(Event { event_type: EventType::Warning, reason, message: why.clone() }));
    }
    let failure = Some(Failure { operation: Operation::Replace, message: why.clone() });
    Plan { failure, because: Reason::ReplacementDelayed(why), ..plan }
}

/// The surplus Machines.
///
/// A Machine with a pending delete may exist or not. So its delete is repeated only if it would be selected again now,
/// and only as many others are deleted as are surplus without it.
struct Surplus(BTreeSet<Uid>);

impl Surplus {
    /// Sorts the candidates by deletion order and selects the surplus.
    fn of(seen: &Observed<'_>, candidates: &mut [&Member<'_>], undecodable: usize, replicas: usize) -> Self {
        let is_repeated = |member: &Member<'_>| seen.outstanding.attempt(&member.machine.uid()) == Attempt::Repeat;
        let there = candidates.iter().filter(|member| !is_repeated(member)).count();
        let surplus_of = |machines: usize| (machines + undecodable).saturating_sub(replicas);
        let (surplus, certain) = (surplus_of(candidates.len()), surplus_of(there));
        if surplus == 0 {
            return Self(BTreeSet::new());
        }
        sort(candidates, seen.policy.set.in_place_rank, seen.now);
        let again = candidates.iter().take(surplus).filter(|member| is_repeated(member));
        let others = candidates.iter().filter(|member| !is_repeated(member)).take(certain);
        Self(again.chain(others).map(|member| member.machine.uid()).collect())
    }

    fn has(&self, member: &Member<'_>) -> bool {
        self.0.contains(&member.machine.uid())
    }
}

pub(super) fn delete(seen: &Observed<'_>, member: &Member<'_>, why: DeletionReason) -> MachineDelete {
    MachineDelete {
        name: member.machine.name().into(),
        uid: member.machine.uid(),
        resource_version: member.machine.resource_version().to_owned(),
        why,
        attempt: seen.outstanding.attempt(&member.machine.uid()),
    }
}

fn patches(
    seen: &Observed<'_>,
    machines: &[&Member<'_>],
    mark: &impl Fn(&Member<'_>) -> Option<Mark>,
) -> Vec<GuardedPatch> {
    let patch = |member: &&Member<'_>| {
        let spec = template::difference(member, &seen.set.spec.template).unwrap_or_default();
        let mut patch = MachinePatch { spec, ..MachinePatch::default() };
        if let Some(mark) = mark(member) {
            mark.write(&mut patch.annotations);
        }
        if let Some(limit) = template::new_limit(member, seen.set) {
            patch.annotations.insert(annotations::MAX_REPLACEMENTS, Some(limit.to_owned()));
        }
        (patch != MachinePatch::default()).then(|| GuardedPatch::as_seen(member.machine, patch))
    };
    machines.iter().filter_map(patch).take(seen.policy.set.batch).collect()
}

/// Returns what a MachineSet without anything to do waits for.
pub(super) fn idle_wake(seen: &Observed<'_>) -> Wake {
    match seen.outstanding.until {
        Some(at) => Wake::By { awaited: Awaited::Machines, at },
        None => Wake::On(Awaited::Change),
    }
}

/// Like [`idle_wake`], and also waits for the end of preservations and for Machines that become available.
fn wake(seen: &Observed<'_>, machines: &[&Member<'_>]) -> Wake {
    let expiries = machines
        .iter()
        .filter(|member| member.has_failed())
        .filter_map(|member| Some(member.machine.status.current_status.preserve_expiry_time?.timestamp()))
        .filter(|expiry| *expiry > seen.now);
    let ripening = machines.iter().filter_map(|member| status::available_at(seen.set, member, seen.policy));
    let ripening = ripening.filter(|at| *at > seen.now);
    match expiries.chain(ripening).chain(seen.outstanding.until).min() {
        Some(at) => Wake::By { awaited: Awaited::Machines, at },
        None => Wake::On(Awaited::Change),
    }
}
