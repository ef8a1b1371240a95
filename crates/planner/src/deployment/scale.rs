//! A change of the number of machines.
//!
//! A deployment that is not rolling hands its number to its one set. While it rolls, several sets share it, and a change is divided
//! among them in proportion, so that a canary stays the share it was; the roll-out then goes on with the new numbers. Whether there is
//! a change is seen from the number that each set was last told, which is why those notes are refreshed only when the change is done.

use api::names::annotations::{DESIRED_REPLICAS, MAX_REPLICAS};
use api::{Object, StrategyType};

use super::builder::PlanBuilder;
use super::draft::{Draft, Sets, total};
use super::limits::Limits;

/// How much of a change was done here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resized {
    /// Nothing else is to be decided in this builder.
    Whole,
    /// The sets know the new number; the roll-out takes it from there.
    NotedOnly,
}

/// Whether the replicas changed since the sets were last told.
pub(super) fn is_due(builder: &PlanBuilder<'_>) -> bool {
    let (sets, replicas) = (&builder.sets, builder.limits.replicas);
    let told_otherwise = |set: &Draft<'_>| set.number(DESIRED_REPLICAS).is_some_and(|told| told != replicas);
    // With Recreate no set has replicas while the old machines leave. The rollout gives the new one its replicas when they are gone.
    let recreates = builder.seen.deployment.spec.strategy.kind == StrategyType::Recreate;
    sets.new.is_some()
        && (sets.all().any(|set| set.is_active() && told_otherwise(set))
            || (replicas > 0 && !recreates && !sets.all().any(Draft::is_active)))
}

/// Gives each set its part of the replicas.
pub(super) fn apply(builder: &mut PlanBuilder<'_>) -> Resized {
    let limits = builder.limits;
    let strategy = &builder.seen.deployment.spec.strategy.kind;
    let old_active = builder.sets.old.iter().any(Draft::is_active);
    // Only a rolling update has a use for more old machines: the others would make them in order to throw them away.
    if *strategy != StrategyType::RollingUpdate && old_active && builder.sets.new.is_some() {
        return note_and_shrink(builder);
    }
    if builder.sets.all().filter(|set| set.is_active()).count() <= 1 {
        return give_all_to_one(&mut builder.sets, &limits);
    }
    if is_saturated(&builder.sets, &limits) {
        for old in builder.sets.old.iter_mut().filter(|old| old.is_active()) {
            old.resize(0, &limits);
        }
        return Resized::Whole;
    }
    let least = builder.least_available();
    share(&mut builder.sets, &limits, least, builder.seen.deployment.status.replicas)
}

/// The active set, else the new one, else the youngest.
fn give_all_to_one(sets: &mut Sets<'_>, limits: &Limits) -> Resized {
    let name = sets
        .all()
        .find(|set| set.is_active())
        .or(sets.new.as_ref())
        .or_else(|| sets.old.iter().rfind(|old| !old.is_leaving()))
        .map(|set| set.name().to_owned());
    let Some(name) = name else { return Resized::Whole };
    let room = sets.room_for(&name, limits.most());
    let set = sets.all_mut().find(|set| set.name() == name);
    set.map_or(Resized::Whole, |set| grow_or_shrink(set, limits.replicas, room, limits))
}

/// Sets a size within the room there is. The note is refreshed once the size is what it should be, so that the rest is not forgotten.
fn grow_or_shrink(set: &mut Draft<'_>, to: i32, room: i32, limits: &Limits) -> Resized {
    let reachable = to.min(room.max(set.size()));
    let told = set.set.annotation(DESIRED_REPLICAS).map(str::to_owned);
    set.resize(reachable, limits);
    if reachable == to {
        set.note(limits);
        return Resized::Whole;
    }
    set.annotate(DESIRED_REPLICAS, told.as_deref());
    Resized::NotedOnly
}

/// All that is wanted is new and available.
fn is_saturated(sets: &Sets<'_>, limits: &Limits) -> bool {
    sets.new.as_ref().is_some_and(|new| {
        new.size() == limits.replicas
            && new.number(DESIRED_REPLICAS) == Some(limits.replicas)
            && new.set.status.available_replicas == limits.replicas
    })
}

/// In place or by recreation: the sets are told, what is too much goes from the old ones, and the roll-out sees to the rest.
fn note_and_shrink(builder: &mut PlanBuilder<'_>) -> Resized {
    let limits = builder.limits;
    let mut excess = builder.sets.sum(Draft::size).saturating_sub(limits.most());
    for set in builder.sets.all_mut().filter(|set| set.is_active()) {
        let less = excess.clamp(0, set.size());
        set.resize(set.size() - less, &limits);
        set.note(&limits);
        excess -= less;
    }
    if builder.seen.deployment.spec.paused {
        let wanting = limits.replicas.saturating_sub(builder.sets.sum(Draft::size));
        grow_new(&mut builder.sets, wanting, &limits);
    }
    Resized::NotedOnly
}

fn grow_new(sets: &mut Sets<'_>, by: i32, limits: &Limits) -> Resized {
    let Some(name) = sets.new.as_ref().map(|new| new.name().to_owned()) else { return Resized::Whole };
    let room = sets.room_for(&name, limits.most());
    let Some(new) = &mut sets.new else { return Resized::Whole };
    let to = new.size().saturating_add(by.max(0)).min(limits.replicas);
    grow_or_shrink(new, to, room, limits)
}

/// Several sets share the replicas: what comes is new, what goes is taken from each in proportion to its size.
fn share(sets: &mut Sets<'_>, limits: &Limits, least: i32, shown: i32) -> Resized {
    let allowed = if limits.replicas == 0 { 0 } else { limits.most() };
    let delta = allowed.saturating_sub(sets.sum(Draft::size));
    if delta >= 0 {
        for old in sets.old.iter_mut().filter(|old| old.is_active()) {
            old.note(limits);
        }
        // An empty new set is grown by the roll-out.
        let new_active = sets.new.as_ref().is_some_and(Draft::is_active);
        return if new_active { grow_new(sets, delta, limits) } else { Resized::Whole };
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
    spare_the_available(&active, &mut sizes, enough);
    for (set, size) in active.into_iter().zip(sizes) {
        set.resize(size, limits);
        set.note(limits);
    }
    Resized::Whole
}

/// How many machines a set gives up, as a negative number.
fn proportion(set: &Draft<'_>, limits: &Limits, shown: i32) -> i32 {
    if limits.replicas == 0 {
        return -set.size();
    }
    let was = i64::from(set.number(MAX_REPLICAS).unwrap_or(shown).max(1));
    let exact = i64::from(set.size()) * i64::from(limits.booked_most());
    let rounded = (2 * exact + was) / (2 * was);
    i32::try_from(rounded).unwrap_or(i32::MAX).saturating_sub(set.size())
}

/// Rounding must not cost an available machine that is needed: sets with machines that are not available give up more of those.
fn spare_the_available(sets: &[&mut Draft<'_>], sizes: &mut [i32], enough: i32) {
    // A set deletes its preserved machines last, so it needs their places on top of the available ones.
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
