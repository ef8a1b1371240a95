//! Keeping the wanted number of machines.
//!
//! A reconcile makes machines or deletes some, never both: what is missing comes first. It makes and deletes no more than a hundred,
//! and makes them in batches that double, so that a quota that is used up is found out with one request and not with fifty.

use std::collections::BTreeSet;

use api::names::{annotations, labels};
use api::{MachineSet, Object, Uid};

use super::create::{InvalidTemplate, creates};
use super::early_failures::failed_early;
use super::member::{Member, claimed};
use super::policy::Replacement;
use super::status::{Doing, Failure};
use super::step::{Asked, MachineDelete, MachinePatch, Mark, Plan, Step};
use super::victims::{Why, is_marked, sort};
use super::{ClockTrust, Observed, Reason, preservation, status, template};
use crate::wake::later;
use crate::{Awaited, Event, EventType, Wake};

pub(super) fn plan(seen: &Observed<'_>) -> Plan {
    let machines: Vec<&Member<'_>> = claimed(seen).collect();
    let marks = preservation::marks(&machines, seen.set.spec.auto_preserve_failed_machine_max);
    let mark = |member: &Member<'_>| marks.get(member.machine.name()).copied();
    let patches = patches(seen, &machines, &mark);

    let count = Count::of(seen, &machines);
    let replicas = usize::try_from(seen.set.spec.replicas).unwrap_or_default();
    let mut plan = if count.present < replicas {
        make(seen, &count, replicas)
    } else {
        take(seen, &machines, &count, replicas, &mark)
    };
    if !patches.is_empty() {
        if plan.steps.is_empty() {
            plan.because = Reason::Differs(patches.len());
        }
        if patches.len() >= seen.policy.set.batch {
            plan.wake = Wake::Again;
        }
        plan.steps.insert(0, Step::Patch(patches));
    }
    plan
}

/// The machines of the set, counted for both questions.
struct Count {
    /// Machines that are not going, as far as we know: those whose deletion was asked for without an answer are still among them.
    present: usize,
    /// Creates and deletes whose result nobody has seen.
    unseen: usize,
}

impl Count {
    fn of(seen: &Observed<'_>, machines: &[&Member<'_>]) -> Self {
        let unreadable = seen.unreadable.iter().filter(|machine| counts(seen, machine.leaving)).count();
        let readable = machines.iter().filter(|member| counts(seen, member.is_leaving())).count();
        let unseen = seen.outstanding.creates.len() + seen.outstanding.deletes.len();
        Self { present: readable + unreadable, unseen }
    }
}

/// Whether a machine takes up one of the wanted places. One that is going does only where there is no room for its successor.
fn counts(seen: &Observed<'_>, leaving: bool) -> bool {
    !leaving || seen.policy.set.replacement == Replacement::OnceGone
}

fn make(seen: &Observed<'_>, count: &Count, replicas: usize) -> Plan {
    let waiting = |because| Plan::of(Vec::new(), rest(seen), because);
    if seen.set.label(labels::FREEZE) == Some(labels::FREEZE_VALUE) {
        return waiting(Reason::Frozen);
    }
    if seen.set.label(labels::SCALE_UP_DISABLED).is_some() {
        return waiting(Reason::ScaleUpDisabled);
    }
    if seen.clock == ClockTrust::Skewed {
        let until = later(seen.now, seen.policy.short_retry);
        return Plan { wake: rest(seen).no_later_than(Some(until)), ..waiting(Reason::ClockSkewed) };
    }
    if let Some(invalid_template) = InvalidTemplate::of(seen.set) {
        let why = match invalid_template {
            InvalidTemplate::NoLabels => status::NO_LABELS,
            InvalidTemplate::NotSelected => status::NOT_SELECTED,
        };
        let failure = Failure { doing: Doing::Create, message: why.to_owned() };
        return Plan { failure: Some(failure), ..waiting(Reason::InvalidTemplate(why)) };
    }
    let missing = replicas - count.present;
    let wanted = missing.min(seen.policy.set.batch);
    let step = Step::Create(batches(creates(seen, wanted)));
    let wake = if wanted < missing { Wake::Again } else { rest(seen) };
    Plan::of(vec![step], wake, Reason::TooFew { present: count.present, wanted: replicas })
}

/// Batches of one, two, four and so on.
fn batches<T>(items: Vec<T>) -> Vec<Vec<T>> {
    let (mut batches, mut size, mut items) = (Vec::new(), 1, items.into_iter().peekable());
    while items.peek().is_some() {
        batches.push(items.by_ref().take(size).collect());
        size *= 2;
    }
    batches
}

fn take(
    seen: &Observed<'_>,
    machines: &[&Member<'_>],
    count: &Count,
    replicas: usize,
    mark: &impl Fn(&Member<'_>) -> Option<Mark>,
) -> Plan {
    let staying = machines.iter().copied().filter(|member| !member.is_leaving());
    let mut candidates: Vec<&Member<'_>> = staying.filter(|member| !member.was_updated_in_place()).collect();
    let unreadable = seen.unreadable.iter().filter(|machine| !machine.leaving).count();
    let surplus = Surplus::of(seen, &mut candidates, unreadable, replicas);
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
            Some(Why::Surplus)
        } else if is_marked(member.machine, changed) {
            Some(Why::Marked)
        } else {
            (is_replaced(member) && !is_delayed(member)).then_some(Why::Failed)
        }
    };
    let waiting = candidates.iter().any(|member| why(member).is_none() && is_replaced(member));
    let delay = delay.filter(|_| waiting).map(|delay| (delay.until, delay.message(policy)));
    let replaced = candidates.iter().any(|member| why(member) == Some(Why::Failed) && failed_early(member, policy));
    let mut deletes: Vec<MachineDelete> =
        candidates.iter().copied().filter_map(|member| Some(delete(seen, member, why(member)?))).collect();
    deletes.sort_by_key(|delete| delete.why); // the surplus first, then the marked, then the failed: matters for the limit only
    if deletes.is_empty() {
        let because = if count.unseen > 0 { Reason::Unseen(count.unseen) } else { Reason::Converged };
        let skewed = !is_trusted && machines.iter().any(|member| member.has_failed());
        let (because, again) = if skewed {
            (Reason::ClockSkewed, Some(later(seen.now, seen.policy.short_retry)))
        } else {
            (because, None)
        };
        let plan = Plan::of(Vec::new(), rest_of(seen, machines).no_later_than(again), because);
        return match delay {
            Some((until, why)) => delayed(seen, Plan { wake: plan.wake.no_later_than(Some(until)), ..plan }, why),
            None => plan,
        };
    }
    let because = Reason::Surplus { leaving: deletes.len(), present: count.present, wanted: replicas };
    let deletes = deletes.into_iter().take(seen.policy.set.batch).collect();
    // Who goes is replaced at once: the deletion leaves a place.
    let plan = Plan::of(vec![Step::Delete(deletes)], Wake::Again, because);
    let failure = delay.map(|(_, message)| Failure { doing: Doing::Replace, message });
    Plan { failure, early_failures: replaced.then(|| failures.replaced(seen.now)), ..plan }
}

/// A plan that replaces no Failed Machine yet. The condition is the status' affair; the Event is sent once per message.
fn delayed(seen: &Observed<'_>, mut plan: Plan, why: String) -> Plan {
    if !status::is_reported(seen.set, &why) {
        let reason = api::names::events::ours::REPLACEMENT_DELAYED;
        plan.steps.push(Step::Tell(Event { event_type: EventType::Warning, reason, message: why.clone() }));
    }
    let failure = Some(Failure { doing: Doing::Replace, message: why.clone() });
    Plan { failure, because: Reason::ReplacementDelayed(why), ..plan }
}

/// The machines beyond the number wanted.
///
/// A machine whose deletion was asked for without an answer may be there or gone. So its deletion is repeated only if it would be
/// chosen again now, and of the others no more go than are too many without it.
struct Surplus(BTreeSet<Uid>);

impl Surplus {
    /// Sorts the candidates, those to go first to the front, and chooses among them.
    fn of(seen: &Observed<'_>, candidates: &mut [&Member<'_>], unreadable: usize, replicas: usize) -> Self {
        let asked = |member: &Member<'_>| seen.outstanding.asked(&member.machine.uid()) == Asked::Again;
        let there = candidates.iter().filter(|member| !asked(member)).count();
        let surplus_of = |machines: usize| (machines + unreadable).saturating_sub(replicas);
        let (surplus, certain) = (surplus_of(candidates.len()), surplus_of(there));
        if surplus == 0 {
            return Self(BTreeSet::new());
        }
        sort(candidates, seen.policy.set.in_place_rank, seen.now);
        let again = candidates.iter().take(surplus).filter(|member| asked(member));
        let others = candidates.iter().filter(|member| !asked(member)).take(certain);
        Self(again.chain(others).map(|member| member.machine.uid()).collect())
    }

    fn has(&self, member: &Member<'_>) -> bool {
        self.0.contains(&member.machine.uid())
    }
}

pub(super) fn delete(seen: &Observed<'_>, member: &Member<'_>, why: Why) -> MachineDelete {
    MachineDelete {
        name: member.machine.name().into(),
        uid: member.machine.uid(),
        resource_version: member.machine.resource_version().to_owned(),
        why,
        asked: seen.outstanding.asked(&member.machine.uid()),
    }
}

fn patches(
    seen: &Observed<'_>,
    machines: &[&Member<'_>],
    mark: &impl Fn(&Member<'_>) -> Option<Mark>,
) -> Vec<MachinePatch> {
    let MachineSet { spec, .. } = seen.set;
    let patch = |member: &&Member<'_>| {
        let (difference, preserve) = (template::difference(member, &spec.template), mark(member));
        let max_replacements = template::new_limit(member, seen.set).map(str::to_owned);
        if difference.is_none() && preserve.is_none() && max_replacements.is_none() {
            return None;
        }
        Some(MachinePatch {
            name: member.machine.name().into(),
            uid: member.machine.uid(),
            resource_version: member.machine.resource_version().to_owned(),
            spec: difference,
            preserve,
            max_replacements,
        })
    };
    machines.iter().filter_map(patch).take(seen.policy.set.batch).collect()
}

/// What a set without anything to do waits for.
pub(super) fn rest(seen: &Observed<'_>) -> Wake {
    match seen.outstanding.until {
        Some(at) => Wake::By { awaited: Awaited::Machines, at },
        None => Wake::On(Awaited::Change),
    }
}

/// Also for the end of a preservation and for a machine that becomes available by waiting.
fn rest_of(seen: &Observed<'_>, machines: &[&Member<'_>]) -> Wake {
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
