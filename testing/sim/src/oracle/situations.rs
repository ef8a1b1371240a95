//! The situations that a run contained.
//!
//! A run verifies an invariant only if it contains the situation of the invariant. So the situations are counted and
//! printed.

use std::collections::BTreeSet;

use api::names::labels;
use serde_json::Value;

use super::machines::label;
use super::{DEPLOYMENTS, MACHINES, Oracle, SETS, Write, begins_deletion, number, owner, text};

/// A situation that an invariant is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Situation {
    /// A rollout is in progress, or begins, while its MachineDeployment is paused.
    PausedRollout,
    /// A MachineDeployment is made smaller while several of its MachineSets have replicas.
    ScaledDownInRollout,
    /// A rolling update shrinks a MachineSet while another has replicas.
    RollingUpdate,
    /// A MachineDeployment with the strategy Recreate gets another template while it has Machines.
    RecreateRollout,
    /// A Node is selected for an in-place update.
    InPlaceUpdate,
    /// Two Machines of a MachineDeployment are unhealthy at the same time.
    SeveralUnhealthy,
    /// A MachineSet with a preserved Machine deletes one because it has too many.
    PreservedVictim,
    /// A Machine is deleted whose Node has two pods with volumes.
    TwoVolumePods,
    /// A Machine is deleted whose Node has a pod of a DaemonSet.
    DaemonSetPod,
    /// A Machine is deleted whose Node has a mirror pod.
    MirrorPod,
    /// A VM has no Machine.
    OrphanVm,
    /// A Machine has two VMs.
    TwoVms,
    /// A bootstrap token was created.
    BootstrapToken,
    /// The node template of a MachineDeployment with Machines was changed.
    TemplateEdited,
}

impl Situation {
    /// All situations.
    pub const ALL: [Self; 14] = [
        Self::PausedRollout,
        Self::ScaledDownInRollout,
        Self::RollingUpdate,
        Self::RecreateRollout,
        Self::InPlaceUpdate,
        Self::SeveralUnhealthy,
        Self::PreservedVictim,
        Self::TwoVolumePods,
        Self::DaemonSetPod,
        Self::MirrorPod,
        Self::OrphanVm,
        Self::TwoVms,
        Self::BootstrapToken,
        Self::TemplateEdited,
    ];

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::PausedRollout => "paused-rollout",
            Self::ScaledDownInRollout => "scaled-down-in-rollout",
            Self::RollingUpdate => "rolling-update",
            Self::RecreateRollout => "recreate-rollout",
            Self::InPlaceUpdate => "in-place-update",
            Self::SeveralUnhealthy => "several-unhealthy",
            Self::PreservedVictim => "preserved-victim",
            Self::TwoVolumePods => "two-volume-pods-on-a-node",
            Self::DaemonSetPod => "daemonset-pod-in-drain",
            Self::MirrorPod => "mirror-pod-in-drain",
            Self::OrphanVm => "orphan-vm",
            Self::TwoVms => "two-vms-of-a-machine",
            Self::BootstrapToken => "bootstrap-token",
            Self::TemplateEdited => "node-template-edited",
        }
    }
}

/// The situations of a run.
pub type Situations = BTreeSet<Situation>;

impl Oracle {
    /// Records the situations that a write creates. It is called before the write is recorded elsewhere.
    pub(super) fn note_situations(&mut self, write: &Write<'_>) {
        let found: Vec<Situation> = match write.kind {
            DEPLOYMENTS => self.of_deployment(write),
            SETS => self.of_set(write).into_iter().collect(),
            MACHINES => self.of_machine(write),
            "nodes" => {
                let selected = |node: &Value| !label(node, labels::SELECTED_FOR_UPDATE).is_empty();
                let is_selected = write.by.is_controller() && write.after.is_some_and(selected);
                is_selected.then_some(Situation::InPlaceUpdate).into_iter().collect()
            }
            _ => return,
        };
        self.situations.extend(found);
        if !self.tokens.is_empty() {
            self.situations.insert(Situation::BootstrapToken);
        }
    }

    /// Returns the MachineSets of a MachineDeployment that have replicas.
    fn active_sets<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = &'a str> {
        let sets = self.machines.sets.iter().filter(move |(_, set)| set.deployment == pool);
        let is_active =
            |set: &super::machines::Set| set.specs.now().is_some_and(|spec| spec.replicas > 0 && !spec.deleting);
        sets.filter(move |(_, set)| is_active(set)).map(|(name, _)| name.as_str())
    }

    fn of_deployment(&self, write: &Write<'_>) -> Vec<Situation> {
        let (Some(before), Some(after)) = (write.before, write.after) else { return Vec::new() };
        let differs = |pointer| before.pointer(pointer) != after.pointer(pointer);
        let is_paused = after.pointer("/spec/paused") == Some(&Value::Bool(true));
        let rolls = differs("/spec/template/spec/class");
        let several = self.active_sets(write.name).count() > 1;
        let has_machines = self.machines.of_deployment(write.name).next().is_some();
        let shrinks = number(after, "/spec/replicas") < number(before, "/spec/replicas");
        [
            (is_paused && (rolls || several), Situation::PausedRollout),
            (several && shrinks, Situation::ScaledDownInRollout),
            (rolls && has_machines && text(after, "/spec/strategy/type") == "Recreate", Situation::RecreateRollout),
            (has_machines && differs("/spec/template/spec/nodeTemplate"), Situation::TemplateEdited),
        ]
        .into_iter()
        .filter_map(|(is_so, situation)| is_so.then_some(situation))
        .collect()
    }

    fn of_set(&self, write: &Write<'_>) -> Option<Situation> {
        let (before, after) = (write.before?, write.after?);
        let shrinks = number(after, "/spec/replicas") < number(before, "/spec/replicas");
        let pool = self.machines.deployments.get(owner(after)).filter(|pool| pool.is_rolling());
        let others = self.active_sets(owner(after)).any(|set| set != write.name);
        (pool.is_some() && shrinks && others).then_some(Situation::RollingUpdate)
    }

    fn of_machine(&self, write: &Write<'_>) -> Vec<Situation> {
        let Some(machine) = self.machines.known.get(write.name) else { return Vec::new() };
        let mut found = Vec::new();
        let is_unknown = |object: &Value| text(object, "/status/currentStatus/phase") == "Unknown";
        if write.after.is_some_and(is_unknown) {
            let pool = self.machines.sets.get(&machine.set).map_or("", |set| &set.deployment);
            let others = self.machines.of_deployment(pool).filter(|(name, _)| *name != write.name);
            let unhealthy =
                |machine: &super::machines::Machine| machine.phase.now().is_some_and(|phase| phase == "Unknown");
            if others.into_iter().any(|(_, machine)| unhealthy(machine)) {
                found.push(Situation::SeveralUnhealthy);
            }
        }
        if begins_deletion(write) {
            found.extend(self.pods.situations(&machine.node));
            let is_preserved = |rank: Option<&super::order::Rank>| rank.is_some_and(super::order::Rank::is_preserved);
            let others = self.machines.living_of_set(&machine.set);
            if write.by.is_controller() && others.into_iter().any(|(_, other)| is_preserved(other.rank.now())) {
                found.push(Situation::PreservedVictim);
            }
        }
        found
    }
}
