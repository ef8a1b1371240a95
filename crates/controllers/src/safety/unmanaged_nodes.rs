//! Which Nodes are none of our business?

use std::sync::Arc;
use std::time::Duration;

use api::names::{annotations, labels};
use api::view::NodeView;
use api::{Machine, Object};
use plan::safety::unmanaged::{Change, Management, Mark, Owner, judge};
use runtime::Key;
use runtime::cache::Lookup;
use runtime::queue::Outcome;
use serde_json::json;

use crate::Cluster;
use crate::cluster::Target;
use crate::indexes::MACHINES_BY_NODE;
use crate::write::{Guard, Part, WriteError};

/// Looks at one Node.
pub(super) async fn reconcile(cluster: Arc<Cluster>, key: Key) -> Outcome {
    let Some(target) = &cluster.target else { return Outcome::Done };
    let Some(node) = target.nodes.get(&key) else { return Outcome::Done };
    if super::is_disconnected(&cluster) {
        return Outcome::Again { after: cluster.policy.safety.probe_every };
    }
    let claimant = claimant(&cluster, &node);
    let owner = match &claimant {
        Claimant::Linked => Owner::Linked,
        Claimant::Claims(machine) => Owner::Claimed(machine),
        Claimant::None => Owner::Nobody,
    };
    let now = cluster.clock.now();
    match judge(&node, owner, &cluster.connectivity.outages(), &cluster.policy, now) {
        Management::Leave => Outcome::Done,
        Management::Wait { until } => {
            Outcome::Again { after: Duration::try_from(until.duration_since(now)).unwrap_or_default() }
        }
        Management::Write(mark) => write(&cluster, target, &mark).await,
    }
}

enum Claimant {
    None,
    Claims(Arc<Machine>),
    Linked,
}

fn claimant(cluster: &Cluster, node: &NodeView) -> Claimant {
    let unreadable = cluster.machines.undecodable();
    let may_be_linked = unreadable.iter().any(|object| {
        object.labels.get(labels::NODE).is_some_and(|name| name == node.name())
            || node.label(labels::MACHINE_NAME) == Some(object.name.as_str())
    });
    if may_be_linked || !cluster.machines.find(&MACHINES_BY_NODE, node.name()).is_empty() {
        return Claimant::Linked;
    }
    let named = node.label(labels::MACHINE_NAME).map(|name| Key::new(cluster.namespace.as_str(), name));
    match named.map(|key| cluster.machines.look_up(&key)) {
        Some(Lookup::Present(machine)) => Claimant::Claims(machine),
        Some(Lookup::Absent | Lookup::Undecodable(_)) | None => Claimant::None,
    }
}

async fn write(cluster: &Cluster, target: &Target, mark: &Mark) -> Outcome {
    if let Err(why) = cluster.leadership.check() {
        tracing::debug!(node = %mark.name, %why, "not ours to write");
        return Outcome::Failed;
    }
    let Mark { name, uid, resource_version, finalizers, change } = mark;
    let mut metadata = serde_json::Map::new();
    if let Some(list) = finalizers {
        metadata.insert("finalizers".to_owned(), json!(list));
    }
    let value = match change {
        Change::PutOn => Some(json!(annotations::NOT_MANAGED_VALUE)),
        Change::TakeOff => Some(serde_json::Value::Null),
        Change::Stays => None,
    };
    if let Some(value) = value {
        metadata.insert("annotations".to_owned(), json!({ annotations::NOT_MANAGED: value }));
    }
    let guard = Guard { name, uid: uid.as_str(), version: Some(resource_version) };
    let body = json!({ "metadata": metadata });
    match target.writer.patch(guard, Part::Object, body, &"mark a Node as ours or not ours").await {
        Ok(_) => {
            let what = if *change == Change::TakeOff { "is ours after all" } else { "belongs to no Machine" };
            tracing::info!(node = %name, "{what}");
            Outcome::Done
        }
        Err(WriteError::Stale { .. }) => Outcome::Failed, // what to do is decided again, on what there is now
        Err(error) => {
            tracing::info!(node = %name, why = %error, "planning afresh");
            Outcome::Failed
        }
    }
}
