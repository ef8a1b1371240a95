//! Whose changes wake a machine.
//!
//! | change | wakes |
//! | --- | --- |
//! | a Machine | itself; if it has arrived or gone, the ill ones of its deployment, whose turn it may be; if it names another node or VM, those that name it too |
//! | a Node, heartbeats aside | the machine whose label names it, and the machine it names |
//! | a MachineClass | its machines that still need it: those without a VM, and those being deleted; all, if its virtual capacity changes |
//! | a Secret | the machines of the classes that name it, likewise |
//! | the end of the read of a Secret | the same |
//! | a list of MachineClasses or Secrets | the machines for which it was asked, because they name one that was not seen |
//! | the end of a driver call | its machine (by the limiter) |
//! | another driver at the other end of the connection | the machines whose last call failed |
//!
//! Where what a call is made with has changed, and not only its metadata, a call that failed is tried again at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::names::labels;
use api::view::{NodeView, SecretView};
use api::{Machine, MachineClass, Object};
use planner::machine::interest::{self, ClassInterest, needs_class};
use planner::replacement_limit;
use runtime::Key;
use runtime::cache::{Cache, Cached, Reflector, Signal};
use runtime::queue::{Outcome, Queue};

use crate::credentials::{Credentials, News};
use crate::indexes::{CLASSES_BY_SECRET, MACHINES_BY_CLASS, MACHINES_BY_NODE, MACHINES_BY_VM, WAITING_BY_DEPLOYMENT};
use crate::limiter::CallLimiter;
use crate::machine_controller::MachineController;
use crate::vm_state::VmStateCache;

/// A Machine wakes itself and, when it has arrived or gone, those of its deployment that may be waiting for that.
pub(crate) fn on_machines(
    reflector: &mut Reflector<Machine>,
    queue: &Queue<Key>,
    machines: &Cache<Machine>,
    limiter: &CallLimiter,
) {
    let (queue, machines, limiter) = (queue.clone(), machines.clone(), limiter.clone());
    reflector.on_delta(move |key, delta| {
        if delta.now().is_none_or(|machine| machine.is_deleting()) {
            limiter.recall(key);
        }
        queue.add(key.clone());
        let (before, now) = (delta.before().map(|m| &**m), delta.now().map(|m| &**m));
        let (left, named) = (before.and_then(Machine::node_name), now.and_then(Machine::node_name));
        if left != named {
            for node in [left, named].into_iter().flatten() {
                let rivals =
                    machines.find(&MACHINES_BY_NODE, node.as_str()).into_iter().filter(|m| *m.name() != *key.name);
                rivals.for_each(|machine| queue.add(Key::new(machine.namespace(), machine.name())));
            }
        }
        let vm = |machine: Option<&Machine>| machine.map(|m| m.spec.provider_id.clone()).filter(|vm| !vm.is_empty());
        let (left, named) = (vm(before), vm(now));
        if left != named {
            for vm in [left, named].into_iter().flatten() {
                let holders = machines
                    .find(&MACHINES_BY_VM, &planner::node::vm_name(&vm))
                    .into_iter()
                    .filter(|m| *m.name() != *key.name);
                holders.for_each(|machine| queue.add(Key::new(machine.namespace(), machine.name())));
            }
        }
        if !replacement_limit::concerns_siblings(before, now) {
            return;
        }
        let deployments: BTreeSet<&str> =
            [before, now].into_iter().flatten().filter_map(replacement_limit::deployment).collect();
        for deployment in deployments {
            for machine in machines.find(&WAITING_BY_DEPLOYMENT, deployment) {
                queue.add(Key::new(machine.namespace(), machine.name()));
            }
        }
    });
}

/// A Node wakes the machine whose label names it and the machine it names.
pub(crate) fn on_nodes(
    reflector: &mut Reflector<NodeView>,
    queue: &Queue<Key>,
    machines: &Cache<Machine>,
    namespace: &str,
) {
    let (queue, machines, namespace) = (queue.clone(), machines.clone(), namespace.to_owned());
    reflector.on_delta(move |key, delta| {
        for machine in machines.find(&MACHINES_BY_NODE, &key.name) {
            queue.add(Key::new(machine.namespace(), machine.name()));
        }
        let named =
            [delta.before(), delta.now()].into_iter().flatten().filter_map(|node| node.label(labels::MACHINE_NAME));
        for name in named.filter(|name| !name.is_empty()) {
            queue.add(Key::new(namespace.as_str(), name));
        }
    });
}

/// A MachineClass wakes those of its machines that may be waiting for it, and all of them when their Nodes are to show another
/// virtual capacity.
pub(crate) fn on_classes(
    reflector: &mut Reflector<MachineClass>,
    queue: &Queue<Key>,
    machines: &Cache<Machine>,
    limiter: &CallLimiter,
) {
    let (queue, machines, limiter) = (queue.clone(), machines.clone(), limiter.clone());
    reflector.on_delta(move |key, delta| {
        if let Some((before, now)) = delta.before().zip(delta.now())
            && planner::class::is_another_for_drivers(before, now)
        {
            try_again(&queue, &machines, &limiter, &key.name);
        }
        match interest::of_class(delta.before().map(|class| &**class), delta.now().map(|class| &**class)) {
            ClassInterest::Needy => wake_needy(&queue, &machines, &key.name),
            ClassInterest::All => {
                for machine in machines.find(&MACHINES_BY_CLASS, &key.name) {
                    queue.add(Key::new(machine.namespace(), machine.name()));
                }
            }
        }
    });
}

/// A Secret wakes those machines of its classes that may be waiting for it.
pub(crate) fn on_secrets(
    reflector: &mut Reflector<SecretView>,
    queue: &Queue<Key>,
    machines: &Cache<Machine>,
    classes: &Cache<MachineClass>,
    credentials: &Credentials,
) {
    let (queue, machines, classes, credentials) =
        (queue.clone(), machines.clone(), classes.clone(), credentials.clone());
    reflector.on_delta(move |key, delta| {
        if delta.now().is_none() {
            credentials.forget(key);
        }
        for class in classes.find(&CLASSES_BY_SECRET, &key.name) {
            wake_needy(&queue, &machines, class.name());
        }
    });
}

/// A list of classes or Secrets wakes the machines for which it was asked.
pub(crate) fn on_lists<K: Cached>(reflector: &mut Reflector<K>, queue: &Queue<Key>, vm_states: &VmStateCache) {
    let (queue, vm_states) = (queue.clone(), vm_states.clone());
    reflector.on_signal(move |signal| {
        if let Signal::Listed(_) = signal {
            vm_states.who_requested().into_iter().for_each(|machine| queue.add(machine));
        }
    });
}

/// Reads a Secret that machines wait for, and wakes them.
pub(crate) async fn read_secret(controller: Arc<MachineController>, key: Key) -> Outcome {
    let (news, outcome) = controller.credentials.read(&key).await;
    let Some(news) = news else { return outcome };
    for class in controller.classes.find(&CLASSES_BY_SECRET, &key.name) {
        if news == News::Changed {
            try_again(&controller.queue, &controller.shared.machines, &controller.limiter, class.name());
        }
        wake_needy(&controller.queue, &controller.shared.machines, class.name());
    }
    outcome
}

/// What calls for the machines of a class are made with has changed: what failed may succeed now, and a cloud that had no room may
/// have some.
fn try_again(queue: &Queue<Key>, machines: &Cache<Machine>, limiter: &CallLimiter, class: &str) {
    limiter.forget_class(class);
    let keys = machines.find(&MACHINES_BY_CLASS, class).into_iter().map(|m| Key::new(m.namespace(), m.name()));
    keys.filter(|key| limiter.try_again(key)).for_each(|key| queue.add(key));
}

/// Wakes the machines of a class that may be waiting for it.
fn wake_needy(queue: &Queue<Key>, machines: &Cache<Machine>, class: &str) {
    for machine in machines.find(&MACHINES_BY_CLASS, class).into_iter().filter(|machine| needs_class(machine)) {
        queue.add(Key::new(machine.namespace(), machine.name()));
    }
}
