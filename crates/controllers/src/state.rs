//! Everything that goes on in one cluster's controllers, at one moment, for people who ask why nothing happens.
//!
//! Names, numbers and times only. No object is shown, so nothing that is secret can be; what a cloud or an API server said has been
//! scrubbed before it got anywhere near here. Nothing waits for it: each part is copied under its own lock, one after the other, so
//! two parts may be a moment apart.

use planner::machine::Connectivity;
use runtime::cache::Status;
use runtime::queue::QueueState;
use serde::Serialize;

use crate::Cluster;
use crate::drain::DrainState;
use crate::limiter::LimiterState;
use crate::safety::ApiConnectivity;

/// How things stand.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterState {
    /// The namespace that is looked after.
    pub namespace: String,
    /// Whether we see, and if not, why.
    pub frozen: Option<String>,
    /// What waits, until when, and what runs, since when.
    pub queues: Vec<QueueState>,
    /// What we know of the API servers' objects, and how well.
    pub caches: Vec<Status>,
    /// Calls to drivers.
    pub limiter: LimiterState,
    /// Nodes that are being emptied.
    pub drains: Vec<DrainState>,
}

impl ClusterState {
    /// As it is now.
    pub fn of(cluster: &Cluster) -> Self {
        let (shared, controller) = (&cluster.shared, &cluster.machine_controller);
        let in_use_protection = &controller.in_use_protection;
        let mut queues =
            vec![controller.queue.state(), in_use_protection.classes.state(), in_use_protection.secrets.state()];
        queues.push(controller.credentials.reads().state());
        queues.extend(controller.safety.queues());
        if let Some(fleet) = &cluster.fleet {
            queues.extend([fleet.set_queue.state(), fleet.deployment_queue.state(), fleet.overshoot_queue.state()]);
        }
        Self {
            namespace: shared.namespace.clone(),
            frozen: frozen(&shared.connectivity),
            queues,
            caches: shared.caches.statuses(),
            limiter: controller.limiter.state(),
            drains: controller.drains.as_ref().map(crate::drain::Drains::state).unwrap_or_default(),
        }
    }
}

fn frozen(connectivity: &ApiConnectivity) -> Option<String> {
    match (connectivity.now(), connectivity.frozen()) {
        (_, Some(frozen)) => Some(format!("since {:.0}: {}", frozen.disconnected_since, frozen.cause)),
        (Connectivity::Frozen, None) if connectivity.is_clock_skewed() => {
            Some("the clock of this process differs from the API server's".to_owned())
        }
        (Connectivity::Frozen, None) => Some("many nodes have just disappeared; being looked into".to_owned()),
        (Connectivity::Connected, None) => None,
    }
}
