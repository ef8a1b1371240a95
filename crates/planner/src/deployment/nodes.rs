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
use api::{Machine, MachinePhase, Object, Taint, TaintEffect, UpdateResult};

use super::step::Step;
use crate::node::{Draft, is_left_to_autoscaler, keep_from_autoscaler};

/// All node writes of one builder, by name. A node of which nothing is to be said has no draft: there may be thousands.
#[derive(Debug, Default)]
pub(super) struct NodeDrafts<'a>(BTreeMap<&'a str, Draft<'a>>);

impl<'a> NodeDrafts<'a> {
    fn of(&mut self, node: &'a NodeView) -> &mut Draft<'a> {
        self.0.entry(node.name()).or_insert_with(|| Draft::of(node))
    }

    /// Its machine is to be replaced: pods go elsewhere if they can.
    pub(super) fn mark_outgoing(&mut self, node: &'a NodeView) {
        let ours = outgoing();
        if !has(&node.spec.taints, &ours) {
            self.of(node).taint(&ours);
        }
    }

    /// Its machine is to stay: pods are welcome, and it is no longer a candidate for an update that has been called off. One that
    /// is being updated already is left alone until its agent has answered.
    pub(super) fn mark_staying(&mut self, node: &'a NodeView, machine: &Machine) {
        if !is_being_updated(node, machine) {
            for label in [labels::CANDIDATE_FOR_UPDATE, labels::SELECTED_FOR_UPDATE] {
                if node.label(label).is_some() {
                    self.of(node).label(label, None);
                }
            }
        }
        let ours = outgoing();
        if has(&node.spec.taints, &ours) {
            self.of(node).untaint(&ours);
        }
    }

    /// The autoscaler leaves it alone, unless it does so anyway at the user's request.
    pub(super) fn keep_from_autoscaler(&mut self, node: &'a NodeView) {
        if is_left_to_autoscaler(node) {
            keep_from_autoscaler(self.of(node));
        }
    }

    /// The autoscaler may have it again, if it was us who kept it, and not for the sake of a preserved machine.
    pub(super) fn leave_to_autoscaler(&mut self, node: &'a NodeView, machine: &Machine) {
        let ours = node.annotation(annotations::SCALE_DOWN_DISABLED_BY_US).is_some();
        if ours && machine.status.current_status.preserve_expiry_time.is_none() {
            let draft = self.of(node);
            draft.annotate(annotations::SCALE_DOWN_DISABLED_BY_US, None);
            draft.annotate(annotations::SCALE_DOWN_DISABLED, None);
        }
    }

    /// It may be updated in place some time.
    pub(super) fn make_candidate(&mut self, node: &'a NodeView) {
        if node.label(labels::CANDIDATE_FOR_UPDATE) != Some(labels::PRESENT_VALUE) {
            self.of(node).label(labels::CANDIDATE_FOR_UPDATE, Some(labels::PRESENT_VALUE));
        }
    }

    /// It is to be updated in place now.
    pub(super) fn select(&mut self, node: &'a NodeView) {
        self.of(node).label(labels::SELECTED_FOR_UPDATE, Some(labels::PRESENT_VALUE));
    }

    /// It was updated: every trace of the update goes, and pods come back once its system components are up again.
    pub(super) fn give_back(&mut self, node: &'a NodeView) {
        let (outgoing, starting) = (outgoing(), starting());
        let draft = self.of(node);
        for label in [labels::CANDIDATE_FOR_UPDATE, labels::SELECTED_FOR_UPDATE, labels::UPDATE_RESULT] {
            draft.label(label, None);
        }
        draft.annotate(annotations::UPDATE_FAILED_REASON, None);
        if has(draft.taints(), &outgoing) {
            draft.untaint(&outgoing);
        }
        if !draft.taints().iter().any(|taint| taint.is_same_as(&starting)) {
            draft.taint(&starting);
        }
        draft.uncordon();
    }

    /// Its machine has moved to the new set; pods may come.
    pub(super) fn uncordon(&mut self, node: &'a NodeView) {
        if node.spec.unschedulable {
            self.of(node).uncordon();
        }
    }

    /// So many writes, one for each node, and how many had to be left for the next builder.
    pub(super) fn steps(self, most: usize) -> (Vec<Step>, usize) {
        let mut steps: Vec<Step> = self.0.into_values().filter_map(step).collect();
        let left = steps.len().saturating_sub(most);
        steps.truncate(most);
        (steps, left)
    }
}

/// Only taints are rewritten whole; labels and annotations are ours alone, and the kubelet writes all the time.
fn step(draft: Draft<'_>) -> Option<Step> {
    let write = draft.finish()?;
    Some(Step::Node(if write.taints.is_some() { write } else { write.in_any_version() }))
}

/// Whether this very taint is among them, value included.
fn has(taints: &[Taint], ours: &Taint) -> bool {
    taints.iter().any(|taint| taint.is_same_as(ours) && taint.value == ours.value)
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
