//! Node changes of a rollout.
//!
//! During a rollout, pods should not be scheduled to Nodes that will be replaced, and the cluster-autoscaler must not
//! remove Nodes. So Nodes of old MachineSets get a `PreferNoSchedule` taint, and all Nodes of the MachineDeployment get
//! an annotation. Both are removed when they no longer apply. All changes of one Node are written together. A user may
//! have set the annotation already ([`crate::node::disable_scale_down`]).

use std::collections::BTreeMap;

use api::names::conditions::in_place;
use api::names::{annotations, labels, taints};
use api::view::NodeView;
use api::{Machine, MachinePhase, Object, Taint, TaintEffect, UpdateResult};

use super::step::Step;
use crate::node::{Draft, allows_scale_down, disable_scale_down};

/// All Node writes of one reconcile, by name. Unchanged Nodes have no draft, because there may be thousands.
#[derive(Debug, Default)]
pub(super) struct NodeDrafts<'a>(BTreeMap<&'a str, Draft<'a>>);

impl<'a> NodeDrafts<'a> {
    fn of(&mut self, node: &'a NodeView) -> &mut Draft<'a> {
        self.0.entry(node.name()).or_insert_with(|| Draft::of(node))
    }

    /// Taints the Node of a Machine that will be replaced.
    pub(super) fn mark_outgoing(&mut self, node: &'a NodeView) {
        let taint = outgoing();
        if !has(&node.spec.taints, &taint) {
            self.of(node).taint(&taint);
        }
    }

    /// Removes the marks from the Node of a Machine that stays. A Node whose update is in progress is not changed until
    /// the node agent has reported a result.
    pub(super) fn mark_staying(&mut self, node: &'a NodeView, machine: &Machine) {
        if !is_being_updated(node, machine) {
            for label in [labels::CANDIDATE_FOR_UPDATE, labels::SELECTED_FOR_UPDATE] {
                if node.label(label).is_some() {
                    self.of(node).label(label, None);
                }
            }
        }
        let taint = outgoing();
        if has(&node.spec.taints, &taint) {
            self.of(node).untaint(&taint);
        }
    }

    /// Disables scale-down of the Node by the cluster-autoscaler, unless the user has disabled it already.
    pub(super) fn disable_scale_down(&mut self, node: &'a NodeView) {
        if allows_scale_down(node) {
            disable_scale_down(self.of(node));
        }
    }

    /// Allows scale-down again if this controller disabled it, except for the Node of a preserved Machine.
    pub(super) fn allow_scale_down(&mut self, node: &'a NodeView, machine: &Machine) {
        let is_own = node.annotation(annotations::SCALE_DOWN_DISABLED_BY_MCM).is_some();
        if is_own && machine.status.current_status.preserve_expiry_time.is_none() {
            let draft = self.of(node);
            draft.annotate(annotations::SCALE_DOWN_DISABLED_BY_MCM, None);
            draft.annotate(annotations::SCALE_DOWN_DISABLED, None);
        }
    }

    /// Marks the Node as a candidate for an in-place update.
    pub(super) fn make_candidate(&mut self, node: &'a NodeView) {
        if node.label(labels::CANDIDATE_FOR_UPDATE) != Some(labels::PRESENT_VALUE) {
            self.of(node).label(labels::CANDIDATE_FOR_UPDATE, Some(labels::PRESENT_VALUE));
        }
    }

    /// Selects the Node for an in-place update now.
    pub(super) fn select(&mut self, node: &'a NodeView) {
        self.of(node).label(labels::SELECTED_FOR_UPDATE, Some(labels::PRESENT_VALUE));
    }

    /// Removes all marks of a completed update. Pods are scheduled to the Node again once its critical components are
    /// ready.
    pub(super) fn restore(&mut self, node: &'a NodeView) {
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

    /// Uncordons the Node of a Machine that was moved to the new MachineSet.
    pub(super) fn uncordon(&mut self, node: &'a NodeView) {
        if node.spec.unschedulable {
            self.of(node).uncordon();
        }
    }

    /// Returns at most this many writes, one per Node, and the number of writes that are left for the next reconcile.
    pub(super) fn steps(self, most: usize) -> (Vec<Step>, usize) {
        let mut steps: Vec<Step> = self.0.into_values().filter_map(step).collect();
        let left = steps.len().saturating_sub(most);
        steps.truncate(most);
        (steps, left)
    }
}

/// The version is a precondition only if taints are written: labels and annotations are exclusive, and the kubelet
/// updates the Node frequently.
fn step(draft: Draft<'_>) -> Option<Step> {
    let write = draft.finish()?;
    Some(Step::Node(if write.taints.is_some() { write } else { write.in_any_version() }))
}

/// Returns whether the taints contain this one, including its value.
fn has(taints: &[Taint], wanted: &Taint) -> bool {
    taints.iter().any(|taint| taint.is_same_as(wanted) && taint.value == wanted.value)
}

/// Returns whether the machine controller or the node agent is updating the Node, or its result is not processed yet.
fn is_being_updated(node: &NodeView, machine: &Machine) -> bool {
    let under_way = [in_place::SELECTED, in_place::DRAINED, in_place::READY_FOR_UPDATE, in_place::FAILED];
    let phases =
        [MachinePhase::InPlaceUpdating, MachinePhase::InPlaceUpdateSuccessful, MachinePhase::InPlaceUpdateFailed];
    node.condition(in_place::TYPE).is_some_and(|condition| under_way.contains(&&*condition.reason))
        || phases.contains(machine.phase())
        || !update_result(node).is_unset()
}

/// The update result that the node agent reported on the Node.
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
