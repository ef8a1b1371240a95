//! A small EC2 and STS of our own, for what moto cannot show.
//!
//! Capacity that is used up, tokens that make a create idempotent, prefixes, EFA, effects that show late, a DNS name that comes late,
//! terminated instances that stay visible. [`Cloud`] is the whole of it and does no I/O: time is handed in. [`Ec2`] puts it on
//! loopback. A request with a parameter that AWS does not know is refused, by [`crate::model`].
//!
//! It is held to moto for the calls that both know (`tests/it/held_to_moto.rs`).

mod answer;
mod calls;
mod change;
mod cloud;
mod describe;
mod filter;
mod instance;
mod interface;
mod run;
mod script;
mod server;
mod settings;
mod shown;
mod sts;
#[cfg(test)]
mod tests;
mod timed;
mod token;
mod xml;

pub use answer::{Answer, Refusal};
pub use calls::{Call, Request};
pub use cloud::{Cloud, Planted};
pub use instance::{Instance, State, Volume};
pub use interface::Interface;
pub use script::{Befalls, Script};
pub use server::Ec2;
pub use settings::{Image, Settings};
