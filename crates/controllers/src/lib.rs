//! Thin shells around the planners: observe, plan, act.
//!
//! A shell reads the caches into the planner's input, calls the planner, carries out its steps and turns the outcome into a
//! wake-up. It holds no opinion: whatever begins with *if the machine* belongs to `plan`.

pub mod cluster;
pub mod credentials;
pub mod decision;
pub mod deployment;
pub mod drain;
pub mod drivers;
mod events;
pub mod fleet;
pub mod in_use_protection;
pub mod indexes;
pub mod limiter;
pub mod machine;
pub mod machine_controller;
pub mod machineset;
mod measure;
mod outcome;
pub mod overshoot;
mod presence;
pub mod replacement_lock;
mod requests;
pub mod safety;
pub mod state;
mod tokens;
mod unreadable;
pub mod vm_state;
pub mod wiring;
pub mod write;

pub use cluster::Cluster;
pub use decision::{Decision, Listener};
pub use drivers::Drivers;
