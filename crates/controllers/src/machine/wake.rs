//! The changes that wake a Machine.
//!
//! | change | woken Machines |
//! | --- | --- |
//! | a Machine | the Machine; if it was created or deleted, the unhealthy Machines of its MachineDeployment; if its Node or VM changed, the others that refer to either |
//! | a Node, except heartbeats | the Machine whose label names it, and the Machine that it names |
//! | a MachineClass | its Machines without a VM, and those being deleted; all, if its virtual capacity changed |
//! | a Secret | the same Machines of the classes that refer to it |
//! | the end of the read of a Secret | the same |
//! | a list of MachineClasses or Secrets | the Machines for which it was requested, because they refer to an object that the cache did not show |
//! | the end of a driver call | its Machine (by `driver_calls`) |
//! | a new version of a driver | the Machines whose last call failed (by `wiring`) |
//!
//! If the data that a call is made with has changed, and not only its metadata, a failed call is retried without
//! backoff.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::names::labels;
use api::view::{NodeView, SecretView};
use api::{Machine, MachineClass, Object};
use planner::machine::interest::{self, AffectedMachines, needs_class};
use planner::replacement_limit;
use runtime::Key;
use runtime::cache::{Cache, Cached, Reflector, Signal};
use runtime::queue::{Outcome, Queue};

use crate::credentials::{Credentials, ReadResult};
use crate::driver_calls::DriverCalls;
use crate::indexes::{CLASSES_BY_SECRET, MACHINES_BY_CLASS, MACHINES_BY_NODE, MACHINES_BY_VM, WAITING_BY_DEPLOYMENT};
use crate::machine_controller::MachineController;
use crate::machine_memory::MachineMemory;

/// A Machine wakes itself and, if it was created or deleted, the Machines of its MachineDeployment that may wait for
/// this.
pub(crate) fn on_machines(
    reflector: &mut Reflector<Machine>,
    queue: &Queue<Key>,
    machines: &Cache<Machine>,
    driver_calls: &DriverCalls,
) {
    let (queue, machines, driver_calls) = (queue.clone(), machines.clone(), driver_calls.clone());
    reflector.on_delta(move |key, delta| {
        if delta.now().is_none_or(|machine| machine.is_deleting()) {
            driver_calls.cancel_unsent(key);
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
        if !replacement_limit::affects_siblings(before, now) {
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

/// A Node wakes the Machine whose label names it and the Machine that it names.
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

/// A MachineClass wakes its Machines that may wait for it, and all of them if its virtual capacity changed.
pub(crate) fn on_classes(
    reflector: &mut Reflector<MachineClass>,
    queue: &Queue<Key>,
    machines: &Cache<Machine>,
    driver_calls: &DriverCalls,
) {
    let (queue, machines, driver_calls) = (queue.clone(), machines.clone(), driver_calls.clone());
    reflector.on_delta(move |key, delta| {
        if let Some((before, now)) = delta.before().zip(delta.now())
            && planner::class::changes_driver_input(before, now)
        {
            retry_failed_calls(&queue, &machines, &driver_calls, &key.name);
        }
        match interest::affected_by_class(delta.before().map(|class| &**class), delta.now().map(|class| &**class)) {
            AffectedMachines::NeedClass => wake_needy(&queue, &machines, &key.name),
            AffectedMachines::All => {
                for machine in machines.find(&MACHINES_BY_CLASS, &key.name) {
                    queue.add(Key::new(machine.namespace(), machine.name()));
                }
            }
        }
    });
}

/// A Secret wakes the Machines of its classes that may wait for it.
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

/// A list of MachineClasses or Secrets wakes the Machines for which it was requested.
pub(crate) fn on_lists<K: Cached>(reflector: &mut Reflector<K>, queue: &Queue<Key>, memory: &MachineMemory) {
    let (queue, memory) = (queue.clone(), memory.clone());
    reflector.on_signal(move |signal| {
        if let Signal::Listed(_) = signal {
            memory.with_requested_lists().into_iter().for_each(|machine| queue.add(machine));
        }
    });
}

/// Reads a Secret that Machines wait for, and wakes them.
pub(crate) async fn read_secret(controller: Arc<MachineController>, key: Key) -> Outcome {
    let (result, outcome) = controller.credentials.read(&key).await;
    let Some(result) = result else { return outcome };
    for class in controller.classes.find(&CLASSES_BY_SECRET, &key.name) {
        if result == ReadResult::Changed {
            retry_failed_calls(&controller.queue, &controller.shared.machines, &controller.driver_calls, class.name());
        }
        wake_needy(&controller.queue, &controller.shared.machines, class.name());
    }
    outcome
}

/// Retries the failed calls of the Machines of a class, because the data that they are made with has changed. What is
/// known about the capacity of the class is dropped, too.
fn retry_failed_calls(queue: &Queue<Key>, machines: &Cache<Machine>, driver_calls: &DriverCalls, class: &str) {
    driver_calls.forget_class(class);
    let keys = machines.find(&MACHINES_BY_CLASS, class).into_iter().map(|m| Key::new(m.namespace(), m.name()));
    keys.filter(|key| driver_calls.reset_backoff(key)).for_each(|key| queue.add(key));
}

/// Wakes the Machines of a class that may wait for it.
fn wake_needy(queue: &Queue<Key>, machines: &Cache<Machine>, class: &str) {
    for machine in machines.find(&MACHINES_BY_CLASS, class).into_iter().filter(|machine| needs_class(machine)) {
        queue.add(Key::new(machine.namespace(), machine.name()));
    }
}
