//! Pure functions behind the operator commands: status, explanations, revisions and checks.
//!
//! Answers are computed from a [`Snapshot`]: the objects of one namespace and of the target cluster, read once, and the
//! time. The reasons come from the planners of the controllers (`planner`), so the explanation cannot differ from what
//! the controllers do. Calls and queues are known only to the leader process: they are reported by it ([`process`]) or
//! listed as unknown.
//!
//! This crate reads no cluster, writes nothing, uses no clock and prints nothing.

pub mod advice;
pub mod check;
pub mod explain;
pub mod leader;
mod machine;
mod manager;
pub mod permissions;
pub mod picture;
pub mod process;
pub mod revision;
pub mod rollout;
pub mod snapshot;
pub mod tree;
pub mod verdict;
pub mod words;

pub use snapshot::{Kind, Snapshot, Target, Unreadable};
pub use verdict::{Health, Verdict};

#[cfg(test)]
mod tests;
