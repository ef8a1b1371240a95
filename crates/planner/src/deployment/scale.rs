//! Scaling.
//!
//! Without a rollout, the replicas are those of the only MachineSet. During a rollout, several MachineSets share them,
//! and a change is divided among them in proportion, so that the share of the new template stays the same. The rollout
//! then continues with the new numbers. A change is detected by the number that each MachineSet recorded last, so the
//! records are updated only when the change is complete.

use api::names::annotations::{DESIRED_REPLICAS, MAX_REPLICAS};
use api::{Object, StrategyType};

use super::builder::PlanBuilder;
use super::draft::{Draft, Sets, total};
use super::limits::Limits;

/// How much of a change was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resized {
    /// All of it. Nothing else is decided in this reconcile.
    Complete,
    /// The MachineSets have recorded the new number. The rollout does the rest.
    Recorded,
}

/// Returns whether the replicas changed since the MachineSets recorded them.
pub(super) fn is_due(builder: &PlanBuilder<'_>) -> bool {
    let (sets, replicas) = (&builder.sets, builder.limits.replicas);
    let is_outdated = |set: &Draft<'_>| set.number(DESIRED_REPLICAS).is_some_and(|recorded| recorded != replicas);
    // With Recreate no MachineSet has replicas while the old Machines are being deleted. The rollout sets those of the
    // new one afterwards.
    let recreates = builder.seen.deployment.spec.strategy.kind == StrategyType::Recreate;
    sets.new.is_some()
        && (sets.all().any(|set| set.is_active() && is_outdated(set))
            || (replicas > 0 && !recreates && !sets.all().any(Draft::is_active)))
}

/// Distributes the replicas among the MachineSets.
pub(super) fn apply(builder: &mut PlanBuilder<'_>) -> Resized {
    let resized = distribute(builder);
    limit_growth(&mut builder.sets, &builder.limits);
    resized
}

fn distribute(builder: &mut PlanBuilder<'_>) -> Resized {
    let limits = builder.limits;
    let strategy = &builder.seen.deployment.spec.strategy.kind;
    let old_active = builder.sets.old.iter().any(Draft::is_active);
    // Only a rolling update scales up old MachineSets. With other strategies their new Machines would be deleted again.
    if *strategy != StrategyType::RollingUpdate && old_active && builder.sets.new.is_some() {
        return record_and_shrink(builder);
    }
    if builder.sets.all().filter(|set| set.is_active()).count() <= 1 {
        return give_all_to_one(&mut builder.sets, &limits);
    }
    if is_saturated(&builder.sets, &limits) {
        for old in builder.sets.old.iter_mut().filter(|old| old.is_active()) {
            old.resize(0, &limits);
        }
        return Resized::Complete;
    }
    let least = builder.least_available();
    share(&mut builder.sets, &limits, least, builder.seen.deployment.status.replicas)
}

/// Gives all replicas to the active MachineSet, or to the new one, or to the youngest.
fn give_all_to_one(sets: &mut Sets<'_>, limits: &Limits) -> Resized {
    let name = sets
        .all()
        .find(|set| set.is_active())
        .or(sets.new.as_ref())
        .or_else(|| sets.old.iter().rfind(|old| !old.is_terminating()))
        .map(|set| set.name().to_owned());
    let Some(name) = name else { return Resized::Complete };
    let room = sets.maximum_for(&name, limits.most());
    let set = sets.all_mut().find(|set| set.name() == name);
    set.map_or(Resized::Complete, |set| scale_within(set, limits.replicas, room, limits))
}

/// Sets the replicas within the free capacity. They are recorded once they are as desired, so that the rest of the
/// change is not lost.
fn scale_within(set: &mut Draft<'_>, to: i32, room: i32, limits: &Limits) -> Resized {
    let reachable = to.min(room.max(set.size()));
    let recorded = set.set.annotation(DESIRED_REPLICAS).map(str::to_owned);
    set.resize(reachable, limits);
    if reachable == to {
        set.record(limits);
        return Resized::Complete;
    }
    set.annotate(DESIRED_REPLICAS, recorded.as_deref());
    Resized::Recorded
}

/// Returns whether all desired Machines are new and available.
fn is_saturated(sets: &Sets<'_>, limits: &Limits) -> bool {
    sets.new.as_ref().is_some_and(|new| {
        new.size() == limits.replicas
            && new.number(DESIRED_REPLICAS) == Some(limits.replicas)
            && new.set.status.available_replicas == limits.replicas
    })
}

/// InPlaceUpdate and Recreate: records the number, scales down the surplus of the old MachineSets, and leaves the rest
/// to the rollout.
fn record_and_shrink(builder: &mut PlanBuilder<'_>) -> Resized {
    let limits = builder.limits;
    let mut excess = builder.sets.sum(Draft::size).saturating_sub(limits.most());
    for set in builder.sets.all_mut().filter(|set| set.is_active()) {
        let less = excess.clamp(0, set.size());
        set.resize(set.size() - less, &limits);
        set.record(&limits);
        excess -= less;
    }
    if builder.seen.deployment.spec.paused {
        let missing = limits.replicas.saturating_sub(builder.sets.sum(Draft::size));
        grow_new(&mut builder.sets, missing, &limits);
    }
    Resized::Recorded
}

/// Scales down MachineSets that would create Machines beyond the maximum. The sizes alone do not show that: another
/// MachineSet may have Machines whose deletion is pending. The number recorded before stays, so that the change is
/// completed later.
fn limit_growth(sets: &mut Sets<'_>, limits: &Limits) {
    let creates = |set: &&Draft<'_>| !set.creates_none() && set.size() > set.live();
    let creating: Vec<String> = sets.all().filter(creates).map(|set| set.name().to_owned()).collect();
    for name in creating {
        let maximum = sets.maximum_for(&name, limits.most());
        let Some(set) = sets.all_mut().find(|set| set.name() == name) else { continue };
        let Some(before) = set.before else { continue };
        let maximum = maximum.max(set.live());
        if set.size() > maximum {
            set.resize(maximum, limits);
            set.annotate(DESIRED_REPLICAS, before.annotation(DESIRED_REPLICAS));
        }
    }
}

fn grow_new(sets: &mut Sets<'_>, by: i32, limits: &Limits) -> Resized {
    let Some(name) = sets.new.as_ref().map(|new| new.name().to_owned()) else { return Resized::Complete };
    let room = sets.maximum_for(&name, limits.most());
    let Some(new) = &mut sets.new else { return Resized::Complete };
    let to = new.size().saturating_add(by.max(0)).min(limits.replicas);
    scale_within(new, to, room, limits)
}

/// Several MachineSets share the replicas: additional Machines are new, and surplus is taken from each in proportion to
/// its size.
fn share(sets: &mut Sets<'_>, limits: &Limits, least: i32, shown: i32) -> Resized {
    let allowed = if limits.replicas == 0 { 0 } else { limits.most() };
    let delta = allowed.saturating_sub(sets.sum(Draft::size));
    if delta >= 0 {
        for old in sets.old.iter_mut().filter(|old| old.is_active()) {
            old.record(limits);
        }
        // An empty new MachineSet is scaled up by the rollout.
        let new_active = sets.new.as_ref().is_some_and(Draft::is_active);
        return if new_active { grow_new(sets, delta, limits) } else { Resized::Complete };
    }
    let enough = least.min(sets.sum(Draft::available));
    let mut active: Vec<&mut Draft<'_>> = sets.all_mut().filter(|set| set.is_active()).collect();
    active.sort_by(|a, b| {
        b.size().cmp(&a.size()).then_with(|| super::draft::age(&a.set).cmp(&super::draft::age(&b.set)))
    });
    let mut sizes: Vec<i32> = Vec::with_capacity(active.len());
    let mut taken = 0;
    for set in &active {
        let part = proportion(set, limits, shown).max(delta.saturating_sub(taken)).min(0);
        taken = taken.saturating_add(part);
        sizes.push(set.size() + part);
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = largest.saturating_add(delta.saturating_sub(taken)).max(0);
    }
    keep_available(&active, &mut sizes, enough);
    for (set, size) in active.into_iter().zip(sizes) {
        set.resize(size, limits);
        set.record(limits);
    }
    Resized::Complete
}

/// Returns by how many Machines a MachineSet is scaled down, as a negative number.
fn proportion(set: &Draft<'_>, limits: &Limits, shown: i32) -> i32 {
    if limits.replicas == 0 {
        return -set.size();
    }
    let was = i64::from(set.number(MAX_REPLICAS).unwrap_or(shown).max(1));
    let exact = i64::from(set.size()) * i64::from(limits.recorded_maximum());
    let rounded = (2 * exact + was) / (2 * was);
    i32::try_from(rounded).unwrap_or(i32::MAX).saturating_sub(set.size())
}

/// Prevents that rounding deletes available Machines that are needed: MachineSets with unavailable Machines are scaled
/// down further.
fn keep_available(sets: &[&mut Draft<'_>], sizes: &mut [i32], enough: i32) {
    // A MachineSet deletes its preserved Machines last, so it needs replicas for them in addition to the available
    // ones.
    let needed = |set: &Draft<'_>, available: i32| available.saturating_add(set.preserved);
    let remaining = |set: &Draft<'_>, size: i32| set.available().min((size - set.preserved).max(0));
    let left = total(sets.iter().zip(sizes.iter()).map(|(set, size)| remaining(set, *size)));
    let mut missing = enough.saturating_sub(left).max(0);
    let mut owed: i32 = 0;
    for (set, size) in sets.iter().zip(sizes.iter_mut()) {
        let before = remaining(set, *size);
        let kept = before + (set.available() - before).clamp(0, missing);
        if kept > before {
            let to = needed(set, kept);
            owed = owed.saturating_add(to - *size);
            missing -= kept - before;
            *size = to;
        }
    }
    for (set, size) in sets.iter().zip(sizes.iter_mut()) {
        let spare = (*size - needed(set, set.available())).clamp(0, owed);
        *size -= spare;
        owed -= spare;
    }
}
