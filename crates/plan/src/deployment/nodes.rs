//! What a roll-out writes on nodes.
//!
//! While machines are replaced, pods should rather not land on a node that is about to go, and the autoscaler should leave all of
//! them alone. So nodes of outgoing sets get a soft taint, and every node of the deployment gets an annotation; both go when they
//! are no longer true. Several things may be said of one node in a builder; they become one write. The annotation may be the user's
//! ([`crate::node::keep_from_autoscaler`]).

use std::collections::BTreeMap;

use api::names::conditions::in_place;
use api::names::{annotations, labels, taints};
use api::view::NodeView;
use api::{Machine, MachinePhase, Object, Taint, TaintEffect, UpdateResult, lists};

use super::step::{NodeEdit, Step, Uncordon};
use crate::node::is_left_to_autoscaler;

/// All node writes of one builder.
#[derive(Debug, Default)]
pub(super) struct NodeEdits<'a>(BTreeMap<&'a str, Edit<'a>>);

#[derive(Debug)]
struct Edit<'a> {
    node: &'a NodeView,
    labels: BTreeMap<&'static str, Option<&'static str>>,
    annotations: BTreeMap<&'static str, Option<&'static str>>,
    taints: Vec<Taint>,
    uncordon: Uncordon,
}

impl<'a> NodeEdits<'a> {
    fn of(&mut self, node: &'a NodeView) -> &mut Edit<'a> {
        self.0.entry(node.name()).or_insert_with(|| Edit {
            node,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: node.spec.taints.clone(),
            uncordon: Uncordon::No,
        })
    }

    /// Its machine is to be replaced: pods go elsewhere if they can.
    pub(super) fn mark_outgoing(&mut self, node: &'a NodeView) {
        let ours = outgoing();
        if !node.spec.taints.iter().any(|taint| taint.is_same_as(&ours) && taint.value == ours.value) {
            let edit = self.of(node);
            edit.taints = lists::taints_with(&edit.taints, &ours);
        }
    }

    /// Its machine is to stay: pods are welcome, and it is no longer a candidate for an update that has been called off. One that
    /// is being updated already is left alone until its agent has answered.
    pub(super) fn mark_staying(&mut self, node: &'a NodeView, machine: &Machine) {
        if !is_being_updated(node, machine) {
            for label in [labels::CANDIDATE_FOR_UPDATE, labels::SELECTED_FOR_UPDATE] {
                if node.label(label).is_some() {
                    self.of(node).labels.insert(label, None);
                }
            }
        }
        let ours = outgoing();
        if node.spec.taints.iter().any(|taint| taint.is_same_as(&ours) && taint.value == ours.value) {
            let edit = self.of(node);
            edit.taints = lists::taints_without(&edit.taints, &ours);
        }
    }

    /// The autoscaler leaves it alone, unless it does so anyway at the user's request.
    pub(super) fn keep_from_autoscaler(&mut self, node: &'a NodeView) {
        if is_left_to_autoscaler(node) {
            let value = Some(annotations::SCALE_DOWN_DISABLED_VALUE);
            self.of(node)
                .annotations
                .extend([(annotations::SCALE_DOWN_DISABLED, value), (annotations::SCALE_DOWN_DISABLED_BY_US, value)]);
        }
    }

    /// The autoscaler may have it again, if it was us who kept it, and not for the sake of a preserved machine.
    pub(super) fn leave_to_autoscaler(&mut self, node: &'a NodeView, machine: &Machine) {
        let ours = node.annotation(annotations::SCALE_DOWN_DISABLED_BY_US).is_some();
        if ours && machine.status.current_status.preserve_expiry_time.is_none() {
            let edit = self.of(node);
            edit.annotations.insert(annotations::SCALE_DOWN_DISABLED_BY_US, None);
            if node.annotation(annotations::SCALE_DOWN_DISABLED).is_some() {
                edit.annotations.insert(annotations::SCALE_DOWN_DISABLED, None);
            }
        }
    }

    /// It may be updated in place some time.
    pub(super) fn make_candidate(&mut self, node: &'a NodeView) {
        if node.label(labels::CANDIDATE_FOR_UPDATE) != Some(labels::PRESENT_VALUE) {
            self.of(node).labels.insert(labels::CANDIDATE_FOR_UPDATE, Some(labels::PRESENT_VALUE));
        }
    }

    /// It is to be updated in place now.
    pub(super) fn select(&mut self, node: &'a NodeView) {
        self.of(node).labels.insert(labels::SELECTED_FOR_UPDATE, Some(labels::PRESENT_VALUE));
    }

    /// It was updated: every trace of the update goes, and pods come back once its system components are up again.
    pub(super) fn give_back(&mut self, node: &'a NodeView) {
        let (outgoing, starting) = (outgoing(), starting());
        let edit = self.of(node);
        for label in [labels::CANDIDATE_FOR_UPDATE, labels::SELECTED_FOR_UPDATE, labels::UPDATE_RESULT] {
            if node.label(label).is_some() {
                edit.labels.insert(label, None);
            }
        }
        if node.annotation(annotations::UPDATE_FAILED_REASON).is_some() {
            edit.annotations.insert(annotations::UPDATE_FAILED_REASON, None);
        }
        edit.taints.retain(|taint| !(taint.is_same_as(&outgoing) && taint.value == outgoing.value));
        if !edit.taints.iter().any(|taint| taint.is_same_as(&starting)) {
            edit.taints.push(starting);
        }
        if node.spec.unschedulable {
            edit.uncordon = Uncordon::Yes;
        }
    }

    /// Its machine has moved to the new set; pods may come.
    pub(super) fn uncordon(&mut self, node: &'a NodeView) {
        if node.spec.unschedulable {
            self.of(node).uncordon = Uncordon::Yes;
        }
    }

    /// So many writes, one for each node, and how many had to be left for the next builder.
    pub(super) fn steps(self, most: usize) -> (Vec<Step>, usize) {
        let mut steps: Vec<Step> = self.0.into_iter().filter_map(|(name, edit)| edit.step(name)).collect();
        let left = steps.len().saturating_sub(most);
        steps.truncate(most);
        (steps, left)
    }
}

impl Edit<'_> {
    fn step(self, name: &str) -> Option<Step> {
        let Self { node, labels, annotations, taints, uncordon } = self;
        let taints = (taints != node.spec.taints).then_some(taints);
        if labels.is_empty() && annotations.is_empty() && taints.is_none() && uncordon == Uncordon::No {
            return None;
        }
        Some(Step::Node(NodeEdit {
            name: name.to_owned(),
            uid: node.uid(),
            resource_version: taints.as_ref().map(|_| node.resource_version().to_owned()),
            labels,
            annotations,
            taints,
            uncordon,
        }))
    }
}

/// Whether the machine controller or the node agent is at work, or has an answer that is still to be dealt with.
fn is_being_updated(node: &NodeView, machine: &Machine) -> bool {
    let under_way = [in_place::SELECTED, in_place::DRAINED, in_place::READY_FOR_UPDATE, in_place::FAILED];
    let phases =
        [MachinePhase::InPlaceUpdating, MachinePhase::InPlaceUpdateSuccessful, MachinePhase::InPlaceUpdateFailed];
    node.condition(in_place::TYPE).is_some_and(|condition| under_way.contains(&&*condition.reason))
        || phases.contains(machine.phase())
        || !update_result(node).is_unset()
}

/// What the node agent said of the node's update.
pub(super) fn update_result(node: &NodeView) -> UpdateResult {
    node.label(labels::UPDATE_RESULT).map_or(UpdateResult::Unset, Into::into)
}

fn outgoing() -> Taint {
    Taint {
        key: taints::PREFER_NO_SCHEDULE.to_owned(),
        value: taints::PREFER_NO_SCHEDULE_VALUE.to_owned(),
        effect: TaintEffect::PreferNoSchedule,
        ..Taint::default()
    }
}

fn starting() -> Taint {
    Taint { key: taints::CRITICAL_COMPONENTS.to_owned(), effect: TaintEffect::NoSchedule, ..Taint::default() }
}
