//! The MachineSet controller: one pass over one set.

mod memory;
pub(crate) mod wake;

use std::sync::Arc;

use runtime::Key;
use runtime::queue::Outcome;

pub use memory::Memory;

use crate::Cluster;
use crate::fleet::Fleet;

/// Looks at one set and does what its plan says.
#[allow(clippy::unused_async, reason = "the plan of a set moves in here next")]
pub async fn pass(cluster: Arc<Cluster>, fleet: Arc<Fleet>, key: Key) -> Outcome {
    tracing::debug!(set = %key, known = fleet.sets.get(&key).is_some(), namespace = %cluster.namespace, "looked at");
    Outcome::Done
}
