//! The caches of the machine controller.

use api::view::{NodeView, SecretView};
use api::{Machine, MachineClass};
use runtime::cache::{Cache, Caches, Reflector};
use runtime::client::Api;

use super::{Component, Parts};
use crate::indexes::{
    CLASSES_BY_SECRET, MACHINES_BY_CLASS, MACHINES_BY_DEPLOYMENT, MACHINES_BY_NODE, MACHINES_BY_OWNER, MACHINES_BY_VM,
    NODES_BY_MACHINE, ORPHAN_MACHINES, WAITING_BY_DEPLOYMENT,
};
use crate::machine_controller::Target;
use crate::write::Writer;

/// The caches of the machine controller, and the writers of what they hold.
pub(super) struct ControllerCaches {
    pub(super) machines: Cache<Machine>,
    pub(super) machine_writer: Writer<Machine>,
    pub(super) classes: Cache<MachineClass>,
    pub(super) secrets: Cache<SecretView>,
    /// `None` without a target cluster.
    pub(super) target: Option<Target>,
    /// Caches that both components use: Machines and Nodes.
    pub(super) shared: Caches,
    /// Caches that must be complete before the machine controller acts.
    pub(super) needed: Caches,
}

/// The reflectors that fill the caches.
pub(super) struct ControllerReflectors {
    pub(super) machines: Reflector<Machine>,
    pub(super) classes: Reflector<MachineClass>,
    pub(super) secrets: Reflector<SecretView>,
    /// `None` without a target cluster.
    pub(super) nodes: Option<Reflector<NodeView>>,
}

/// Declares the caches. Nothing is listed yet.
pub(super) fn declare(parts: &Parts, component: &Component) -> (ControllerCaches, ControllerReflectors) {
    let namespace = parts.namespace.as_str();
    let (machines, machine_reflector) = machine_cache(namespace);
    let (classes, class_reflector) =
        Cache::<MachineClass>::builder().namespace(namespace).index(CLASSES_BY_SECRET).build();
    let (secrets, secret_reflector) = Cache::<SecretView>::builder().namespace(namespace).metadata_only().build();
    let mut shared = Caches::new();
    shared.add(&machines);
    let (target, nodes) = match &parts.watches.target {
        Some(watch) => {
            let (nodes, reflector) = node_cache();
            shared.add(&nodes);
            let client = component.clients.target.as_ref().unwrap_or(watch).clone();
            let writer = Writer::new(Api::all(client.clone()), &nodes);
            (Some(Target { client, nodes, writer }), Some(reflector))
        }
        None => (None, None),
    };
    let mut needed = shared.clone();
    if parts.components.machines().is_some() {
        needed.add(&classes);
        needed.add(&secrets);
    }
    let machine_writer = Writer::new(Api::namespaced(component.clients.control.clone(), namespace), &machines);
    let caches = ControllerCaches { machines, machine_writer, classes, secrets, target, shared, needed };
    let reflectors = ControllerReflectors {
        machines: machine_reflector,
        classes: class_reflector,
        secrets: secret_reflector,
        nodes,
    };
    (caches, reflectors)
}

fn machine_cache(namespace: &str) -> (Cache<Machine>, Reflector<Machine>) {
    Cache::<Machine>::builder()
        .namespace(namespace)
        .index(MACHINES_BY_NODE)
        .index(MACHINES_BY_VM)
        .index(MACHINES_BY_CLASS)
        .index(MACHINES_BY_OWNER)
        .index(ORPHAN_MACHINES)
        .index(MACHINES_BY_DEPLOYMENT)
        .index(WAITING_BY_DEPLOYMENT)
        .build()
}

fn node_cache() -> (Cache<NodeView>, Reflector<NodeView>) {
    Cache::<NodeView>::builder().index(NODES_BY_MACHINE).ignore_updates(NodeView::differs_only_in_heartbeats).build()
}
