//! The lifecycle of unhealthy nodes and their pods.
//!
//! Four independent parts, as in the real controller manager, communicate through the objects: *silence* sets
//! conditions to `Unknown`, *taints* follow from the conditions, *evictions* from the taints, and *collection* from the
//! absence of the node.

mod collection;
mod evictions;
mod silence;
mod taints;

pub(crate) use collection::Collection;
pub(crate) use evictions::Evictions;
pub(crate) use silence::Silence;
pub(crate) use taints::Taints;
