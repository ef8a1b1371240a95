//! Updating machines without replacing them.
//!
//! The VM stays, its node is emptied, a node agent updates it, and the Machine moves from the old set to the new one. Five parties
//! talk through labels and conditions of the Node: we name candidates and choose among them, the machine controller drains, the agent
//! updates, the machine controller reports, and we move the Machine and give the node back. Under manual orchestration the user chooses.
//!
//! A Machine moves before either set knows: the old set must not replace it (its label `scale-up-disabled`), the new one must not take
//! it for one too many (the machine's label `update-result`). Sizes follow at once, and whatever a crash left half done is seen
//! from the numbers: a new set with more machines than it wants grows, an old one with fewer shrinks.

use api::names::conditions::in_place as condition;
use api::names::labels;
use api::{Machine, MachinePhase, MachineSet, Object, OrchestrationType, StrategyType, UpdateResult, lists, merge};
use serde_json::json;

use super::builder::PlanBuilder;
use super::draft::{Draft, count, is_leaving};
use super::reason::Reason;
use super::step::{MachineChange, MachineEdit};
use super::{SeenMachine, claim, nodes, revision, rolling};

pub(super) fn roll(builder: &mut PlanBuilder<'_>) -> Option<Reason> {
    if builder.sets.new.is_none() {
        let size = match orchestration(builder) {
            OrchestrationType::Manual => 0,
            _ => rolling::room(builder).min(builder.limits.replicas),
        };
        revision::make_new(builder, size);
    }
    mark(builder);
    hand_over(builder);
    balance(builder);
    select(builder);
    None
}

fn orchestration(builder: &PlanBuilder<'_>) -> OrchestrationType {
    let update = &builder.seen.deployment.spec.strategy.in_place_update;
    update.as_ref().map_or(OrchestrationType::Unset, |update| update.orchestration_type.clone())
}

/// Old sets make no more machines, and their nodes are candidates.
fn mark(builder: &mut PlanBuilder<'_>) {
    builder.taint_outgoing();
    builder.keep_nodes_from_autoscaler();
    for old in builder.sets.old.iter_mut().filter(|old| old.is_populated() && !old.is_leaving()) {
        old.label(labels::SCALE_UP_DISABLED, Some(labels::PRESENT_VALUE));
        for seen in old.machines.iter().filter(|seen| !is_leaving(seen.machine)) {
            if let Some(node) = seen.node {
                builder.nodes.make_candidate(node);
            }
        }
    }
}

/// Machines that have arrived in their set: it counts them, their nodes go back to work, and at last they lose the label that protected
/// them meanwhile. One that has not joined yet holds up only itself. The set may be an old one again by now; a machine arrives there
/// all the same, or nobody could ever delete it.
pub(super) fn settle_moved(builder: &mut PlanBuilder<'_>) {
    forget_departed(builder);
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
            // Only once its controller has seen the size may the machine look like any other.
            machines_after.extend(arrived.iter().filter(|seen| !awaits_return(seen)).map(|seen| MachineEdit {
                name: seen.machine.name().to_owned(),
                uid: seen.machine.uid(),
                resource_version: None,
                change: MachineChange::MoveDone,
                changes: json!({ "metadata": { "labels": { labels::UPDATE_RESULT: null } } }),
            }));
        }
        let returns = |seen: &&SeenMachine<'_>| awaits_return(seen) && (role == Role::New || has_arrived(seen.machine));
        for node in set.machines.iter().filter(returns).filter_map(|seen| seen.node) {
            nodes.give_back(node);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Old,
    New,
}

/// An old set that makes no machines does not get back what it has lost, be it moved, deleted or failed.
fn forget_departed(builder: &mut PlanBuilder<'_>) {
    for old in builder.sets.old.iter_mut().filter(|old| old.makes_none()) {
        old.resize(old.live().min(old.size()), &builder.limits);
    }
}

/// Its node was updated and has not been given back yet.
fn awaits_return(seen: &SeenMachine<'_>) -> bool {
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

/// Updated machines move to the new set, and their places with them.
fn hand_over(builder: &mut PlanBuilder<'_>) {
    let limits = builder.limits;
    let Some(new) = builder.sets.new.as_mut().filter(|new| new.before.is_some()) else { return };
    let mut moved = 0;
    for old in &mut builder.sets.old {
        // Before the old set is known to replace nobody, nobody leaves it.
        let Some(seen_set) = old.before.filter(|set| set.label(labels::SCALE_UP_DISABLED).is_some()) else { continue };
        let mut left = 0;
        for seen in old.machines.iter().filter(|seen| is_updated(seen)) {
            builder.machines.push(move_to(seen.machine, seen_set, &new.set));
            left += 1;
            if let Some(node) = seen.node {
                if awaits_return(seen) { builder.nodes.give_back(node) } else { builder.nodes.uncordon(node) }
            }
        }
        old.resize((old.size() - left).max(0), &limits);
        moved += left;
    }
    new.resize(new.size().saturating_add(moved), &limits);
}

/// The agent says so on the node, and the machine controller has taken note of it. A machine that has only just arrived in its set
/// was updated for that one, not for the next.
fn is_updated(seen: &SeenMachine<'_>) -> bool {
    seen.machine.label(labels::UPDATE_RESULT).is_none()
        && seen.node.is_some_and(|node| nodes::update_result(node) == UpdateResult::Successful)
        && reports_success(seen.machine)
        && *seen.machine.phase() != MachinePhase::InPlaceUpdating
        && !is_leaving(seen.machine)
}

fn move_to(machine: &Machine, from: &MachineSet, to: &MachineSet) -> MachineEdit {
    let mut after = machine.clone();
    let map = &mut after.metadata.labels;
    for key in from.spec.selector.iter().flat_map(|selector| selector.match_labels.keys()) {
        map.remove(key);
    }
    for (key, value) in to.spec.selector.iter().flat_map(|selector| &selector.match_labels) {
        map.insert(key.clone(), value.clone());
    }
    map.insert(labels::UPDATE_RESULT.to_owned(), UpdateResult::Successful.as_str().to_owned());
    let owners = lists::owners_with(
        &lists::owners_without(&machine.metadata.owner_references, &from.uid()),
        &claim::set_reference(to),
    );
    let mut changes = merge::changes(machine, &after).unwrap_or_else(|| json!({ "metadata": {} }));
    if let Some(metadata) = changes.get_mut("metadata").and_then(|metadata| metadata.as_object_mut()) {
        metadata.insert("ownerReferences".to_owned(), json!(owners));
    }
    MachineEdit {
        name: machine.name().to_owned(),
        uid: machine.uid(),
        resource_version: Some(machine.resource_version().to_owned()),
        change: MachineChange::MoveTo(to.name().to_owned()),
        changes,
    }
}

/// What is wanting is made new, and what is too much goes.
fn balance(builder: &mut PlanBuilder<'_>) {
    let limits = builder.limits;
    let wanting = limits.replicas.saturating_sub(builder.sets.sum(Draft::size));
    let Some(name) = builder.sets.new.as_ref().map(|new| new.name().to_owned()) else { return };
    let room = builder.sets.room_for(&name, limits.most());
    let old_size = builder.sets.old_size();
    let Some(new) = &mut builder.sets.new else { return };
    if new.size() > limits.replicas {
        new.resize(limits.replicas, &limits);
    } else if wanting > 0 {
        let to = new.size().saturating_add(wanting).min(room.max(new.size()));
        new.resize(to, &limits);
    } else if new.size() == limits.replicas && old_size > 0 {
        // What the surge made possible is not needed any more.
        for old in builder.sets.old.iter_mut().filter(|old| old.is_active()) {
            old.resize(0, &limits);
        }
    }
}

/// Chooses the next machines to be updated: no more at once than may be unavailable, those that are unavailable anyway first.
fn select(builder: &mut PlanBuilder<'_>) {
    if orchestration(builder) == OrchestrationType::Manual {
        return;
    }
    let limits = builder.limits;
    let staying = |seen: &&SeenMachine<'_>| !is_leaving(seen.machine) && !is_updated(seen);
    let old: Vec<&SeenMachine<'_>> =
        builder.sets.old.iter().filter(|old| old.is_active()).flat_map(|old| old.machines).filter(staying).collect();
    let (chosen, free): (Vec<&SeenMachine<'_>>, Vec<&SeenMachine<'_>>) = old
        .into_iter()
        .partition(|seen| seen.node.is_some_and(|node| node.label(labels::SELECTED_FOR_UPDATE).is_some()));
    let undergoing = count(chosen.len());
    let wanted = limits.replicas.saturating_sub(builder.sets.new_size()).saturating_sub(undergoing);
    let at_once = builder.sets.sum(Draft::size).saturating_sub(limits.least_available()).saturating_sub(undergoing);
    let free_available = count(free.iter().filter(|seen| is_available(seen.machine)).count());
    let new_available = builder.sets.new.iter().flat_map(|new| new.machines).filter(staying);
    let new_available = count(new_available.filter(|seen| is_available(seen.machine)).count());
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
