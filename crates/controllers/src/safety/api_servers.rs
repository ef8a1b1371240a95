//! Do we see?
//!
//! The watches tell: while both are heard nothing is asked, and this loop costs nothing. When one breaks, its API server is asked
//! whether it is there at all, again and again until the watch is heard; any answer will do.

use std::sync::Arc;
use std::time::Duration;

use api::names::events::ours;
use api::view::NodeView;
use api::{Machine, MachinePhase, Object};
use kube::Client;
use planner::safety::freeze::{Connection, News, Probe, Recount};
use planner::{Event, EventType};
use runtime::cache::{self, Lookup};
use runtime::client::{Api, ApiError, RetryClass};
use runtime::queue::Outcome;
use runtime::{Key, cache::Cached};
use tokio::time::timeout;

use super::cluster_events::tell_all;
use crate::machine_controller::MachineController;

/// Nobody has this name; the reference asks for it too.
const NOBODY: &str = "dummy_name";

/// Compares the Nodes that are there with those that Machines know, before anything is decided: whoever starts with the wrong
/// kubeconfig has never seen the right Nodes, and so misses none.
pub(super) fn take_first_look(controller: &MachineController) {
    let Some(target) = &controller.target else { return };
    let machines = controller.shared.machines.list();
    let joined = machines.iter().filter(|machine| *machine.phase() == MachinePhase::Running && !machine.is_deleting());
    let nodes: Vec<_> = joined.filter_map(|machine| machine.node_name()).collect();
    let is_gone = |name: &&api::NodeName| matches!(target.nodes.look_up(&Key::cluster(name.as_str())), Lookup::Absent);
    let gone = nodes.iter().filter(|name| is_gone(name)).count();
    let (policy, now) = (&controller.shared.policy.safety, controller.shared.clock.now());
    controller.shared.connectivity.nodes_disappeared(gone, nodes.len(), policy, now);
}

/// Looks once.
pub(super) async fn reconcile(controller: Arc<MachineController>) -> Outcome {
    let policy = &controller.shared.policy.safety;
    let machines = Api::<Machine>::namespaced(controller.control.clone(), &controller.shared.namespace);
    let control = look(controller.shared.machines.watch(), &machines, policy.ask_patience);
    let target = async {
        match &controller.target {
            None => Connection::Watching,
            Some(target) => look(target.nodes.watch(), &nodes(&target.client), policy.ask_patience).await,
        }
    };
    let (control, target) = tokio::join!(control, target);
    let connectivity = &controller.shared.connectivity;
    let clock_skew = connectivity.clock_skew();
    controller.safety.metrics.clock_skew(clock_skew);
    let (now, _) = connectivity.time();
    let probe = Probe { control, target, clock_skew, recounted: connectivity.recounted(), now };
    let judgement = connectivity.judge(&probe, policy);
    match &judgement.news {
        News::None => {}
        News::Froze(frozen) => {
            controller.safety.metrics.froze(frozen.cause.word());
            tracing::error!(because = %frozen.cause, "frozen: nothing new is made and no machine is marked Failed");
            let message = format!("nothing new is made and no machine is marked Failed, because {}", frozen.cause);
            tell_all(&controller, &Event { event_type: EventType::Warning, reason: ours::FROZE, message });
        }
        News::Thawed(frozen) => {
            controller.safety.metrics.thawed();
            let lasted = Duration::try_from(probe.now.duration_since(frozen.disconnected_since)).unwrap_or_default();
            let lasted = api::GoDuration::from(Duration::from_secs(lasted.as_secs()));
            tracing::warn!(%lasted, "no longer frozen");
            let message = format!("everything goes on as usual; for {lasted} we did not see");
            tell_all(&controller, &Event { event_type: EventType::Normal, reason: ours::THAWED, message });
            look_again_at_everything(&controller);
        }
    }
    match (judgement.recount, &controller.target) {
        (Recount::Due, Some(target)) => {
            let asked = controller.shared.clock.now();
            // A list with quorum; should it not come, we stay frozen and ask again.
            if let Ok(Ok(())) = timeout(policy.freeze_after, target.nodes.refresh()).await {
                connectivity.nodes_counted(asked);
                return Outcome::Again { after: Duration::ZERO };
            }
            Outcome::Again { after: policy.freeze_after / 5 }
        }
        _ => Outcome::Again { after: judgement.again },
    }
}

/// Every machine is looked at, though not all at once.
fn look_again_at_everything(controller: &MachineController) {
    let (soon, random) = (controller.shared.policy.safety.look_again_after, &controller.safety.random);
    for machine in controller.shared.machines.list() {
        let key = Key::new(machine.namespace(), machine.name());
        controller.queue.add_after(key, random.stretched(soon, 1.0));
    }
    controller.safety.vms.add(super::ALL);
}

fn nodes(client: &Client) -> Api<NodeView> {
    Api::all(client.clone())
}

async fn look<K: Cached + Clone + std::fmt::Debug>(line: cache::Watch, api: &Api<K>, patience: Duration) -> Connection {
    match line {
        cache::Watch::Connected => Connection::Watching,
        cache::Watch::Disconnected { since, why, .. } if is_there(api, patience).await => {
            Connection::Answering { broken_since: since, why }
        }
        cache::Watch::Disconnected { .. } => Connection::Unreachable,
    }
}

/// Whether the API server answers, whatever it answers: a missing permission or a crowd at the door is not silence. An answer that only
/// says that the server fails is: it may come from a proxy before a dead one.
async fn is_there<K: Cached + Clone + std::fmt::Debug>(api: &Api<K>, patience: Duration) -> bool {
    match timeout(patience, api.get_metadata_opt(NOBODY)).await {
        Err(_) => false,
        Ok(Ok(_)) => true,
        Ok(Err(error)) => !matches!(ApiError::of(&error).class, RetryClass::Unreachable | RetryClass::Transient),
    }
}
