//! What kubelets do: nodes register, stay alive, run pods, and fall silent with their VMs.
//!
//! A VM that is up gets a kubelet; it writes the Node, renews the Lease and takes care of the pods bound to it. A
//! VM that dies or hangs simply stops doing so: saying that a node is `Unknown` is somebody else's part, in a cluster the
//! node-lifecycle controller's. Where there is none (in memory), the [`Monitor`] plays it.
//!
//! Nothing polls. A change in the cloud wakes the kubelet of that VM, an event of a pod wakes the kubelet of its node, and
//! each kubelet knows the next instant at which it has something to do.

mod attacher;
mod kubelet;
mod kubelets;
mod mounts;
mod object;
mod pods;
mod writes;

use std::collections::BTreeSet;
use std::time::Duration;

use backoff::Exponential;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use crate::cloud::VirtualCloud;
use crate::journal::News;
use crate::spec::Join;
use crate::vm::Vm;
use attacher::Attacher;
use kubelet::Kubelet;
use kubelets::Kubelets;
use writes::Writes;

pub use attacher::FINALIZER as ATTACHER_FINALIZER;
pub use pods::{READY_ANNOTATION, RUNDOWN_ANNOTATION};

/// How nodes live. The defaults are the kubelet's.
#[derive(Clone, Debug)]
pub struct NodeLife {
    /// How often a lease is renewed.
    pub lease_period: Duration,
    /// For how long a lease says it is good.
    pub lease_duration: Duration,
    /// How often a status is written that has not changed.
    pub status_period: Duration,
    /// Who notices that a node has fallen silent.
    pub monitor: Monitor,
    /// How long a pod takes to start.
    pub pod_start: Duration,
    /// How long a pod takes to end once it is told to, at most its grace period; [`RUNDOWN_ANNOTATION`] says otherwise for a pod.
    pub pod_rundown: Duration,
    /// How long it takes to attach a volume to a node.
    pub attach: Duration,
    /// How long it takes to detach one.
    pub detach: Duration,
    /// How many writes may be under way at once, over all nodes.
    pub writes_at_once: usize,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// The first wait after a failed request; it doubles up to the lease period.
    pub retry: Duration,
}

/// Who notices that a node has fallen silent. One of three, never two: a real controller manager, the simulated kube-controllers for it (its part
/// `Silence`, which looks at leases and so serves any node), or, where there is neither, this monitor for the nodes of this cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitor {
    /// Someone else: there is a real controller manager, or the simulator of it.
    Absent,
    /// We do, and set its conditions to `Unknown` once its lease has not been renewed for this long.
    Grace(Duration),
}

impl NodeLife {
    fn pauses(&self) -> Exponential {
        Exponential::new(self.retry, self.lease_period)
    }
}

impl Default for NodeLife {
    fn default() -> Self {
        Self {
            lease_period: Duration::from_secs(10),
            lease_duration: Duration::from_secs(40),
            status_period: Duration::from_mins(5),
            monitor: Monitor::Grace(Duration::from_secs(40)),
            pod_start: Duration::from_millis(100),
            pod_rundown: Duration::from_millis(500),
            attach: Duration::from_millis(500),
            detach: Duration::from_millis(500),
            writes_at_once: 32,
            request_timeout: Duration::from_secs(10),
            retry: Duration::from_millis(200),
        }
    }
}

impl VirtualCloud {
    /// Plays the kubelets of all VMs towards this API server, until `stop`. Run it once per cloud, beside the controllers; it
    /// can be stopped and run again, and then goes on with what it finds.
    pub async fn run_nodes(&self, client: kube::Client, stop: CancellationToken) {
        let life = &self.shared.config.node_life;
        let writes = Writes::new(client, life);
        let kubelets = Kubelets::default();
        let mut dice = self.look(|sky| sky.dice.fork());
        let (pods_dice, attacher_dice) = (dice.fork(), dice.fork());
        let attacher = Attacher::new(&writes, &kubelets, life);
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = pods::follow(&writes, &kubelets, life, pods_dice, &self.shared.now) => {}
            () = Box::pin(attacher.work(attacher_dice)) => {}
            () = self.keep_kubelets(&writes, &kubelets, &mut dice) => {}
        }
    }

    /// Starts a kubelet for every VM that will ever join, and wakes it when something is done to its VM.
    async fn keep_kubelets(&self, writes: &Writes, kubelets: &Kubelets, dice: &mut fastrand::Rng) {
        let mut changes = self.changes();
        let mut at_work = BTreeSet::new();
        let mut running = FuturesUnordered::new();
        let mut place = 0;
        let mut news = News::Everything;
        loop {
            let told_of = match news {
                News::Of(vms) => vms,
                News::Everything => {
                    kubelets.wake_all();
                    self.vms().into_iter().map(|vm| vm.id).collect()
                }
            };
            for id in told_of {
                kubelets.wake(&id);
                let starting = |vm: &Vm| vm.spec.join != Join::Never && !at_work.contains(&vm.id);
                if let Some(vm) = self.vm(&id).filter(starting) {
                    running.push(Kubelet::new(self, writes, kubelets, &vm, dice.fork()).live());
                    at_work.insert(id);
                }
            }
            tokio::select! {
                biased;
                told = changes.changed() => if told.is_err() { return },
                Some(finished) = running.next() => { at_work.remove(&finished); }
            }
            changes.borrow_and_update();
            (news, place) = self.look(|sky| (sky.journal.since(place), sky.journal.end()));
        }
    }
}
