//! A driver in a process of its own.
//!
//! Two components that meet at `proto/millwright/driver/v1/driver.proto`: [`RemoteDriver`] is a [`driver::Driver`] whose cloud is at
//! the other end of a connection, and [`serve`](fn@serve) puts any [`driver::Driver`] there. Drivers in other languages speak the same
//! protocol and pass the same conformance suite, over the wire.
//!
//! What the wire adds is uncertainty: a connection can break after the cloud was asked and before it was heard. That is
//! `Unavailable`, the outcome is unknown, and nothing here tries again by itself; the controller asks for the status first.
//!
//! Connections are made by hand rather than by tonic's transport, for three reasons: an operator needs a sentence that says which
//! step failed, the driver must be asked who it is on every new connection, and without sockets (any stream of bytes will do) the
//! protocol runs under a paused clock.

pub mod messages;

mod client;
mod connection;
mod dial;
mod endpoint;
mod link_error;
mod listener;
mod serve;
mod service;
mod tls;

pub use client::RemoteDriver;
pub use connection::Caller;
pub use dial::{Dial, Io};
pub use endpoint::{Endpoint, EndpointError};
pub use link_error::LinkError;
pub use listener::{ListenError, Listener};
pub use serve::{About, PROBE, attend, serve};
pub use tls::{TlsError, TlsFiles};
