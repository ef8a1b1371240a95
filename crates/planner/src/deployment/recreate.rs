//! The Recreate strategy: all old Machines are deleted before new ones are created.

use super::builder::PlanBuilder;
use super::draft::{Draft, total};
use super::reason::Reason;
use super::revision;

pub(super) fn roll(builder: &mut PlanBuilder<'_>) -> Option<Reason> {
    let limits = builder.limits;
    builder.disable_scale_down();
    for old in builder.sets.old.iter_mut().filter(|old| old.is_active()) {
        old.resize(0, &limits);
    }
    let leaving = total(builder.sets.old.iter().map(Draft::present));
    if leaving > 0 {
        if let Some(new) = builder.sets.new.as_mut().filter(|new| new.size() > limits.replicas) {
            new.resize(limits.replicas, &limits);
        }
        return Some(Reason::OldMachinesRemain(usize::try_from(leaving).unwrap_or_default()));
    }
    match &mut builder.sets.new {
        None => revision::create_new(builder, limits.replicas),
        Some(new) => new.resize(limits.replicas, &limits),
    }
    builder.unmark_staying();
    None
}
