//! Everything a machine's decision looks at, read at one moment.

use std::sync::Arc;

use api::view::NodeView;
use api::{Machine, MachineClass, Object, Uid};
use jiff::Timestamp;
use plan::gate::{Capacity, Refusal};
use plan::machine::{DriverState, Emptying, Observed, RollOut, SecretState, Sight, Target, VmKnowledge};
use plan::permit::{self, Siblings};
use plan::safety::Blindness;
use runtime::Key;
use runtime::cache::Lookup;

use crate::credentials::Unreadable;
use crate::indexes::{MACHINES_BY_DEPLOYMENT, MACHINES_BY_NODE, NODES_BY_MACHINE};
use crate::knowledge::Known;
use crate::{Cluster, cluster};

/// What was seen, kept alive for the planner and for the steps that follow.
pub(super) struct Seen {
    pub(super) machine: Arc<Machine>,
    pub(super) class: plan::Lookup<Arc<MachineClass>>,
    driver: DriverState,
    secret: SecretState,
    node: Option<plan::Lookup<Arc<NodeView>>>,
    emptying: Emptying,
    namesake: plan::Lookup<Arc<NodeView>>,
    siblings: Siblings,
    rivals: Vec<Arc<Machine>>,
    known: Known,
    /// Why creates of its class are held back, and until when.
    exhaustion: Option<(Refusal, Timestamp)>,
    sight: Sight,
    blindness: Arc<Blindness>,
    pub(super) now: Timestamp,
}

pub(super) async fn observe(cluster: &Cluster, key: &Key, machine: Arc<Machine>) -> Result<Seen, Unreadable> {
    let class = plain(cluster.classes.look_up(&Key::new(machine.namespace(), machine.spec.class.name.as_str())));
    let data = match &class {
        plan::Lookup::Present(class) => cluster.credentials.of(class).await?,
        plan::Lookup::Absent | plan::Lookup::Undecodable => Arc::default(),
    };
    let secret = match api::validation::user_data(&data, machine.name()) {
        Ok(_) => SecretState::Ready,
        Err(missing) => {
            let named = class.as_ref().present().and_then(|class| class.secret_ref.as_ref());
            let fix = match named {
                Some(secret) => format!("add the key userData to Secret {:?}", secret.name),
                None => "name a Secret with the key userData in secretRef of its MachineClass".to_owned(),
            };
            SecretState::Unusable(format!("{missing}; {fix}"))
        }
    };
    let driver = class.as_ref().present().map_or(DriverState::Served, |class| cluster.gate.driver_state(class));
    let node = cluster.target.as_ref().map(|target| node_of(target, &machine));
    let emptying = cluster.drains.as_ref().map_or_else(Emptying::default, |drains| drains.sight(key, &machine.uid()));
    let known = cluster.knowledge.of(key, &machine.uid());
    let namesake = namesake(cluster, &machine, &known);
    let exhaustion = cluster.gate.exhaustion(&machine.spec.class.name);
    let siblings = siblings(cluster, &machine);
    let rivals = rivals(cluster, &machine);
    // Read after the caches: who was blind while reading them is still known to be.
    let (sight, blindness) = (cluster.sight.now(), cluster.sight.blindness());
    let now = cluster.clock.now();
    Ok(Seen {
        machine,
        class,
        driver,
        secret,
        node,
        emptying,
        namesake,
        siblings,
        rivals,
        known,
        exhaustion,
        sight,
        blindness,
        now,
    })
}

/// The node that has the name of the VM already, before anybody has linked the two. A label that the machine was created with links
/// nothing.
fn namesake(cluster: &Cluster, machine: &Machine, known: &Known) -> plan::Lookup<Arc<NodeView>> {
    match (&cluster.target, &known.vm) {
        (Some(target), VmKnowledge::Known(vm)) if machine.spec.provider_id.is_empty() => {
            plain(target.nodes.look_up(&Key::cluster(vm.node_name.as_str())))
        }
        _ => plan::Lookup::Absent,
    }
}

/// The other machines whose label names the same node.
fn rivals(cluster: &Cluster, machine: &Machine) -> Vec<Arc<Machine>> {
    let Some(node) = machine.node_name() else { return Vec::new() };
    let mut named = cluster.machines.find(&MACHINES_BY_NODE, node.as_str());
    named.retain(|other| other.metadata.uid != machine.metadata.uid);
    named
}

fn siblings(cluster: &Cluster, machine: &Machine) -> Siblings {
    match permit::deployment(machine).filter(|_| permit::may_ask(machine)) {
        Some(deployment) => {
            let all = cluster.machines.find(&MACHINES_BY_DEPLOYMENT, deployment);
            Siblings::of(machine, all.iter().map(|machine| &**machine))
        }
        None => Siblings::default(),
    }
}

/// The node its label names, else the node that names the machine.
fn node_of(target: &cluster::Target, machine: &Machine) -> plan::Lookup<Arc<NodeView>> {
    match machine.node_name() {
        Some(name) => plain(target.nodes.look_up(&Key::cluster(name.as_str()))),
        None => target
            .nodes
            .find(&NODES_BY_MACHINE, machine.name())
            .into_iter()
            .next()
            .map_or(plan::Lookup::Absent, plan::Lookup::Present),
    }
}

/// Whether its deployment rolls, which is known where the manager's half runs in the same process.
fn rollout(cluster: &Cluster, machine: &Machine) -> RollOut {
    let owner = machine.controller_owner().map(|owner| Uid::from(owner.uid.as_str()));
    match (&cluster.fleet, owner) {
        (Some(fleet), Some(set)) if fleet.rollouts.guard(&set) => RollOut::UnderWay,
        _ => RollOut::NotKnown,
    }
}

fn plain<K>(found: Lookup<K>) -> plan::Lookup<Arc<K>> {
    match found {
        Lookup::Absent => plan::Lookup::Absent,
        Lookup::Present(object) => plan::Lookup::Present(object),
        Lookup::Undecodable(_) => plan::Lookup::Undecodable,
    }
}

impl Seen {
    /// The planner's view of it.
    pub(super) fn as_input<'a>(&'a self, cluster: &'a Cluster) -> Observed<'a> {
        Observed {
            machine: &self.machine,
            class: self.class.as_ref().map(|class| &**class),
            driver: &self.driver,
            secret: &self.secret,
            target: match &self.node {
                None => Target::None,
                Some(node) => Target::Cluster {
                    node: node.as_ref().map(|node| &**node),
                    inquiry: &self.known.inquiry,
                    emptying: &self.emptying,
                },
            },
            vm: &self.known.vm,
            namesake: self.namesake.as_ref().map(|node| &**node),
            rivals: &self.rivals,
            rollout: rollout(cluster, &self.machine),
            siblings: self.siblings,
            capacity: match &self.exhaustion {
                None => Capacity::Open,
                Some((refusal, until)) => Capacity::Exhausted { refusal, until: *until },
            },
            token: self.known.token(),
            sight: self.sight,
            blindness: &self.blindness,
            policy: &cluster.policy,
            now: self.now,
        }
    }
}
