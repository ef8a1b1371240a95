//! What happens to a node that falls ill, and to its pods.
//!
//! Four parts that know nothing of each other, as in the real controller manager; each speaks to the next through the objects:
//! *silence* says `Unknown` of a node, *taints* follows from what is said of it, *evictions* from the taints, and *collection* from
//! the node's being gone.

mod collection;
mod evictions;
mod silence;
mod taints;

pub(crate) use collection::Collection;
pub(crate) use evictions::Evictions;
pub(crate) use silence::Silence;
pub(crate) use taints::Taints;
