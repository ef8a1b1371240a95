//! The MachineDeployment controller: one pass over one deployment.

pub(crate) mod wake;

use std::sync::Arc;

use runtime::Key;
use runtime::queue::Outcome;

use crate::Cluster;
use crate::fleet::Fleet;

/// Looks at one deployment and does what its plan says.
#[allow(clippy::unused_async, reason = "the plan of a deployment moves in here next")]
pub async fn pass(cluster: Arc<Cluster>, fleet: Arc<Fleet>, key: Key) -> Outcome {
    tracing::debug!(deployment = %key, known = fleet.deployments.get(&key).is_some(), namespace = %cluster.namespace, "looked at");
    Outcome::Done
}
