//! Simulates kubelets: nodes register, renew their leases, run pods, and become silent with their VMs.
//!
//! A running VM has a kubelet, which writes the Node, renews the Lease and handles the pods bound to it. The kubelet of a
//! dead or hung VM stops writing. Setting the conditions of a node to `Unknown` is the task of the node lifecycle
//! controller; if there is none (in memory), the [`Monitor`] does it.
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

/// Settings of simulated nodes. The defaults are the kubelet's.
#[derive(Clone, Debug)]
pub struct NodeLife {
    /// Interval of lease renewals.
    pub lease_period: Duration,
    /// Duration of a lease.
    pub lease_duration: Duration,
    /// Interval of writes of an unchanged status.
    pub status_period: Duration,
    /// Which component detects silent nodes.
    pub monitor: Monitor,
    /// Start time of a pod.
    pub pod_start: Duration,
    /// Duration until a deleted pod ends, at most its grace period; [`RUNDOWN_ANNOTATION`] overrides it per pod.
    pub pod_rundown: Duration,
    /// Duration of attaching a volume to a node.
    pub attach: Duration,
    /// Duration of detaching a volume.
    pub detach: Duration,
    /// Maximum number of concurrent writes, over all nodes.
    pub writes_at_once: usize,
    /// Timeout of a request.
    pub request_timeout: Duration,
    /// First delay after a failed request; it doubles up to the lease period.
    pub retry: Duration,
}

/// Which component detects silent nodes. Exactly one of three: a real controller manager, the simulated
/// kube-controllers (their part `Silence`, which checks leases and serves any node), or this monitor for the nodes of
/// this cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitor {
    /// Another component: a real controller manager or its simulator.
    Absent,
    /// This cloud sets the conditions to `Unknown` once the lease has not been renewed for this long.
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
    /// Simulates the kubelets of all VMs against this API server until `stop`. Run it once per cloud. It can be stopped
    /// and run again, and then continues with the existing state.
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

    /// Starts a kubelet for every VM that will join, and notifies it when its VM changes.
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
