//! From a client to a cluster in which pods are bound, replaced and counted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use runtime::cache::Caches;
use runtime::queue::{RetryPolicy, spawn_workers};
use runtime::{Clock, Key, Metrics, Outcome, Queue, Random, Tasks};
use tokio_util::sync::CancellationToken;

use crate::context::{ControllerContext, Duty};
use crate::disruption::Disruption;
use crate::node_lifecycle::{Collection, Evictions, Silence, Taints};
use crate::scheduler::Scheduler;
use crate::supply::{Source, Supplies};
use crate::volume::{Attachment, Claims};
use crate::workload::{DaemonSets, Deployments, ReplicaSets, StatefulSets};
use crate::{Part, Policy};

/// How long the end of the parts is waited for.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The simulated kube-controllers, with the parts it plays.
#[derive(Clone, Debug)]
pub struct KubeControllers {
    /// The parts it plays.
    pub parts: BTreeSet<Part>,
    /// Its periods.
    pub policy: Policy,
}

impl Default for KubeControllers {
    /// Every part, with the periods of the real programs.
    fn default() -> Self {
        Self { parts: Part::ALL.into(), policy: Policy::default() }
    }
}

impl KubeControllers {
    /// Only these parts.
    pub fn only(parts: impl IntoIterator<Item = Part>) -> Self {
        Self { parts: parts.into_iter().collect(), policy: Policy::default() }
    }

    /// The same without one part.
    #[must_use]
    pub fn without(mut self, part: Part) -> Self {
        self.parts.remove(&part);
        self
    }

    /// Runs its parts until `stop`. It starts once everything it reads is listed; the API server must serve the kinds
    /// of its parts. It can be stopped and run again, and then continues with the existing state.
    pub async fn run(&self, client: Client, clock: Clock, random: Random, stop: CancellationToken) {
        let tasks = Tasks::new();
        let Ok(metrics) = Metrics::new() else {
            tracing::error!(
                "the simulated kube-controllers's own measurements could not be registered; it does not run"
            );
            return;
        };
        let supplies = Supplies::new();
        let context = ControllerContext {
            client: client.clone(),
            clock: clock.clone(),
            policy: self.policy,
            views: Arc::new(supplies.views()),
        };
        let mut assembly = Assembly { supplies, metrics, random: random.clone(), workers: Vec::new() };
        for part in &self.parts {
            assembly.employ(*part, context.clone());
        }
        let Assembly { supplies, workers, .. } = assembly;
        let source = Source { client: &client, clock: &clock, random: &random, tasks: &tasks };
        let caches = supplies.start(&source);
        let worker_tasks = tasks.clone();
        tasks.spawn("kube-controllers", begin(caches, workers, worker_tasks));
        let stopping = tasks.stopping();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = stopping.cancelled() => {}
        }
        tasks.shut_down(LAST_WORDS).await;
    }
}

/// Starts the workers of one part.
type Starter = Box<dyn FnOnce(&Tasks) + Send>;

/// Workers start only when all kinds are there: a half-filled cache looks like missing pods.
async fn begin(caches: Caches, workers: Vec<Starter>, tasks: Tasks) {
    let stopping = tasks.stopping();
    let synced = tokio::select! {
        biased;
        () = stopping.cancelled() => return,
        synced = caches.all_synced() => synced,
    };
    if synced.is_ok() {
        for start in workers {
            start(&tasks);
        }
    }
}

/// The parts while they are being wired.
struct Assembly {
    supplies: Supplies,
    metrics: Metrics,
    random: Random,
    workers: Vec<Starter>,
}

impl Assembly {
    fn employ(&mut self, part: Part, context: ControllerContext) {
        match part {
            Part::Scheduler => self.assign(Scheduler::new(context)),
            Part::ReplicaSets => self.assign(ReplicaSets(context)),
            Part::StatefulSets => self.assign(StatefulSets(context)),
            Part::Deployments => self.assign(Deployments(context)),
            Part::DaemonSets => self.assign(DaemonSets(context)),
            Part::Disruption => self.assign(Disruption(context)),
            Part::Silence => self.assign(Silence(context)),
            Part::Taints => self.assign(Taints(context)),
            Part::Evictions => self.assign(Evictions::new(context)),
            Part::Collection => self.assign(Collection::new(context)),
            Part::Claims => self.assign(Claims(context)),
            Part::Attachment => self.assign(Attachment::new(context)),
        }
    }

    fn assign<D: Duty>(&mut self, duty: D) {
        let queue: Queue<Key> = Queue::new(D::NAME, RetryPolicy::default(), &self.metrics, &self.random);
        duty.wire(&mut self.supplies, &queue);
        let duty = Arc::new(duty);
        self.workers.push(Box::new(move |tasks| {
            spawn_workers(tasks, queue, D::HANDS, move |key: Key| {
                let duty = duty.clone();
                async move { settle(D::NAME, &key.clone(), duty.reconcile(key).await) }
            });
        }));
    }
}

fn settle(part: &'static str, key: &Key, result: Result<Outcome, crate::write::WriteError>) -> Outcome {
    result.unwrap_or_else(|error| {
        tracing::debug!(part, %key, error = &error as &dyn std::error::Error, "a reconcile of the simulated kube-controllers failed; trying again");
        Outcome::Failed
    })
}
