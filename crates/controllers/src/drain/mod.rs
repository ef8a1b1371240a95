//! Observes and executes the drains of Nodes.
//!
//! The decisions are made in `planner::drain`. This module watches what they depend on and sends the requests. Nothing
//! is watched while no Node is drained, no worker waits for a request, and the number of concurrent requests is limited
//! over all drains, so that a thousand evictions do not delay a write to a Machine.
//!
//! | file | content |
//! | --- | --- |
//! | `watch` | watches that exist while a drain needs them |
//! | `pods` | the pods of the Nodes that are being drained |
//! | `running` | the drains in progress, their state, and what wakes them |
//! | `concurrency` | the limit of concurrent drains |
//! | `eviction_tasks` | evictions, deletions and queries, in tasks of their own |
//! | `requests` | the requests to the API server |
//! | `measure` | metrics |
//! | `state` | the drains for `/debug/state` |
//!
//! One value owns everything of a drain: its watches, requests and memory. It is dropped when the plan no longer
//! drains, when the Machine no longer exists, and when the process stops. It can be lost without harm: the drain then
//! observes everything again.

mod concurrency;
mod eviction_tasks;
mod measure;
mod pods;
mod requests;
mod running;
mod state;
mod watch;

use std::sync::Arc;

use api::view::{PodDisruptionBudgetView, VolumeAttachmentView};
use api::{MachineClass, Uid};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use planner::Event;
use planner::drain::attachments::AttachmentId;
use planner::drain::concurrency::{Admission, Caps};
use planner::drain::{Note, Step, Watched};
use planner::machine::{Barrier, DrainView, Watching};
use runtime::cache::{Cache, RetrySignal};
use runtime::client::Api;
use runtime::events::{EventPolicy, EventSink, EventWriter};
use runtime::lease::Leadership;
use runtime::metrics::Metrics;
use runtime::queue::Queue;
use runtime::{Clock, Key, Random, Tasks};
use tokio::sync::Semaphore;

use crate::driver_calls::DriverCalls;
use crate::measure::LifecycleMetrics;
use crate::write::Writer;
use concurrency::ConcurrencyLimit;
use eviction_tasks::{EvictionTask, EvictionTasks};
use measure::Measures;
use pods::PodWatches;
use running::Running;
pub use state::DrainState;
use watch::{OnDemand, Watcher};

/// Number of drains with a watch of their own. The others share one watch.
const OWN_WATCHES: usize = 32;

/// Maximum number of concurrent requests of all drains.
const MAX_CONCURRENT_REQUESTS: usize = 32;

/// The drains of one cluster. Clones share all state.
#[derive(Clone)]
pub struct Drains {
    pods: Arc<PodWatches>,
    budgets: Arc<OnDemand<PodDisruptionBudgetView>>,
    attachments: Arc<OnDemand<VolumeAttachmentView>>,
    running: Running,
    concurrency: ConcurrencyLimit,
    eviction_tasks: EvictionTasks,
    measures: Measures,
    node_events: EventSink,
    clock: Clock,
}

/// What drains are built from.
pub struct DrainsParts<'a> {
    /// The client for the target cluster.
    pub client: Client,
    /// Queries the drivers for the ids of volumes.
    pub driver_calls: DriverCalls,
    /// Whether this process leads.
    pub leadership: Leadership,
    /// The queue in which a drain wakes its Machine.
    pub queue: Queue<Key>,
    /// Limits of concurrent drains.
    pub caps: Caps,
    /// The metrics registry.
    pub metrics: &'a Metrics,
    /// Measures the duration of drains.
    pub(crate) lifecycle: &'a LifecycleMetrics,
    /// The clock.
    pub clock: Clock,
    /// Randomness for jitter.
    pub random: Random,
    /// The owner of watches and requests.
    pub tasks: Tasks,
    /// Signals that an API server responds again.
    pub retry_signal: RetrySignal,
}

impl Drains {
    /// Starts without drains and watches.
    pub fn new(parts: DrainsParts<'_>) -> Self {
        let DrainsParts {
            client,
            driver_calls,
            leadership,
            queue,
            caps,
            metrics,
            lifecycle,
            clock,
            random,
            tasks,
            retry_signal,
        } = parts;
        let watcher =
            Watcher { client: client.clone(), clock: clock.clone(), random, tasks: tasks.clone(), retry_signal };
        let running = Running::new(queue.clone());
        let measures = Measures::register(metrics, lifecycle, &running);
        let component = api::names::events::components::MACHINE_CONTROLLER;
        let policy = EventPolicy::default();
        let (writer, node_events) =
            EventWriter::new(client.clone(), component, policy, &clock, &watcher.random, metrics);
        let (writer, stop) = (writer.watched_in(tasks.watchdog()), tasks.stopping());
        tasks.spawn("events on nodes", async move {
            writer.run(stop).await;
        });
        let eviction_tasks = EvictionTasks {
            // Without a cache, because the cache of the watch exists only while a Node is drained.
            attachments: Writer::uncached(Api::all(client.clone())),
            client,
            driver_calls,
            leadership,
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS)),
            queue: queue.clone(),
            clock: clock.clone(),
            measures: measures.clone(),
            tasks,
        };
        Self {
            pods: Arc::new(PodWatches::new(watcher.clone(), queue.clone(), OWN_WATCHES)),
            budgets: Arc::new(budgets(&watcher, &running)),
            attachments: Arc::new(attachments(&watcher, &running)),
            concurrency: ConcurrencyLimit::new(caps, queue.clone()),
            running,
            eviction_tasks,
            measures,
            node_events,
            clock,
        }
    }

    /// Returns the observed state of the drain of this Machine's Node. A drain of another Node ends, because its state
    /// does not apply to this Node.
    pub(crate) fn view(&self, key: &Key, uid: &Uid, node: Option<&str>) -> DrainView {
        let Some(drain) = self.running.of(key, uid) else { return DrainView::default() };
        if let (Some(drained), Some(node)) = (drain.node(), node)
            && drained != node
        {
            tracing::info!(machine = %key, from = drained, to = node, "restarting drain for another node");
            self.release(key);
            return DrainView::default();
        }
        let mut drain_view = DrainView {
            budgets: self.budgets.shown(drain.budgets()),
            attachments: self.attachments.shown(drain.attachments()),
            memory: drain.memory(),
            ahead: drain.ahead(),
            barrier_failure: drain.barrier_failure(),
            ..DrainView::default()
        };
        if let Some((pods, unreadable)) = drain.pods() {
            drain_view.pods = Watched::Seen(pods);
            drain_view.unreadable = unreadable;
        }
        drain_view
    }

    /// Starts a watch, unless it exists.
    pub(crate) fn watch(&self, key: &Key, uid: &Uid, node: &str, what: Watching, deployment: Option<&str>) {
        let drain = self.running.begin(key, uid, self.clock.now());
        match what {
            Watching::Pods(standing) => match self.concurrency.admit(key, deployment, standing) {
                Admission::Now => drain.watch_pods(node, || self.pods.open(node, key)),
                Admission::Wait { ahead } => drain.wait_in_queue(ahead),
            },
            Watching::BudgetsAndAttachments => {
                drain.watch_budgets_and_attachments(node, || (self.budgets.hold(), self.attachments.hold()));
            }
        }
    }

    /// Records notes, then sends these requests in a task of their own. Their results become notes, and the last one
    /// wakes the Machine.
    pub(crate) fn run(&self, key: &Key, uid: &Uid, class: Option<Arc<MachineClass>>, notes: &[Note], steps: &[Step]) {
        let eviction_tasks = steps.iter().flat_map(EvictionTask::of).collect();
        self.send(key, uid, class, notes, eviction_tasks);
    }

    /// Records notes, then deletes these VolumeAttachments.
    pub(crate) fn detach(&self, key: &Key, uid: &Uid, notes: &[Note], attachments: &[AttachmentId]) {
        self.send(key, uid, None, notes, attachments.iter().cloned().map(EvictionTask::DeleteAttachment).collect());
    }

    fn send(
        &self,
        key: &Key,
        uid: &Uid,
        class: Option<Arc<MachineClass>>,
        notes: &[Note],
        eviction_tasks: Vec<EvictionTask>,
    ) {
        let drain = self.running.begin(key, uid, self.clock.now());
        drain.note(notes.iter().cloned());
        if !eviction_tasks.is_empty() {
            self.eviction_tasks.run(key, &drain, class, eviction_tasks);
        }
    }

    /// Records whether this barrier could be set on the Node.
    pub(crate) fn set_barrier_failure(
        &self,
        key: &Key,
        uid: &Uid,
        node: &str,
        barrier: Barrier,
        failure: Option<String>,
    ) {
        let now = self.clock.now();
        match (self.running.of(key, uid), failure) {
            (None, None) => {}
            (Some(drain), failure) => drain.set_barrier_failure(node, barrier, failure, now),
            (None, failure) => self.running.begin(key, uid, now).set_barrier_failure(node, barrier, failure, now),
        }
    }

    /// Emits an Event about a Node, in the target cluster.
    pub(crate) fn emit_node_event(&self, node: ObjectReference, event: &Event) {
        self.node_events.emit(node, event.clone());
    }

    /// Measures the duration of a drain that has ended, if the Machine belongs to a MachineDeployment.
    pub(crate) fn drained(&self, key: &Key, uid: &Uid, deployment: Option<&str>) {
        if let Some(drain) = self.running.of(key, uid) {
            self.measures.drained(key, deployment, self.clock.now().duration_since(drain.begun));
        }
    }

    /// Ends the drain of this Machine, and releases everything it owns.
    pub(crate) fn release(&self, key: &Key) {
        self.running.end(key);
        self.concurrency.release(key);
    }

    /// Returns the number of drains in progress.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Returns whether no drain is in progress.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn budgets(watcher: &Watcher, running: &Running) -> OnDemand<PodDisruptionBudgetView> {
    let (notified, all) = (running.clone(), running.clone());
    let declare = move || {
        let running = notified.clone();
        Cache::builder().on_delta(move |_, delta| running.wake_by_budget(delta)).build()
    };
    OnDemand::new("poddisruptionbudgets", watcher.clone(), declare, move || all.wake_all())
}

fn attachments(watcher: &Watcher, running: &Running) -> OnDemand<VolumeAttachmentView> {
    let (notified, all) = (running.clone(), running.clone());
    let declare = move || {
        let running = notified.clone();
        Cache::builder().on_delta(move |_, delta| running.wake_by_attachment(delta)).build()
    };
    OnDemand::new("volumeattachments", watcher.clone(), declare, move || all.wake_all())
}
