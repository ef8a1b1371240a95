//! The controllers: they observe, call the planner, and act.
//!
//! A controller reads the caches into the input of the planner, calls the planner, executes the steps of the plan and
//! returns when to reconcile again. All decisions about objects are made in the crate `planner`.

pub mod cluster;
pub mod credentials;
pub mod decision;
pub mod deployment;
pub mod drain;
pub mod driver_calls;
pub mod drivers;
pub mod in_use_protection;
pub mod indexes;
pub mod machine;
pub mod machine_controller;
pub mod machine_memory;
pub mod machineset;
pub mod manager;
mod measure;
mod outcome;
pub mod overshoot;
mod owners;
pub mod replacement_lock;
pub mod safety;
pub mod state;
mod tokens;
mod unreadable;
pub mod wiring;
pub mod write;

pub use cluster::Cluster;
pub use decision::{Decision, Listener};
pub use drivers::Drivers;
