//! A proxy that stands between a driver and its cloud and does what networks and clouds do on a bad day.
//!
//! It forwards every request as it came, the `Host` that was signed included, and the scripts say which of them are delayed, lost
//! before or after their effect, or answered with something else. A script is a closure on the request: the n-th create, the
//! requests of one machine, every third call.

mod fault;
mod forward;
mod front;
mod server;

pub use fault::{Asked, Fault, Instead, Rule};
pub use front::Front;
pub use server::Proxy;
