//! One reconcile of a MachineDeployment: the observed state, the desired state, and the steps between them.

use std::collections::BTreeMap;

use api::names::annotations::REVISION;
use api::names::finalizers;
use api::{MachineDeployment, Object, StrategyType, Uid, lists, merge};

use super::claim::ClaimedSets;
use super::draft::{self, Draft, Sets};
use super::limits::Limits;
use super::nodes::NodeDrafts;
use super::policy::AutoscalerGuard;
use super::reason::Reason;
use super::status::{self, Report};
use super::step::{DeploymentEdit, MachineEdit, Plan, Purpose, Step};
use super::template::same_template;
use super::{Observed, history, in_place, recreate, rolling};
use crate::{Awaited, Due, Event, Wake};

/// The desired state, which all rules of a reconcile change.
pub(super) struct PlanBuilder<'a> {
    pub(super) seen: Observed<'a>,
    /// The desired MachineDeployment.
    pub(super) deployment: MachineDeployment,
    pub(super) limits: Limits,
    pub(super) sets: Sets<'a>,
    pub(super) nodes: NodeDrafts<'a>,
    /// Machines to change before the MachineSets: marks and moves.
    pub(super) machines: Vec<MachineEdit>,
    /// Machines to change after the MachineSets.
    pub(super) machines_after: Vec<MachineEdit>,
    /// MachineSets to delete.
    pub(super) removals: Vec<Step>,
    /// Progress that does not show in the counts.
    pub(super) progress: Option<status::Progress>,
    /// Whether scale-down by the cluster-autoscaler is disabled for its Nodes.
    pub(super) guard: AutoscalerGuard,
    /// Events to emit after the MachineDeployment was written.
    pub(super) events: Vec<Event>,
    claims: Vec<Step>,
}

impl<'a> PlanBuilder<'a> {
    pub(super) fn begin(
        seen: Observed<'a>,
        claim: ClaimedSets<'a>,
        annotations: &BTreeMap<&'static str, Option<String>>,
        marks: Vec<MachineEdit>,
    ) -> Self {
        let mut deployment = seen.deployment.clone();
        if let Some(list) = lists::finalizers_with(&deployment.metadata.finalizers, finalizers::MACHINE) {
            deployment.metadata.finalizers = list;
        }
        for (key, value) in annotations {
            let map = &mut deployment.metadata.annotations;
            match value {
                Some(value) => map.insert(*key, value.as_str()),
                None => map.remove(key),
            };
        }
        let mut sets = Sets::default();
        for candidate in claim.sets {
            let draft = Draft {
                before: Some(candidate.set),
                set: candidate.set.clone(),
                machines: &candidate.machines,
                unseen: candidate.unseen,
                preserved: draft::preserved(&candidate.machines, seen.now),
                available: draft::available(candidate, seen.policy, seen.now),
            };
            // The oldest one is the new MachineSet. One that is being deleted never is.
            let matches = !candidate.set.is_deleting()
                && same_template(&candidate.set.spec.template, &seen.deployment.spec.template);
            if sets.new.is_none() && matches {
                sets.new = Some(draft);
            } else {
                sets.old.push(draft);
            }
        }
        Self {
            limits: Limits::of(seen.deployment),
            deployment,
            sets,
            nodes: NodeDrafts::default(),
            machines: marks,
            machines_after: Vec::new(),
            removals: Vec::new(),
            progress: None,
            guard: AutoscalerGuard::Off,
            events: Vec::new(),
            claims: claim.steps,
            seen,
        }
    }

    /// Number of Machines that have to stay available, in addition to preserved Failed ones.
    pub(super) fn least_available(&self) -> i32 {
        let old = self.sets.old.iter().filter(|old| !old.is_terminating()).map(|old| old.preserved);
        let new = self.sets.new.as_ref().map_or(0, |new| new.preserved);
        self.limits.least_available_with_preserved(draft::total(old), new)
    }

    /// One step of the rollout, according to the strategy.
    pub(super) fn roll(&mut self) -> Reason {
        // Moves are completed with any strategy.
        in_place::complete_moves(self);
        let waits = match self.seen.deployment.spec.strategy.kind {
            StrategyType::Recreate => recreate::roll(self),
            StrategyType::InPlaceUpdate => in_place::roll(self),
            // Other strategies are invalid.
            StrategyType::RollingUpdate | StrategyType::Unset | StrategyType::Other(_) => rolling::roll(self),
        };
        waits.unwrap_or_else(|| {
            let (old, new, of) = (self.sets.old_size(), self.sets.new_size(), self.limits.replicas);
            let available = self.sets.sum(|set| set.set.status.available_replicas);
            if self.sets.rolling() {
                Reason::Rolling { old, new, of }
            } else if available < of {
                Reason::Completing { available, of }
            } else {
                Reason::Converged
            }
        })
    }

    /// Returns the writes that precede all others: the finalizer, owner references, and marks on Machines.
    pub(super) fn opening(&mut self) -> Vec<Step> {
        let missing = lists::finalizers_with(&self.seen.deployment.metadata.finalizers, finalizers::MACHINE);
        let purpose = if missing.is_some() { Purpose::AddFinalizer } else { Purpose::UpdateRequestedDeletions };
        let edit = merge::changes(self.seen.deployment, &self.deployment)
            .map(|changes| Step::Deployment(DeploymentEdit { purpose, changes }));
        let mut steps: Vec<Step> = edit.into_iter().collect();
        steps.extend(std::mem::take(&mut self.events).into_iter().map(Step::EmitEvent));
        steps.append(&mut self.claims);
        steps.extend(std::mem::take(&mut self.machines).into_iter().map(Step::Machine));
        steps
    }

    /// Returns all steps, ordered so that the plan can end safely after any of them.
    pub(super) fn finish(mut self, report: Report, because: Reason) -> Plan {
        let status = status::next(&self, report);
        if report == Report::Rollout && self.is_complete(&status) {
            self.allow_scale_down();
            history::trim(&mut self);
        }
        let mut steps = self.opening();
        let most = self.seen.policy.deployment.nodes_per_reconcile;
        let (nodes, nodes_left) = std::mem::take(&mut self.nodes).steps(most);
        steps.extend(nodes);
        steps.extend(self.sets.steps());
        steps.extend(self.machines_after.drain(..).map(Step::Machine));
        steps.append(&mut self.removals);
        steps.extend(self.set_revision());
        let wake = self.wake(report, &status, nodes_left);
        let due = status::due(&self.seen, &status, self.is_settled());
        let wake = match (status::step(&self.seen.deployment.status, status), due) {
            (None, _) => wake,
            (Some(step), Due::Now) => {
                steps.push(step);
                wake
            }
            (Some(_), Due::By(at)) => wake.no_later_than(Some(at)),
        };
        Plan { guarded: self.guarded(), ..Plan::of(steps, wake, because) }
    }

    /// Returns the MachineSets whose Nodes must not be scaled down, including Nodes that join later.
    fn guarded(&self) -> Vec<Uid> {
        match self.guard {
            AutoscalerGuard::On => self.sets.all().filter_map(|set| Some(set.before?.uid())).collect(),
            AutoscalerGuard::Off => Vec::new(),
        }
    }

    /// Sets the revision annotation once the newest MachineSet has the revision.
    fn set_revision(&mut self) -> Option<Step> {
        let revision = self.sets.new.as_ref()?.set.annotation(REVISION)?.to_owned();
        let before = self.deployment.clone();
        self.deployment.metadata.annotations.insert(REVISION, revision);
        let changes = merge::changes(&before, &self.deployment)?;
        Some(Step::Deployment(DeploymentEdit { purpose: Purpose::SetRevision, changes }))
    }

    /// Returns whether all desired Machines exist, are new and are available, and no MachineSet is about to change.
    fn is_complete(&self, status: &api::MachineDeploymentStatus) -> bool {
        status::is_complete(self.seen.deployment, status)
            && !self.sets.rolling()
            && self.sets.all().all(|set| set.before.is_some() && set.resized().0 == set.resized().1)
    }

    /// Returns whether no MachineSet is about to create or lose Machines.
    fn is_settled(&self) -> bool {
        self.sets.all().all(|set| {
            let (from, to) = set.resized();
            from == to && set.present() == set.size() && set.set.status.available_replicas == set.size()
        })
    }

    fn wake(&self, report: Report, status: &api::MachineDeploymentStatus, nodes_left: usize) -> Wake {
        if nodes_left > 0 {
            return Wake::Again;
        }
        let deadline = match report {
            Report::Rollout => status::deadline(self.seen.deployment, status),
            Report::Plain => None,
        };
        match deadline {
            Some(at) => Wake::By { awaited: Awaited::Sets, at },
            None => Wake::On(Awaited::Sets),
        }
    }
}
