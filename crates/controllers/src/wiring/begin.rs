//! Starts a component once it may act.
//!
//! A component acts when its caches are complete, when it leads, and when its caches are newer than its election: the
//! caches of a standby may lag behind the last writes of the previous leader. So the caches are read again with quorum
//! after the election.
//!
//! Until then the queues are closed ([`Queue::closed`]). When a component starts, it opens its queues and adds every
//! cached object once.

use std::sync::Arc;
use std::time::Duration;

use runtime::Key;
use runtime::cache::{Cache, Cached, Caches, Stopped};
use runtime::lease::Leadership;
use runtime::queue::{Queue, spawn_workers};

use crate::cluster::Shared;
use crate::machine_controller::MachineController;
use crate::manager::Manager;
use crate::{deployment, in_use_protection, machine, machineset, overshoot, safety};

/// Number of workers for MachineClasses and Secrets. There are few of them.
const CLASS_WORKERS: usize = 2;

/// Waits until the machine controller may act, then starts its workers.
pub(super) async fn machines(controller: Arc<MachineController>, concurrency: usize) {
    let shared = &controller.shared;
    let started = shared.clock.now();
    if !may_act(shared, "machine controller", &controller.needed, &controller.leadership).await {
        return;
    }
    let vacant_since = controller.leadership.previous_renewal().unwrap_or(started);
    shared.connectivity.without_leader(vacant_since, &shared.policy.safety, shared.clock.now());
    safety::begin(&controller).await;
    open(&controller.queue, &shared.machines);
    open(&controller.in_use_protection.classes, &controller.classes);
    controller.in_use_protection.secrets.open();
    in_use_protection::wake::add_all_secrets(&controller);
    let tasks = &shared.tasks;
    let worker = controller.clone();
    spawn_workers(tasks, controller.queue.clone(), concurrency, move |key| machine::reconcile(worker.clone(), key));
    let (worker, reads) = (controller.clone(), controller.credentials.reads().clone());
    spawn_workers(tasks, reads, CLASS_WORKERS, move |key| machine::wake::read_secret(worker.clone(), key));
    let (worker, classes) = (controller.clone(), controller.in_use_protection.classes.clone());
    spawn_workers(tasks, classes, CLASS_WORKERS, move |key| in_use_protection::reconcile_class(worker.clone(), key));
    let (worker, secrets) = (controller.clone(), controller.in_use_protection.secrets.clone());
    spawn_workers(tasks, secrets, CLASS_WORKERS, move |key| in_use_protection::reconcile_secret(worker.clone(), key));
}

/// Waits until the manager may act, then starts its workers.
pub(super) async fn manager(shared: Arc<Shared>, manager: Arc<Manager>, concurrency: usize) {
    if !may_act(&shared, "manager", &manager.needed, &manager.leadership).await {
        return;
    }
    open(&manager.set_queue, &manager.sets);
    open(&manager.deployment_queue, &manager.deployments);
    manager.overshoot_queue.open();
    let tasks = &shared.tasks;
    let (seen, worker) = (shared.clone(), manager.clone());
    spawn_workers(tasks, manager.set_queue.clone(), concurrency, move |key| {
        machineset::reconcile(seen.clone(), worker.clone(), key)
    });
    let (seen, worker) = (shared.clone(), manager.clone());
    spawn_workers(tasks, manager.deployment_queue.clone(), concurrency, move |key| {
        deployment::reconcile(seen.clone(), worker.clone(), key)
    });
    let (seen, worker) = (shared.clone(), manager.clone());
    manager.overshoot_queue.add(overshoot::everything());
    spawn_workers(tasks, manager.overshoot_queue.clone(), 1, move |key| {
        overshoot::reconcile(seen.clone(), worker.clone(), key)
    });
}

/// Opens a queue and adds all cached objects, also those that cannot be decoded. The queue is opened first: an object
/// that changes while the cache is read is added by its event.
pub(crate) fn open<K: Cached>(queue: &Queue<Key>, cache: &Cache<K>) {
    queue.open();
    cache.list().iter().for_each(|object| queue.add(Key::new(object.namespace(), object.name())));
    cache.undecodable().iter().for_each(|object| queue.add(object.key()));
}

/// Waits until this component may act. Returns false if it never will.
async fn may_act(shared: &Shared, component: &'static str, needed: &Caches, leadership: &Leadership) -> bool {
    let ready = async {
        report_while_waiting(needed, needed.all_synced()).await?;
        if leadership.wait_until_leading().await.is_err() {
            return Ok(false);
        }
        needed.refresh_all().await?;
        Ok::<_, Stopped>(true)
    };
    let stopping = shared.tasks.stopping();
    let ready = tokio::select! {
        biased;
        () = stopping.cancelled() => Ok(false),
        ready = ready => ready,
    };
    let may_act = ready == Ok(true);
    if may_act {
        let (namespace, machines) = (&shared.namespace, shared.machines.len());
        tracing::info!(component, %namespace, machines, "started component");
    }
    may_act
}

/// Logs every 30 seconds what the start waits for.
async fn report_while_waiting<T>(caches: &Caches, work: impl Future<Output = T>) -> T {
    const LOG_INTERVAL: Duration = Duration::from_secs(30);
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(LOG_INTERVAL) => {
                for cache in caches.waiting_for() {
                    tracing::info!(cache, "waiting for caches");
                }
            }
        }
    }
}
