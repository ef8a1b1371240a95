//! Indexes of the caches.

use api::names::labels;
use api::view::NodeView;
use api::{Machine, MachineClass, MachineSet, Object};
use planner::node::vm_name;
use planner::replacement_limit;
use runtime::cache::Index;

/// Machines by the Node in their label.
pub const MACHINES_BY_NODE: Index<Machine> = Index::new("machines-by-node", |machine| label(machine, labels::NODE));

/// Machines by the VM in `spec.providerID`, as [`vm_name`] compares it.
pub const MACHINES_BY_VM: Index<Machine> = Index::new("machines-by-vm", |machine| {
    let id = &machine.spec.provider_id;
    if id.is_empty() { Vec::new() } else { vec![vm_name(id)] }
});

/// Machines by the name of their MachineClass.
pub const MACHINES_BY_CLASS: Index<Machine> =
    Index::new("machines-by-class", |machine| vec![machine.spec.class.name.clone()]);

/// Machines by the MachineDeployment in their label.
pub const MACHINES_BY_DEPLOYMENT: Index<Machine> =
    Index::new("machines-by-deployment", |machine| label(machine, labels::NAME));

/// Machines that may wait to be marked Failed, by MachineDeployment. The index has few entries, so that an event of a Machine does not
/// iterate over all Machines of its MachineDeployment.
pub const WAITING_BY_DEPLOYMENT: Index<Machine> = Index::new("waiting-by-deployment", |machine| {
    replacement_limit::deployment(machine)
        .filter(|_| replacement_limit::is_candidate(machine))
        .map(str::to_owned)
        .into_iter()
        .collect()
});

/// Nodes by the Machine in their label.
pub const NODES_BY_MACHINE: Index<NodeView> = Index::new("nodes-by-machine", |node| label(node, labels::MACHINE_NAME));

/// MachineClasses by the names of their Secrets.
pub const CLASSES_BY_SECRET: Index<MachineClass> = Index::new("classes-by-secret", |class| {
    [&class.secret_ref, &class.credentials_secret_ref].into_iter().flatten().map(|secret| secret.name.clone()).collect()
});

/// Machines by the uid of their managing owner.
pub const MACHINES_BY_OWNER: Index<Machine> = Index::new("machines-by-owner", owner);

/// Machines without a managing owner, all under [`ORPHAN`].
pub const ORPHAN_MACHINES: Index<Machine> = Index::new("orphan-machines", orphan);

/// MachineSets by the uid of their managing owner.
pub const SETS_BY_OWNER: Index<MachineSet> = Index::new("sets-by-owner", owner);

/// MachineSets without a managing owner, all under [`ORPHAN`].
pub const ORPHAN_SETS: Index<MachineSet> = Index::new("orphan-sets", orphan);

/// Index value of objects without a managing owner.
pub const ORPHAN: &str = "orphan";

fn owner<K: Object>(object: &K) -> Vec<String> {
    object.controller_uid().map(str::to_owned).into_iter().collect()
}

fn orphan<K: Object>(object: &K) -> Vec<String> {
    if object.controller_uid().is_none() { vec![ORPHAN.to_owned()] } else { Vec::new() }
}

fn label(object: &impl Object, key: &str) -> Vec<String> {
    object.label(key).filter(|value| !value.is_empty()).map(str::to_owned).into_iter().collect()
}
