//! Reads everything that the plan of a Machine depends on.

use std::sync::Arc;

use api::view::NodeView;
use api::{Machine, MachineClass, Object, Uid};
use jiff::Timestamp;
use planner::LookedFor;
use planner::limiter::{Capacity, Refusal};
use planner::machine::{
    CallUnderWay, Connectivity, DrainView, DriverState, Observed, Rollout, SecretState, Target, VmState,
};
use planner::replacement_limit::{self, Siblings};
use planner::safety::Outages;
use planner::secret::{Content, Reference};
use runtime::Key;
use runtime::cache::{Cache, Cached, Lookup};

use crate::cluster::Shared;
use crate::credentials::Availability;
use crate::indexes::{MACHINES_BY_DEPLOYMENT, MACHINES_BY_NODE, MACHINES_BY_VM, NODES_BY_MACHINE};
use crate::machine_controller::{self, MachineController};
use crate::machine_memory::{MachineRecord, Referenced};

/// The input of the plan. It owns what the planner and the steps borrow.
pub(super) struct MachineSnapshot {
    pub(super) machine: Arc<Machine>,
    pub(super) class: planner::Presence<Arc<MachineClass>>,
    driver: DriverState,
    class_looked_for: LookedFor,
    secret: SecretState,
    node: Option<planner::Presence<Arc<NodeView>>>,
    drain_view: DrainView,
    namesake: planner::Presence<Arc<NodeView>>,
    siblings: Siblings,
    rivals: Vec<Arc<Machine>>,
    vm_rivals: Vec<Arc<Machine>>,
    record: MachineRecord,
    call_under_way: Option<CallUnderWay>,
    /// The error because of which creates of its class are held back, and until when.
    exhaustion: Option<(Refusal, Timestamp)>,
    connectivity: Connectivity,
    outages: Arc<Outages>,
    pub(super) now: Timestamp,
}

/// Reads the caches without waiting. Missing data is requested, and its arrival wakes the Machine.
pub(super) fn observe(controller: &MachineController, key: &Key, machine: Arc<Machine>) -> MachineSnapshot {
    let (call_under_way, record) = controller.driver_calls.snapshot(key, &machine.uid());
    let lookup = ObjectLookup { controller, key, machine: &machine, record: &record };
    let class_key = Key::new(machine.namespace(), machine.spec.class.name.as_str());
    let (class, class_looked_for) = lookup.get(&controller.classes, Referenced::Class(class_key.clone()), &class_key);
    let class = class.without_details();
    let secret = lookup.secret(class.as_ref().present().map(|class| &**class), controller.shared.clock.now());
    let driver =
        class.as_ref().present().map_or(DriverState::Served, |class| controller.driver_calls.driver_state(class));
    let node = controller.target.as_ref().map(|target| node_of(target, &machine));
    let drain_view = controller.drains.as_ref().map_or_else(DrainView::default, |drains| {
        let found = node.as_ref().and_then(|node| node.as_ref().present()).map(|node| node.name().to_owned());
        let name = found.or_else(|| machine.node_name().map(|name| name.to_string()));
        drains.view(key, &machine.uid(), name.as_deref())
    });
    let namesake = namesake(controller, &machine, &record);
    let exhaustion = controller.driver_calls.exhaustion(&machine.spec.class.name);
    let siblings = siblings(&controller.shared, &machine);
    let rivals = rivals(&controller.shared, &machine);
    let vm_rivals = vm_rivals(&controller.shared, &machine, &record);
    // Read after the caches: if the connection was lost while they were read, this shows it.
    let connectivity = controller.shared.connectivity.now();
    let (now, outages) = controller.shared.connectivity.time();
    MachineSnapshot {
        machine,
        class,
        driver,
        class_looked_for,
        secret,
        node,
        drain_view,
        namesake,
        siblings,
        rivals,
        vm_rivals,
        record,
        call_under_way,
        exhaustion,
        connectivity,
        outages,
        now,
    }
}

/// Looks up the objects that a Machine refers to.
struct ObjectLookup<'a> {
    controller: &'a MachineController,
    key: &'a Key,
    machine: &'a Machine,
    record: &'a MachineRecord,
}

impl ObjectLookup<'_> {
    /// Returns an object. If the cache does not show it, also returns whether a list that began after this Machine was
    /// observed lacks it, too; such a list is requested.
    fn get<K: Cached>(&self, cache: &Cache<K>, referenced: Referenced, key: &Key) -> (Lookup<K>, LookedFor) {
        // Read before the cache, so that a list that ends in between is not missed.
        let requested = self.record.requested(&referenced);
        let complete = requested.is_some_and(|ticket| cache.has_refreshed(ticket));
        let found = cache.look_up(key);
        if !matches!(found, Lookup::Absent) || complete {
            return (found, LookedFor::Yes);
        }
        if requested.is_none() {
            self.controller.memory.request_list(self.key, &self.machine.uid(), referenced, || cache.request_refresh());
        }
        (found, LookedFor::NotYet)
    }

    /// Returns whether the Secrets of its class can be used.
    fn secret(&self, class: Option<&MachineClass>, now: Timestamp) -> SecretState {
        let secrets = class.map(|class| self.controller.credentials.available(class)).unwrap_or_default();
        let references: Vec<_> = secrets
            .iter()
            .map(|(key, availability)| {
                let content = match availability {
                    Availability::Data(data) => Content::Read(data),
                    Availability::Reading => Content::Reading,
                    Availability::Unreadable(failure) => Content::Unreadable(failure),
                    Availability::Absent => {
                        match self.get(&self.controller.secrets, Referenced::Secret(key.clone()), key) {
                            (Lookup::Absent, LookedFor::Yes) => Content::Missing,
                            (Lookup::Absent, LookedFor::NotYet) => Content::NotSeen,
                            // It was just added; its event wakes the Machine.
                            _ => Content::Reading,
                        }
                    }
                };
                Reference { secret: key.to_string(), content }
            })
            .collect();
        planner::secret::state(class, &references, self.machine.name(), now)
    }
}

/// Returns the Node with the node name of the VM, if the Machine does not refer to its VM yet. A node label that the
/// Machine was created with is ignored.
fn namesake(
    controller: &MachineController,
    machine: &Machine,
    record: &MachineRecord,
) -> planner::Presence<Arc<NodeView>> {
    match (&controller.target, &record.vm) {
        (Some(target), VmState::Known(vm)) if machine.spec.provider_id.is_empty() => {
            target.nodes.look_up(&Key::cluster(vm.node_name.as_str())).without_details()
        }
        _ => planner::Presence::Absent,
    }
}

/// Returns the other Machines whose label names the same Node.
fn rivals(shared: &Shared, machine: &Machine) -> Vec<Arc<Machine>> {
    let Some(node) = machine.node_name() else { return Vec::new() };
    let mut named = shared.machines.find(&MACHINES_BY_NODE, node.as_str());
    named.retain(|other| other.metadata.uid != machine.metadata.uid);
    named
}

/// Returns the other Machines that refer to the VM of this one, recorded or reported by the driver.
fn vm_rivals(shared: &Shared, machine: &Machine, record: &MachineRecord) -> Vec<Arc<Machine>> {
    let vm = match &record.vm {
        _ if !machine.spec.provider_id.is_empty() => &machine.spec.provider_id,
        VmState::Known(vm) if !vm.provider_id.is_empty() => &vm.provider_id,
        _ => return Vec::new(),
    };
    let mut holders = shared.machines.find(&MACHINES_BY_VM, &planner::node::vm_name(vm));
    // Two VMs may have the same name in different zones.
    holders.retain(|other| other.metadata.uid != machine.metadata.uid && other.spec.provider_id == *vm);
    holders
}

fn siblings(shared: &Shared, machine: &Machine) -> Siblings {
    match replacement_limit::deployment(machine).filter(|_| replacement_limit::is_candidate(machine)) {
        Some(deployment) => {
            let all = shared.machines.find(&MACHINES_BY_DEPLOYMENT, deployment);
            Siblings::of(machine, all.iter().map(|machine| &**machine))
        }
        None => Siblings::default(),
    }
}

fn node_of(target: &machine_controller::Target, machine: &Machine) -> planner::Presence<Arc<NodeView>> {
    let labelled = machine.node_name().map(|name| {
        let key = Key::cluster(name.as_str());
        target.nodes.look_up(&key).without_details()
    });
    planner::node::select(machine, labelled, || target.nodes.find(&NODES_BY_MACHINE, machine.name()))
}

/// Returns whether its MachineDeployment has a rollout in progress. This is known if the manager runs in the same
/// process.
fn rollout(controller: &MachineController, machine: &Machine) -> Rollout {
    let owner = machine.controller_owner().map(|owner| Uid::from(owner.uid.as_str()));
    match (&controller.rollouts, owner) {
        (Some(rollouts), Some(set)) if rollouts.is_guarded(&set) => Rollout::InProgress,
        _ => Rollout::Unknown,
    }
}

impl MachineSnapshot {
    /// Returns the input of the planner.
    pub(super) fn as_input<'a>(&'a self, controller: &'a MachineController) -> Observed<'a> {
        Observed {
            machine: &self.machine,
            class: self.class.as_ref().map(|class| &**class),
            driver: &self.driver,
            class_looked_for: self.class_looked_for,
            secret: &self.secret,
            target: match &self.node {
                None => Target::None,
                Some(node) => Target::Cluster {
                    node: node.as_ref().map(|node| &**node),
                    node_lookup: &self.record.node_lookup,
                    drain_view: &self.drain_view,
                },
            },
            vm: &self.record.vm,
            call_under_way: self.call_under_way,
            namesake: self.namesake.as_ref().map(|node| &**node),
            rivals: &self.rivals,
            vm_rivals: &self.vm_rivals,
            rollout: rollout(controller, &self.machine),
            siblings: self.siblings,
            capacity: match &self.exhaustion {
                None => Capacity::Open,
                Some((refusal, until)) => Capacity::Exhausted { refusal, until: *until },
            },
            token: self.record.token(),
            connectivity: self.connectivity,
            outages: &self.outages,
            policy: &controller.shared.policy,
            now: self.now,
        }
    }
}
