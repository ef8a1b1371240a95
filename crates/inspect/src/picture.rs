//! All pools of a namespace as a grid with one cell per Machine, for the web view.
//!
//! The grid is updated several times per second, so no planner runs here, and updates contain only the changes
//! ([`changes`]). It contains names, phases and numbers, so viewers need no permission to read the objects.

use std::collections::BTreeMap;

use api::names::{annotations, labels};
use api::{ConditionStatus, Machine, MachineDeployment, MachineSet, Object};
use jiff::Timestamp;
use planner::deployment::same_template;
use serde::Serialize;

use crate::Snapshot;
use crate::explain::Explained;

/// The grid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Picture {
    /// The namespace.
    pub namespace: String,
    /// MachineDeployments, then MachineSets without one, then Machines without a MachineSet; each sorted by name.
    pub pools: Vec<Pool>,
    /// All machines, by name.
    pub machines: BTreeMap<String, Cell>,
}

/// Machines of one MachineDeployment or MachineSet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// `machinedeployment` or `machineset`, as in `explain`; `None` for Machines without a MachineSet.
    pub kind: Option<&'static str>,
    /// Name.
    pub name: String,
    /// Desired number of Machines.
    pub replicas: i32,
    /// Update strategy; empty for a MachineSet.
    pub strategy: String,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether it is frozen.
    pub frozen: bool,
    /// MachineSets, old ones first.
    pub sets: Vec<Group>,
}

/// The machines of one set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// Name; empty for Machines without a MachineSet.
    pub name: String,
    /// MachineClass of the Machines.
    pub class: String,
    /// Revision.
    pub revision: String,
    /// Whether its template is the deployment's.
    pub current: bool,
    /// Desired number of Machines.
    pub replicas: i32,
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// MachineSet; empty if there is none.
    pub set: String,
    /// Phase; empty before the first status update.
    pub phase: String,
    /// Start of the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Node name, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// Differences between two grids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes<'a> {
    /// The pools, if anything about them has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pools: Option<&'a [Pool]>,
    /// New or changed Machines.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub machines: BTreeMap<&'a str, &'a Cell>,
    /// Deleted Machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<&'a str>,
}

impl Changes<'_> {
    /// Returns whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pools.is_none() && self.machines.is_empty() && self.gone.is_empty()
    }
}

/// Returns the changes between two grids.
#[must_use]
pub fn changes<'a>(before: &'a Picture, now: &'a Picture) -> Changes<'a> {
    let differs = |(name, cell): &(&String, &Cell)| before.machines.get(*name) != Some(cell);
    let is_gone = |name: &&String| !now.machines.contains_key(*name);
    Changes {
        pools: (before.pools != now.pools).then_some(now.pools.as_slice()),
        machines: now.machines.iter().filter(differs).map(|(name, cell)| (name.as_str(), cell)).collect(),
        gone: before.machines.keys().filter(is_gone).map(String::as_str).collect(),
    }
}

/// Builds the grid.
#[must_use]
pub fn of(snapshot: &Snapshot) -> Picture {
    let mut by_deployment: BTreeMap<&str, Vec<&MachineSet>> = BTreeMap::new();
    let mut alone: Vec<&MachineSet> = Vec::new();
    for set in &snapshot.sets.readable {
        match snapshot.deployment_of(set) {
            Some(deployment) => by_deployment.entry(deployment.name()).or_default().push(set),
            None => alone.push(set),
        }
    }
    let sets: BTreeMap<_, _> =
        snapshot.sets.readable.iter().map(|set| (set.uid().as_str().to_owned(), set.name())).collect();
    let machines: BTreeMap<String, Cell> =
        snapshot.machines.readable.iter().map(|machine| (machine.name().to_owned(), cell(machine, &sets))).collect();
    let mut deployments: Vec<Pool> = snapshot
        .deployments
        .readable
        .iter()
        .map(|deployment| of_deployment(deployment, by_deployment.remove(deployment.name()).unwrap_or_default()))
        .collect();
    deployments.sort_by(|a, b| a.name.cmp(&b.name));
    let mut without: Vec<Pool> = alone.into_iter().map(of_set).collect();
    without.sort_by(|a, b| a.name.cmp(&b.name));
    let standalone = machines.values().filter(|cell| cell.set.is_empty()).count();
    let pools = deployments.into_iter().chain(without).chain((standalone > 0).then(standalone_pool)).collect();
    Picture { namespace: snapshot.namespace.clone(), pools, machines }
}

fn of_deployment(deployment: &MachineDeployment, sets: Vec<&MachineSet>) -> Pool {
    let mut groups: Vec<Group> =
        sets.into_iter().map(|set| group(set, same_template(&deployment.spec.template, &set.spec.template))).collect();
    groups.sort_by(|a, b| {
        a.current.cmp(&b.current).then_with(|| revision(a).cmp(&revision(b))).then_with(|| a.name.cmp(&b.name))
    });
    let condition = deployment.status.conditions.iter().any(|condition| {
        condition.kind == api::names::conditions::deployment::FROZEN && condition.status == ConditionStatus::True
    });
    Pool {
        kind: Some(Explained::MachineDeployment.word()),
        name: deployment.name().to_owned(),
        replicas: deployment.spec.replicas,
        strategy: deployment.spec.strategy.kind.as_str().to_owned(),
        paused: deployment.spec.paused,
        frozen: condition || deployment.label(labels::FREEZE) == Some(labels::FREEZE_VALUE),
        sets: groups,
    }
}

fn of_set(set: &MachineSet) -> Pool {
    Pool {
        kind: Some(Explained::MachineSet.word()),
        name: set.name().to_owned(),
        replicas: set.spec.replicas,
        strategy: String::new(),
        paused: false,
        frozen: set.label(labels::FREEZE) == Some(labels::FREEZE_VALUE),
        sets: vec![group(set, true)],
    }
}

/// Returns the pool of Machines without a MachineSet.
fn standalone_pool() -> Pool {
    let group =
        Group { name: String::new(), class: String::new(), revision: String::new(), current: true, replicas: 0 };
    Pool {
        kind: None,
        name: "machines without a set".to_owned(),
        replicas: 0,
        strategy: String::new(),
        paused: false,
        frozen: false,
        sets: vec![group],
    }
}

fn group(set: &MachineSet, current: bool) -> Group {
    Group {
        name: set.name().to_owned(),
        class: set.spec.template.spec.class.name.clone(),
        revision: set.annotation(annotations::REVISION).unwrap_or_default().to_owned(),
        current,
        replicas: set.spec.replicas,
    }
}

/// Returns the revision as a number.
fn revision(group: &Group) -> u64 {
    group.revision.parse().unwrap_or_default()
}

fn cell(machine: &Machine, sets: &BTreeMap<String, &str>) -> Cell {
    let status = &machine.status.current_status;
    let owner = machine.controller_uid().and_then(|uid| sets.get(uid));
    Cell {
        set: owner.map(|set| (*set).to_owned()).unwrap_or_default(),
        phase: if machine.is_deleting() { "Terminating".to_owned() } else { status.phase.as_str().to_owned() },
        since: status.last_update_time.map(api::Time::timestamp),
        node: machine.node_name().map(|node| node.to_string()),
    }
}
