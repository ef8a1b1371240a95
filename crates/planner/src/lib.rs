//! Every decision of Millwright, as pure functions.
//!
//! A planner receives all of its input and returns what to do and why, as plain data. It has no clock, client, log or
//! timer; the time is an input. So a decision can be tested as a table, replayed from recorded input, and explained to
//! a user from the same value that the controller executes.
//!
//! Planners do not fail: invalid input results in a [`Reason`](machine::Reason) and a status, not in an error.

pub mod class;
pub mod deployment;
pub mod drain;
pub mod in_use_protection;
pub mod limiter;
pub mod machine;
mod machine_patch;
pub mod machineset;
pub mod node;
pub mod overshoot;
mod pause;
mod percent;
pub mod policy;
pub mod presence;
pub mod preservation;
pub mod replacement_limit;
mod reporting;
pub mod safety;
pub mod scrub;
pub mod secret;
pub mod token;
pub mod user_data;
pub mod wake;

pub use machine_patch::{GuardedPatch, MachinePatch};
pub use meta::{Event, EventType, Presence};
pub use policy::Policy;
pub use presence::LookedFor;
pub use reporting::Due;
pub use wake::{Awaited, Wake};
