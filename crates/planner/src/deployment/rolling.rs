//! The RollingUpdate strategy: replaces Machines within limits.
//!
//! The new MachineSet is scaled up while there are no more Machines than replicas plus surge, including those that are
//! being deleted: a rolling update is as fast as its drains, and never exceeds the capacity in the cloud. The old
//! MachineSets are scaled down while enough Machines are available: unavailable Machines first, then as many as the new
//! ones replace.

use api::Object;
use api::names::annotations::{PREFER_NO_SCHEDULE, PREFER_NO_SCHEDULE_VALUE};
use api::names::finalizers;

use super::builder::PlanBuilder;
use super::draft::{Draft, Sets, is_terminating};
use super::limits::Limits;
use super::policy::AutoscalerGuard;
use super::reason::Reason;
use super::{SeenMachine, revision};

pub(super) fn roll(builder: &mut PlanBuilder<'_>) -> Option<Reason> {
    if builder.sets.new.is_none() {
        let size = free_capacity(builder).min(builder.limits.replicas);
        revision::create_new(builder, size);
    } else {
        grow(builder);
    }
    builder.taint_outgoing();
    builder.disable_scale_down();
    let (limits, least) = (builder.limits, builder.least_available());
    shrink(&mut builder.sets, &limits, least);
    None
}

/// Number of Machines that may be created, considering those that are being deleted.
pub(super) fn free_capacity(builder: &PlanBuilder<'_>) -> i32 {
    builder.limits.most().saturating_sub(builder.sets.sum(Draft::present)).max(0)
}

/// Machines of the new MachineSet whose deletion has not happened yet need no capacity: a reverted rollout keeps them.
/// This does not apply if the old MachineSets are not scaled down for them in the same reconcile: then the pool was
/// scaled down, and the replicas would be filled again after the deletions.
fn grow(builder: &mut PlanBuilder<'_>) {
    let (limits, free_capacity, least) = (builder.limits, free_capacity(builder), builder.least_available());
    let kept = with_all_kept(&builder.sets, &limits, least);
    if let Some(new) = &mut builder.sets.new {
        let to = new.size().saturating_add(free_capacity).max(kept).min(limits.replicas);
        new.resize(to, &limits);
    }
}

/// Returns the size of the new MachineSet if it keeps all of its Machines, or zero if there would be too many.
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
        let unhealthy = (protected.expendable(old) - old.available()).clamp(0, left);
        old.resize(old.size() - unhealthy, limits);
        left -= unhealthy;
    }
    let mut spare = sets.sum(Draft::available).saturating_sub(least);
    for old in sets.old.iter_mut().filter(|old| old.is_active()) {
        let healthy = protected.expendable(old).min(spare.max(0));
        old.resize(old.size() - healthy, limits);
        spare -= healthy;
    }
}

/// Whether preserved Machines are excluded when an old MachineSet is scaled down. A MachineSet deletes them last, so
/// another Machine would be deleted instead, and users want to keep them as long as possible. They are deleted when no
/// other Machines are left, because otherwise they would block the rollout for days.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protected {
    Preserved,
    None,
}

impl Protected {
    fn of(old: &[Draft<'_>]) -> Self {
        if old.iter().any(|old| old.size() > old.preserved) { Self::Preserved } else { Self::None }
    }

    /// Returns how many Machines of an old MachineSet may be deleted.
    fn expendable(self, old: &Draft<'_>) -> i32 {
        match self {
            Self::Preserved => (old.size() - old.preserved).max(0),
            Self::None => old.size(),
        }
    }
}

impl PlanBuilder<'_> {
    /// Taints the Nodes of old MachineSets, including those that join late, and removes the taint from Nodes of the new
    /// one.
    pub(super) fn taint_outgoing(&mut self) {
        for old in &mut self.sets.old {
            let mut marked = false;
            for seen in old.machines.iter().filter(|seen| !is_terminating(seen.machine)) {
                if let Some(node) = seen.node {
                    self.nodes.mark_outgoing(node);
                    marked = true;
                }
            }
            if marked && !old.is_terminating() {
                old.annotate(PREFER_NO_SCHEDULE, Some(PREFER_NO_SCHEDULE_VALUE));
            }
        }
        self.unmark_staying();
    }

    /// Removes the marks from Nodes of the new MachineSet, which may have been an old one.
    pub(super) fn unmark_staying(&mut self) {
        for seen in self.sets.new.iter().flat_map(|new| new.machines) {
            if let Some(node) = seen.node {
                self.nodes.mark_staying(node, seen.machine);
            }
        }
    }

    /// Disables scale-down by the cluster-autoscaler while a rollout is in progress. A new Node is skipped until the
    /// machine controller has added its finalizer, because both writes would conflict. A machine controller that knows
    /// about the rollout writes both together.
    pub(super) fn disable_scale_down(&mut self) {
        if !self.sets.rolling() || self.seen.policy.deployment.autoscaler_guard == AutoscalerGuard::Off {
            return;
        }
        self.guard = AutoscalerGuard::On;
        let old = self.sets.old.iter().flat_map(|old| old.machines);
        let settled = |seen: &&SeenMachine<'_>| seen.node.is_some_and(|node| node.has_finalizer(finalizers::NODE));
        let new = self.sets.new.iter().flat_map(|new| new.machines).filter(settled);
        for seen in old.chain(new).filter(|seen| !is_terminating(seen.machine)) {
            if let Some(node) = seen.node {
                self.nodes.disable_scale_down(node);
            }
        }
    }

    /// Allows scale-down after the rollout is complete.
    pub(super) fn allow_scale_down(&mut self) {
        if self.seen.policy.deployment.autoscaler_guard == AutoscalerGuard::Off {
            return;
        }
        for seen in self.sets.all().flat_map(|set| set.machines) {
            if let Some(node) = seen.node {
                self.nodes.allow_scale_down(node, seen.machine);
            }
        }
    }
}
