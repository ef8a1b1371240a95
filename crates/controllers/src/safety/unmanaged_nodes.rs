//! Marks Nodes without a Machine, so that other controllers ignore them.

use std::sync::Arc;
use std::time::Duration;

use api::names::labels;
use api::view::NodeView;
use api::{Machine, Object};
use planner::node::NodeWrite;
use planner::safety::unmanaged::{Management, Owner, decide};
use runtime::Key;
use runtime::cache::Lookup;
use runtime::lease::Leadership;
use runtime::queue::Outcome;

use crate::cluster::Shared;
use crate::indexes::MACHINES_BY_NODE;
use crate::machine_controller::{MachineController, Target};
use crate::write::{Guard, WriteError};

/// Reconciles one Node.
pub(super) async fn reconcile(controller: Arc<MachineController>, key: Key) -> Outcome {
    let Some(target) = &controller.target else { return Outcome::Done };
    let Some(node) = target.nodes.get(&key) else { return Outcome::Done };
    if super::is_disconnected(&controller.shared) {
        return Outcome::Again { after: controller.shared.policy.safety.probe_interval };
    }
    let claimant = claimant(&controller.shared, &node);
    let owner = match &claimant {
        Claimant::Linked => Owner::Linked,
        Claimant::Claims(machine) => Owner::Claimed(machine),
        Claimant::None => Owner::None,
    };
    let (now, outages) = controller.shared.connectivity.time();
    match decide(&node, owner, &outages, &controller.shared.policy, now) {
        Management::Unchanged => Outcome::Done,
        Management::Wait { until } => {
            Outcome::Again { after: Duration::try_from(until.duration_since(now)).unwrap_or_default() }
        }
        Management::Release(node) => write(&controller.leadership, target, &node, "marked Node as unmanaged").await,
        Management::Reclaim(node) => {
            write(&controller.leadership, target, &node, "removed unmanaged mark from Node").await
        }
    }
}

enum Claimant {
    None,
    Claims(Arc<Machine>),
    Linked,
}

fn claimant(shared: &Shared, node: &NodeView) -> Claimant {
    let undecodable = shared.machines.undecodable();
    let may_be_linked = undecodable.iter().any(|object| {
        object.labels.get(labels::NODE).is_some_and(|name| name == node.name())
            || node.label(labels::MACHINE_NAME) == Some(object.name.as_str())
    });
    let mut named_by = shared.machines.find(&MACHINES_BY_NODE, node.name()).into_iter();
    let linked = named_by.any(|machine| planner::node::mismatch(&machine.spec.provider_id, node).is_none());
    if may_be_linked || linked {
        return Claimant::Linked;
    }
    let named = node.label(labels::MACHINE_NAME).map(|name| Key::new(shared.namespace.as_str(), name));
    match named.map(|key| shared.machines.look_up(&key)) {
        Some(Lookup::Present(machine)) => Claimant::Claims(machine),
        Some(Lookup::Absent | Lookup::Undecodable(_)) | None => Claimant::None,
    }
}

async fn write(leadership: &Leadership, target: &Target, write: &NodeWrite, message: &str) -> Outcome {
    if let Err(why) = leadership.check() {
        tracing::debug!(node = %write.name, %why, "skipped write; not the leader");
        return Outcome::Failed;
    }
    let held = target.writer.hold(Guard::of_node(write), &"update the unmanaged mark of a Node").await;
    let written = match held {
        Ok(mut node) => node.write(write).await,
        Err(stale) => Err(stale),
    };
    match written {
        Ok(_) => {
            tracing::info!(node = %write.name, "{message}");
            Outcome::Done
        }
        Err(WriteError::Stale { .. }) => Outcome::Failed, // decided again on the current Node
        Err(error) => {
            tracing::info!(node = %write.name, why = %error, "failed to update unmanaged mark of Node; retrying");
            Outcome::Failed
        }
    }
}
