//! The InPlaceUpdate strategy: updates Machines without replacing them.
//!
//! The VM stays, its Node is drained, a node agent updates it, and the Machine moves from the old MachineSet to the new
//! one. The participants communicate through labels and conditions of the Node: this controller marks candidates and
//! selects among them, the machine controller drains, the agent updates, the machine controller reports, and this
//! controller moves the Machine and restores the Node. With manual orchestration the user selects.
//!
//! A Machine is moved before its MachineSets observe it: the old one must not replace it (its label
//! `scale-up-disabled`), and the new one must not delete it as surplus (the Machine's label `update-result`). The
//! replicas are adjusted immediately. If a process exits in between, the counts show what is missing: a new MachineSet
//! with more Machines than replicas is scaled up, and an old one with fewer is scaled down.

use std::collections::BTreeMap;

use api::names::conditions::in_place as condition;
use api::names::labels;
use api::{Machine, MachinePhase, MachineSet, Object, OrchestrationType, StrategyType, UpdateResult, lists};

use super::builder::PlanBuilder;
use super::draft::{Draft, count, is_terminating};
use super::reason::Reason;
use super::step::{MachineChange, MachineEdit};
use super::{SeenMachine, claim, nodes, revision, rolling};
use crate::{GuardedPatch, MachinePatch};

pub(super) fn roll(builder: &mut PlanBuilder<'_>) -> Option<Reason> {
    if builder.sets.new.is_none() {
        let size = match orchestration(builder) {
            OrchestrationType::Manual => 0,
            _ => rolling::free_capacity(builder).min(builder.limits.replicas),
        };
        revision::create_new(builder, size);
    }
    mark(builder);
    move_updated(builder);
    balance(builder);
    select(builder);
    None
}

fn orchestration(builder: &PlanBuilder<'_>) -> OrchestrationType {
    let update = &builder.seen.deployment.spec.strategy.in_place_update;
    update.as_ref().map_or(OrchestrationType::Unset, |update| update.orchestration_type.clone())
}

/// Disables scale-up of the old MachineSets and marks their Nodes as candidates.
fn mark(builder: &mut PlanBuilder<'_>) {
    builder.taint_outgoing();
    builder.disable_scale_down();
    for old in builder.sets.old.iter_mut().filter(|old| old.is_populated() && !old.is_terminating()) {
        old.label(labels::SCALE_UP_DISABLED, Some(labels::PRESENT_VALUE));
        for seen in old.machines.iter().filter(|seen| !is_terminating(seen.machine)) {
            if let Some(node) = seen.node {
                builder.nodes.make_candidate(node);
            }
        }
    }
}

/// Completes the moves of Machines that have reached their MachineSet: the MachineSet counts them, their Nodes are
/// restored, and finally they lose the label that protected them. A Machine whose Node is not Ready yet blocks only
/// itself. The MachineSet may be an old one again by now; its moves are completed as well, because otherwise the
/// Machines could never be deleted.
pub(super) fn complete_moves(builder: &mut PlanBuilder<'_>) {
    shrink_old(builder);
    let in_place = builder.seen.deployment.spec.strategy.kind == StrategyType::InPlaceUpdate;
    let PlanBuilder { sets, nodes, machines_after, limits, .. } = builder;
    let sizes = sets.sum(Draft::size);
    let old_room = if in_place { limits.replicas.saturating_sub(sizes) } else { 0 };
    let new_room = limits.most().saturating_sub(sizes).min(limits.replicas.saturating_sub(sets.new_size()));
    let old = sets.old.iter_mut().map(|old| (old, old_room, Role::Old));
    for (set, room, role) in old.chain(sets.new.iter_mut().map(|new| (new, new_room, Role::New))) {
        let arrived: Vec<&SeenMachine<'_>> = set.machines.iter().filter(|seen| has_arrived(seen.machine)).collect();
        let uncounted = (set.live() - set.size()).min(count(arrived.len())).min(room);
        if uncounted > 0 {
            set.resize(set.size().saturating_add(uncounted), limits);
        } else if set.before.is_some_and(|set| set.status.observed_generation >= set.generation()) {
            // Only once the MachineSet controller has observed the replicas may the label be removed.
            let labels = BTreeMap::from([(labels::UPDATE_RESULT.to_owned(), None)]);
            let patch = MachinePatch { labels, ..MachinePatch::default() };
            machines_after.extend(arrived.iter().filter(|seen| !needs_restore(seen)).map(|seen| MachineEdit {
                change: MachineChange::MoveDone,
                patch: GuardedPatch::any_version(seen.machine, patch.clone()),
            }));
        }
        let returns = |seen: &&SeenMachine<'_>| needs_restore(seen) && (role == Role::New || has_arrived(seen.machine));
        for node in set.machines.iter().filter(returns).filter_map(|seen| seen.node) {
            nodes.restore(node);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Old,
    New,
}

/// An old MachineSet with disabled scale-up does not replace Machines that were moved, deleted or failed.
fn shrink_old(builder: &mut PlanBuilder<'_>) {
    for old in builder.sets.old.iter_mut().filter(|old| old.creates_none()) {
        old.resize(old.live().min(old.size()), &builder.limits);
    }
}

/// Returns whether the Node was updated and is not restored yet.
fn needs_restore(seen: &SeenMachine<'_>) -> bool {
    seen.node.is_some_and(|node| {
        nodes::update_result(node) == UpdateResult::Successful
            && node.condition(condition::TYPE).is_some_and(|condition| &*condition.reason == condition::SUCCESSFUL)
    })
}

fn has_arrived(machine: &Machine) -> bool {
    machine.label(labels::UPDATE_RESULT) == Some(UpdateResult::Successful.as_str()) && reports_success(machine)
}

fn reports_success(machine: &Machine) -> bool {
    let condition = machine.status.conditions.iter().rfind(|c| *c.kind == *condition::TYPE);
    condition.is_some_and(|condition| &*condition.reason == condition::SUCCESSFUL)
}

/// Moves updated Machines to the new MachineSet and adjusts the replicas.
fn move_updated(builder: &mut PlanBuilder<'_>) {
    let limits = builder.limits;
    let Some(new) = builder.sets.new.as_mut().filter(|new| new.before.is_some()) else { return };
    let mut moved = 0;
    for old in &mut builder.sets.old {
        // No Machine is moved before the old MachineSet is known not to replace it.
        let Some(seen_set) = old.before.filter(|set| set.label(labels::SCALE_UP_DISABLED).is_some()) else { continue };
        let mut left = 0;
        for seen in old.machines.iter().filter(|seen| is_updated(seen)) {
            builder.machines.push(move_to(seen.machine, seen_set, &new.set));
            left += 1;
            if let Some(node) = seen.node {
                if needs_restore(seen) { builder.nodes.restore(node) } else { builder.nodes.uncordon(node) }
            }
        }
        old.resize((old.size() - left).max(0), &limits);
        moved += left;
    }
    new.resize(new.size().saturating_add(moved), &limits);
}

/// Returns whether the node agent has reported success on the Node and the machine controller has confirmed it. A
/// Machine that was just moved to its MachineSet was updated for that one, not for the next.
fn is_updated(seen: &SeenMachine<'_>) -> bool {
    seen.machine.label(labels::UPDATE_RESULT).is_none()
        && seen.node.is_some_and(|node| nodes::update_result(node) == UpdateResult::Successful)
        && reports_success(seen.machine)
        && *seen.machine.phase() != MachinePhase::InPlaceUpdating
        && !is_terminating(seen.machine)
}

fn move_to(machine: &Machine, from: &MachineSet, to: &MachineSet) -> MachineEdit {
    let match_labels = |set: &MachineSet| set.spec.selector.clone().unwrap_or_default().match_labels;
    let mut labels: BTreeMap<String, Option<String>> = BTreeMap::new();
    labels.extend(match_labels(from).into_keys().map(|key| (key, None)));
    labels.extend(match_labels(to).into_iter().map(|(key, value)| (key, Some(value))));
    labels.insert(labels::UPDATE_RESULT.to_owned(), Some(UpdateResult::Successful.as_str().to_owned()));
    labels.retain(|key, value| machine.label(key) != value.as_deref());
    let owners = lists::owners_with(
        &lists::owners_without(&machine.metadata.owner_references, &from.uid()),
        &claim::set_reference(to),
    );
    let patch = MachinePatch { owner_references: Some(owners), labels, ..MachinePatch::default() };
    MachineEdit { change: MachineChange::MoveTo(to.name().to_owned()), patch: GuardedPatch::as_seen(machine, patch) }
}

/// Creates missing Machines and deletes surplus ones.
fn balance(builder: &mut PlanBuilder<'_>) {
    let limits = builder.limits;
    let wanting = limits.replicas.saturating_sub(builder.sets.sum(Draft::size));
    let Some(name) = builder.sets.new.as_ref().map(|new| new.name().to_owned()) else { return };
    let room = builder.sets.maximum_for(&name, limits.most());
    let old_size = builder.sets.old_size();
    let Some(new) = &mut builder.sets.new else { return };
    if new.size() > limits.replicas {
        new.resize(limits.replicas, &limits);
    } else if wanting > 0 {
        let to = new.size().saturating_add(wanting).min(room.max(new.size()));
        new.resize(to, &limits);
    } else if new.size() == limits.replicas && old_size > 0 {
        // The surge is not needed any more.
        for old in builder.sets.old.iter_mut().filter(|old| old.is_active()) {
            old.resize(0, &limits);
        }
    }
}

/// Selects the next Machines to update: at most as many as may be unavailable, those that are unavailable already
/// first.
fn select(builder: &mut PlanBuilder<'_>) {
    if orchestration(builder) == OrchestrationType::Manual {
        return;
    }
    let limits = builder.limits;
    let staying = |seen: &&SeenMachine<'_>| !is_terminating(seen.machine) && !is_updated(seen);
    let old: Vec<&SeenMachine<'_>> =
        builder.sets.old.iter().filter(|old| old.is_active()).flat_map(|old| old.machines).filter(staying).collect();
    let is_selected =
        |seen: &&SeenMachine<'_>| seen.node.is_some_and(|node| node.label(labels::SELECTED_FOR_UPDATE).is_some());
    let (chosen, free): (Vec<&SeenMachine<'_>>, Vec<&SeenMachine<'_>>) = old.into_iter().partition(is_selected);
    let undergoing = count(chosen.len());
    let wanted = limits.replicas.saturating_sub(builder.sets.new_size()).saturating_sub(undergoing);
    // After a rollback, Nodes of the new MachineSet may still be in progress: their update is not revoked.
    let (in_progress, settled): (Vec<&SeenMachine<'_>>, Vec<&SeenMachine<'_>>) =
        builder.sets.new.iter().flat_map(|new| new.machines).filter(staying).partition(is_selected);
    let undergoing_new = count(in_progress.len());
    let at_once = builder.sets.sum(Draft::size).saturating_sub(limits.least_available());
    let at_once = at_once.saturating_sub(undergoing).saturating_sub(undergoing_new);
    let free_available = count(free.iter().filter(|seen| is_available(seen.machine)).count());
    let new_available = count(settled.iter().filter(|seen| is_available(seen.machine)).count());
    let new_available = new_available.min(builder.sets.new_size());
    let mut spare = free_available.saturating_add(new_available).saturating_sub(builder.least_available());
    let mut left = wanted.min(at_once);

    let is_candidate =
        |seen: &&SeenMachine<'_>| seen.node.is_some_and(|node| node.label(labels::CANDIDATE_FOR_UPDATE).is_some());
    let mut candidates: Vec<&SeenMachine<'_>> =
        free.into_iter().filter(is_candidate).filter(|seen| *seen.machine.phase() != MachinePhase::Failed).collect();
    candidates.sort_by_key(|seen| (is_available(seen.machine), seen.machine.name()));
    for seen in candidates {
        let costs = i32::from(is_available(seen.machine));
        if left <= 0 || spare < costs {
            return;
        }
        if let Some(node) = seen.node {
            builder.nodes.select(node);
        }
        left -= 1;
        spare -= costs;
    }
}

fn is_available(machine: &Machine) -> bool {
    matches!(machine.phase(), MachinePhase::Running | MachinePhase::Available)
}
