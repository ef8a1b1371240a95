//! Every decision Millwright takes, as pure functions.
//!
//! A planner is given everything it may look at and answers with what to do and why, as plain data. It has no clock, no
//! client, no log and no way to wait; time comes in as a value. So a decision can be tested as a table, replayed from what was
//! seen, and explained to a person from the same value that the controller acts on.
//!
//! Planners never fail: bad input is a [`Reason`](machine::Reason) and a status to write, not an error.

pub mod class;
pub mod deployment;
pub mod drain;
pub mod event;
pub mod in_use_protection;
pub mod limiter;
pub mod machine;
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

pub use event::{Event, EventType};
pub use policy::Policy;
pub use presence::{LookedFor, Presence};
pub use reporting::Due;
pub use wake::{Awaited, Wake};
