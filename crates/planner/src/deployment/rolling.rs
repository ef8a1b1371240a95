//! Replacing machines one by one, within limits.
//!
//! The new set grows as long as there are not more machines than desired plus surge, those on their way out included: a rolling
//! update is as fast as the drains it causes, and never needs more room in the cloud than it was given. The old sets shrink as long
//! as enough machines are available: first by what is not available anyway, then by what the new ones make up for.

use api::Object;
use api::names::annotations::{PREFER_NO_SCHEDULE, PREFER_NO_SCHEDULE_VALUE};
use api::names::finalizers;

use super::builder::PlanBuilder;
use super::draft::{Draft, Sets, is_leaving};
use super::fleet_policy::AutoscalerGuard;
use super::limits::Limits;
use super::reason::Reason;
use super::{SeenMachine, revision};

pub(super) fn roll(builder: &mut PlanBuilder<'_>) -> Option<Reason> {
    if builder.sets.new.is_none() {
        let size = room(builder).min(builder.limits.replicas);
        revision::make_new(builder, size);
    } else {
        grow(builder);
    }
    builder.taint_outgoing();
    builder.keep_nodes_from_autoscaler();
    let (limits, least) = (builder.limits, builder.least_available());
    shrink(&mut builder.sets, &limits, least);
    None
}

/// How many machines may be made, counting those that are on their way out.
pub(super) fn room(builder: &PlanBuilder<'_>) -> i32 {
    builder.limits.most().saturating_sub(builder.sets.sum(Draft::present)).max(0)
}

/// Machines that the new set was to lose, and still has because its deletions have not come through, need no room: a roll-out that is
/// taken back keeps them. Not where the old sets do not give up their places for them now: then the pool was made smaller, and
/// each place that is given back would be filled anew when the deletions come through after all.
fn grow(builder: &mut PlanBuilder<'_>) {
    let (limits, room, least) = (builder.limits, room(builder), builder.least_available());
    let kept = with_all_kept(&builder.sets, &limits, least);
    if let Some(new) = &mut builder.sets.new {
        let to = new.size().saturating_add(room).max(kept).min(limits.replicas);
        new.resize(to, &limits);
    }
}

/// How many machines the new set has if it keeps all that it still has, or none if there would be too many.
fn with_all_kept(sets: &Sets<'_>, limits: &Limits, least: i32) -> i32 {
    let Some(new) = &sets.new else { return 0 };
    let kept = new.live().min(limits.replicas);
    if kept <= new.size() {
        return kept;
    }
    let mut then = Sets { new: Some(new.clone()), old: sets.old.clone() };
    then.new.iter_mut().for_each(|new| new.resize(kept, limits));
    shrink(&mut then, limits, least);
    if then.sum(Draft::size) <= limits.most() { kept } else { 0 }
}

fn shrink(sets: &mut Sets<'_>, limits: &Limits, least: i32) {
    if sets.old_size() == 0 {
        return;
    }
    let protected = Protected::of(&sets.old);
    let new_missing = sets.new.as_ref().map_or(0, |new| new.size() - new.available() - new.preserved).max(0);
    let expendable = sets.sum(Draft::size).saturating_sub(limits.least_available()).saturating_sub(new_missing);
    if expendable <= 0 {
        return;
    }
    let mut left = expendable;
    for old in sets.old.iter_mut().filter(|old| old.is_active()) {
        let sick = (protected.expendable(old) - old.available()).clamp(0, left);
        old.resize(old.size() - sick, limits);
        left -= sick;
    }
    let mut spare = sets.sum(Draft::available).saturating_sub(least);
    for old in sets.old.iter_mut().filter(|old| old.is_active()) {
        let healthy = protected.expendable(old).min(spare.max(0));
        old.resize(old.size() - healthy, limits);
        spare -= healthy;
    }
}

/// Whether preserved machines are left out when an old set shrinks. A set deletes them last, so the place of one would be paid for by
/// another machine; and who asked for it wants it as long as possible. They go when nothing else is left to go, because the roll-out
/// would otherwise wait for them for days.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protected {
    Preserved,
    Nobody,
}

impl Protected {
    fn of(old: &[Draft<'_>]) -> Self {
        if old.iter().any(|old| old.size() > old.preserved) { Self::Preserved } else { Self::Nobody }
    }

    /// How many machines of an old set may go.
    fn expendable(self, old: &Draft<'_>) -> i32 {
        match self {
            Self::Preserved => (old.size() - old.preserved).max(0),
            Self::Nobody => old.size(),
        }
    }
}

impl PlanBuilder<'_> {
    /// Nodes of old sets are marked as outgoing, those that join late too; nodes of the new one are not, or no longer.
    pub(super) fn taint_outgoing(&mut self) {
        for old in &mut self.sets.old {
            let mut marked = false;
            for seen in old.machines.iter().filter(|seen| !is_leaving(seen.machine)) {
                if let Some(node) = seen.node {
                    self.nodes.mark_outgoing(node);
                    marked = true;
                }
            }
            if marked && !old.is_leaving() {
                old.annotate(PREFER_NO_SCHEDULE, Some(PREFER_NO_SCHEDULE_VALUE));
            }
        }
        self.welcome_staying();
    }

    /// Nodes of the new set may be left over from a time when it was an old one.
    pub(super) fn welcome_staying(&mut self) {
        for seen in self.sets.new.iter().flat_map(|new| new.machines) {
            if let Some(node) = seen.node {
                self.nodes.mark_staying(node, seen.machine);
            }
        }
    }

    /// While a roll-out runs, the autoscaler leaves the deployment's nodes alone. A new node first gets the finalizer of the machine
    /// controller, which is about to write it at this very moment; the two would trip over each other. A machine controller that
    /// knows of the roll-out writes both at once, and nothing is left to do here.
    pub(super) fn keep_nodes_from_autoscaler(&mut self) {
        if !self.sets.rolling() || self.seen.policy.fleet.autoscaler_guard == AutoscalerGuard::Off {
            return;
        }
        self.guard = AutoscalerGuard::On;
        let old = self.sets.old.iter().flat_map(|old| old.machines);
        let settled = |seen: &&SeenMachine<'_>| seen.node.is_some_and(|node| node.has_finalizer(finalizers::NODE));
        let new = self.sets.new.iter().flat_map(|new| new.machines).filter(settled);
        for seen in old.chain(new).filter(|seen| !is_leaving(seen.machine)) {
            if let Some(node) = seen.node {
                self.nodes.keep_from_autoscaler(node);
            }
        }
    }

    /// The roll-out is complete.
    pub(super) fn leave_nodes_to_autoscaler(&mut self) {
        if self.seen.policy.fleet.autoscaler_guard == AutoscalerGuard::Off {
            return;
        }
        for seen in self.sets.all().flat_map(|set| set.machines) {
            if let Some(node) = seen.node {
                self.nodes.leave_to_autoscaler(node, seen.machine);
            }
        }
    }
}
