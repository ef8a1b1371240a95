//! The state of the controllers of one cluster, for `/debug/state`.
//!
//! It contains names, numbers and times. It contains no objects, and errors are scrubbed before they are stored, so it
//! contains no secrets. Each part is copied under its own lock, one after the other, so that two parts may differ by a
//! moment.

use planner::machine::Connectivity;
use runtime::cache::Status;
use runtime::queue::QueueState;
use serde::Serialize;

use crate::Cluster;
use crate::drain::DrainState;
use crate::driver_calls::DriverCallsState;
use crate::safety::ApiConnectivity;

/// The state of the controllers.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterState {
    /// The namespace of the control cluster.
    pub namespace: String,
    /// Why the machine controller is frozen, if it is.
    pub frozen: Option<String>,
    /// The keys that wait, until when, and the keys that are being reconciled, since when.
    pub queues: Vec<QueueState>,
    /// The state of each cache.
    pub caches: Vec<Status>,
    /// The driver calls.
    pub limiter: DriverCallsState,
    /// The drains in progress.
    pub drains: Vec<DrainState>,
}

impl ClusterState {
    /// Returns the current state.
    pub fn of(cluster: &Cluster) -> Self {
        let (shared, controller) = (&cluster.shared, &cluster.machine_controller);
        let in_use_protection = &controller.in_use_protection;
        let mut queues =
            vec![controller.queue.state(), in_use_protection.classes.state(), in_use_protection.secrets.state()];
        queues.push(controller.credentials.reads().state());
        queues.extend(controller.safety.queues());
        if let Some(manager) = &cluster.manager {
            queues.extend([
                manager.set_queue.state(),
                manager.deployment_queue.state(),
                manager.overshoot_queue.state(),
            ]);
        }
        Self {
            namespace: shared.namespace.clone(),
            frozen: frozen(&shared.connectivity),
            queues,
            caches: shared.caches.statuses(),
            limiter: controller.driver_calls.state(),
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
        (Connectivity::Frozen, None) => Some("many Nodes disappeared at the same time; listing Nodes again".to_owned()),
        (Connectivity::Connected, None) => None,
    }
}
