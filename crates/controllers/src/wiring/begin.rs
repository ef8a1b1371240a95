//! When a component begins to act.
//!
//! Not before it has seen everything it decides from, not before it leads, and not before what it sees is newer than its
//! victory: the caches of a standby are warm, but may lag behind the last writes of the leader before it. So they are read again with
//! quorum once the lease is won, and only then the first key is taken.
//!
//! Until then queues are closed ([`Queue::closed`]). When a component starts to work, it opens its queues and adds every cached object once.

use std::sync::Arc;
use std::time::Duration;

use runtime::Key;
use runtime::cache::{Cache, Cached, Caches, Stopped};
use runtime::lease::Leadership;
use runtime::queue::{Queue, spawn_workers};

use crate::cluster::Shared;
use crate::fleet::Fleet;
use crate::machine_controller::MachineController;
use crate::{deployment, in_use_protection, machine, machineset, overshoot, safety};

/// Classes and Secrets are few, and nobody waits long for them.
const CLASS_WORKERS: usize = 2;

/// Waits until the machine controller may act, then works until asked to stop.
pub(super) async fn machines(controller: Arc<MachineController>, concurrency: usize) {
    let shared = &controller.shared;
    let arrived = shared.clock.now();
    if !may_act(shared, "machine controller", &controller.needed, &controller.leadership).await {
        return;
    }
    let vacant_since = controller.leadership.vacant_since().unwrap_or(arrived);
    shared.connectivity.unattended(vacant_since, &shared.policy.safety, shared.clock.now());
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

/// Waits until the manager may act, then works until asked to stop.
pub(super) async fn fleet(shared: Arc<Shared>, fleet: Arc<Fleet>, concurrency: usize) {
    if !may_act(&shared, "manager", &fleet.needed, &fleet.leadership).await {
        return;
    }
    open(&fleet.set_queue, &fleet.sets);
    open(&fleet.deployment_queue, &fleet.deployments);
    fleet.overshoot_queue.open();
    let tasks = &shared.tasks;
    let (seen, manager) = (shared.clone(), fleet.clone());
    spawn_workers(tasks, fleet.set_queue.clone(), concurrency, move |key| {
        machineset::reconcile(seen.clone(), manager.clone(), key)
    });
    let (seen, manager) = (shared.clone(), fleet.clone());
    spawn_workers(tasks, fleet.deployment_queue.clone(), concurrency, move |key| {
        deployment::reconcile(seen.clone(), manager.clone(), key)
    });
    let (seen, manager) = (shared.clone(), fleet.clone());
    fleet.overshoot_queue.add(overshoot::everything());
    spawn_workers(tasks, fleet.overshoot_queue.clone(), 1, move |key| {
        overshoot::reconcile(seen.clone(), manager.clone(), key)
    });
}

/// Opens a queue and adds all cached objects, also those that cannot be decoded. The queue is opened first: an object that changes while the
/// cache is read is added by its event.
pub(crate) fn open<K: Cached>(queue: &Queue<Key>, cache: &Cache<K>) {
    queue.open();
    cache.list().iter().for_each(|object| queue.add(Key::new(object.namespace(), object.name())));
    cache.undecodable().iter().for_each(|object| queue.add(object.key()));
}

/// Returns once this component may act: `false` if it never will.
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
    let begins = ready == Ok(true);
    if begins {
        let (namespace, machines) = (&shared.namespace, shared.machines.len());
        tracing::info!(component, %namespace, machines, "all caches are up to date; beginning to work");
    }
    begins
}

/// Says, every half minute, what the start is waiting for: a controller that hangs in silence looks like one that works.
async fn report_while_waiting<T>(caches: &Caches, work: impl Future<Output = T>) -> T {
    const SAY_AGAIN_AFTER: Duration = Duration::from_secs(30);
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(SAY_AGAIN_AFTER) => {
                for sentence in caches.waiting_for() {
                    tracing::info!("{sentence}");
                }
            }
        }
    }
}
