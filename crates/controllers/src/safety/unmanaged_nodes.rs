//! Which Nodes are none of our business?

use std::sync::Arc;
use std::time::Duration;

use api::names::labels;
use api::view::NodeView;
use api::{Machine, Object};
use planner::node::NodeWrite;
use planner::safety::unmanaged::{Management, Owner, judge};
use runtime::Key;
use runtime::cache::Lookup;
use runtime::lease::Leadership;
use runtime::queue::Outcome;

use crate::cluster::Shared;
use crate::indexes::MACHINES_BY_NODE;
use crate::machine_controller::{MachineController, Target};
use crate::write::{Guard, WriteError};

/// Looks at one Node.
pub(super) async fn reconcile(controller: Arc<MachineController>, key: Key) -> Outcome {
    let Some(target) = &controller.target else { return Outcome::Done };
    let Some(node) = target.nodes.get(&key) else { return Outcome::Done };
    if super::is_disconnected(&controller.shared) {
        return Outcome::Again { after: controller.shared.policy.safety.probe_every };
    }
    let claimant = claimant(&controller.shared, &node);
    let owner = match &claimant {
        Claimant::Linked => Owner::Linked,
        Claimant::Claims(machine) => Owner::Claimed(machine),
        Claimant::None => Owner::Nobody,
    };
    let (now, outages) = controller.shared.connectivity.time();
    match judge(&node, owner, &outages, &controller.shared.policy, now) {
        Management::Leave => Outcome::Done,
        Management::Wait { until } => {
            Outcome::Again { after: Duration::try_from(until.duration_since(now)).unwrap_or_default() }
        }
        Management::Release(node) => write(&controller.leadership, target, &node, "belongs to no Machine").await,
        Management::Reclaim(node) => write(&controller.leadership, target, &node, "is ours after all").await,
    }
}

enum Claimant {
    None,
    Claims(Arc<Machine>),
    Linked,
}

fn claimant(shared: &Shared, node: &NodeView) -> Claimant {
    let unreadable = shared.machines.undecodable();
    let may_be_linked = unreadable.iter().any(|object| {
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

async fn write(leadership: &Leadership, target: &Target, write: &NodeWrite, what: &str) -> Outcome {
    if let Err(why) = leadership.check() {
        tracing::debug!(node = %write.name, %why, "not ours to write");
        return Outcome::Failed;
    }
    let held = target.writer.hold(Guard::of_node(write), &"mark a Node as ours or not ours").await;
    let written = match held {
        Ok(mut node) => node.write(write).await,
        Err(stale) => Err(stale),
    };
    match written {
        Ok(_) => {
            tracing::info!(node = %write.name, "{what}");
            Outcome::Done
        }
        Err(WriteError::Stale { .. }) => Outcome::Failed, // what to do is decided again, on what there is now
        Err(error) => {
            tracing::info!(node = %write.name, why = %error, "planning afresh");
            Outcome::Failed
        }
    }
}
