//! The objects that answers are computed from, as one read found them.
//!
//! A read may be incomplete: a role may not allow to list classes, or one object cannot be decoded. Neither must look like absence, so each
//! kind says what it does not hold and why.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use api::view::{NodeView, PodDisruptionBudgetView, PodView, VolumeAttachmentView};
use api::{Machine, MachineClass, MachineDeployment, MachineSet, Object, TextMap, Uid};
use jiff::Timestamp;
use planner::Presence;

use crate::leader::Lease;
use crate::process::Process;

/// All that was read.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The namespace of the control cluster.
    pub namespace: String,
    /// Its MachineDeployments.
    pub deployments: Kind<MachineDeployment>,
    /// Its MachineSets.
    pub sets: Kind<MachineSet>,
    /// Its Machines.
    pub machines: Kind<Machine>,
    /// Its MachineClasses.
    pub classes: Kind<MachineClass>,
    /// What is known of the Secrets that its classes name, by `namespace/name`.
    pub secrets: BTreeMap<String, Secret>,
    /// The leases of the two components, as far as they could be read.
    pub leases: Vec<Lease>,
    /// What the leader told of what is in no object.
    pub process: Process,
    /// The cluster that nodes join.
    pub target: Target,
    /// When all of it was read.
    pub now: Timestamp,
    /// What is looked up for each machine, made when it is first needed: thousands of machines would look through thousands of nodes.
    pub index: Index,
}

/// Where objects are found. Begins empty; objects must not be exchanged once it was used.
#[derive(Clone, Debug, Default)]
pub struct Index {
    nodes: OnceLock<BTreeMap<String, usize>>,
    machines_by_node: OnceLock<BTreeMap<String, Vec<Arc<Machine>>>>,
    machines_by_vm: OnceLock<BTreeMap<String, Vec<Arc<Machine>>>>,
}

/// The objects of one kind.
#[derive(Clone, Debug)]
pub struct Kind<K> {
    /// Those that can be read.
    pub readable: Vec<Arc<K>>,
    /// Those that are there and cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Why the kind could not be read at all; then nothing is known to be absent.
    pub refused: Option<String>,
}

/// An object that cannot be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: Uid,
    /// The version that was read.
    pub resource_version: String,
    /// Its labels, as far as they are text.
    pub labels: TextMap,
    /// The owner that manages it.
    pub owner: Option<Uid>,
    /// Whether its deletion was asked for.
    pub deleting: bool,
    /// Why it cannot be decoded; never holds a value of it.
    pub error: String,
}

/// What is known of a Secret. Values are never held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// It has these keys.
    Keys(Vec<String>),
    /// It does not exist.
    Missing,
    /// It could not be read; the sentence says why.
    NotRead(String),
}

/// The cluster that nodes join.
#[derive(Clone, Debug, Default)]
pub enum Target {
    /// There is none, or nobody looked.
    #[default]
    None,
    /// What was read of it.
    Cluster(Box<Cluster>),
}

/// What was read of the cluster that nodes join.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Its Nodes.
    pub nodes: Kind<NodeView>,
    /// Pods of nodes that are being drained, by node; `None` for a node whose pods were not asked for.
    pub pods: BTreeMap<String, Kind<PodView>>,
    /// Its disruption budgets, where somebody asked.
    pub budgets: Option<Kind<PodDisruptionBudgetView>>,
    /// Its VolumeAttachments, where somebody asked.
    pub attachments: Option<Kind<VolumeAttachmentView>>,
}

impl<K> Default for Kind<K> {
    fn default() -> Self {
        Self { readable: Vec::new(), unreadable: Vec::new(), refused: None }
    }
}

impl<K> FromIterator<K> for Kind<K> {
    fn from_iter<I: IntoIterator<Item = K>>(objects: I) -> Self {
        Self { readable: objects.into_iter().map(Arc::new).collect(), ..Self::default() }
    }
}

impl<K: Object> Kind<K> {
    /// A kind that could not be read, and why.
    pub fn refused(why: String) -> Self {
        Self { refused: Some(why), ..Self::default() }
    }

    /// What is known under this name.
    pub fn look_up(&self, name: &str) -> Presence<&Arc<K>> {
        if let Some(object) = self.readable.iter().find(|object| object.name() == name) {
            return Presence::Present(object);
        }
        if self.unreadable.iter().any(|object| object.name == name) {
            return Presence::Undecodable(());
        }
        Presence::Absent
    }

    /// Those that the owner with this uid manages.
    pub fn of_owner<'a>(&'a self, owner: &'a str) -> impl Iterator<Item = &'a Arc<K>> {
        self.readable.iter().filter(move |object| object.controller_uid() == Some(owner))
    }

    /// Those that nobody manages.
    pub fn orphans(&self) -> impl Iterator<Item = &Arc<K>> {
        self.readable.iter().filter(|object| object.controller_uid().is_none())
    }

    /// Those that cannot be read and are managed by the owner with this uid.
    pub fn unreadable_of<'a>(&'a self, owner: &'a str) -> impl Iterator<Item = &'a Unreadable> {
        self.unreadable.iter().filter(move |object| object.owner.as_ref().is_some_and(|found| found.as_str() == owner))
    }
}

impl Snapshot {
    /// The cluster that nodes join, if it was read.
    pub fn cluster(&self) -> Option<&Cluster> {
        match &self.target {
            Target::None => None,
            Target::Cluster(cluster) => Some(cluster),
        }
    }

    /// The Node of a Machine, as the controllers select it.
    pub fn node_of(&self, machine: &Machine) -> Presence<&Arc<NodeView>> {
        let Some(cluster) = self.cluster() else { return Presence::Absent };
        let labelled = machine.node_name().map(|name| {
            let nodes = self.index.nodes.get_or_init(|| {
                let places = cluster.nodes.readable.iter().enumerate();
                places.map(|(place, node)| (node.name().to_owned(), place)).collect()
            });
            let found = nodes.get(name.as_str()).and_then(|place| cluster.nodes.readable.get(*place));
            found.map_or_else(|| cluster.nodes.look_up(name.as_str()), Presence::Present)
        });
        let names_it = |node: &&Arc<NodeView>| node.label(api::names::labels::MACHINE_NAME) == Some(machine.name());
        planner::node::select(machine, labelled, || cluster.nodes.readable.iter().filter(names_it).collect())
    }

    /// The machines that name a node.
    pub fn machines_on(&self, node: &str) -> &[Arc<Machine>] {
        let by_node = self.index.machines_by_node.get_or_init(|| {
            let mut by_node: BTreeMap<String, Vec<Arc<Machine>>> = BTreeMap::new();
            for machine in &self.machines.readable {
                if let Some(node) = machine.node_name() {
                    by_node.entry(node.to_string()).or_default().push(Arc::clone(machine));
                }
            }
            by_node
        });
        by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// The Machines whose `spec.providerID` names this VM.
    pub fn machines_with_vm(&self, vm: &str) -> &[Arc<Machine>] {
        let by_vm = self.index.machines_by_vm.get_or_init(|| {
            let mut by_vm: BTreeMap<String, Vec<Arc<Machine>>> = BTreeMap::new();
            for machine in self.machines.readable.iter().filter(|machine| !machine.spec.provider_id.is_empty()) {
                by_vm.entry(machine.spec.provider_id.to_string()).or_default().push(Arc::clone(machine));
            }
            by_vm
        });
        by_vm.get(vm).map_or(&[], Vec::as_slice)
    }

    /// The set that manages a machine, if it is there.
    pub fn set_of(&self, machine: &Machine) -> Option<&Arc<MachineSet>> {
        let owner = machine.controller_owner()?;
        self.sets.readable.iter().find(|set| set.uid() == owner.uid.as_str())
    }

    /// The deployment that manages a set, if it is there.
    pub fn deployment_of(&self, set: &MachineSet) -> Option<&Arc<MachineDeployment>> {
        let owner = set.controller_owner()?;
        self.deployments.readable.iter().find(|deployment| deployment.uid() == owner.uid.as_str())
    }
}
