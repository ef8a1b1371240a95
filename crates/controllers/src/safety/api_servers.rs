//! Decides whether the machine controller is frozen.
//!
//! While the watches of both API servers are connected, this loop sends no requests. When a watch breaks, its API
//! server is probed until the watch is connected again. Any response counts.

use std::sync::Arc;
use std::time::Duration;

use api::names::events::millwright;
use api::view::NodeView;
use api::{Machine, MachinePhase, Object};
use kube::Client;
use planner::safety::freeze::{Connection, Probe, Recount, Transition};
use planner::{Event, EventType};
use runtime::cache::{self, Lookup};
use runtime::client::{Api, ApiError, ErrorClass};
use runtime::queue::Outcome;
use runtime::{Key, cache::Cached};
use tokio::time::timeout;

use super::cluster_events::emit_on_lease;
use crate::machine_controller::MachineController;

/// A name that no object has. MCM uses the same name.
const DUMMY_NAME: &str = "dummy_name";

/// Compares the Nodes in the cache with those that Machines refer to, before the first decision. With the wrong
/// kubeconfig for the target cluster, the Nodes of all Machines are missing from the first list on, and their
/// disappearance is not observed.
pub(super) fn check_nodes(controller: &MachineController) {
    let Some(target) = &controller.target else { return };
    let machines = controller.shared.machines.list();
    let joined = machines.iter().filter(|machine| *machine.phase() == MachinePhase::Running && !machine.is_deleting());
    let nodes: Vec<_> = joined.filter_map(|machine| machine.node_name()).collect();
    let is_missing =
        |name: &&api::NodeName| matches!(target.nodes.look_up(&Key::cluster(name.as_str())), Lookup::Absent);
    let missing = nodes.iter().filter(|name| is_missing(name)).count();
    let (policy, now) = (&controller.shared.policy.safety, controller.shared.clock.now());
    controller.shared.connectivity.nodes_disappeared(missing, nodes.len(), policy, now);
}

/// Probes the API servers, and freezes or unfreezes the machine controller.
pub(super) async fn reconcile(controller: Arc<MachineController>) -> Outcome {
    let policy = &controller.shared.policy.safety;
    let machines = Api::<Machine>::namespaced(controller.control.clone(), &controller.shared.namespace);
    let control = connection(controller.shared.machines.watch(), &machines, policy.probe_timeout);
    let target = async {
        match &controller.target {
            None => Connection::Watching,
            Some(target) => connection(target.nodes.watch(), &nodes(&target.client), policy.probe_timeout).await,
        }
    };
    let (control, target) = tokio::join!(control, target);
    let connectivity = &controller.shared.connectivity;
    let clock_skew = connectivity.clock_skew();
    controller.safety.metrics.clock_skew(clock_skew);
    let (now, _) = connectivity.time();
    let probe = Probe { control, target, clock_skew, recounted: connectivity.nodes_listed_at(), now };
    let evaluation = connectivity.evaluate(&probe, policy);
    match &evaluation.transition {
        Transition::None => {}
        Transition::Froze(frozen) => {
            controller.safety.metrics.froze(frozen.cause.label());
            tracing::error!(because = %frozen.cause, "frozen: creating no VMs and marking no Machine Failed");
            let message = format!("no VMs are created and no Machine is marked Failed, because {}", frozen.cause);
            emit_on_lease(&controller, &Event { event_type: EventType::Warning, reason: millwright::FROZE, message });
        }
        Transition::Unfroze(frozen) => {
            controller.safety.metrics.unfroze();
            let lasted = Duration::try_from(probe.now.duration_since(frozen.disconnected_since)).unwrap_or_default();
            let lasted = api::GoDuration::from(Duration::from_secs(lasted.as_secs()));
            tracing::warn!(%lasted, "unfrozen");
            let message = format!("no longer frozen, after {lasted}");
            emit_on_lease(&controller, &Event { event_type: EventType::Normal, reason: millwright::THAWED, message });
            reconcile_all(&controller);
        }
    }
    match (evaluation.recount, &controller.target) {
        (Recount::Due, Some(target)) => {
            let requested_at = controller.shared.clock.now();
            // Lists Nodes with quorum. If this fails, the controller stays frozen and retries.
            if let Ok(Ok(())) = timeout(policy.freeze_after, target.nodes.refresh()).await {
                connectivity.nodes_listed(requested_at);
                return Outcome::Again { after: Duration::ZERO };
            }
            Outcome::Again { after: policy.freeze_after / 5 }
        }
        _ => Outcome::Again { after: evaluation.again },
    }
}

/// Adds all Machines, spread over a short time.
fn reconcile_all(controller: &MachineController) {
    let (soon, random) = (controller.shared.policy.safety.recheck_after, &controller.safety.random);
    for machine in controller.shared.machines.list() {
        let key = Key::new(machine.namespace(), machine.name());
        controller.queue.add_after(key, random.stretched(soon, 1.0));
    }
    controller.safety.vms.add(super::ALL);
}

fn nodes(client: &Client) -> Api<NodeView> {
    Api::all(client.clone())
}

async fn connection<K: Cached + Clone + std::fmt::Debug>(
    watch: cache::Watch,
    api: &Api<K>,
    probe_timeout: Duration,
) -> Connection {
    match watch {
        cache::Watch::Connected => Connection::Watching,
        cache::Watch::Disconnected { since, why, .. } if responds(api, probe_timeout).await => {
            Connection::Answering { broken_since: since, why }
        }
        cache::Watch::Disconnected { .. } => Connection::Unreachable,
    }
}

/// Returns whether the API server responds. Errors such as 403 or 429 count as responses. A server error does not,
/// because it may come from a proxy in front of an API server that is down.
async fn responds<K: Cached + Clone + std::fmt::Debug>(api: &Api<K>, probe_timeout: Duration) -> bool {
    match timeout(probe_timeout, api.get_metadata_opt(DUMMY_NAME)).await {
        Err(_) => false,
        Ok(Ok(_)) => true,
        Ok(Err(error)) => !matches!(ApiError::of(&error).class, ErrorClass::Unreachable | ErrorClass::Transient),
    }
}
