//! A small fake EC2 and STS for what moto does not simulate.
//!
//! It simulates exhausted capacity, client tokens, prefixes, EFA, delayed effects, delayed DNS names, and terminated
//! instances that stay visible. [`Cloud`] does no I/O and gets the time as argument. [`Ec2`] serves it on loopback. A
//! request with a parameter that AWS does not know is rejected by [`crate::model`].
//!
//! Calls that both support are compared with moto (`tests/it/held_to_moto.rs`).

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
