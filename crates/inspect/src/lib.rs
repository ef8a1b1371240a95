//! What an operator is shown of machines, as pure functions.
//!
//! Whoever runs machines asks four things: how do they stand, why does this one not get on, what was there before, and what is wrong with what
//! I wrote? The answers are computed from a [`Snapshot`]: the objects of one namespace and of the cluster its nodes join, read once, and the time. The reasons
//! are not written here: they come from the same planners (`plan`) that the controllers act on, so that what is told and what is done cannot
//! differ. What only the process of the controllers knows, calls and queues, is what it told ([`process`]), or is named as not known.
//!
//! Nothing here reads a cluster or writes to one, looks at a clock or prints.

pub mod advice;
pub mod check;
pub mod explain;
pub mod leader;
mod machine;
mod manager;
pub mod picture;
pub mod process;
pub mod revision;
pub mod rights;
pub mod rollout;
pub mod snapshot;
pub mod tree;
pub mod verdict;
pub mod words;

pub use snapshot::{Kind, Snapshot, Target, Unreadable};
pub use verdict::{Standing, Verdict};

#[cfg(test)]
mod tests;
