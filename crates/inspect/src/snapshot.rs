//! The objects from which answers are computed, as read at one time.
//!
//! A read may be incomplete: a list may be forbidden, or an object cannot be decoded. Neither means that the object
//! does not exist, so each kind records what is missing and why.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use api::view::{NodeView, PodDisruptionBudgetView, PodView, VolumeAttachmentView};
use api::{Machine, MachineClass, MachineDeployment, MachineSet, Object, TextMap, Uid};
use jiff::Timestamp;
use planner::Presence;

use crate::leader::Lease;
use crate::process::Process;

/// Everything that was read.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Namespace in the control cluster.
    pub namespace: String,
    /// Its MachineDeployments.
    pub deployments: Kind<MachineDeployment>,
    /// Its MachineSets.
    pub sets: Kind<MachineSet>,
    /// Its Machines.
    pub machines: Kind<Machine>,
    /// Its MachineClasses.
    pub classes: Kind<MachineClass>,
    /// Secrets that its MachineClasses name, by `namespace/name`.
    pub secrets: BTreeMap<String, Secret>,
    /// Leases of the components.
    pub leases: Vec<Lease>,
    /// State of the leader process.
    pub process: Process,
    /// The target cluster.
    pub target: Target,
    /// When it was read.
    pub now: Timestamp,
    /// Index, built on first use: looking up thousands of Nodes for thousands of Machines would be slow.
    pub index: Index,
}

/// Index of the objects. Objects must not change after its first use.
#[derive(Clone, Debug, Default)]
pub struct Index {
    nodes: OnceLock<BTreeMap<String, usize>>,
    machines_by_node: OnceLock<BTreeMap<String, Vec<Arc<Machine>>>>,
    machines_by_vm: OnceLock<BTreeMap<String, Vec<Arc<Machine>>>>,
}

/// The objects of one kind.
#[derive(Clone, Debug)]
pub struct Kind<K> {
    /// Decoded objects.
    pub readable: Vec<Arc<K>>,
    /// Objects that cannot be decoded.
    pub unreadable: Vec<Unreadable>,
    /// Why the kind could not be listed; then no object is known to be absent.
    pub refused: Option<String>,
}

/// An object that cannot be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: Uid,
    /// The version that was read.
    pub resource_version: String,
    /// Labels with string values.
    pub labels: TextMap,
    /// The owner that manages it.
    pub owner: Option<Uid>,
    /// Whether deletion was requested.
    pub deleting: bool,
    /// Why it cannot be decoded; never holds a value of it.
    pub error: String,
}

/// A Secret. Values are never kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// The Secret has these keys.
    Keys(Vec<String>),
    /// It does not exist.
    Missing,
    /// The Secret could not be read; the text is the reason.
    NotRead(String),
}

/// The target cluster.
#[derive(Clone, Debug, Default)]
pub enum Target {
    /// There is none, or it was not read.
    #[default]
    None,
    /// The objects.
    Cluster(Box<Cluster>),
}

/// Objects of the target cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Its Nodes.
    pub nodes: Kind<NodeView>,
    /// Pods of nodes that are being drained, by node; `None` if the pods of the Node were not listed.
    pub pods: BTreeMap<String, Kind<PodView>>,
    /// Its disruption budgets, if listed.
    pub budgets: Option<Kind<PodDisruptionBudgetView>>,
    /// Its VolumeAttachments, if listed.
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

    /// Looks up an object by name.
    pub fn look_up(&self, name: &str) -> Presence<&Arc<K>> {
        if let Some(object) = self.readable.iter().find(|object| object.name() == name) {
            return Presence::Present(object);
        }
        if self.unreadable.iter().any(|object| object.name == name) {
            return Presence::Undecodable(());
        }
        Presence::Absent
    }

    /// Returns the objects that the owner with this uid manages.
    pub fn of_owner<'a>(&'a self, owner: &'a str) -> impl Iterator<Item = &'a Arc<K>> {
        self.readable.iter().filter(move |object| object.controller_uid() == Some(owner))
    }

    /// Returns the objects without a controller.
    pub fn orphans(&self) -> impl Iterator<Item = &Arc<K>> {
        self.readable.iter().filter(|object| object.controller_uid().is_none())
    }

    /// Returns the undecodable objects that are managed by the owner with this uid.
    pub fn unreadable_of<'a>(&'a self, owner: &'a str) -> impl Iterator<Item = &'a Unreadable> {
        self.unreadable.iter().filter(move |object| object.owner.as_ref().is_some_and(|found| found.as_str() == owner))
    }
}

impl Snapshot {
    /// Returns the target cluster, if it was read.
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
                let indices = cluster.nodes.readable.iter().enumerate();
                indices.map(|(index, node)| (node.name().to_owned(), index)).collect()
            });
            let found = nodes.get(name.as_str()).and_then(|index| cluster.nodes.readable.get(*index));
            found.map_or_else(|| cluster.nodes.look_up(name.as_str()), Presence::Present)
        });
        let names_it = |node: &&Arc<NodeView>| node.label(api::names::labels::MACHINE_NAME) == Some(machine.name());
        planner::node::select(machine, labelled, || cluster.nodes.readable.iter().filter(names_it).collect())
    }

    /// Returns the Machines that name a Node.
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

    /// Returns the MachineSet of a Machine, if it exists.
    pub fn set_of(&self, machine: &Machine) -> Option<&Arc<MachineSet>> {
        let owner = machine.controller_owner()?;
        self.sets.readable.iter().find(|set| set.uid() == owner.uid.as_str())
    }

    /// Returns the MachineDeployment of a MachineSet, if it exists.
    pub fn deployment_of(&self, set: &MachineSet) -> Option<&Arc<MachineDeployment>> {
        let owner = set.controller_owner()?;
        self.deployments.readable.iter().find(|deployment| deployment.uid() == owner.uid.as_str())
    }
}
