//! All pools of a namespace as a tree: MachineDeployment, MachineSet, Machine, Node, VM.
//!
//! Healthy Machines are folded into one line. Other Machines are shown with reason, awaited event and deadline.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::names::{annotations, labels};
use api::{ConditionStatus, Machine, MachineDeployment, MachineSet, Object};
use jiff::Timestamp;
use planner::Presence;
use planner::deployment::same_template;
use serde::Serialize;

use crate::leader::Lease;
use crate::words::{age, count};
use crate::{Health, Snapshot, Verdict, machine, manager};

mod text;

pub use text::{Fold, Paint, render};

/// The tree of a namespace.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tree {
    /// The namespace.
    pub namespace: String,
    /// When the objects were read.
    pub at: Timestamp,
    /// Remarks about the namespace: no leader, kinds that could not be read.
    pub remarks: Vec<String>,
    /// The deployments.
    pub machine_deployments: Vec<DeploymentBranch>,
    /// Sets without a deployment.
    pub machine_sets: Vec<SetBranch>,
    /// Machines without a set.
    pub machines: Vec<MachineLeaf>,
}

/// A deployment and its sets.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentBranch {
    /// Name.
    pub name: String,
    /// Desired number of Machines.
    pub replicas: i32,
    /// Number of Running Machines.
    pub ready: i32,
    /// Number of Machines with the current template.
    pub updated: i32,
    /// Number of existing Machines.
    pub present: i32,
    /// Revision.
    pub revision: String,
    /// Update strategy.
    pub strategy: String,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether it is frozen.
    pub frozen: bool,
    /// Creation time.
    pub created: Option<Timestamp>,
    /// State.
    pub verdict: Verdict,
    /// MachineSets, the current one first.
    pub sets: Vec<SetBranch>,
}

/// A set and its machines.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetBranch {
    /// Name.
    pub name: String,
    /// Whether its template is the deployment's.
    pub current: bool,
    /// Revision.
    pub revision: String,
    /// MachineClass of the Machines.
    pub class: String,
    /// Desired number of Machines.
    pub replicas: i32,
    /// Whether it is frozen.
    pub frozen: bool,
    /// State.
    pub verdict: Verdict,
    /// Machines.
    pub machines: Vec<MachineLeaf>,
    /// Names of Machines that cannot be decoded.
    pub unreadable: Vec<String>,
}

/// A machine, its node and its VM.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineLeaf {
    /// Name.
    pub name: String,
    /// Phase; empty before the first status update.
    pub phase: String,
    /// Start of the phase.
    pub since: Option<Timestamp>,
    /// Creation time.
    pub created: Option<Timestamp>,
    /// Whether deletion was requested.
    pub deleting: bool,
    /// Node.
    pub node: Option<NodeLeaf>,
    /// Provider ID, if recorded.
    pub vm: Option<String>,
    /// Description of the last operation, if it failed.
    pub last_operation: Option<String>,
    /// State.
    pub verdict: Verdict,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeLeaf {
    /// Name.
    pub name: String,
    /// Readiness in a few words.
    pub state: &'static str,
}

/// Builds the tree. With names, only of these MachineDeployments; the error names one that does not exist.
pub fn of(snapshot: &Snapshot, only: &[String]) -> Result<Tree, String> {
    for name in only {
        if matches!(snapshot.deployments.look_up(name), Presence::Absent) {
            return Err(format!("there is no MachineDeployment {name:?} in namespace {:?}", snapshot.namespace));
        }
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
    let deployments = snapshot.deployments.readable.iter().filter(|deployment| wanted(deployment.name()));
    let mut tree = Tree {
        namespace: snapshot.namespace.clone(),
        at: snapshot.now,
        remarks: remarks(snapshot),
        machine_deployments: deployments.map(|deployment| deployment_branch(snapshot, deployment)).collect(),
        machine_sets: Vec::new(),
        machines: Vec::new(),
    };
    tree.machine_deployments.sort_by(|a, b| a.name.cmp(&b.name));
    let not_fine = |branch: &DeploymentBranch| branch.health() != Health::Healthy;
    if tree.machine_deployments.iter().any(not_fine) {
        tree.remarks.extend(snapshot.leases.iter().filter_map(Lease::unknown_leader));
    }
    if only.is_empty() {
        let alone = |set: &&Arc<MachineSet>| snapshot.deployment_of(set).is_none();
        tree.machine_sets =
            snapshot.sets.readable.iter().filter(alone).map(|set| set_branch(snapshot, set, None)).collect();
        let alone = |machine: &&Arc<Machine>| snapshot.set_of(machine).is_none();
        tree.machines =
            snapshot.machines.readable.iter().filter(alone).map(|machine| leaf(snapshot, machine)).collect();
    }
    Ok(tree)
}

/// Returns the remarks about the namespace.
fn remarks(snapshot: &Snapshot) -> Vec<String> {
    let mut remarks: Vec<String> = snapshot
        .leases
        .iter()
        .filter_map(|lease| lease.missing_leader(snapshot.now))
        .map(|why| format!("no leader: {why}"))
        .collect();
    let refused = [
        ("classes", &snapshot.classes.refused),
        ("nodes", snapshot.cluster().map_or(&None, |cluster| &cluster.nodes.refused)),
    ];
    for (kind, why) in refused {
        remarks.extend(why.as_ref().map(|why| format!("failed to list {kind}: {why}")));
    }
    let unreadable = [
        ("MachineDeployment", &snapshot.deployments.unreadable),
        ("MachineSet", &snapshot.sets.unreadable),
        ("Machine", &snapshot.machines.unreadable),
        ("MachineClass", &snapshot.classes.unreadable),
    ];
    for (kind, objects) in unreadable {
        for object in objects {
            remarks.push(format!("failed to decode {kind} {:?}: {}", object.name, object.error));
        }
    }
    remarks
}

fn deployment_branch(snapshot: &Snapshot, deployment: &Arc<MachineDeployment>) -> DeploymentBranch {
    let uid = deployment.uid();
    let mut sets: Vec<SetBranch> =
        snapshot.sets.of_owner(uid.as_str()).map(|set| set_branch(snapshot, set, Some(deployment))).collect();
    sets.sort_by(|a, b| {
        b.current
            .cmp(&a.current)
            .then_with(|| b.revision.len().cmp(&a.revision.len()))
            .then_with(|| b.revision.cmp(&a.revision))
    });
    let status = &deployment.status;
    let frozen = status.conditions.iter().any(|condition| {
        condition.kind == api::names::conditions::deployment::FROZEN && condition.status == ConditionStatus::True
    });
    DeploymentBranch {
        name: deployment.name().to_owned(),
        replicas: deployment.spec.replicas,
        ready: status.ready_replicas,
        updated: status.updated_replicas,
        present: status.replicas,
        revision: deployment.annotation(annotations::REVISION).unwrap_or_default().to_owned(),
        strategy: deployment.spec.strategy.kind.as_str().to_owned(),
        paused: deployment.spec.paused,
        frozen: frozen || is_frozen(deployment.label(labels::FREEZE)),
        created: deployment.created_at(),
        verdict: manager::deployment(snapshot, deployment),
        sets,
    }
}

fn is_frozen(label: Option<&str>) -> bool {
    label == Some(labels::FREEZE_VALUE)
}

fn set_branch(snapshot: &Snapshot, set: &Arc<MachineSet>, deployment: Option<&Arc<MachineDeployment>>) -> SetBranch {
    let uid = set.uid();
    let mut machines: Vec<MachineLeaf> =
        snapshot.machines.of_owner(uid.as_str()).map(|machine| leaf(snapshot, machine)).collect();
    machines.sort_by(|a, b| b.verdict.health.cmp(&a.verdict.health).then_with(|| a.name.cmp(&b.name)));
    SetBranch {
        name: set.name().to_owned(),
        current: deployment.is_none_or(|deployment| same_template(&deployment.spec.template, &set.spec.template)),
        revision: set.annotation(annotations::REVISION).unwrap_or_default().to_owned(),
        class: set.spec.template.spec.class.name.clone(),
        replicas: set.spec.replicas,
        frozen: is_frozen(set.label(labels::FREEZE)),
        verdict: manager::set(snapshot, set),
        machines,
        unreadable: snapshot.machines.unreadable_of(uid.as_str()).map(|machine| machine.name.clone()).collect(),
    }
}

/// One machine.
pub(crate) fn leaf(snapshot: &Snapshot, seen: &Arc<Machine>) -> MachineLeaf {
    let current = &seen.status.current_status;
    let last = &seen.status.last_operation;
    let failed = last.state == api::OperationState::Failed && !last.description.is_empty();
    MachineLeaf {
        name: seen.name().to_owned(),
        phase: current.phase.as_str().to_owned(),
        since: current.last_update_time.map(api::Time::timestamp),
        created: seen.created_at(),
        deleting: seen.is_deleting(),
        node: node_leaf(snapshot, seen),
        vm: Some(seen.spec.provider_id.to_string()).filter(|id| !id.is_empty()),
        last_operation: failed.then(|| last.description.clone()),
        verdict: machine::verdict(snapshot, seen),
    }
}

fn node_leaf(snapshot: &Snapshot, seen: &Machine) -> Option<NodeLeaf> {
    let named = seen.node_name().map(|name| name.to_string());
    let refused = snapshot.cluster().is_none_or(|cluster| cluster.nodes.refused.is_some());
    Some(match snapshot.node_of(seen) {
        Presence::Present(node) => NodeLeaf {
            name: node.name().to_owned(),
            state: match node.condition_status(api::names::conditions::node::READY) {
                ConditionStatus::True if node.spec.unschedulable => "ready, cordoned",
                ConditionStatus::True => "ready",
                ConditionStatus::Unset => "no condition Ready",
                _ => "not ready",
            },
        },
        Presence::Undecodable(()) => NodeLeaf { name: named?, state: "cannot be decoded" },
        Presence::Absent if refused => NodeLeaf { name: named?, state: "unknown" },
        Presence::Absent => NodeLeaf { name: named?, state: "not registered" },
    })
}

impl MachineLeaf {
    /// Returns the phase.
    pub(crate) fn phase(&self) -> &str {
        if self.phase.is_empty() { "no phase yet" } else { &self.phase }
    }

    pub(crate) fn phase_age(&self, now: Timestamp) -> Option<String> {
        age(self.since.or(self.created), now)
    }
}

impl DeploymentBranch {
    /// Returns the worst health of the object and its children.
    pub(crate) fn health(&self) -> Health {
        self.sets.iter().map(SetBranch::health).fold(self.verdict.health, Ord::max)
    }

    /// Returns the progress of a rollout: running new Machines and remaining old ones.
    #[must_use]
    pub fn rollout(&self) -> Option<(i32, i32)> {
        let old: usize = self.sets.iter().filter(|set| !set.current).map(|set| set.machines.len()).sum();
        let old = i32::try_from(old).unwrap_or(i32::MAX);
        let new: usize = self
            .sets
            .iter()
            .filter(|set| set.current)
            .flat_map(|set| &set.machines)
            .filter(|machine| machine.phase == "Running")
            .count();
        let new = i32::try_from(new).unwrap_or(i32::MAX);
        (old > 0).then_some((new.min(self.replicas), old))
    }
}

impl SetBranch {
    /// Returns the worst health of the object and its children.
    pub(crate) fn health(&self) -> Health {
        let unreadable = if self.unreadable.is_empty() { Health::Healthy } else { Health::NeedsAttention };
        let machines = self.machines.iter().map(|machine| machine.verdict.health);
        machines.fold(self.verdict.health.max(unreadable), Ord::max)
    }

    /// Returns the healthy Machines by phase as a line; `None` if there are none.
    pub(crate) fn folded(&self) -> Option<String> {
        let mut phases: BTreeMap<&str, usize> = BTreeMap::new();
        for machine in self.machines.iter().filter(|machine| machine.verdict.health == Health::Healthy) {
            *phases.entry(machine.phase()).or_default() += 1;
        }
        let parts: Vec<String> =
            phases.iter().map(|(phase, number)| format!("{} {phase}", count(*number, "machine"))).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}
