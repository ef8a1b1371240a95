//! What a drain needs of the world: who is on the node, what the budgets and volumes say, and somebody who runs its eviction_tasks.
//!
//! The decisions are in `planner::drain`. Here is what they are made from and what carries them out, and both are made to cost
//! nothing to anybody else: nothing is watched while nothing is drained, no worker waits for a request, and the number of requests
//! under way is limited over all drains, so that a write to a Machine never stands behind a thousand evictions.
//!
//! | file | idea |
//! | --- | --- |
//! | `watch` | watches that last as long as somebody needs them |
//! | `pods` | the pods of the nodes being drained, and of no others |
//! | `running` | the drains that run, what each of them holds, and what wakes them |
//! | `turns` | who may begin, where the number of drains is limited |
//! | `eviction tasks` | evictions, deletions and look-ups, in tasks of their own |
//! | `requests` | the requests themselves |
//! | `measure` | what is counted |
//! | `state` | the drains at one moment |
//!
//! All that a drain holds hangs on one value. It goes when the plan no longer drains, when its machine is gone and when the
//! process stops, and with it its watches, its requests and its memory. Losing it does no harm: the drain looks again.

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

use crate::limiter::CallLimiter;
use crate::measure::LifecycleMetrics;
use crate::write::Writer;
use concurrency::ConcurrencyLimit;
use eviction_tasks::{EvictionTask, EvictionTasks};
use measure::Measures;
use pods::PodWatches;
use running::Running;
pub use state::DrainState;
use watch::{OnDemand, Watcher};

/// How many drains have a watch of their own; the others share one.
const OWN_WATCHES: usize = 32;

/// How many requests of all drains are under way at once.
const REQUESTS_AT_ONCE: usize = 32;

/// The drains of one cluster. Clones are the same.
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

/// What drains are made from.
pub struct DrainsParts<'a> {
    /// The cluster whose nodes are drained.
    pub client: Client,
    /// The way to the drivers, who know the ids of volumes.
    pub limiter: CallLimiter,
    /// Whether we may act.
    pub leadership: Leadership,
    /// Whom news of a drain wakes.
    pub queue: Queue<Key>,
    /// How many drains may run at once.
    pub caps: Caps,
    /// Where measurements go.
    pub metrics: &'a Metrics,
    /// Where it is noted how long a drain took.
    pub(crate) lifecycle: &'a LifecycleMetrics,
    /// The time.
    pub clock: Clock,
    /// Randomness for jitter.
    pub random: Random,
    /// Who owns watches and requests.
    pub tasks: Tasks,
    /// Who tells that an API server answers again.
    pub retry_signal: RetrySignal,
}

impl Drains {
    /// No drain runs, nothing is watched.
    pub fn new(parts: DrainsParts<'_>) -> Self {
        let DrainsParts {
            client,
            limiter,
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
            // Not the cache of the watch: that one lasts only as long as somebody drains.
            attachments: Writer::uncached(Api::all(client.clone())),
            client,
            limiter,
            leadership,
            places: Arc::new(Semaphore::new(REQUESTS_AT_ONCE)),
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

    /// What is known of the drain of this machine's node. A drain of another Node ends: its pods, barriers and notes say nothing about
    /// this Node.
    pub(crate) fn connectivity(&self, key: &Key, uid: &Uid, node: Option<&str>) -> DrainView {
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
            obstruction: drain.obstruction(),
            ..DrainView::default()
        };
        if let Some((pods, unreadable)) = drain.pods() {
            drain_view.pods = Watched::Seen(pods);
            drain_view.unreadable = unreadable;
        }
        drain_view
    }

    /// Begins to watch; what is watched already stays so.
    pub(crate) fn watch(&self, key: &Key, uid: &Uid, node: &str, what: Watching, deployment: Option<&str>) {
        let drain = self.running.begin(key, uid, self.clock.now());
        match what {
            Watching::Pods(standing) => match self.concurrency.admit(key, deployment, standing) {
                Admission::Now => drain.watch_pods(node, || self.pods.open(node, key)),
                Admission::Wait { ahead } => drain.wait_for_turn(ahead),
            },
            Watching::Surroundings => {
                drain.watch_surroundings(node, || (self.budgets.hold(), self.attachments.hold()));
            }
        }
    }

    /// Takes notes, then makes these requests, outside of any worker. Their answers become notes, and the last one wakes the
    /// machine.
    pub(crate) fn run(&self, key: &Key, uid: &Uid, class: Option<Arc<MachineClass>>, notes: &[Note], steps: &[Step]) {
        let eviction_tasks = steps.iter().flat_map(EvictionTask::of).collect();
        self.send(key, uid, class, notes, eviction_tasks);
    }

    /// The same for attachments that are to be deleted.
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

    /// Remembers that the node could not be kept free of new pods by this means, or that it now is.
    pub(crate) fn obstructed(&self, key: &Key, uid: &Uid, node: &str, part: Barrier, obstacle: Option<String>) {
        let now = self.clock.now();
        match (self.running.of(key, uid), obstacle) {
            (None, None) => {}
            (Some(drain), obstacle) => drain.obstruct(node, part, obstacle, now),
            (None, obstacle) => self.running.begin(key, uid, now).obstruct(node, part, obstacle, now),
        }
    }

    /// Says something about a Node, where its cluster lets us.
    pub(crate) fn tell_node(&self, node: ObjectReference, event: &Event) {
        crate::events::emit(&self.node_events, node, event);
    }

    /// The node is empty: says how long that took, where it is known which deployment the machine belongs to.
    pub(crate) fn drained(&self, key: &Key, uid: &Uid, deployment: Option<&str>) {
        if let Some(drain) = self.running.of(key, uid) {
            self.measures.drained(key, deployment, self.clock.now().duration_since(drain.begun));
        }
    }

    /// Lets go of everything this machine's drain holds.
    pub(crate) fn release(&self, key: &Key) {
        self.running.end(key);
        self.concurrency.give_back(key);
    }

    /// How many drains hold anything.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether nothing is held for any drain.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn budgets(watcher: &Watcher, running: &Running) -> OnDemand<PodDisruptionBudgetView> {
    let (told, news) = (running.clone(), running.clone());
    let declare = move || {
        let running = told.clone();
        Cache::builder().on_delta(move |_, delta| running.wake_by_budget(delta)).build()
    };
    OnDemand::new("poddisruptionbudgets", watcher.clone(), declare, move || news.wake_all())
}

fn attachments(watcher: &Watcher, running: &Running) -> OnDemand<VolumeAttachmentView> {
    let (told, news) = (running.clone(), running.clone());
    let declare = move || {
        let running = told.clone();
        Cache::builder().on_delta(move |_, delta| running.wake_by_attachment(delta)).build()
    };
    OnDemand::new("volumeattachments", watcher.clone(), declare, move || news.wake_all())
}
