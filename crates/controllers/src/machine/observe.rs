//! Everything a machine's decision looks at, read at one moment.

use std::sync::Arc;

use api::view::NodeView;
use api::{Machine, MachineClass, Object, Uid};
use jiff::Timestamp;
use planner::LookedFor;
use planner::limiter::{Capacity, Refusal};
use planner::machine::{
    CallUnderWay, Connectivity, DrainView, DriverState, Observed, RollOut, SecretState, Target, VmState,
};
use planner::replacement_limit::{self, Siblings};
use planner::safety::Outages;
use planner::secret::{Content, Reference};
use runtime::Key;
use runtime::cache::{Cache, Cached, Lookup};

use crate::cluster::Shared;
use crate::credentials::AtHand;
use crate::indexes::{MACHINES_BY_DEPLOYMENT, MACHINES_BY_NODE, MACHINES_BY_VM, NODES_BY_MACHINE};
use crate::machine_controller::{self, MachineController};
use crate::presence::presence;
use crate::vm_state::{Known, Wanted};

/// What was seen, kept alive for the planner and for the steps that follow.
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
    known: Known,
    call_under_way: Option<CallUnderWay>,
    /// Why creates of its class are held back, and until when.
    exhaustion: Option<(Refusal, Timestamp)>,
    connectivity: Connectivity,
    outages: Arc<Outages>,
    pub(super) now: Timestamp,
}

/// Takes what is at hand and waits for nothing: what is missing is asked for, and its arrival wakes the machine.
pub(super) fn observe(controller: &MachineController, key: &Key, machine: Arc<Machine>) -> MachineSnapshot {
    let (call_under_way, known) = controller.limiter.look(key, &machine.uid());
    let looker = Looker { controller, key, machine: &machine, known: &known };
    let class_key = Key::new(machine.namespace(), machine.spec.class.name.as_str());
    let (class, class_looked_for) = looker.look(&controller.classes, Wanted::Class(class_key.clone()), &class_key);
    let class = presence(class);
    let secret = looker.secret(class.as_ref().present().map(|class| &**class), controller.shared.clock.now());
    let driver = class.as_ref().present().map_or(DriverState::Served, |class| controller.limiter.driver_state(class));
    let node = controller.target.as_ref().map(|target| node_of(target, &machine));
    let drain_view = controller.drains.as_ref().map_or_else(DrainView::default, |drains| {
        let found = node.as_ref().and_then(|node| node.as_ref().present()).map(|node| node.name().to_owned());
        let name = found.or_else(|| machine.node_name().map(|name| name.to_string()));
        drains.connectivity(key, &machine.uid(), name.as_deref())
    });
    let namesake = namesake(controller, &machine, &known);
    let exhaustion = controller.limiter.exhaustion(&machine.spec.class.name);
    let siblings = siblings(&controller.shared, &machine);
    let rivals = rivals(&controller.shared, &machine);
    let vm_rivals = vm_rivals(&controller.shared, &machine, &known);
    // Read after the caches: who was disconnected while reading them is still known to be.
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
        known,
        call_under_way,
        exhaustion,
        connectivity,
        outages,
        now,
    }
}

/// Looks for what a machine names.
struct Looker<'a> {
    controller: &'a MachineController,
    key: &'a Key,
    machine: &'a Machine,
    known: &'a Known,
}

impl Looker<'_> {
    /// An object, and if it is not there whether a list that began after this machine was seen lacks it too. Such a list is asked for.
    fn look<K: Cached>(&self, cache: &Cache<K>, wanted: Wanted, key: &Key) -> (Lookup<K>, LookedFor) {
        // Before the cache is looked at: a list that comes in between has to be looked at as well.
        let requested = self.known.requested(&wanted);
        let answered = requested.is_some_and(|ticket| cache.has_refreshed(ticket));
        let found = cache.look_up(key);
        if !matches!(found, Lookup::Absent) || answered {
            return (found, LookedFor::Yes);
        }
        if requested.is_none() {
            self.controller.vm_states.request(self.key, &self.machine.uid(), wanted, || cache.request_refresh());
        }
        (found, LookedFor::NotYet)
    }

    /// Whether the Secrets of its class can be used.
    fn secret(&self, class: Option<&MachineClass>, now: Timestamp) -> SecretState {
        let at_hand = class.map(|class| self.controller.credentials.look(class)).unwrap_or_default();
        let named: Vec<_> = at_hand
            .iter()
            .map(|(key, at_hand)| {
                let content = match at_hand {
                    AtHand::Data(data) => Content::Read(data),
                    AtHand::Reading => Content::Reading,
                    AtHand::Unreadable(failure) => Content::Unreadable(failure),
                    AtHand::Absent => match self.look(&self.controller.secrets, Wanted::Secret(key.clone()), key) {
                        (Lookup::Absent, LookedFor::Yes) => Content::Missing,
                        (Lookup::Absent, LookedFor::NotYet) => Content::NotSeen,
                        // It has just come; its own event wakes the machine.
                        _ => Content::Reading,
                    },
                };
                Reference { secret: key.to_string(), content }
            })
            .collect();
        planner::secret::state(class, &named, self.machine.name(), now)
    }
}

/// The node that has the name of the VM already, before anybody has linked the two. A label that the machine was created with links
/// nothing.
fn namesake(controller: &MachineController, machine: &Machine, known: &Known) -> planner::Presence<Arc<NodeView>> {
    match (&controller.target, &known.vm) {
        (Some(target), VmState::Known(vm)) if machine.spec.provider_id.is_empty() => {
            presence(target.nodes.look_up(&Key::cluster(vm.node_name.as_str())))
        }
        _ => planner::Presence::Absent,
    }
}

/// The other machines whose label names the same node.
fn rivals(shared: &Shared, machine: &Machine) -> Vec<Arc<Machine>> {
    let Some(node) = machine.node_name() else { return Vec::new() };
    let mut named = shared.machines.find(&MACHINES_BY_NODE, node.as_str());
    named.retain(|other| other.metadata.uid != machine.metadata.uid);
    named
}

/// The other Machines that name the VM of this one, recorded or reported by the driver.
fn vm_rivals(shared: &Shared, machine: &Machine, known: &Known) -> Vec<Arc<Machine>> {
    let vm = match &known.vm {
        _ if !machine.spec.provider_id.is_empty() => &machine.spec.provider_id,
        VmState::Known(vm) if !vm.provider_id.is_empty() => &vm.provider_id,
        _ => return Vec::new(),
    };
    let mut holders = shared.machines.find(&MACHINES_BY_VM, &planner::node::vm_name(vm));
    // Two VMs may have the same name in different places.
    holders.retain(|other| other.metadata.uid != machine.metadata.uid && other.spec.provider_id == *vm);
    holders
}

fn siblings(shared: &Shared, machine: &Machine) -> Siblings {
    match replacement_limit::deployment(machine).filter(|_| replacement_limit::may_ask(machine)) {
        Some(deployment) => {
            let all = shared.machines.find(&MACHINES_BY_DEPLOYMENT, deployment);
            Siblings::of(machine, all.iter().map(|machine| &**machine))
        }
        None => Siblings::default(),
    }
}

fn node_of(target: &machine_controller::Target, machine: &Machine) -> planner::Presence<Arc<NodeView>> {
    let labelled = machine.node_name().map(|name| presence(target.nodes.look_up(&Key::cluster(name.as_str()))));
    planner::node::select(machine, labelled, || target.nodes.find(&NODES_BY_MACHINE, machine.name()))
}

/// Whether its deployment rolls, which is known where the manager runs in the same process.
fn rollout(controller: &MachineController, machine: &Machine) -> RollOut {
    let owner = machine.controller_owner().map(|owner| Uid::from(owner.uid.as_str()));
    match (&controller.rollouts, owner) {
        (Some(rollouts), Some(set)) if rollouts.guard(&set) => RollOut::UnderWay,
        _ => RollOut::NotKnown,
    }
}

impl MachineSnapshot {
    /// The planner's view of it.
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
                    node_lookup: &self.known.node_lookup,
                    drain_view: &self.drain_view,
                },
            },
            vm: &self.known.vm,
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
            token: self.known.token(),
            connectivity: self.connectivity,
            outages: &self.outages,
            policy: &controller.shared.policy,
            now: self.now,
        }
    }
}
