//! When a component begins to act.
//!
//! Not before it has seen everything it decides from, not before it leads, and not before what it sees is newer than its
//! victory: the caches of a standby are warm, but may lag behind the last writes of the leader before it. So they are read again with
//! quorum once the lease is won, and only then the first key is taken.

use std::sync::Arc;
use std::time::Duration;

use runtime::cache::{Caches, Stopped};
use runtime::lease::Leadership;
use runtime::queue::spawn_workers;

use crate::fleet::Fleet;
use crate::{Cluster, deployment, in_use_protection, machine, machineset, overshoot, safety};

/// Classes and Secrets are few, and nobody waits long for them.
const KEEPERS_AT_ONCE: usize = 2;

/// Waits until the machine controller may act, then works until asked to stop.
pub(super) async fn machines(cluster: Arc<Cluster>, concurrency: usize) {
    let arrived = cluster.clock.now();
    if !may_act(&cluster, "machine controller", &cluster.needed, &cluster.leadership).await {
        return;
    }
    let vacant_since = cluster.leadership.vacant_since().unwrap_or(arrived);
    cluster.connectivity.unattended(vacant_since, &cluster.policy.safety, cluster.clock.now());
    safety::begin(&cluster).await;
    let tasks = &cluster.tasks;
    let worker = cluster.clone();
    spawn_workers(tasks, cluster.queue.clone(), concurrency, move |key| machine::reconcile(worker.clone(), key));
    let (worker, reads) = (cluster.clone(), cluster.credentials.reads().clone());
    spawn_workers(tasks, reads, KEEPERS_AT_ONCE, move |key| machine::wake::read_secret(worker.clone(), key));
    let (worker, classes) = (cluster.clone(), cluster.in_use_protection.classes.clone());
    spawn_workers(tasks, classes, KEEPERS_AT_ONCE, move |key| in_use_protection::reconcile_class(worker.clone(), key));
    let (worker, secrets) = (cluster.clone(), cluster.in_use_protection.secrets.clone());
    spawn_workers(tasks, secrets, KEEPERS_AT_ONCE, move |key| in_use_protection::reconcile_secret(worker.clone(), key));
}

/// Waits until the manager may act, then works until asked to stop.
pub(super) async fn fleet(cluster: Arc<Cluster>, fleet: Arc<Fleet>, concurrency: usize) {
    if !may_act(&cluster, "manager", &fleet.needed, &fleet.leadership).await {
        return;
    }
    let tasks = &cluster.tasks;
    let (worker, manager) = (cluster.clone(), fleet.clone());
    spawn_workers(tasks, fleet.set_queue.clone(), concurrency, move |key| {
        machineset::reconcile(worker.clone(), manager.clone(), key)
    });
    let (worker, manager) = (cluster.clone(), fleet.clone());
    spawn_workers(tasks, fleet.deployment_queue.clone(), concurrency, move |key| {
        deployment::reconcile(worker.clone(), manager.clone(), key)
    });
    let (worker, manager) = (cluster.clone(), fleet.clone());
    fleet.overshoot_queue.add(overshoot::everything());
    spawn_workers(tasks, fleet.overshoot_queue.clone(), 1, move |key| {
        overshoot::reconcile(worker.clone(), manager.clone(), key)
    });
}

/// Returns once this component may act: `false` if it never will.
async fn may_act(cluster: &Cluster, component: &'static str, needed: &Caches, leadership: &Leadership) -> bool {
    let ready = async {
        report_while_waiting(needed, needed.all_synced()).await?;
        if leadership.wait_until_leading().await.is_err() {
            return Ok(false);
        }
        needed.refresh_all().await?;
        Ok::<_, Stopped>(true)
    };
    let stopping = cluster.tasks.stopping();
    let ready = tokio::select! {
        biased;
        () = stopping.cancelled() => Ok(false),
        ready = ready => ready,
    };
    let begins = ready == Ok(true);
    if begins {
        let (namespace, machines) = (&cluster.namespace, cluster.machines.len());
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
